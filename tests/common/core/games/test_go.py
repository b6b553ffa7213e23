"""Go against the plain reference: random games in lockstep, small boards exhaustively, keys, symmetries, parameters."""

import itertools
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import reference_go as reference
from go_pair import RULES, SUPERKOS, Pair, compare, grid_of, play_out
from reference_go import COLUMNS, ReferenceGo, action_of, board_of, chain_without_liberty, neighbours, view

from shusaku.common._core import Game, perft, random_games

every_rule = pytest.mark.parametrize(("rules", "superko"), list(itertools.product(RULES, SUPERKOS)))


@pytest.mark.parametrize(("sizes", "seeds", "plies"), [
    ((2, 3, 4), range(200), 11_000),
    ((2, 3, 4, 5, 6, 7, 8, 9), range(1000, 1140), 11_000),
])
def test_random_games_in_lockstep_with_the_reference(sizes, seeds, plies):
    counts = compare(seeds, sizes)
    assert counts["plies"] >= plies
    assert counts["games"] > counts["cut off"] > 0
    for what in ("positional forbade more than simple ko", "situational forbade more than simple ko", "simple forbade",
                 "positional forbade a suicide", "situational allowed a board that had stood", "suicides played"):
        assert counts[what] >= 10, (what, counts)


@pytest.mark.parametrize("size", [10, 13, 19])
def test_large_boards_in_lockstep_with_the_reference(size):
    """From a board half full, where captures begin at once."""
    dice = random.Random(size)
    board = bytes(dice.choice([0, 1, 2]) for _ in range(size * size))
    beside = neighbours(size)
    board = bytes(c if c == 0 or not chain_without_liberty(board, p, beside) else 0 for p, c in enumerate(board))
    counts = Counter()
    pair = Pair(size, board, dice.randrange(2), rules=dice.choice(RULES), superko=dice.choice(SUPERKOS), max_plies=150)
    play_out(pair, dice, counts, 0.3)
    assert counts["plies"] >= 50


@every_rule
def test_2x2_exhaustively(rules, superko):
    """Every sequence of actions up to the ply limit."""
    ours = Game("go", {"size": 2, "komi": 0.5, "rules": rules, "superko": superko}).start()
    theirs = ReferenceGo(2, rules=rules, superko=superko)
    counted = [reference.perft(theirs, depth) for depth in range(10)]
    assert [perft(ours, depth) for depth in range(10)] == counted
    assert counted[9] == 0
    assert counted[8] > counted[7] > 500


def test_2x2_to_three_plies_by_hand():
    """One ply: 4 points and a pass.  Two: each point has 3 answers and a pass, a pass has 4 answers and a pass.

    Three: a point and a pass, in either order (8), leave 3 points and a pass.  Two stones side by side (8) or
    diagonally (4) leave 2 points, both legal, and a pass.  After two passes nobody plays.
    """
    position = Game("go", {"size": 2, "komi": 0.5}).start()
    assert [perft(position, depth) for depth in range(4)] == [1, 5, 4 * 4 + 5, 8 * 4 + 8 * 3 + 4 * 3]


@every_rule
def test_3x3_counted(rules, superko):
    game = Game("go", {"size": 3, "komi": 0.5, "rules": rules, "superko": superko})
    theirs = ReferenceGo(3, rules=rules, superko=superko)
    assert [perft(game.start(), depth) for depth in range(5)] == [reference.perft(theirs, d) for d in range(5)]
    end = "XX./.X./XXO O"  # the corner where White lives or dies, counted deeper
    size, board = board_of("XX. .X. XXO")
    late = ReferenceGo(size, rules=rules, superko=superko, board=board, to_play=1)
    assert [perft(game.position(end), depth) for depth in range(7)] == [reference.perft(late, d) for d in range(7)]


@pytest.mark.parametrize(("size", "legal"), [(2, 57), (3, 12_675)])
def test_the_number_of_legal_boards(size, legal):
    """OEIS A094777: boards on which every chain has a liberty.  The others cannot be set up."""
    game, accepted = Game("go", {"size": size, "komi": 0.5}), 0
    for cells in itertools.product(range(3), repeat=size * size):
        try:
            position = game.position(grid_of(size, cells, 0))
        except ValueError as error:
            assert "libert" in str(error), error  # noqa: PT017
            continue
        accepted += 1
        assert position.observation()[0].sum() == cells.count(1)
    assert accepted == legal


