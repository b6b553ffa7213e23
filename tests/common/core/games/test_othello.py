"""Othello against OpenSpiel, rust-reversi and a slow reference, and the positions where rules are got wrong."""


import numpy as np
import pyspiel
import pytest
import rust_reversi
from reference_othello import Reference, count

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, perft, random_games
from shusaku.common.config.search import PuctConfig
from shusaku.common.search import search_positions

PASS = 64
LAST = "XOOOOOO./" + "/".join(["XXXXXXXX"] * 7)  # one empty cell, which only X can take


def play(game, moves):
    position = game.start()
    for move in moves.split():
        position.play(position.from_move(move))
    return position


def compare(position, reference):
    """Everything that the rules say of a position, from both."""
    size = reference.size
    assert position.to_play == reference.to_play
    assert position.legal_actions == reference.legal_actions, f"in\n{position}"
    planes = np.zeros((3, size, size), np.float32)
    for cell, owner in reference.discs.items():
        planes[(0 if owner == reference.to_play else 1, *cell)] = 1
    planes[2] = reference.to_play
    np.testing.assert_array_equal(position.observation(), planes)
    assert position.is_terminal == (not reference.legal_actions)
    if position.is_terminal:
        assert position.score == reference.lead
        assert position.outcome == np.sign(reference.lead)
        np.testing.assert_array_equal(position.ownership, planes[0] - planes[1])


def play_against_reference(size, seed):
    """One random game in both; plies, and how many of them were passes."""
    random, passes = np.random.default_rng(seed), 0
    position, reference = Game("othello", {"size": size}).start(), Reference(size)
    compare(position, reference)
    while not position.is_terminal:
        action = int(random.choice(reference.legal_actions))
        passes += action == size**2
        position.play(action)
        reference.play(action)
        compare(position, reference)
    return position.ply, passes


def play_against_openspiel(seed):
    random = np.random.default_rng(seed)
    position, other = Game("othello").start(), pyspiel.load_game("othello").new_initial_state()
    while not other.is_terminal():
        assert position.to_play == other.current_player()
        assert position.legal_actions == other.legal_actions(), f"seed {seed}, in\n{position}"
        action = int(random.choice(other.legal_actions()))
        name = "pass" if action == PASS else other.action_to_string(action)
        assert position.to_move(action) == name
        position.play(action)
        other.apply_action(action)
        board = "".join(row.split(" ", 1)[1][:16] for row in str(other).splitlines()[2:10])
        assert board.replace(" ", "").translate(str.maketrans("xo-", "●○·")) == drawn(position)
    assert position.is_terminal
    assert position.outcome == other.returns()[position.to_play]
    return position.ply


def drawn(position):
    return "".join(c for c in str(position).rsplit("\n", 2)[0] if c in "●○·")


PUBLISHED = [1, 4, 12, 56, 244, 1396, 8200, 55092, 390216, 3005288, 24571284, 212258800]
# By A. Bik, https://aartbik.blogspot.com/2009/02/perft-for-reversi.html, a pass being a ply.  They go on counting a
# game that is over; `perft` does not.
OVER = {9: 228, 10: 356}  # games that end with this ply


def test_published_counts():
    start = Game("othello").start()
    assert [perft(start, depth) for depth in range(10)] == PUBLISHED[:10]
    assert perft(start, 10) == PUBLISHED[10] - OVER[9]


@pytest.mark.long
def test_published_counts_beyond_the_first_ends():
    start = Game("othello").start()
    assert perft(start, 11) == PUBLISHED[11] - OVER[9] - OVER[10]
    assert count_over(start, 9) == OVER[9]


def count_over(position, depth):
    """Games that end with the ply `depth` from here, and not before."""
    if position.is_terminal or depth == 0:
        return int(position.is_terminal and depth == 0)
    total = 0
    for action in position.legal_actions:
        after = position.copy()
        after.play(action)
        total += count_over(after, depth - 1)
    return total


@pytest.mark.parametrize(("size", "depth"), [(6, 6), (8, 5)])
def test_counts_of_the_reference(size, depth):
    assert perft(Game("othello", {"size": size}).start(), depth) == count(Reference(size), depth)


