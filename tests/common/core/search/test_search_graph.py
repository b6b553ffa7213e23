"""search.graph: positions with the same future are one node, against the slow reference that shares nodes by key."""


import numpy as np
import pytest
import reference_search as reference
from external_fixtures import Takeaway, python_game, solve
from reference_graph import graph_search
from search_fixtures import (
    assert_proofs_are_true,
    late_positions,
    plain_game_batch,
    random_positions,
    scripted,
    search_all,
    self_play_games,
)

from shusaku.actors.arena.strength_sets import strength_set
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, SearchBatch
from shusaku.common.config.search import PuctConfig
from shusaku.common.search import search_options, search_positions, step


def graph_config(simulations, **changes):
    return PuctConfig(**{"simulations": simulations, "noise": False, "temperature": 0, "cache": 0,
                           "graph": True, "c_puct": 1.7, "fpu_reduction": 0.3, "root_fpu_reduction": 0.1, **changes})


@pytest.mark.parametrize("proves", [False, True])
@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello"])
@pytest.mark.parametrize("simulations", [1, 2, 17, 200, 500])
def test_it_grows_the_golden_graph(name, simulations, proves):
    game = Game(name)
    count = 2 if name == "othello" else 6
    positions = random_positions(game, count, seed=simulations) + late_positions(game, count, seed=simulations)
    config = graph_config(simulations, proven_results=proves)
    rule = reference.Puct(1.7, 0.3, 0.1)
    shared = 0
    for position, result in zip(positions, search_all(game, positions, config, range(len(positions))), strict=True):
        root, nodes = graph_search(position, lambda p: scripted(p.observation(), game.num_actions), simulations, rule,
                                   proves=proves)
        action, policy = rule.conclude(root)
        assert result.visits.tolist() == root.visits.tolist(), str(position)
        assert result.action == action
        np.testing.assert_allclose(result.policy, policy, atol=1e-6)
        assert result.value == pytest.approx(root.total_value / root.total_visits, abs=1e-6)
        ours = [None if np.isnan(value) else int(value) for value in (result.proven_value, *result.proven_values)]
        assert ours == [root.proof, *root.results()]
        shared += sum(len(node.children) for node in [root, *nodes]) - len(nodes)
    assert shared > 0 or simulations < 200


@pytest.mark.parametrize("fpu", ["zero", "loss"])
def test_unvisited_actions_have_the_value_that_is_asked_for(fpu):
    game = Game("connect_four")
    positions = random_positions(game, 6, seed=9)
    found = search_all(game, positions, graph_config(200, fpu=fpu), range(len(positions)))
    for position, result in zip(positions, found, strict=True):
        root, _ = graph_search(position, lambda p: scripted(p.observation(), 7), 200,
                               reference.Puct(1.7, 0.3, 0.1, fpu=fpu))
        assert result.visits.tolist() == root.visits.tolist(), str(position)


def test_every_value_is_the_sum_over_the_edges():
    """The reference's own invariant, by the formula: Q = (U + sum N(a) Q(a)) / (1 + sum N(a)) along the last walk."""
    game = Game("tic_tac_toe")
    root, nodes = graph_search(game.start(), lambda p: scripted(p.observation(), 9), 400, reference.Puct(1.7, 0.3, 0.1))
    for node in [root, *nodes]:
        if node.prior is not None:
            assert node.total_visits == 1 + node.visits.sum()
    worth = root.raw_value + sum(-n * root.children[k].total_value / root.children[k].total_visits
                                 for k, n in enumerate(root.visits) if n)
    assert root.total_value == pytest.approx(worth, abs=1e-3)


def evaluations(graph, cache=0):
    game = Game("tic_tac_toe")
    evaluate = PseudoRandomEvaluator(game, 1)
    batch = SearchBatch(game, search_options(graph_config(12_000, graph=graph, cache=cache), symmetries=False), 1, 0)
    batch.begin(0, game.start(), 0)
    while not batch.is_done():
        step(batch, evaluate)
    assert batch.result(0).visits.sum() == 12_000
    return batch.counters()["evaluations"]


def test_transpositions_are_evaluated_once():
    """Without a cache; tic-tac-toe has 5,478 positions, 4,520 of which are not over."""
    assert evaluations(graph=True) < 0.8 * evaluations(graph=False)
    assert evaluations(graph=True) == evaluations(graph=True, cache=1 << 14)  # nothing is left for a cache to know


def test_every_proven_result_is_true():
    known = strength_set(Game("tic_tac_toe"))
    config = graph_config(150, proven_results=True)
    results = search_positions(known.game, known.positions, config, PseudoRandomEvaluator(known.game, 512))
    assert assert_proofs_are_true(known.positions, results, known.results) / len(results) > 0.4


class KeyedTakeaway(Takeaway):
    def transposition_key(self, state):
        return hash((state.left, state.player, state.again))


@pytest.mark.parametrize("pile", range(2, 16))
def test_they_are_true_where_a_player_may_move_twice(pile):
    rules, game = KeyedTakeaway(pile), python_game(KeyedTakeaway, pile=pile)
    config = graph_config(600, proven_results=True)
    result = search_positions(game, [game.start()], config, PseudoRandomEvaluator(game, 1))[0]
    assert result.proven_value == result.value == solve(rules, rules.start())
    config = graph_config(2000)
    result = search_positions(game, [game.start()], config, PseudoRandomEvaluator(game, 1))[0]
    assert result.visits.sum() == 2000


@pytest.mark.parametrize("proves", [False, True])
@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_games_go_on_across_a_snapshot(name, proves):
    """Which nodes are shared travels with the open games."""
    game = Game(name)
    options = search_options(graph_config(60, proven_results=proves), symmetries=False)
    evaluate = PseudoRandomEvaluator(game, 6)
    whole = self_play_games(game, evaluate, options, 6, 50)
    assert self_play_games(game, evaluate, options, 6, 50, interrupt=3) == whole


def test_lower_bounds_are_those_of_the_shared_nodes():
    """The variance of a child comes from all its visits, of which an edge may have fewer."""
    game = Game("connect_four")
    results = search_all(game, [game.start()] * 2, graph_config(800, move_choice="lcb"), range(2))
    assert results[0].action in results[0].actions[np.argsort(results[0].visits)[-3:]]


def test_games_without_a_key_and_other_policies_are_refused():
    options = search_options(graph_config(10), symmetries=False)
    with pytest.raises(ValueError, match="no transposition_key"):
        SearchBatch(python_game(Takeaway), options, 1, 1)
    with pytest.raises(ValueError, match="no transposition_key"):
        plain_game_batch(python_game(Takeaway), options, 1, 1)
    options.policy = "gumbel"
    with pytest.raises(ValueError, match="gumbel grows a tree"):
        SearchBatch(Game("tic_tac_toe"), options, 1, 1)
    assert SearchBatch(python_game(KeyedTakeaway), search_options(graph_config(10), symmetries=False), 1, 1)
