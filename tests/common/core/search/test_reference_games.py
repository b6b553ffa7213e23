"""Whole games of self-play against the slow reference: tree reuse, cheap searches, and the columns of the record."""

import numpy as np
import pytest
from external_fixtures import Takeaway, python_game
from reference_self_play import Calls, play_game
from scripted_evaluator import ScriptedEvaluator
from search_fixtures import batch_games, scripted

from shusaku.common._core import Game
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.search import search_options

SEED = 5
PER_VERSION = 7  # evaluations after which the weights change: in the middle of a search

# Name -> what is set besides FPUs that differ at the root.
SEARCHES = {
    "plain": {"noise": False},
    "as the tutorial": {"noise": False, "fpu": "zero", "target_temperature": -1.0},
    "unvisited as lost": {"dirichlet_alpha": 0.4, "fpu": "loss", "reuse": True},
    "kept": {"noise": False, "reuse": True},
    "kept, with noise": {"reuse": True, "dirichlet_alpha": 0.4, "dirichlet_fraction": 0.4},
    "kept, all options": {"reuse": True, "dirichlet_alpha": 0.4, "root_policy_temperature": 1.3, "forced_playouts": 2,
                          "prune_policy": True},
}


def games():
    return {"tic_tac_toe": Game("tic_tac_toe"), "connect_four": Game("connect_four"),
            "moves twice": python_game(Takeaway, pile=20)}


class ChangingEvaluator(ScriptedEvaluator):
    """Of one position a call; its version is the number of calls before, divided."""

    calls = 0

    def __call__(self, leaves):
        answer = super().__call__(leaves)
        self.calls += 1
        self.version = self.calls // PER_VERSION
        return answer


@pytest.mark.parametrize("name", games())
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("cheap_share", [0.0, 0.5])
def test_every_ply_is_that_of_the_reference(name, search, cheap_share):
    """Move by move: with the kept tree, the version of the weights, and each cheap search without exploration."""
    game = games()[name]
    config = PuctConfig(**{"simulations": 25, "cache": 0, "fpu_reduction": 0.5, "root_fpu_reduction": 0.0,
                           "temperature_plies": 6, **SEARCHES[search]})
    self_play = SelfPlayConfig(cheap_share=cheap_share, cheap_simulations=9)
    evaluate = ChangingEvaluator(game, lambda planes: scripted(planes, game.num_actions))
    columns, _ = batch_games(game, search_options(config, symmetries=False), self_play, evaluate, 3, 0, 1, SEED)
    calls = Calls(lambda position: scripted(position.observation(), game.num_actions), PER_VERSION)
    seen = set()
    for number, found in enumerate(columns, 1):
        plies = play_game(game, config, self_play, calls, SEED, number)
        assert found["actions"].tolist() == [ply.action for ply in plies]
        assert found["kind"].tolist() == [ply.kind for ply in plies]
        assert found["versions"].tolist() == [ply.version for ply in plies]
        np.testing.assert_allclose(found["root_values"], [ply.root_value for ply in plies], atol=1e-6)
        np.testing.assert_array_equal(found["raw_values"], np.float32([ply.raw_value for ply in plies]))
        np.testing.assert_allclose(found["surprise"], [ply.surprise for ply in plies], atol=1e-5)
        for t, ply in enumerate(plies):
            entries = slice(found["policy_offsets"][t], found["policy_offsets"][t + 1])
            assert found["policy_actions"][entries].tolist() == list(ply.policy)
            shares = found["policy_shares"][entries] / 65_535
            np.testing.assert_allclose(shares, list(ply.policy.values()), atol=20 / 65_535)
        seen |= {(ply.kind, ply.was_kept) for ply in plies}
        assert len({ply.version for ply in plies}) > 3
    assert len(seen) == (2 if cheap_share else 1) * (2 if config.reuse else 1)


@pytest.mark.parametrize("name", games())
def test_kept_visits_are_no_simulations(name):
    """Each search makes all of its simulations on top of what it kept, as AlphaGo Zero's 1,600 a move."""
    game = games()[name]
    config = PuctConfig(simulations=30, noise=False, reuse=True, cache=0)
    evaluate = ScriptedEvaluator(game, lambda planes: scripted(planes, game.num_actions))
    columns, counters = batch_games(game, search_options(config, symmetries=False), SelfPlayConfig(), evaluate, 2, 0, 1,
                                    SEED)
    calls = Calls(lambda position: scripted(position.observation(), game.num_actions), 1)
    plies = [ply for number in (1, 2) for ply in play_game(game, config, SelfPlayConfig(), calls, SEED, number)]
    assert [a for found in columns for a in found["actions"].tolist()] == [ply.action for ply in plies]
    # A simulation is counted for every new visit, and for the evaluation of a root that was not kept.
    made = sum(30 + (not ply.was_kept) for ply in plies)
    assert made <= counters["simulations"] <= made + 31
    assert max(ply.visits for ply in plies) > 40
