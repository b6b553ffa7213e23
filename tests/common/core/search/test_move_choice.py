"""Which move is played: by the lower confidence bound, and by the network alone."""


import numpy as np
import pytest
import reference_search as reference
from search_fixtures import random_positions, scripted, search_all

from shusaku.common._core import Game
from shusaku.common.config.search import PolicyOnlyConfig, PuctConfig


def lower_bound(values, stdevs):
    """KataGo's: mean less the standard error times Student's quantile (approximated after Gaver and Kafadar 1984)."""
    n, values = len(values), np.array(values, float)
    quantile = np.sqrt(n * (np.exp(stdevs**2 * (n - 1.5) / (n - 1) ** 2) - 1))
    return values.mean() - quantile * np.sqrt(max(1e-8, values.var()) / n)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
@pytest.mark.parametrize("proves", [False, True])
def test_the_move_with_the_highest_lower_bound_is_played(name, proves):
    game = Game(name)
    positions = random_positions(game, 25, seed=2)
    config = PuctConfig(simulations=120, noise=False, temperature=0, cache=0, move_choice="lcb",
                          lcb_stdevs=0.3, lcb_least_share=0.1, fpu_reduction=0.2, proven_results=proves)
    differ = 0
    for position, result in zip(positions, search_all(game, positions, config, range(25)), strict=True):
        rule = reference.Puct(1.5, 0.2, 0.0)
        root = reference.search(position, lambda p: scripted(p.observation(), game.num_actions), 120, rule, proves)
        most_visited, policy = rule.conclude(root)
        bounds = {
            k: lower_bound([-value for value in root.children[k].values], 0.3)
            for k in np.flatnonzero(policy) if root.visits[k] >= max(3, 0.1 * root.visits.max())
        }
        expected = root.actions[max(bounds, key=lambda k: bounds[k])] if bounds else most_visited
        assert result.action == expected, str(position)
        np.testing.assert_allclose(result.policy, policy, atol=1e-6)  # the target stays what it is
        differ += expected != most_visited
    assert differ > 0


def test_a_temperature_goes_before_the_bound():
    game = Game("connect_four")
    config = PuctConfig(simulations=30, noise=False, temperature=1.0, move_choice="lcb")
    results = search_all(game, [game.start()] * 200, config, range(200))
    assert len({result.action for result in results}) > 3


def test_the_policy_alone_is_played_with_one_evaluation():
    game = Game("connect_four")
    positions = random_positions(game, 20, seed=6)
    cold = PolicyOnlyConfig(temperature=0, simulations=64)
    for position, result in zip(positions, search_all(game, positions, cold, range(20)), strict=True):
        logits, value = scripted(position.observation(), game.num_actions)
        prior = reference.half(reference.softmax(reference.half(logits[position.legal_actions])))
        np.testing.assert_array_equal(result.prior, prior)
        np.testing.assert_allclose(result.policy, prior / prior.sum(), atol=1e-6)
        assert result.action == position.legal_actions[int(prior.argmax())]
        assert result.value == result.raw_value == reference.half(value)
        assert not result.visits.any()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_policy_alone_is_drawn_by_temperature(temperature):
    game = Game("connect_four")
    config = PolicyOnlyConfig(temperature=temperature)
    results = search_all(game, [game.start()] * 3000, config, range(3000))
    weights = results[0].prior ** (1 / temperature)
    share = np.bincount([result.action for result in results], minlength=7) / 3000
    np.testing.assert_allclose(share, weights / weights.sum(), atol=0.04)
