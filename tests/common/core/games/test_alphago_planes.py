"""AlphaGo's planes against a slow reference: random games, ladders by hand, symmetries, keys, two networks."""

import random
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from expert_games import write_gnugo_games
from go_pair import RULES, SUPERKOS, choose, grid_of, random_board
from oracles import records
from reference_go import ReferenceGo, board_of, vertex
from reference_go_planes import alphago_planes

from shusaku.common._core import Game
from shusaku.deploy.records.game_record import RecordError
from shusaku.deploy.records.sgf import read_games

LADDER_CAPTURE, LADDER_ESCAPE, SENSIBLE = 44, 45, 46


def both(size, board=None, to_play=0, planes="alphago", **params):
    """A position in the core, and the reference's."""
    game = Game("go", {"size": size, "komi": 0.5, "planes": planes, **params})
    position = game.start() if board is None else game.position(grid_of(size, board, to_play))
    limit = {"max_plies": game.max_plies}
    return position, ReferenceGo(size, board=board, to_play=to_play, **{"komi": 0.5} | params | limit)


def compare(position, reference, symmetry=0):
    ours, theirs = position.observation(symmetry)[:48], alphago_planes(reference, symmetry)
    wrong = sorted(set(np.nonzero(ours != theirs)[0].tolist()))
    assert not wrong, (wrong, symmetry, grid_of(reference.size, reference.board, reference.to_play),
                       [np.argwhere(ours[plane] != theirs[plane]).tolist() for plane in wrong])
    return ours


def play_out(dice, size, counts, every=1, plies=10_000, **params):
    """A game that likes captures and atari, compared at every so many plies."""
    board = random_board(size, dice) if dice.random() < 0.5 else None
    position, reference = both(size, board, dice.randrange(2) if board else 0, **params)
    while not reference.is_terminal and reference.ply < plies:
        if reference.ply % every == 0:
            seen = compare(position, reference, dice.randrange(8))
            counts["positions"] += 1
            for name, plane in (("captures", LADDER_CAPTURE), ("escapes", LADDER_ESCAPE)):
                counts[name] += int(seen[plane].sum())
        legal = reference.legal_actions
        hot = [a for a in legal[:-1] if dice.random() < 0.9 and near(reference, a)]
        action = dice.choice(hot) if hot and dice.random() < 0.5 else choose(reference, legal, dice, counts)
        position.play(action)
        reference.play(action)
    if reference.is_terminal:
        compare(position, reference)


def near(reference, action):
    """Whether the play is next to the last one."""
    last = reference.moves[-1] if reference.moves else reference.pass_action
    (row, column), (r, c) = divmod(action, reference.size), divmod(last, reference.size)
    return max(abs(row - r), abs(column - c)) <= 2


@pytest.mark.parametrize(("sizes", "games", "every", "plies", "least"), [
    ((2, 3, 4, 5), 90, 1, 60, 1500), ((6, 7, 8, 9), 30, 3, 120, 700), ((13, 19), 6, 15, 300, 70),
])
def test_random_positions_against_the_reference(sizes, games, every, plies, least):
    counts, dice = Counter(), random.Random(str(sizes))
    for _ in range(games):
        play_out(dice, dice.choice(sizes), counts, every, plies, rules=dice.choice(RULES),
                 superko=dice.choice(SUPERKOS))
    assert counts["positions"] >= least, counts
    assert min(counts["captures"], counts["escapes"]) > 50, counts


LADDER = "......... ......... ......... .....{breaker}... ......... ..{atari}...... .XO...... ..XX..... ........."


def drawn(diagram, to_play):
    """The names of the plays that each of the last planes marks, the same as the reference's."""
    size, board = board_of(diagram)
    seen = compare(*both(size, board, to_play))
    captures, escapes, sensible = ({vertex(size, int(play)) for play in np.flatnonzero(seen[plane])}
                                   for plane in (LADDER_CAPTURE, LADDER_ESCAPE, SENSIBLE))
    return captures, escapes, sensible


@pytest.mark.parametrize(("breaker", "is_caught"), [(".", True), ("O", False), ("X", True)])
def test_a_ladder_runs_until_it_meets_a_breaker(breaker, is_caught):
    """C3 runs up and right to the corner if Black plays C4; a white stone on F6 is on its way."""
    captures, *_ = drawn(LADDER.format(breaker=breaker, atari="."), 0)
    assert captures == ({"C4"} if is_caught else set())
    _, escapes, _ = drawn(LADDER.format(breaker=breaker, atari="X"), 1)
    assert escapes == (set() if is_caught else {"D3"})


def test_a_hunter_that_is_captured_ends_the_ladder():
    """B3 has the liberty B4 alone, where White takes it when Black plays C4."""
    captures, *_ = drawn("......... ......... ......... ......... ......... ......... OXO...... .OXX..... .........", 0)
    assert captures == set()


def test_a_chain_is_driven_along_the_edge():
    """From B1 White gets to D1 and no further, from D1 to B1 and A1."""
    captures, *_ = drawn("..... ..... ..... ..XX. ..O..", 0)
    assert captures == {"B1", "D1"}


