"""Which move is played: by the lower confidence bound, and by the network alone."""


import numpy as np
import pytest
import reference_search as reference
from external_fixtures import python_game
from scripted_evaluator import ScriptedEvaluator
from search_fixtures import random_positions, scripted, search_all

from shusaku.common._core import Game
from shusaku.common.config.search import PolicyOnlyConfig, PuctConfig
from shusaku.common.search import search_positions


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


# KataGo's settings (cpp/configs/gtp_example.cfg: lcbStdevs, minVisitPropForLCB) are the defaults.
STDEVS, LEAST_SHARE = 5.0, 0.15
# Of the scripts below: in these another number of standard errors plays another move.
DECISIVE = {4.5: (33, 34, 43, 44), 5.5: (18, 28, 78, 96)}


def test_the_default_bound_lies_five_standard_errors_below_the_mean():
    game = Game("connect_four")
    config = PuctConfig(simulations=100, noise=False, temperature=0, cache=0, move_choice="lcb")
    for stdevs, scripts in DECISIVE.items():
        for script in scripts:
            def says(planes, script=script):
                random = np.random.default_rng([script, *np.packbits(planes > 0)])
                return random.normal(size=7).astype(np.float32), float(np.float32(random.uniform(-0.3, 0.3)))

            result = search_with(game, ScriptedEvaluator(game, says), config)
            root = reference.search(game.start(), lambda p, says=says: says(p.observation()), 100,
                                    reference.Puct(1.5, 0.2, 0.0))
            assert result.visits.tolist() == root.visits.tolist()
            visited = [k for k in range(7) if root.visits[k] >= max(3, LEAST_SHARE * root.visits.max())]
            values = {k: [-value for value in root.children[k].values] for k in visited}
            played, other = (max(visited, key=lambda k, z=z: lower_bound(values[k], z)) for z in (STDEVS, stdevs))
            assert result.action == played != other


class FirstMove:
    """All that counts is the first move, and the evaluation can see it."""

    num_actions, max_plies, observation_shape = 2, 12, (14, 1, 1)

    def start(self):
        return ()

    def to_play(self, state):
        return len(state) % 2

    def is_terminal(self, state):
        return len(state) == 12

    def outcome(self, state):
        return 0

    def legal_actions(self, state):
        return [] if self.is_terminal(state) else [0, 1]

    def play(self, state, action):
        return (*state, action)

    def observation(self, state):
        planes = np.zeros((14, 1, 1), np.uint8)
        planes[len(state)] = 1
        planes[12:, 0, 0] = [state[:1] == (a,) for a in (0, 1)]
        return planes


def test_an_action_needs_a_share_of_0_15_of_the_visits_by_default():
    """The better move, of which the search is sure, is played if it has so many visits, and no sooner."""
    game = python_game(FirstMove)
    config = PuctConfig(simulations=1500, noise=False, temperature=0, cache=0, move_choice="lcb", c_puct=3.0)
    shares = {True: [], False: []}
    for logit in np.arange(1.6, 2.2, 0.02):
        def says(planes, logit=logit):
            ply, value = int(planes[:12, 0, 0].argmax()), 0.02 * planes[13, 0, 0]
            logits = np.float32([logit if ply == 0 else 0, 0])
            return logits, float(value if ply % 2 == 0 else -value)

        result = search_with(game, ScriptedEvaluator(game, says), config)
        assert result.q_values[1] > result.q_values[0] + 0.015
        shares[result.action == 1].append(result.visits[1] / result.visits[0])
    assert 0.13 < max(shares[False]) < LEAST_SHARE <= min(shares[True]) < 0.17


def search_with(game, evaluate, config):
    return search_positions(game, [game.start()], config, evaluate)[0]


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