@every_rule
def test_random_games_are_uniform_over_the_legal_actions(rules, superko):
    """The exact mean length of uniformly random games on 2x2, and the mean of many within five deviations."""
    lengths = Counter()

    def spread(position, chance):
        legal = position.legal_actions
        if not legal:
            lengths[position.ply] += chance
        for action in legal:
            after = position.copy()
            after.play(action)
            spread(after, chance / len(legal))

    spread(ReferenceGo(2, rules=rules, superko=superko), Fraction(1))
    assert sum(lengths.values()) == 1
    mean = sum(length * chance for length, chance in lengths.items())
    variance = float(sum(length**2 * chance for length, chance in lengths.items()) - mean**2)
    game, games = Game("go", {"size": 2, "komi": 0.5, "rules": rules, "superko": superko}), 100_000
    assert abs(random_games(game, games, 1) / games - float(mean)) < 5 * (variance / games) ** 0.5


@every_rule
@pytest.mark.parametrize("planes", ["zero", "komi", "liberties", "tutorial"])
@pytest.mark.parametrize("size", [2, 3])
def test_keys_say_what_they_promise(size, rules, superko, planes):
    """Equal evaluation keys: equal planes and legal actions.  Equal transposition keys: equal future."""
    params = {"rules": rules, "superko": superko, "planes": planes, "komi": 0.5, "max_plies": 24}
    by_evaluation, by_transposition, dice = {}, {}, random.Random(1)
    for _ in range(60):
        pair = Pair(size, **params)
        while True:
            ours, theirs = pair.position, pair.reference
            facts, future = (ours.observation().tobytes(), tuple(ours.legal_actions)), theirs.future()
            assert by_evaluation.setdefault(ours.evaluation_key, facts) == facts, theirs.moves
            assert by_transposition.setdefault(ours.transposition_key, future) == future, theirs.moves
            if theirs.is_terminal:
                break
            action = dice.choice(ours.legal_actions)
            ours.play(action)
            theirs.play(action)
    assert len(by_transposition) > 100
    assert len(set(by_transposition.values())) == len(by_transposition)
    if planes in ("zero", "komi"):  # no more keys than there are facts
        assert len(set(by_evaluation.values())) == len(by_evaluation)


@pytest.mark.parametrize("size", [2, 3, 9, 19])
def test_symmetries_move_points_as_they_move_planes(size):
    game = Game("go", {"size": size, "komi": 0.5})
    assert game.num_symmetries == 8
    points = np.arange(size * size).reshape(1, size, size)
    for symmetry in range(8):
        moved = view(points, symmetry).reshape(-1).tolist()  # moved[there] = here
        assert [moved[game.permute_action(symmetry, here)] for here in range(size * size)] == list(range(size * size))
        assert game.permute_action(symmetry, size * size) == size * size


@pytest.mark.parametrize("size", range(2, 20))
def test_vertices_are_named_as_in_gtp(size):
    position = Game("go", {"size": size, "komi": 0.5}).start()
    corners = {0: f"A{size}", size - 1: f"{COLUMNS[size - 1]}{size}", size * (size - 1): "A1",
               size * size - 1: f"{COLUMNS[size - 1]}1", size * size: "pass"}
    for action, name in corners.items():
        assert position.to_move(action) == name
    for action in range(size * size + 1):
        assert action_of(size, position.to_move(action)) == action == position.from_move(position.to_move(action))
    assert "I" not in {position.to_move(action)[0] for action in range(size * size)}


@pytest.mark.parametrize(("size", "limit"), [(2, 243), (9, 243), (10, 507), (13, 507), (14, 1083), (19, 1083)])
def test_the_ply_limit(size, limit):
    assert Game("go", {"size": size, "komi": 0.5}).max_plies == 2 * size * size
    assert Game("go", {"size": size, "komi": 0.5, "max_plies": limit}).max_plies == limit
    assert Game("go", {"size": size, "komi": 0.5, "max_plies": 1}).max_plies == 1
    for wrong in (-1, limit + 1):
        with pytest.raises(ValueError, match=f"max_plies={wrong}"):
            Game("go", {"size": size, "komi": 0.5, "max_plies": wrong})


def test_a_game_that_reaches_the_limit_is_cut_off_and_scored():
    pair = Pair(3, max_plies=2, komi=0.5).play("B2", "A1")
    assert (pair.position.is_terminal, pair.position.is_cut_off) == (True, True)
    assert pair.position.score == -0.5  # a stone each, the rest reaches both
    assert pair.position.outcome == -1


