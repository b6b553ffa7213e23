"""Proven results: against the slow reference visit for visit, and against exact answers, which every one must be."""


import numpy as np
import pytest
import reference_search as reference
from external_fixtures import Takeaway, python_game, solve
from search_fixtures import assert_proofs_are_true, late_positions, scripted, search_all, self_play_games

from shusaku.actors.arena.strength_sets import strength_set
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.config.search import PuctConfig, make_search
from shusaku.common.search import search_options, search_positions

# Name -> policy, its options, and the rule of the reference for a seed and a number of simulations.
RULES = {
    "puct": ("puct", {"c_puct": 1.7, "fpu_reduction": 0.3, "root_fpu_reduction": 0.1},
             lambda seed, n: reference.Puct(1.7, 0.3, 0.1, seed=seed)),
    "puct, all options": (
        "puct",
        {"c_puct": 1.7, "c_puct_log": 1.0, "c_puct_base": 100, "root_policy_temperature": 1.25, "noise": True,
         "dirichlet_total": 10.5, "forced_playouts": 2, "prune_policy": True},
        lambda seed, n: reference.Puct(1.7, 0.2, 0.0, 1.0, 100, 2, True, 1.25,
                                       (0.25, reference.shaped_alphas(10.5)), seed),
    ),
    "gumbel": ("gumbel", {"considered_actions": 5}, lambda seed, n: reference.Gumbel(seed, n, 5, 1.0, 0.1, 50, True)),
    "gumbel, all actions, not rescaled": (
        "gumbel", {"considered_actions": 16, "value_scale": 1.0, "rescale_values": False},
        lambda seed, n: reference.Gumbel(seed, n, 16, 1.0, 1.0, 50, False),
    ),
}


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello"])
@pytest.mark.parametrize("simulations", [2, 17, 60, 200])
@pytest.mark.parametrize("rules", RULES)
def test_it_grows_the_golden_tree(name, simulations, rules):
    game = Game(name)
    policy, options, rule_of = RULES[rules]
    positions = late_positions(game, 1 if name == "othello" else 8, seed=simulations)
    config = make_search(policy, **{"simulations": simulations, "noise": False, "temperature": 0, "cache": 0,
                             "proven_results": True, **options})
    proven = 0
    for seed, (position, result) in enumerate(
        zip(positions, search_all(game, positions, config, range(len(positions))), strict=True)
    ):
        rule = rule_of(seed, simulations)
        root = reference.search(position, lambda p: scripted(p.observation(), game.num_actions), simulations, rule,
                                proves=True)
        action, learned = rule.conclude(root)
        assert result.visits.tolist() == root.visits.tolist(), str(position)
        assert result.action == action
        np.testing.assert_allclose(result.policy, learned, atol=1e-6)
        ours = [None if np.isnan(value) else int(value) for value in (result.proven_value, *result.proven_values)]
        assert ours == [root.proof, *root.results()]
        value = rule.value if rules.startswith("gumbel") else root.total_value / root.total_visits
        assert result.value == pytest.approx(value, abs=1e-6)
        proven += root.proof is not None
    assert proven > 0 or name == "othello" or simulations < 60


@pytest.mark.parametrize("policy", ["puct", "gumbel", "mcts"])
@pytest.mark.parametrize(("name", "simulations", "least"), [("tic_tac_toe", 100, 0.4), ("connect_four", 400, 0.2)])
def test_every_proven_result_is_true(name, simulations, least, policy):
    """Positions of tic-tac-toe, and the committed ones of connect four, every action of which is solved."""
    known = strength_set(Game(name))
    if len(known) > 1000:
        known = known.subset(1000)
    config = make_search(policy, simulations=simulations, noise=False, temperature=0, proven_results=True)
    results = search_positions(known.game, known.positions, config, PseudoRandomEvaluator(known.game, 512))
    roots = assert_proofs_are_true(known.positions, results, known.results)
    for result, truth in zip(results, known.results, strict=True):
        values = truth[result.actions]
        if np.isnan(result.proven_value):
            assert result.visits.sum() == simulations
            assert not result.policy[result.proven_values == -1].any()
        else:
            assert (values[result.policy > 0] == values.max()).all()
        assert result.policy.sum() == pytest.approx(1, abs=1e-5)
        assert result.policy[result.actions.tolist().index(result.action)] > 0
    assert roots / len(results) > least


@pytest.mark.parametrize("policy", ["puct", "gumbel", "mcts"])
@pytest.mark.parametrize("pile", range(2, 16))
def test_they_are_true_where_a_player_may_move_twice(policy, pile):
    rules, game = Takeaway(pile), python_game(Takeaway, pile=pile)
    config = make_search(policy, simulations=600, noise=False, temperature=0, proven_results=True)
    result = search_positions(game, [game.start()], config, PseudoRandomEvaluator(game, 1))[0]
    assert result.proven_value == result.value == solve(rules, rules.start())
    assert result.visits.sum() < 600
    for action, proven in zip(result.actions, result.proven_values, strict=True):
        after = rules.play(rules.start(), int(action))
        same = rules.to_play(after) == rules.to_play(rules.start())
        assert np.isnan(proven) or proven == solve(rules, after) * (1 if same else -1)


def test_a_limit_on_the_plies_proves_nothing():
    game = Game("go", {"size": 3, "max_plies": 2})
    config = PuctConfig(simulations=500, noise=False, proven_results=True)
    result = search_positions(game, [game.start()], config, PseudoRandomEvaluator(game, 1))[0]
    assert np.isnan(result.proven_value)
    assert result.visits.sum() == 500


@pytest.mark.parametrize(("policy", "reuse"), [("puct", False), ("puct", True), ("gumbel", False)])
@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_games_go_on_across_a_snapshot(name, policy, reuse):
    """The proofs of open games lie in the nodes, and travel with them."""
    game = Game(name)
    config = make_search(policy, simulations=40, noise=False, reuse=reuse, proven_results=True, cache=0)
    options, evaluate = search_options(config, symmetries=False), PseudoRandomEvaluator(game, 6)
    whole = self_play_games(game, evaluate, options, 6, 50)
    assert self_play_games(game, evaluate, options, 6, 50, interrupt=3) == whole