def test_start_of_both_sizes():
    assert str(Game("othello").start()) == (
        "  a b c d e f g h\n1 · · · · · · · ·\n2 · · · · · · · ·\n3 · · · · · · · ·\n4 · · · ○ ● · · ·\n"
        "5 · · · ● ○ · · ·\n6 · · · · · · · ·\n7 · · · · · · · ·\n8 · · · · · · · ·\n● to move\n")
    assert str(Game("othello", {"size": 6}).start()) == (
        "  a b c d e f\n1 · · · · · ·\n2 · · · · · ·\n3 · · ○ ● · ·\n4 · · ● ○ · ·\n5 · · · · · ·\n6 · · · · · ·\n"
        "● to move\n")
    position = Game("othello").start()
    assert [position.to_move(action) for action in position.legal_actions] == ["d3", "c4", "f5", "e6"]


@pytest.mark.parametrize("size", [6, 8])
def test_random_games_against_the_reference(size):
    results = [play_against_reference(size, seed) for seed in range(40)]
    assert sum(passes for _, passes in results) > 10


@pytest.mark.parametrize(("size", "seeds"), [(6, (217, 250, 348)), (8, (309, 341))])
def test_games_that_end_with_empty_cells(size, seeds):
    for seed in seeds:
        plies, passes = play_against_reference(size, seed)
        assert plies - passes < size**2 - 4


def test_random_games_against_openspiel():
    assert sum(play_against_openspiel(seed) for seed in range(150)) > 8000


@pytest.mark.long
def test_many_random_games_against_all():
    for seed in range(1000, 2000):
        play_against_openspiel(seed)
        for size in (6, 8):
            play_against_reference(size, seed)


@pytest.mark.parametrize("seed", range(100))
def test_random_games_against_rust_reversi(seed):
    random = np.random.default_rng(seed)
    position, other = Game("othello").start(), rust_reversi.Board()
    while not other.is_game_over():
        assert (position.to_play == 0) == (other.get_turn() == rust_reversi.Turn.BLACK)
        legal = [PASS] if other.is_pass() else sorted(other.get_legal_moves_vec())
        assert position.legal_actions == legal
        action = int(random.choice(legal))
        position.play(action)
        if action == PASS:
            other.do_pass()
        else:
            other.do_move(action)
        assert drawn(position) == other.get_board_line().translate(str.maketrans("XO-", "●○·"))
    assert position.is_terminal
    assert position.score == other.diff_piece_num()


def random_board(random, size):
    """Discs anywhere: few or many, of one colour or of both."""
    kinds = random.choice(3, size=size**2, p=random.dirichlet((0.7, 0.7, 0.7)))
    cells = [divmod(cell, size) for cell in range(size**2)]
    discs = {cell: int(kind) - 1 for cell, kind in zip(cells, kinds, strict=True) if kind}
    return Reference(size, discs, int(random.integers(2)))


@pytest.mark.parametrize("size", [6, 8])
def test_any_board_against_the_reference(size):
    """Boards that no game leads to: runs along and around every edge, one colour alone, full and empty."""
    random, game, kinds = np.random.default_rng(size), Game("othello", {"size": size}), set()
    boards = [random_board(random, size) for _ in range(400)]
    boards += [Reference(size, {}), Reference(size, {(0, 0): 1})]
    boards += [Reference(size, {(r, c): 1 for r in range(size) for c in range(size)}, turn) for turn in (0, 1)]
    for board in boards:
        position = game.position(board.text())
        compare(position, board)
        legal = board.legal_actions
        kinds.add("over" if not legal else "pass" if legal == [size**2] else "placement")
        for action in legal:
            after, expected = position.copy(), Reference(size, board.discs, board.to_play)
            after.play(action)
            expected.play(action)
            compare(after, expected)
    assert kinds == {"over", "pass", "placement"}


def mirrored(text, size, symmetry, game):
    rows, turn = text.rsplit(" ", 1)
    cells = rows.replace("/", "")
    seen = [""] * size**2
    for cell, symbol in enumerate(cells):
        seen[game.permute_action(symmetry, cell)] = symbol
    return "/".join("".join(seen[row * size:(row + 1) * size]) for row in range(size)) + " " + turn


@pytest.mark.parametrize("size", [6, 8])
def test_mirrored_positions_have_as_many_sequences(size):
    random, game = np.random.default_rng(3), Game("othello", {"size": size})
    assert game.num_symmetries == 4
    for _ in range(20):
        text = random_board(random, size).text()
        counts = {perft(game.position(mirrored(text, size, s, game)), 4) for s in range(4)}
        assert len(counts) == 1


