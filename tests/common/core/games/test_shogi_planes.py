"""What the network sees of shogi, and how its actions are numbered, against a slow account of both in Python."""


import cshogi
import numpy as np
import pytest
from shogi_pair import CShogi, Fairy, Watched, action_of, board_planes, turned

from shusaku.common._core import Game

GAMES = {"shogi": Game("shogi"), "minishogi": Game("minishogi")}
OTHERS = {"shogi": CShogi, "minishogi": Fairy}


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("seed", range(4))
def test_planes_of_random_games(name, seed):
    random, game, small = np.random.default_rng(seed), GAMES[name], Game(name, {"planes": "small"})
    position, other, watched = game.start(), small.start(), Watched(OTHERS[name]())
    while not position.is_terminal:
        planes = watched.planes()
        np.testing.assert_array_equal(position.observation(), planes, f"seed {seed}\n{position}")
        newest, size = planes[:len(planes[:-2]) // 8], game.observation_shape[1]
        hands = board_planes(size, position.to_play, position.text)[1]
        boards = 2 * (14 if name == "shogi" else 10) + 3
        seen = other.observation()
        np.testing.assert_array_equal(seen[:boards], newest[:boards])
        np.testing.assert_array_equal(seen[boards:-1, 0, 0], hands.astype(np.float32))
        assert (seen[-1] == position.to_play).all()
        legal = position.legal_actions
        action = back(position, watched, legal) if random.random() < 0.4 else int(random.choice(legal))
        move = position.to_move(action)
        position.play(action)
        other.play(action)
        watched.play(move)


def back(position, watched, legal):
    """An action to a board that was there, where there is one."""
    boards = {text.rsplit(" ", 1)[0] for text in watched.texts}
    for action in legal:
        after = position.copy()
        after.play(action)
        if after.text.rsplit(" ", 1)[0] in boards and not after.is_terminal:
            return action
    return legal[0]


def test_repetition_planes():
    position = GAMES["shogi"].start()
    for _ in range(2):
        for move in ("2h3h", "8b7b", "3h2h", "7b8b"):
            position.play(position.from_move(move))
    planes = position.observation()
    repeats = planes[:248].reshape(8, 31, 9, 9)[:, 28:, 0, 0]
    assert repeats[:, 0].tolist() == [1, 1, 1, 1, 1, 0, 0, 0]  # plies 8 to 4 came back, 3 to 1 did not
    assert repeats[:, 1].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert repeats[:, 2].sum() == 0


def test_a_position_that_was_set_up_has_no_history():
    planes = GAMES["shogi"].position("4k4/9/9/9/9/9/9/9/R3K4 b 2Pp 9").observation()
    assert planes[:28].sum() == 3
    assert planes[28:248].sum() == 0
    assert [planes[248, 0, 0], planes[255, 0, 0]] == [np.float32(2 / 18), np.float32(1 / 18)]
    assert planes[262:360].sum() == 0
    assert (planes[361] == np.float32(8 / 512)).all()


def test_known_actions():
    """from * 139 + shape, by hand."""
    start = GAMES["shogi"].start()
    assert start.from_move("7g7f") == (6 * 9 + 2) * 139 + 0
    assert start.from_move("2h3h") == (7 * 9 + 7) * 139 + 6 * 8 + 0
    start.play(start.from_move("7g7f"))
    assert start.from_move("7c7d") == (6 * 9 + 6) * 139 + 0  # turned: seven files from the right
    start.play(start.from_move("3c3d"))
    assert start.from_move("8h2b+") == (7 * 9 + 1) * 139 + 66 + 1 * 8 + 5
    mini = GAMES["minishogi"].start()
    assert mini.from_move("1e1b") == (4 * 5 + 4) * 69 + 2


def random_positions(name, count, seed):
    random, game = np.random.default_rng(seed), GAMES[name]
    position = game.start()
    for _ in range(count):
        yield position
        position.play(int(random.choice(position.legal_actions)))
        if position.is_terminal:
            position = game.start()


@pytest.mark.parametrize("name", GAMES)
def test_actions_and_moves_of_many_positions(name):
    """Distinct, ascending, by the description's own arithmetic, and back; one of them through the core's checks."""
    for number, position in enumerate(random_positions(name, 1500, 5)):
        legal, size = position.legal_actions, position.observation().shape[1]
        assert legal == sorted(set(legal))
        moves = [position.to_move(action) for action in legal[number % 7::7]]
        assert len(set(moves)) == len(moves)
        assert [action_of(size, position.to_play, move) for move in moves] == legal[number % 7::7]
        if number % 10 == 0:
            assert [position.from_move(move) for move in moves] == legal[number % 7::7]


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_actions_of_a_million_positions():
    """cshogi's moves as actions are ours, one for one; moves that differ have actions that differ."""
    random, done, other, position = np.random.default_rng(77), 0, cshogi.Board(), GAMES["shogi"].start()
    known = {}
    while done < 1_000_000:
        turn = other.turn
        theirs = {}
        for move in other.legal_moves:
            key = (turn, move & 0xFFFF)
            if key not in known:
                known[key] = action_of(9, turn, cshogi.move_to_usi(move))
            theirs[known[key]] = move
        assert position.legal_actions == sorted(theirs)
        done += 1
        action = int(random.choice(list(theirs)))
        position.play(action)
        other.push(theirs[action])
        if position.is_terminal:
            other, position = cshogi.Board(), GAMES["shogi"].start()
    for turn in (0, 1):
        actions = [action for (whose, _), action in known.items() if whose == turn]
        assert len(set(actions)) == len(actions)


@pytest.mark.parametrize(("name", "colour"), [("shogi", -2), ("minishogi", -2)])
def test_the_turned_position_with_exchanged_colours_looks_the_same(name, colour):
    game = GAMES[name]
    for position in random_positions(name, 400, 9):
        one, other = game.position(position.text), game.position(turned(position.text))
        assert one.to_play != other.to_play
        assert one.is_terminal == other.is_terminal
        assert one.legal_actions == other.legal_actions
        first, second = one.observation(), other.observation()
        assert (first[colour] == one.to_play).all()
        assert (second[colour] == other.to_play).all()
        first[colour] = second[colour]
        np.testing.assert_array_equal(first, second)
        assert one.evaluation_key != other.evaluation_key
