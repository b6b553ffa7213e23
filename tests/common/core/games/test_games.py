"""The contract that every registered game keeps, and counts that are known from outside."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.common._core import Game, game_names, game_parameters, perft, random_games

ALL = game_names()
SMALL_GO = [("go", {"size": 5}), ("go", {"size": 7, "planes": "tutorial"})]  # test_go.py has the others
VARIANTS = [*((name, {}) for name in ALL if name != "go"), *SMALL_GO,
            ("othello", {"size": 6}), ("hex", {"size": 5}), ("hex", {"size": 13}),
            ("connect_four", {"planes": "threats"})]
every_variant = pytest.mark.parametrize(
    ("name", "params"), VARIANTS, ids=["-".join([name, *(f"{k}={v}" for k, v in p.items())]) for name, p in VARIANTS])


def play_out(game, seed):
    """A random game: (position before, action) pairs and the final position."""
    random, position, steps = np.random.default_rng(seed), game.start(), []
    while not position.is_terminal:
        action = int(random.choice(position.legal_actions))
        steps.append((position.copy(), action))
        position.play(action)
    return steps, position


@every_variant
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.long] * (seed >= 15)) for seed in range(30)])
def test_random_play_keeps_the_contract(name, params, seed):
    game = Game(name, params)
    steps, end = play_out(game, seed)
    assert 0 < len(steps) <= game.max_plies
    replay = game.start()
    for ply, (position, action) in enumerate(steps):
        legal = position.legal_actions
        assert legal == sorted(set(legal))
        assert 0 < len(legal) <= game.max_legal_actions
        assert all(0 <= a < game.num_actions for a in legal)
        assert (position.ply, position.to_play) == (ply, ply % 2)
        assert str(replay) == str(position)
        assert replay.evaluation_key == position.evaluation_key
        before = str(position)
        others = np.random.default_rng(ply).permutation(sorted(set(range(game.num_actions)) - set(legal)))
        for illegal in (-1, game.num_actions, 70_000, *others[:8].tolist()):
            with pytest.raises(ValueError, match=f"illegal action {illegal}"):
                position.play(illegal)
        assert str(position) == before
        with pytest.raises(ValueError, match="not over"):
            _ = position.outcome
        replay.play(replay.from_move(position.to_move(action)))
    assert end.legal_actions == []
    assert end.outcome in (-1, 0, 1)
    with pytest.raises(ValueError, match="none, the game is over"):
        end.play(steps[0][1])


@every_variant
def test_moves_have_distinct_names_and_come_back(name, params):
    position = Game(name, params).start()
    moves = [position.to_move(a) for a in position.legal_actions]
    assert len(set(moves)) == len(moves)
    assert [position.from_move(m) for m in moves] == position.legal_actions


@every_variant
def test_positions_are_written_as_they_are_read(name, params):
    game = Game(name, params)
    steps, end = play_out(game, 7)
    for position in (*(position for position, _ in steps), end):
        for again in (game.position(position.text), game.arrange(position.text)):
            assert again.text == position.text
            assert again.to_play == position.to_play
            if name not in ("chess", "shogi", "minishogi", "go"):  # a position that was set up has no history
                assert str(again) == str(position)
                assert np.array_equal(again.observation(), position.observation())
                assert again.legal_actions == position.legal_actions


def names_of_moves(position, name):
    second = {position.to_san(a) for a in position.legal_actions} if name == "chess" else set()
    return second | {position.to_move(a) for a in position.legal_actions}


STARTS = [(start, names_of_moves(start, name))
          for name, start in ((name, Game(name, params).start()) for name, params in VARIANTS)]


@given(st.text(max_size=6) | st.from_regex(r"[a-m][0-9]{1,2}", fullmatch=True))
@settings(max_examples=200, deadline=None)
def test_no_text_crashes_a_move_parser(text):
    for position, known in STARTS:
        if text not in known and text.upper() not in known:  # GTP's vertices go by either case
            with pytest.raises(ValueError, match=r"no move of this game|illegal move"):
                position.from_move(text)


@every_variant
@pytest.mark.parametrize("seed", range(10))
def test_symmetries_map_actions_observations_and_results_alike(name, params, seed):
    """Play the mirrored game move by move: its planes are the mirrored planes, its end is the same end."""
    game = Game(name, params)
    steps, end = play_out(game, seed)
    for symmetry in range(game.num_symmetries):
        mirrored = game.start()
        permuted = [game.permute_action(symmetry, a) for a in range(game.num_actions)]
        assert sorted(permuted) == list(range(game.num_actions))
        for position, action in steps:
            assert sorted(permuted[a] for a in position.legal_actions) == mirrored.legal_actions
            np.testing.assert_array_equal(position.observation(symmetry), mirrored.observation())
            mirrored.play(permuted[action])
        assert mirrored.is_terminal
        assert mirrored.outcome == end.outcome
    assert [game.permute_action(0, a) for a in range(game.num_actions)] == list(range(game.num_actions))


@every_variant
def test_equal_evaluation_keys_mean_equal_planes_and_actions(name, params):
    """And different planes mean different keys, over some hundred thousand positions."""
    game = Game(name, params)
    seen = {}
    for seed in range(3000 if name == "connect_four" else min(300, 15_000 // game.num_actions)):
        for position, _ in play_out(game, seed)[0]:
            facts = (position.observation().tobytes(), tuple(position.legal_actions))
            assert seen.setdefault(position.evaluation_key, facts) == facts
    assert len(set(seen.values())) == len(seen)


@every_variant
def test_packed_planes_expand_to_the_observation(name, params):
    game = Game(name, params)
    binary = game.observation_shape[0] - game.num_uniform_planes
    for position, _ in play_out(game, 1)[0]:
        planes = position.observation()
        bits = np.packbits(planes[:binary].reshape(-1) > 0, bitorder="little")[None]
        assert bits.shape[1] == game.packed_bytes
        out = np.full((2, *game.observation_shape), 7, np.float32)
        game.expand(bits, planes[binary:, 0, 0][None].copy(), out)
        np.testing.assert_array_equal(out[0], planes)
        assert (out[1] == 7).all()


@every_variant
def test_packed_planes_expand_cell_by_cell(name, params):
    """The same planes with all of a cell side by side; in bf16 as torch rounds it, whatever the uniform planes hold."""
    game = Game(name, params)
    binary = game.observation_shape[0] - game.num_uniform_planes
    random = np.random.default_rng(1)
    rows = [position.observation() for position, _ in play_out(game, 1)[0]][:40]
    bits = np.stack([np.packbits(planes[:binary].reshape(-1) > 0, bitorder="little") for planes in rows])
    uniform = random.standard_normal((len(rows), game.num_uniform_planes)).astype(np.float32)
    planes = np.empty((len(rows), *game.observation_shape), np.float32)
    game.expand(bits, uniform, planes)
    expected = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))  # [B, H, W, C]
    out = np.full((len(rows) + 1, *expected.shape[1:]), 7, np.float32)
    game.expand_channels_last(bits, uniform, out)
    np.testing.assert_array_equal(out[:-1], expected)
    assert (out[-1] == 7).all()
    half = np.full(out.shape, 7, np.uint16)
    game.expand_channels_last(bits, uniform, half)
    rounded = torch.from_numpy(expected).bfloat16().view(torch.int16).numpy()
    np.testing.assert_array_equal(half[:-1].view(np.int16), rounded)
    assert (half[-1] == 7).all()
    with pytest.raises(ValueError, match=r"out must be \[>= B, H, W, C\]"):
        game.expand_channels_last(bits, uniform, np.empty((*expected.shape[:-1], expected.shape[-1] + 1), np.float32))
    with pytest.raises(ValueError, match="packed must be"):
        game.expand_channels_last(bits[:, :-1].copy(), uniform, out)


@every_variant
def test_any_bits_expand_cell_by_cell(name, params):
    """Whatever bits are set, in the last plane and the last cell, too."""
    game = Game(name, params)
    planes, h, w = game.observation_shape
    random = np.random.default_rng(2)
    raw = random.integers(0, 2, (9, (planes - game.num_uniform_planes) * h * w), dtype=np.uint8)
    raw[0], raw[1] = 0, 1
    bits = np.packbits(raw, axis=1, bitorder="little")
    uniform = random.standard_normal((len(raw), game.num_uniform_planes)).astype(np.float32)
    expected = np.empty((len(raw), planes, h, w), np.float32)
    game.expand(bits, uniform, expected)
    for dtype in (np.float32, np.uint16):
        out = np.full((len(raw) + 1, h, w, planes), 7, dtype)
        game.expand_channels_last(bits, uniform, out)
        np.testing.assert_array_equal(out[:-1], channels_last(expected, out))
        assert (out[-1] == 7).all()


def test_known_counts():
    """Move sequences: connect four 7 and 8 plies (also OEIS A212693), tic-tac-toe's 255,168 games."""
    connect_four = Game("connect_four").start()
    assert [perft(connect_four, depth) for depth in range(9)] == [
        1, 7, 49, 343, 2401, 16807, 117649, 823536, 5673234]
    tic_tac_toe = Game("tic_tac_toe").start()
    sequences = [perft(tic_tac_toe, depth) for depth in range(10)]
    assert sequences == [1, 9, 72, 504, 3024, 15120, 54720, 148176, 200448, 127872]
    assert count_games(tic_tac_toe) == 255_168