def test_the_other_four_symmetries_of_the_square_would_change_the_start():
    game = Game("othello")
    views = {tuple(game.permute_action(symmetry, cell) for cell in range(PASS)) for symmetry in range(4)}
    assert len(views) == 4
    for view in views:
        assert {view[cell] for cell in (27, 36)} == {27, 36}  # d4 and e5 stay among themselves


def test_a_forced_pass_is_the_only_action_and_a_ply():
    game = Game("othello")
    position = game.position(LAST + " O")
    assert position.legal_actions == [PASS]
    assert [position.to_move(PASS), position.from_move("pass")] == ["pass", PASS]
    before = drawn(position)
    with pytest.raises(ValueError, match="illegal move 'h1': legal are pass"):
        position.from_move("h1")
    ply = position.ply
    position.play(PASS)
    assert (position.to_play, position.ply, drawn(position)) == (0, ply + 1, before)
    assert position.legal_actions == [7]
    with pytest.raises(ValueError, match="illegal action 64"):
        position.play(PASS)
    position.play(7)
    assert position.is_terminal
    assert (position.to_play, position.outcome, position.score) == (1, -1, -64)


def test_no_pass_where_a_disc_can_be_placed_and_none_at_the_end():
    start = Game("othello").start()
    with pytest.raises(ValueError, match="illegal action 64"):
        start.play(PASS)
    over = Game("othello").position("/".join(["XXXXXXXX"] * 8) + " O")
    with pytest.raises(ValueError, match="none, the game is over"):
        over.play(PASS)


def test_a_wipe_out_ends_the_game_at_once():
    """The shortest game there is: nine plies, and O has no disc left."""
    position = play(Game("othello"), "f5 d6 c5 f4 e7 f6 g5 e6 e3")
    assert position.is_terminal
    assert (position.ply, position.to_play, position.outcome, position.score) == (9, 1, -1, -13)
    assert (position.ownership == -1).sum() == 13
    assert (position.ownership == 0).sum() == 51


def test_a_draw_and_a_turn_that_is_not_said():
    game = Game("othello")
    half = "/".join(["XXXXXXXX"] * 4 + ["OOOOOOOO"] * 4)
    position = game.position(half)
    assert (position.is_terminal, position.outcome, position.score, position.to_play) == (True, 0, 0, 0)
    assert game.position(half + " O").to_play == 1
    assert game.position(half + " O").evaluation_key != position.evaluation_key


def test_both_turns_of_one_board_are_told_apart():
    random, game = np.random.default_rng(5), Game("othello")
    for _ in range(200):
        text = random_board(random, 8).text()[:-2]
        keys = {game.position(f"{text} {turn}").evaluation_key for turn in "XO"}
        assert len(keys) == 2


@pytest.mark.parametrize("size", [-1, 0, 4, 5, 7, 10, 2**40])
def test_another_size_is_refused(size):
    with pytest.raises(ValueError, match=f"size {size}: othello is played on .* say size=8 or size=6"):
        Game("othello", {"size": size})


@pytest.mark.parametrize("text", ["a7", "g1", "a0", "A1", "aa", "1a", "Pass", "pas", "", "a11", "é1"])
def test_what_is_no_move_on_six_by_six(text):
    with pytest.raises(ValueError, match=r"is no move of this game: legal are c2 b3 e4 d5"):
        Game("othello", {"size": 6}).start().from_move(text)


def test_a_grid_of_the_wrong_size_is_refused():
    with pytest.raises(ValueError, match=r"6 rows of 6 .*: 8 rows"):
        Game("othello", {"size": 6}).position("/".join(["........"] * 8))


def test_a_search_goes_through_a_pass():
    """O must pass and X then takes the last disc: the root's value is a loss once that was seen."""
    game = Game("othello")
    search = PuctConfig(simulations=40, cache=0)
    result = search_positions(game, [game.position(LAST + " O")], search, PseudoRandomEvaluator(game, 1))[0]
    assert (list(result.actions), result.action) == ([PASS], PASS)
    assert result.value < -0.9


def test_random_games_play_what_legal_actions_says():
    """The share of passes and the length of games, drawn here and drawn in the core."""
    game = Game("othello", {"size": 6})
    plies = [play_against_reference(6, seed)[0] for seed in range(60)]
    assert random_games(game, 20_000, 1) / 20_000 == pytest.approx(np.mean(plies), abs=1)
