"""OpenSpiel's games through the adapter: equal to the core's move by move, or refused with the reason."""

import random
import sys
from types import SimpleNamespace

import numpy as np
import pyspiel
import pytest
from search_fixtures import plain_game_batch

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, RowRing, game_names, perft, random_games
from shusaku.common.config.search import PuctConfig
from shusaku.common.errors import GameError, UsageError
from shusaku.common.external.contract import check_game
from shusaku.common.external.loader import load_game
from shusaku.common.external.open_spiel import OpenSpielGame, playable_names
from shusaku.common.messages import Leaves
from shusaku.common.search import search_options


def open_spiel(name, **params):
    return Game("open_spiel", {"name": name, **params})


def first_outcome(position):
    return position.outcome if position.to_play == 0 else -position.outcome


SAME = {  # of the core's game: its parameters, OpenSpiel's name for it, our action -> theirs
    "tic_tac_toe": ({}, "tic_tac_toe", lambda a: a),
    "connect_four": ({}, "connect_four", lambda a: a),
    "othello": ({"size": 8}, "othello", lambda a: a),
    "hex": ({"size": 5}, "hex(board_size=5)", lambda a: a),
}


@pytest.mark.parametrize("name", [name for name in game_names() if name in SAME])
def test_an_open_spiel_game_is_the_cores_move_by_move(name):
    params, theirs, mapped = SAME[name]
    ours, adapter = Game(name, params), open_spiel(theirs)
    for seed in range(60):
        rng, a, b = random.Random(seed), ours.start(), adapter.start()
        while True:
            assert a.is_terminal == b.is_terminal, (seed, str(a))
            assert sorted(map(mapped, a.legal_actions)) == b.legal_actions, (seed, str(a))
            if a.is_terminal:
                break
            assert a.to_play == b.to_play
            action = rng.choice(a.legal_actions)
            a.play(action)
            b.play(mapped(action))
        assert first_outcome(a) == first_outcome(b), (seed, str(a))
    assert [perft(ours.start(), depth) for depth in range(4)] == [perft(adapter.start(), depth) for depth in range(4)]


def test_the_observation_is_open_spiels_and_whose_turn():
    game, state, position = open_spiel("breakthrough"), pyspiel.load_game("breakthrough").new_initial_state(), None
    position = game.start()
    rng = random.Random(3)
    while not position.is_terminal:
        tensor = np.array(state.observation_tensor(state.current_player()), np.float32).reshape(3, 8, 8)
        planes = position.observation()
        np.testing.assert_array_equal(planes[:3], tensor)
        assert (planes[3] == position.to_play).all()
        action = rng.choice(position.legal_actions)
        assert position.to_move(action) == state.action_to_string(state.current_player(), action)
        position.play(action)
        state.apply_action(action)


@pytest.mark.parametrize(("name", "shape", "uniform"), [
    ("breakthrough", (4, 8, 8), 1),
    ("chess", (21, 8, 8), 3),  # two clocks that are the same number everywhere, and the turn
    ("gomoku(size=9)", (4, 9, 9), 1),  # OpenSpiel's [3, 81]
    ("mancala", (17, 1, 1), 16),  # numbers of stones; the pit of a player that stays 0 or 1 in no game is uniform
    ("nim", (40, 1, 1), 1),
])
def test_planes_are_classified(name, shape, uniform):
    game = open_spiel(name)
    assert game.observation_shape == shape
    if name != "mancala":
        assert game.num_uniform_planes == uniform
    flat = open_spiel(name, planes="flat")
    assert flat.observation_shape == ((shape[0] - 1) * shape[1] * shape[2] + 1, 1, 1)
    assert flat.num_uniform_planes == flat.observation_shape[0]
    a, b = game.start(), flat.start()
    for game_position in (a, b):
        for _ in range(3):
            game_position.play(game_position.legal_actions[0])
    seen, other = a.observation().reshape(-1), b.observation().reshape(-1)
    np.testing.assert_array_equal(np.sort(seen[:len(other) - 1]), np.sort(other[:-1]))