def count_games(position):
    if position.is_terminal:
        return 1
    total = 0
    for action in position.legal_actions:
        after = position.copy()
        after.play(action)
        total += count_games(after)
    return total


def has_four(stones):
    """Four in a line on a grid [6, 7], by looking at every line."""
    for row in range(6):
        for column in range(7):
            for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(row + k * dr, column + k * dc) for k in range(4)]
                if all(0 <= r < 6 and 0 <= c < 7 and stones[r, c] for r, c in cells):
                    return True
    return False


@pytest.mark.parametrize("seed", range(200))
def test_connect_four_against_a_grid_of_stones(seed):
    game = Game("connect_four")
    grid, heights = np.zeros((2, 6, 7), bool), [0] * 7
    steps, end = play_out(game, seed)
    for position, column in steps:
        assert position.legal_actions == [c for c in range(7) if heights[c] < 6]
        assert not has_four(grid[0])
        assert not has_four(grid[1])
        planes = position.observation()
        np.testing.assert_array_equal(planes[0], grid[position.to_play])
        np.testing.assert_array_equal(planes[1], grid[1 - position.to_play])
        assert (planes[2] == position.to_play).all()
        grid[position.to_play, 5 - heights[column], column] = True
        heights[column] += 1
    won = has_four(grid[(len(steps) - 1) % 2])
    assert end.outcome == (-1 if won else 0)
    assert (won or sum(heights) == 42)


