"""One thread with one leaf visits what SearchBatch visits: two implementations, one with eight edges a block."""

import numpy as np
import pytest
from external_fixtures import Takeaway, python_game
from search_fixtures import late_positions, random_positions

from shusaku.actors.analysis.analysis import Analysis, Limits
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator, UniformEvaluator
from shusaku.common._core import Game
from shusaku.common.config.search import PuctConfig, without_exploration
from shusaku.common.search import search_positions

GAMES = [("tic_tac_toe", {}), ("connect_four", {}), ("othello", {"size": 6}), ("hex", {"size": 5}),
         ("go", {"size": 5}), ("go", {"size": 19}), ("chess", {}), ("minishogi", {})]
SEARCHES = {
    "plain": {},
    "proofs and bounds": {"proven_results": True, "move_choice": "lcb", "cache": 0},
    "all constants": {"c_puct": 0.8, "c_puct_log": 1.0, "c_puct_base": 50.0, "fpu_reduction": 0.4,
                      "root_fpu_reduction": 0.1},
    "unvisited: 0": {"fpu": "zero", "fpu_reduction": 0.4},
    "unvisited: a loss": {"fpu": "loss", "root_fpu_reduction": 0.4},
    "no prior": {"c_puct": 0.0, "proven_results": True},
}


class CoarseEvaluator(PseudoRandomEvaluator):
    """Values of 1/64 each, which floats and doubles add up to the same sums."""

    def _fill(self, leaves, logits, values):
        super()._fill(leaves, logits, values)
        np.round(values * 64, out=values)
        values /= 64


def assert_same(game, positions, config, evaluate, simulations):
    config = without_exploration(config)
    config.simulations = simulations
    expected = search_positions(game, positions, config, evaluate)
    analysis = Analysis(game, [evaluate], config, leaves=1)
    for position, result in zip(positions, expected, strict=True):
        analysis.set_position(position)
        analysis.start(Limits(simulations=simulations, to_the_end=True))
        analysis.wait()
        report = analysis.report()
        moves = {move.action: move for move in report.moves}
        assert sorted(moves) == result.actions.tolist()
        assert [moves[action].visits for action in result.actions] == result.visits.tolist(), str(position)
        assert report.moves[0].action == result.action
        np.testing.assert_allclose([moves[a].prior for a in result.actions], result.prior, atol=1e-6)
        visited = result.visits > 0
        np.testing.assert_allclose([moves[a].value for a in result.actions[visited]], result.q_values[visited],
                                   atol=1e-6)
        assert report.value == pytest.approx(result.value, abs=1e-6)
        assert report.ended == ("simulations" if np.isnan(result.proven_value) else "proven")


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("name", "params"), GAMES)
def test_the_visits_are_those_of_the_search_in_batches(name, params, search):
    game = Game(name, params)
    simulations = 60 if params.get("size") == 19 else 250
    positions = [game.start(), *random_positions(game, 2, seed=5), *late_positions(game, 2, seed=6)]
    assert_same(game, positions, PuctConfig(**SEARCHES[search]), CoarseEvaluator(game, 16), simulations)


@pytest.mark.parametrize("proves", [True, False])
@pytest.mark.parametrize(("name", "params", "empties"), [
    ("tic_tac_toe", {}, 6), ("connect_four", {}, 14), ("othello", {"size": 6}, 10), ("hex", {"size": 5}, 9)])
def test_solved_endings(name, params, empties, proves):
    game = Game(name, params)
    positions = [*random_positions(game, 3, seed=7), *late_positions(game, 3, seed=8)]
    config = PuctConfig(solved_empties=empties, proven_results=proves)
    assert_same(game, positions, config, CoarseEvaluator(game, 16), 250)


def test_equal_priors():
    """Ties go to the first action, and as many edges as there are become visited."""
    game = Game("go", {"size": 7})
    assert_same(game, [game.start(), *random_positions(game, 2, seed=1)], PuctConfig(), UniformEvaluator(game, 16), 400)


def test_players_who_move_twice():
    game = python_game(Takeaway)
    positions = late_positions(game, 6, seed=2)
    for settings in ({}, {"proven_results": True}):
        assert_same(game, positions, PuctConfig(**settings), CoarseEvaluator(game, 16), 60)


def test_symmetric_evaluations():
    game = Game("connect_four")
    for settings in ({"symmetric_cache": True}, {"average_symmetries": True}):
        assert_same(game, random_positions(game, 3, seed=3), PuctConfig(**settings), CoarseEvaluator(game, 32), 200)


def test_proofs_are_true_with_threads():
    """Two threads of several leaves prove nothing that is false."""
    game = Game("tic_tac_toe")
    analysis = Analysis(game, [CoarseEvaluator(game, 4) for _ in range(2)], PuctConfig(proven_results=True), leaves=4)
    proven = 0
    for position in late_positions(game, 20, seed=4):
        analysis.set_position(position)
        analysis.start(Limits(simulations=4000, to_the_end=True))
        analysis.wait()
        report = analysis.report()
        if report.ended != "proven":
            continue
        proven += 1
        after = position.copy()
        after.play(report.moves[0].action)
        assert round(report.value) == minimax(position) == -minimax(after)
    assert proven > 10


def minimax(position):
    """Exact, for the player to move."""
    if position.is_terminal:
        return position.outcome
    values = []
    for action in position.legal_actions:
        after = position.copy()
        after.play(action)
        values.append(-minimax(after))
    return max(values)