def test_a_plane_that_was_binary_in_the_probe_and_is_not_later_is_an_error(monkeypatch):
    monkeypatch.setattr("shusaku.common.external.open_spiel.PROBE_POSITIONS", 2)
    game = open_spiel("mancala")
    assert game.num_uniform_planes < 16
    words = r"game.name=mancala: observation\(state\) has .* must hold 0 and 1 only; set game.planes=flat; "
    with pytest.raises(GameError, match=words):
        self_play(game)


def test_more_legal_actions_than_allowed_for_are_an_error_with_the_way_out():
    with pytest.raises(UsageError, match=r"returned 22 actions, and max_legal_actions is 5.*set game.max_legal"):
        open_spiel("breakthrough", max_legal_actions=5)
    assert open_spiel("breakthrough", max_legal_actions=48).max_legal_actions == 48
    with pytest.raises(UsageError, match="max_legal_actions=1000: must lie in"):
        open_spiel("breakthrough", max_legal_actions=1000)


def test_who_begins_is_player_0_also_in_chess():
    """Whose first player is OpenSpiel's player 1; and a position from FEN, with the second player to move."""
    game = open_spiel("chess")
    position = game.start()
    assert position.to_play == 0
    for move in ("f3", "e5", "g4", "Qh4#"):
        assert position.to_play == position.ply % 2
        position.play(position.from_move(move))
    assert position.is_terminal
    assert first_outcome(position) == -1
    fen = "rnbqkbnr/pppp1ppp/8/4p3/6P1/5P2/PPPPP2P/RNBQKBNR b KQkq - 0 2"
    position = game.position(fen)
    assert position.to_play == 1
    assert (position.observation()[-1] == 1).all()
    position.play(position.from_move("Qh4#"))
    assert first_outcome(position) == -1
    for text in ("garbage", "8/8/8/8/8/8/8/8 w - - 0 1"):
        with pytest.raises(ValueError, match="OpenSpiel"):
            game.position(text)


@pytest.mark.parametrize("name", ["dots_and_boxes", "mancala"])
def test_players_who_move_twice_keep_the_contract_and_learn(name):
    game = open_spiel(name)
    position, twice = game.start(), 0
    rng = random.Random(5)
    while not position.is_terminal:
        before = position.to_play
        position.play(rng.choice(position.legal_actions))
        twice += not position.is_terminal and position.to_play == before
    assert twice > 0
    columns = self_play(game)
    assert RowRing(game, 4000).append(SimpleNamespace(**columns)) == len(columns["actions"])


def self_play(game):
    options = search_options(PuctConfig(simulations=8), symmetries=True)
    batch, evaluate, found = plain_game_batch(game, options, 4, 3), PseudoRandomEvaluator(game, 4), []
    while not found:
        leaves = Leaves(*batch.select(0))
        if len(leaves):
            answer = evaluate(leaves)
            batch.expand_and_backup(answer.logits, answer.values, 0)
        found = batch.take_finished()
    return found[0]


def test_margins_are_points_and_their_sign_is_the_outcome():
    game, seen = open_spiel("dots_and_boxes(utility_margin=True)"), set()
    for seed in range(20):
        rng, position, state = random.Random(seed), game.start(), pyspiel.load_game(
            "dots_and_boxes(utility_margin=True)").new_initial_state()
        while not position.is_terminal:
            action = rng.choice(position.legal_actions)
            position.play(action)
            state.apply_action(action)
        assert position.to_play == 0
        assert position.score == state.returns()[0]
        assert position.outcome == np.sign(position.score)
        seen.add(position.outcome)
    assert seen >= {-1, 1}
    assert np.isfinite(self_play(game)["score"])