def completing(stones, taken):
    """The empty cells [6, 7] in which one more stone makes a four."""
    cells = np.zeros((6, 7), bool)
    for row, column in np.argwhere(~taken):
        more = stones.copy()
        more[row, column] = True
        cells[row, column] = has_four(more)
    return cells


@pytest.mark.parametrize("seed", range(60))
def test_threats_of_connect_four_against_a_stone_in_every_empty_cell(seed):
    """And their mirror images; the stones and the turn are as without them."""
    game, plain = Game("connect_four", {"planes": "threats"}), Game("connect_four")
    seen = 0
    for position, _ in play_out(game, seed)[0]:
        planes = position.observation()
        assert planes.shape == (5, 6, 7)
        np.testing.assert_array_equal(planes[[0, 1, 4]], plain.position(position.text).observation())
        own, other = planes[:2].astype(bool)
        for mine, found in ((own, planes[2]), (other, planes[3])):
            np.testing.assert_array_equal(found, completing(mine, own | other))
            seen += int(found.sum())
        np.testing.assert_array_equal(position.observation(1), planes[:, :, ::-1])
    assert seen


def test_unknown_games_and_parameters_are_named():
    with pytest.raises(ValueError, match="parameter planes=lines of game connect_four: must be one of stones, threats"):
        Game("connect_four", {"planes": "lines"})
    with pytest.raises(ValueError, match=f"unknown game 'chss': expected one of {', '.join(ALL)}"):
        Game("chss")
    with pytest.raises(ValueError, match="no parameter 'size'"):
        Game("connect_four", {"size": 9})
    for name in ALL:
        assert Game(name).params == {p: default for p, default, _ in game_parameters(name)}


