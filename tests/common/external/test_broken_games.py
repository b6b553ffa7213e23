"""Games in Python that break the contract in every way: one error with method, rule, value and the moves so far."""

import json

import numpy as np
import pytest
from external_fixtures import Board, Takeaway, TicTacToe, entry_of, python_game, records

from shusaku.common._core import Game, random_games
from shusaku.common.errors import GameError, UsageError
from shusaku.common.external.entry import trust


def changed(**methods):
    """Tic-tac-toe with other methods; each breaks only after two plies, where it is given (state, ...)."""
    return type("Broken", (TicTacToe,), methods)


def late(name, answer):
    """The method, wrong from the third position on."""
    right = getattr(TicTacToe, name)
    return lambda self, state, *rest: answer(state, *rest) if state.ply >= 2 else right(self, state, *rest)


def board(value):
    return np.full((3, 3, 3), value, np.float32)


WHILE_PLAYING = {  # what is wrong -> the method, what it answers, words of the error
    "raises": ("play", lambda s, a: 1 // 0, r"play\(state, \d\) raised ZeroDivisionError: .*test_broken_games.py"),
    "no state": ("play", lambda s, a: None, r"play\(state, \d\) returned None: must be a state"),
    "the same state": ("play", lambda s, a: s, "returned the state that it was given"),
    "legal raises": ("legal_actions", lambda s: [][0], r"legal_actions\(state\) raised IndexError"),
    "legal is no list": ("legal_actions", lambda s: 7, "returned 7: must be a list"),
    "legal is None": ("legal_actions", lambda s: None, "returned None: must be a list"),
    "legal descends": ("legal_actions", lambda s: [5, 3], r"returned \[5, 3\]: must be ascending, and 3 comes"),
    "legal twice": ("legal_actions", lambda s: [3, 3], "must be ascending"),
    "legal too large": ("legal_actions", lambda s: [3, 9], r"returned 9: must be a whole number in \[0, 8\]"),
    "legal negative": ("legal_actions", lambda s: [-1], "returned -1"),
    "legal is text": ("legal_actions", lambda s: ["a"], "returned 'a'"),
    "legal is a fraction": ("legal_actions", lambda s: [1.5], r"returned 1\.5"),
    "legal is huge": ("legal_actions", lambda s: [1 << 80], "must be a whole number"),
    "legal too many": ("legal_actions", lambda s: list(range(10)), "10 actions, and max_legal_actions is 9"),
    "none legal": ("legal_actions", lambda s: [], "no action where is_terminal is False"),
    "terminal is None": ("is_terminal", lambda s: None, r"is_terminal\(state\) returned None: must be True or False"),
    "legal at the end": ("legal_actions", lambda s: [3], "has 1 actions where is_terminal is True: must be none there"),
    "third player": ("to_play", lambda s: 2, r"to_play\(state\) returned 2: must be a whole number in \[0, 1\]"),
    "player is None": ("to_play", lambda s: None, "returned None"),
    "shape": ("observation", lambda s: np.zeros((2, 3, 3)), r"\(2, 3, 3\): must be a numpy array \[3, 3, 3\]"),
    "dimensions": ("observation", lambda s: np.zeros(27), r"must be a numpy array \[3, 3, 3\]"),
    "list": ("observation", lambda s: [[[0]]], "must be a numpy array"),
    "objects": ("observation", lambda s: np.full((3, 3, 3), None), "must be a numpy array"),
    "NaN": ("observation", lambda s: board(np.nan), "has nan in plane 0, row 0, column 0"),
    "half": ("observation", lambda s: board(0.5), "must hold 0 and 1 only"),
    "infinite": ("observation", lambda s: np.concatenate([board(0)[:2], board(np.inf)[:1]]), "must be finite"),
    "not uniform": ("observation", lambda s: np.concatenate([board(0)[:2], np.eye(3)[None]]), "one number everywhere"),
    "raises text": ("observation", lambda s: (_ for _ in ()).throw(RuntimeError("two\nlines")), "raised RuntimeError"),
}


@pytest.mark.parametrize("name", WHILE_PLAYING)
def test_a_broken_game_is_an_error_with_method_rule_value_and_moves(name):
    method, answer, words = WHILE_PLAYING[name]
    cls = changed(**{method: late(method, answer)})
    uses = [lambda game: records(game, "puct", 20), _random_and_observed]
    if method != "observation":  # which rollouts do not ask for
        uses += [lambda game: records(game, "mcts", 20), lambda game: random_games(game, 9, 1)]
    for use in uses:
        with pytest.raises(GameError, match=words) as error:
            use(python_game(cls))
        text = str(error.value)
        assert text.startswith("game.entry=test_games_of_ours:Broken: ")
        assert "\n" not in text
        assert "from the start after the actions" in text
        assert "the moves" in text
    assert isinstance(error.value, UsageError)


def _random_and_observed(game):
    for _ in range(3):
        position = game.start()
        while not position.is_terminal:
            position.observation()
            before = (position.ply, position.to_play)
            try:
                position.play(position.legal_actions[0])
            finally:
                assert position.ply - before[0] in (0, 1)
    pytest.fail("nothing was noticed")


def test_a_position_is_unchanged_by_a_play_that_failed():
    game = python_game(changed(play=late("play", lambda s, a: None)))
    position = game.start()
    position.play(4)
    position.play(0)
    before = (position.ply, position.legal_actions, str(position), position.evaluation_key)
    for _ in range(2):
        with pytest.raises(GameError, match="after the actions 4 0, the moves b2 a3"):
            position.play(1)
        assert (position.ply, position.legal_actions, str(position), position.evaluation_key) == before
    with pytest.raises(ValueError, match="illegal action 4"):
        position.play(4)


def test_the_line_of_the_users_method_is_named_if_a_library_raises():
    game = python_game(changed(play=late("play", lambda s, a: json.loads("{"))))
    with pytest.raises(GameError, match=r"JSONDecodeError: .* \(test_broken_games.py, line \d+\)"):
        records(game, "puct", 20)


def test_the_line_of_the_users_module_is_named_before_the_first_move():
    class Unread(TicTacToe):
        def __init__(self, size: int = 3):
            json.loads("{")

    with pytest.raises(UsageError, match=r"JSONDecodeError: .* \(test_broken_games.py, line \d+\)"):
        python_game(Unread)
    with pytest.raises(UsageError, match=r"JSONDecodeError: .* \(test_broken_games.py, line \d+\)"):
        python_game(changed(symmetries=lambda self: json.loads("{")))


@pytest.mark.parametrize(("methods", "words"), [
    ({"outcome": lambda self, s: 2}, r"outcome\(state\) returned 2: must be a whole number in \[-1, 1\]"),
    ({"outcome": lambda self, s: None}, "returned None"),
    ({"outcome": lambda self, s: float("nan")}, "returned nan"),
    ({"score": lambda self, s: "many"}, "returned 'many': must be a finite number"),
    ({"score": lambda self, s: float("inf")}, "returned inf: must be a finite number"),
    ({"is_cut_off": lambda self, s: 3}, "must be True or False"),
    ({"max_plies": 5}, "the game goes on after 5 plies, and its max_plies is 5"),
    ({"to_move": lambda self, s, a: 7}, "returned 7: must be text"),
    ({"to_move": lambda self, s, a: "a b"}, "must be a word"),
    ({"render": lambda self, s: None}, "returned None: must be text"),
    ({"from_move": lambda self, s, t: "x"}, "returned 'x'"),
    ({"from_move": lambda self, s, t: {}[t]}, "must raise ValueError where the text is no move"),
    ({"transposition_key": lambda self, s: "x"}, "must be a whole number, such as hash"),
    ({"transposition_key": lambda self, s: 2.0}, "must be a whole number, such as hash"),
    ({"transposition_key": lambda self, s: np.True_}, "must be a whole number, such as hash"),
])
def test_the_end_and_the_words_are_checked_too(methods, words):
    def play_and_talk():
        for seed in range(3):
            rng, position = np.random.default_rng(seed), game.start()
            while not position.is_terminal:
                action = int(rng.choice(position.legal_actions))
                position.from_move(position.to_move(action))
                assert str(position)
                assert position.transposition_key
                position.play(action)

    game = python_game(changed(**methods))
    with pytest.raises(GameError, match=words):
        play_and_talk()


@pytest.mark.parametrize(("methods", "words"), [
    ({"start": lambda self: None}, r"start\(\) returned None"),
    ({"to_play": lambda self, s: 1}, "player 0 moves first"),
    ({"is_terminal": lambda self, s: True, "legal_actions": lambda self, s: []}, "no game to play"),
    ({"num_actions": 0}, r"num_actions is 0: must be a whole number in \[1, 65535\]"),
    ({"num_actions": "9"}, "num_actions is '9'"),
    ({"num_actions": None}, "no attribute num_actions"),
    ({"max_plies": 40_000}, r"max_plies is 40000: must be a whole number in \[1, 32768\]"),
    ({"observation_shape": (3, 3)}, r"observation_shape is \(3, 3\)"),
    ({"observation_shape": (3, 0, 3)}, "each at least 1"),
    ({"observation_shape": (3000, 300, 300)}, "at most 1,048,576 numbers"),
    ({"uniform_planes": 4}, "uniform_planes is 4"),
    ({"max_legal_actions": 10}, "max_legal_actions is 10"),
    ({"legal_actions": None}, r"no method legal_actions\(state\)"),
    ({"legal_actions": 7}, r"no method legal_actions\(state\)"),
    ({"play": lambda self, state: state}, r"play cannot be called as play\(state, action\)"),
    ({"draw": lambda self, s: "", "render": property()}, r"draw\(state\) is called render\(state\) now"),
    ({"symmetries": lambda self: []}, "must be 1 to 64"),
    ({"symmetries": lambda self: [range(9), range(8)]}, r"symmetries\(\)\[1\] must map each of the 9 cells"),
    ({"symmetries": lambda self: [[1, 0, *range(2, 9)]]}, "the first of"),
    ({"symmetries": lambda self: 1 // 0}, "symmetries.. raised ZeroDivisionError"),
])
def test_what_is_wrong_before_the_first_move_is_said_when_the_game_is_made(methods, words):
    with pytest.raises(UsageError, match=words):
        python_game(changed(**methods))


def test_a_game_that_is_not_the_same_twice_is_noticed_when_it_is_played_again():
    class Moody(TicTacToe):
        cached_states, is_tired = 16, False

        def is_terminal(self, state):
            return super().is_terminal(state) or (state.ply == 4 and Moody.is_tired)

    game = python_game(Moody)
    position = game.start()
    for action in (0, 1, 2, 3):
        position.play(action)
    assert position.legal_actions == [4, 5, 6, 7, 8]
    Moody.is_tired = True
    assert position.legal_actions == [4, 5, 6, 7, 8]  # as it was asked before
    random_games(game, 50, 1)  # pushes that out
    with pytest.raises(GameError, match=r"led elsewhere when the same actions were played again.* the actions 0 1 2 3"):
        _ = position.legal_actions


def test_ctrl_c_within_a_game_stops_the_program_and_is_no_breakage():
    game = python_game(changed(play=late("play", lambda s, a: (_ for _ in ()).throw(KeyboardInterrupt()))))
    with pytest.raises(KeyboardInterrupt):
        records(game, "puct", 20)
    with pytest.raises(KeyboardInterrupt):
        random_games(game, 10, 1)


def test_a_parse_that_fails_is_a_value_error_or_a_breakage():
    game = python_game(changed(parse=lambda self, text: {}[text]))
    with pytest.raises(GameError, match=r"parse.text. raised KeyError.*must raise ValueError"):
        game.position("x")
    game = python_game(changed(parse=lambda self, text: Board(ply=2), to_play=late("to_play", lambda s: 3)))
    with pytest.raises(GameError, match="to_play"):
        game.position("x")


def test_parameters_go_to_the_constructor():
    assert python_game(Takeaway).params == {"entry": "test_games_of_ours:Takeaway", "pile": 9}
    assert python_game(Takeaway, pile=5).params["pile"] == 5

    class Needs(TicTacToe):
        def __init__(self, size: int, komi: "float" = 7.5, *, strict=False, table=()):
            if size > 19:
                raise ValueError("too large")

    entry = entry_of(Needs)
    assert Game("python", {"entry": entry, "size": 3, "komi": 6}).params == {
        "entry": entry, "size": 3, "komi": 6.0, "strict": False}
    for params, words in (
        ({}, "needs game.size=...: .*Needs has no default"), ({"size": "x"}, "must be of type int"),
        ({"size": 3, "kommi": 1}, "no parameter 'kommi': it takes entry, size, komi, strict; nearest: komi"),
        ({"size": 20}, r"Needs\(size=20, komi=7.5, strict=False\) raised ValueError: too large"),
        ({"size": 3, "table": 1}, "no parameter 'table'"),
    ):
        with pytest.raises(UsageError, match=words):
            Game("python", {"entry": entry, **params})
    with pytest.raises(UsageError, match=r"needs game.entry=...: module:Class"):
        Game("python")
    with pytest.raises(ValueError, match=r"unknown game 'pyton': expected one of .*open_spiel, python"):
        Game("pyton")


def test_modules_are_found_in_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "good_game.py").write_text("from external_fixtures import TicTacToe\nnumber = 3\n")
    (tmp_path / "bad_game.py").write_text("import numpy\n\n1 / 0\n")
    (tmp_path / "needy_game.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "unread_game.py").write_text('import json\n\n\njson.loads("{")\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    trust("good_game:TicTacToe")
    assert Game("python", {"entry": "good_game:TicTacToe"}).num_actions == 9
    for entry, words in {
        "god_game:TicTacToe": "no module god_game in .* nearest: good_game.py",
        "good_game:TicTacTo": r"good_game \(.*good_game.py\) has no class TicTacTo; nearest: TicTacToe",
        "good_game:number": "number is no class but int",
        "good_game": "names no class", "a/b:X": "names no class", ":": "names no class",
        "good_game.py:X": "no module good_game.py",
        "bad_game:X": r"importing bad_game raised ZeroDivisionError: .* \(bad_game.py, line 3\)",
        "needy_game:X": r"importing needy_game raised ModuleNotFoundError.*needy_game.py, line 1",
        "unread_game:X": r"importing unread_game raised JSONDecodeError: .* \(unread_game.py, line 4\)",
    }.items():
        trust(entry)
        with pytest.raises(UsageError, match=words):
            Game("python", {"entry": entry})