def test_a_limit_on_the_plies_makes_a_draw():
    game = open_spiel("chess", max_plies=10)
    assert game.max_plies == 10
    columns = self_play(game)
    assert columns["ended_by"] == "ply_limit"
    assert columns["outcome"] == 0
    assert RowRing(game, 100).append(SimpleNamespace(**columns)) == 10
    assert random_games(game, 3, 1) <= 30
    with pytest.raises(UsageError, match=r"cursor_go: its games may take 72,922 plies.*game.max_plies=500"):
        open_spiel("cursor_go")
    assert open_spiel("cursor_go", max_plies=300).max_plies == 300


@pytest.mark.parametrize(("params", "words"), [
    ({}, "needs game.name=...: as pyspiel.load_game takes it: breakthrough"),
    ({"name": "breaktrough"}, "OpenSpiel has no such game; nearest: breakthrough"),
    ({"name": "hex(bord_size=5)"}, "hex has no parameter bord_size: it takes board_size"),
    ({"name": "tic_tac_toe(a=1)"}, "has no parameter a: it takes none"),
    ({"name": "hex(board_size=x)"}, "OpenSpiel refuses it: Wrong type"),
    ({"name": "hex(board_size="}, "OpenSpiel refuses it"),
    ({"name": "backgammon"}, "chance_mode is EXPLICIT_STOCHASTIC"),
    ({"name": "kuhn_poker"}, "information is IMPERFECT_INFORMATION"),
    ({"name": "dark_hex"}, "information is IMPERFECT_INFORMATION"),
    ({"name": "matrix_rps"}, "dynamics is SIMULTANEOUS"),
    ({"name": "catch"}, "num_players is 1"),
    ({"name": "chinese_checkers(players=3)"}, "num_players is 3"),
    ({"name": "coop_to_1p"}, "utility is GENERAL_SUM"),
    ({"name": "breakthrough", "planes": "3d"}, "planes=3d: must be auto or flat"),
    ({"name": "breakthrough", "max_plies": -1}, "max_plies=-1: must lie in"),
    ({"name": "breakthrough", "max_plies": "9"}, "must be of type int"),
    ({"name": f"hex(board_size=5){' ' * 200}"}, "at most 128"),
    ({"nam": "hex"}, "no parameter 'nam': it takes name, planes, max_plies, max_legal_actions; nearest: name"),
])
def test_what_cannot_be_played_is_refused_with_the_reason(params, words):
    with pytest.raises(UsageError, match=words) as error:
        Game("open_spiel", params)
    assert "\n" not in str(error.value)


def test_without_the_extra_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(UsageError, match=r"pip install 'shusaku\[open_spiel\]'"):
        open_spiel("breakthrough")


def test_a_good_many_games_can_be_played():
    names = playable_names()
    assert {"breakthrough", "chess", "go", "hex", "othello", "mancala"} <= set(names)
    assert not {"backgammon", "kuhn_poker", "catch", "hearts"} & set(names)


QUICK = ["amazons", "breakthrough", "clobber", "dots_and_boxes", "mancala", "nim", "oware", "ultimate_tic_tac_toe"]


@pytest.mark.parametrize("name", QUICK)
def test_open_spiel_games_keep_the_contract(name):
    params = {"name": name, "max_plies": 0 if name not in ("mancala", "oware") else 60}
    assert check_game(Game("open_spiel", params), 3, 1, load_game("open_spiel", params).rules).violations == {}


@pytest.mark.long
@pytest.mark.parametrize("name", playable_names())
def test_every_open_spiel_game_keeps_the_contract(name):
    params = {"name": name, "max_plies": 200}
    assert check_game(Game("open_spiel", params), 4, 1, load_game("open_spiel", params).rules).violations == {}


def test_the_wrapper_is_python_only():
    """What the adapter asks of it holds without the core, too."""
    rules = OpenSpielGame("connect_four")
    state = rules.start()
    after = rules.play(state, 3)
    assert str(state) != str(after)
    assert rules.legal_actions(after) == list(range(7))
    assert (rules.to_play(state), rules.to_play(after)) == (0, 1)