@every_variant
def test_random_games_are_reproducible(name, params):
    game = Game(name, params)
    assert random_games(game, 50, 3) == random_games(game, 50, 3)
    assert random_games(game, 50, 3) != random_games(game, 50, 4)


POSITIONS = {  # text -> moves that lead there
    "tic_tac_toe": ("X.O/.X./... O", ["a3", "c3", "b2"]),
    "connect_four": ("......./......./......./......./..O..../..XX...", ["3", "3", "4"]),
    "hex": ("/".join(["." * 11] * 9 + ["O" + "." * 10, ".X" + "." * 8 + "X"]), ["b11", "a10", "k11"]),
    "othello": ("......../......../...X..../...XX.../..OOO.../......../......../........ X", ["d3", "c5"]),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_a_position_that_was_set_up_is_the_one_that_was_played(name):
    text, moves = POSITIONS[name]
    game = Game(name)
    played = game.start()
    for move in moves:
        played.play(played.from_move(move))
    for form in (text, text.replace("/", "\n") + "\n", " ".join(text)):
        position = game.position(form)
        assert position.evaluation_key == played.evaluation_key
        assert (position.ply, position.to_play, str(position)) == (played.ply, played.to_play, str(played))
    assert game.position("/".join("." * game.observation_shape[2] for _ in range(game.observation_shape[1]))).ply == 0


@pytest.mark.parametrize(("name", "text", "reason"), [
    ("tic_tac_toe", "X../...", "2 rows"),
    ("tic_tac_toe", "X../../...", "row 2 has 2 cells"),
    ("tic_tac_toe", "X../.#./...", "row 2 has '#'"),
    ("tic_tac_toe", "X../.../... Z", "'Z' behind the last row"),
    ("tic_tac_toe", "XX./.../...", "2 X and 0 O"),
    ("tic_tac_toe", "X../.../... X", "the turn of O"),
    ("tic_tac_toe", "XXX/OO./... X", "3 X and 2 O|the turn of O"),
    ("tic_tac_toe", "XXX/OOO/...", "over before"),
    ("connect_four", "......./......./......./......./..X..../.......", "nothing below"),
    ("connect_four", "......./......./......./......./......./OO.....", "0 X and 2 O"),
])
def test_an_impossible_position_is_refused_with_the_reason(name, text, reason):
    with pytest.raises(ValueError, match=reason):
        Game(name).position(text)


def grids(size):
    row = st.text(alphabet="XO.", min_size=size, max_size=size)
    return st.lists(row, min_size=size, max_size=size).map("/".join)


@given(st.text(alphabet="XO./ \nxab1;()[]", max_size=80) | st.sampled_from([3, 5, 6, 8]).flatmap(grids))
@settings(max_examples=300, deadline=None)
def test_no_text_crashes_a_position_parser(text):
    for name, params in VARIANTS:
        try:
            position = Game(name, params).position(text)
        except ValueError:
            continue
        assert position.is_terminal == (not position.legal_actions)