def test_a_chain_in_atari_may_capture_its_hunter():
    """White saves C3 by taking C4, or by joining D4."""
    _, escapes, _ = drawn("..... .OXO. .XO.. ..X.. .....", 1)
    assert escapes == {"C5", "D3"}


@pytest.mark.parametrize(("diagonal", "is_false"), [("O", True), (".", False)])
def test_own_eyes_are_not_filled_but_false_ones(diagonal, is_false):
    """B2 has opponents on two of its diagonals, or on one; A1, A5, C5 and E5 have none."""
    *_, sensible = drawn(f".X.X. XXXXX XXO.. X.X.. .X{diagonal}..", 0)
    assert not sensible & {"A1", "A5", "C5", "E5"}
    assert ("B2" in sensible) == is_false
    assert "D3" in sensible


def test_games_of_gnu_go_against_the_reference(tmp_path):
    """Every fifth position of games of a program that reads ladders itself."""
    counts = Counter()
    games = read_games(write_gnugo_games(tmp_path).read_text())
    for record in islice(games, 12):
        position, reference = both(9, superko="simple")
        for action in record.actions:
            if action not in reference.legal_actions:
                break
            if reference.ply % 5 == 0:
                seen = compare(position, reference, reference.ply % 8)
                counts.update(positions=1, captures=int(seen[LADDER_CAPTURE].sum()))
            position.play(action)
            reference.play(action)
    assert counts["positions"] > 80
    assert counts["captures"] > 10


def test_professional_games_against_the_reference():
    """Every twenty-fifth position of games on 19x19, where ladders are long."""
    counts = Counter()
    files = sorted(records("kombilo-games").rglob("*.sgf"))
    for file in files[:12]:
        for record in read_games(file.read_text("latin-1")):
            if isinstance(record, RecordError) or record.params.get("size") != 19 or record.start:
                continue
            position, reference = both(19, superko="simple")
            for action in record.actions:
                if reference.ply % 25 == 24:
                    seen = compare(position, reference)
                    counts.update(positions=1, captures=int(seen[LADDER_CAPTURE].sum()))
                if action not in reference.legal_actions:
                    break
                position.play(action)
                reference.play(action)
    assert counts["positions"] > 60, counts
    assert counts["captures"] > 20


@pytest.mark.parametrize("size", [5, 9])
def test_symmetric_positions_have_symmetric_planes(size):
    """The position turned as a text, against the planes turned."""
    game, dice = Game("go", {"size": size, "komi": 0.5, "planes": "alphago"}), random.Random(size)
    for _ in range(40):
        board, to_play = random_board(size, dice), dice.randrange(2)
        position = game.position(grid_of(size, board, to_play))
        for symmetry in range(1, 8):
            turned = bytearray(size * size)
            for cell in range(size * size):
                turned[game.permute_action(symmetry, cell)] = board[cell]
            other = game.position(grid_of(size, bytes(turned), to_play))
            assert np.array_equal(position.observation(symmetry), other.observation())


@pytest.mark.parametrize("planes", ["alphago", "alphago_value"])
@pytest.mark.parametrize("superko", SUPERKOS)
@pytest.mark.parametrize(("size", "games"), [(2, 150), (3, 60)])
def test_equal_keys_have_equal_planes_and_actions(size, games, superko, planes):
    """From the empty board and from set-up stones, among which the same boards come up."""
    game, dice, known, met = Game("go", {"size": size, "komi": 0.5, "planes": planes, "superko": superko,
                                         "max_plies": 24}), random.Random(size), {}, 0
    for _ in range(games):
        position = game.start()
        if dice.random() < 0.5:
            position = game.position(grid_of(size, random_board(size, dice), dice.randrange(2)))
        while True:
            facts = position.observation().tobytes(), tuple(position.legal_actions)
            met += position.evaluation_key in known
            assert known.setdefault(position.evaluation_key, facts) == facts, position.text
            if position.is_terminal:
                break
            position.play(dice.choice(position.legal_actions))
    assert met > 20


def test_set_up_stones_are_old_and_played_ones_are_not():
    game = Game("go", {"size": 9, "planes": "alphago", "handicap": 2})
    position = game.start()
    assert position.observation()[11].sum() == 2
    position.play(0)
    planes = position.observation()
    assert (planes[4].reshape(-1)[0], planes[4].sum(), planes[11].sum()) == (1, 1, 2)


def test_both_networks_read_one_position():
    """The 49 planes are the 48 and the colour, one number beside the same packed bits."""
    policy, value = (Game("go", {"size": 9, "planes": planes}) for planes in ("alphago", "alphago_value"))
    assert (policy.observation_shape, value.observation_shape) == ((48, 9, 9), (49, 9, 9))
    assert (policy.num_uniform_planes, value.num_uniform_planes) == (0, 1)
    assert policy.packed_bytes == value.packed_bytes
    first, second, dice = policy.start(), value.start(), random.Random(2)
    while not first.is_terminal and first.ply < 60:
        assert np.array_equal(first.observation(), second.observation()[:48])
        assert (second.observation()[48] == 1 - second.to_play).all()
        action = dice.choice(first.legal_actions)
        first.play(action)
        second.play(action)