def test_two_passes_at_the_limit_are_no_cut_off():
    pair = Pair(3, max_plies=3, komi=0.5).play("B2", "pass", "pass")
    assert (pair.position.is_terminal, pair.position.is_cut_off) == (True, False)
    assert pair.position.score == -8.5  # White to move: black's nine less komi


def test_a_pass_between_plays_ends_nothing():
    pair = Pair(3, komi=0.5).play("pass", "B2", "pass", "A1", "pass")
    assert not pair.position.is_terminal
    assert pair.play("pass").position.is_terminal


def test_liberty_planes_of_a_ko():
    """Black's C3 has taken B3; White may not take back there, and A4 would be suicide."""
    game = Game("go", {"size": 4, "komi": 1.0, "planes": "liberties"})
    position = game.position(".XO./XO.O/.XO./.... X")
    position.play(position.from_move("C3"))
    planes = position.observation()  # [10, 4, 4]
    rows = ["/".join("".join(".1"[int(x)] for x in row) for row in plane) for plane in planes[:9]]
    assert rows[:2] == ["..1./...1/..1./....", ".1../1.1./.1../...."]  # White to move
    assert rows[2:5] == ["..1./..1./..../....", ".1../...1/..1./....", "..../1.../.1../...."]
    assert rows[5:8] == ["1.../.1../..../....", "..../..1./..../....", "..../..../..../...."]
    assert not planes[8].any()
    assert (planes[9] == np.float32(1.0 / 20)).all()
    position.play(game.num_actions - 1)
    assert position.observation()[8].all()
    assert not position.observation()[6].any()


@pytest.mark.parametrize(("size", "komi"), [(9, 7.0), (8, 7.5), (19, 7.5), (13, 7.5)])
def test_komi_unless_given(size, komi):
    assert Game("go", {"size": size}).params["komi"] == komi
    assert Game("go", {"size": size, "komi": 5.5}).params["komi"] == 5.5


def test_every_size_has_a_default_komi():
    for size in range(2, 20):
        position = Game("go", {"size": size}).start()
        position.play(size * size)
        position.play(size * size)
        assert position.score == -Game("go", {"size": size}).params["komi"]


def test_an_integer_komi_can_draw():
    pair = Pair(3, komi=9.0).play("B2", "pass", "pass")
    assert (pair.position.score, pair.position.outcome) == (0.0, 0)


@pytest.mark.parametrize(("size", "stones", "points"), [
    (9, 2, "G7 C3"), (9, 5, "G7 C3 G3 C7 E5"), (13, 4, "K10 D4 K4 D10"), (19, 2, "Q16 D4"), (19, 3, "Q16 D4 D16"),
    (19, 9, "Q16 D4 D16 Q4 D10 Q10 K4 K16 K10"), (19, 6, "Q16 D4 D16 Q4 D10 Q10"), (19, 7, "Q16 D4 D16 Q4 D10 Q10 K10"),
    (19, 8, "Q16 D4 D16 Q4 D10 Q10 K4 K16"),
])
def test_handicap_stones_lie_where_gtp_puts_them(size, stones, points):
    position = Game("go", {"size": size, "handicap": stones}).start()
    assert (position.to_play, position.ply) == (1, 0)
    planes = position.observation()
    assert not planes[0].any()
    assert (planes[16] == 0).all()
    assert sorted(np.flatnonzero(planes[8]).tolist()) == sorted(action_of(size, p) for p in points.split())
    position.play(action_of(size, "A1"))
    assert position.to_play == 0


@pytest.mark.parametrize(("params", "reason"), [
    ({"size": 1}, "size=1"), ({"size": 20}, "size=20"), ({"size": -9}, "size=-9"), ({"komi": float("nan")}, "komi=nan"),
    ({"komi": float("inf")}, "komi=inf"), ({"komi": 1e9}, "komi=1"), ({"rules": "japanese"}, "rules=japanese"),
    ({"superko": "natural"}, "superko=natural"), ({"handicap": 10}, "handicap=10"), ({"handicap": -1}, "handicap=-1"),
    ({"size": 5, "handicap": 5}, "handicap=5"), ({"planes": "alpha"}, "planes=alpha"), ({"board": 9}, "board"),
])
def test_wrong_parameters_are_named(params, reason):
    with pytest.raises(ValueError, match=reason):
        Game("go", params)


def test_illegal_actions_change_nothing():
    pair = Pair(5, board_of(".XO.. XO... XX... ..... .....")[1], 1, komi=0.5)
    pair.play("A5", "E1")  # takes nothing: A5 has no liberty unless it takes
    pair.check_refusals()


