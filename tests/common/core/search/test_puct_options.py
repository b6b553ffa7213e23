"""What puct can do besides AlphaZero's rule: each option against the slow reference, and what it is there for."""


import numpy as np
import pytest
import reference_search as reference
from search_fixtures import random_positions, scripted, search_all

from shusaku.common._core import Game
from shusaku.common.config.search import PuctConfig

# Name -> the options of the core, and the same for the reference.
OPTIONS = {
    "log growth": ({"c_puct_log": 0.45, "c_puct_base": 50}, {"c_log": 0.45, "c_base": 50}),
    "temperature": ({"root_policy_temperature": 1.7}, {"temperature": 1.7}),
    "noise": ({"noise": True, "dirichlet_alpha": 0.4, "dirichlet_fraction": 0.3},
              {"noise": (0.3, lambda prior: [float(np.float32(0.4))] * len(prior))}),
    "shaped noise": ({"noise": True, "dirichlet_total": 10.5}, {"noise": (0.25, reference.shaped_alphas(10.5))}),
    "forced playouts": ({"forced_playouts": 2}, {"forced": 2}),
    "pruned policy": ({"prune_policy": True}, {"prunes": True}),
    "unvisited: 0": ({"fpu": "zero"}, {"fpu": "zero"}),
    "unvisited: a loss": ({"fpu": "loss"}, {"fpu": "loss"}),
    "sharper target": ({"target_temperature": 0.5}, {"target_temperature": 0.5}),
    "flatter target, pruned": ({"target_temperature": 1.5, "prune_policy": True},
                               {"target_temperature": 1.5, "prunes": True}),
    "target of one move": ({"target_temperature": 0}, {"target_temperature": 0}),
    "target of the move's temperature": ({"target_temperature": -1}, {"target_temperature": 0}),
    "all": ({"c_puct_log": 1.0, "c_puct_base": 100, "root_policy_temperature": 1.25, "noise": True,
             "dirichlet_total": 10.5, "forced_playouts": 2, "prune_policy": True},
            {"c_log": 1.0, "c_base": 100, "temperature": 1.25, "noise": (0.25, reference.shaped_alphas(10.5)),
             "forced": 2, "prunes": True}),
}


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello"])
@pytest.mark.parametrize("simulations", [1, 2, 17, 200])
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_grows_the_golden_tree(name, simulations, option):
    game = Game(name)
    ours, theirs = OPTIONS[option]
    positions = random_positions(game, 1 if name == "othello" else 5, seed=simulations)
    config = PuctConfig(**{"simulations": simulations, "noise": False, "temperature": 0, "cache": 0,
                             "c_puct": 1.7, "fpu_reduction": 0.3, "root_fpu_reduction": 0.1, **ours})
    for seed, (position, result) in enumerate(
        zip(positions, search_all(game, positions, config, range(len(positions))), strict=True)
    ):
        rule = reference.Puct(1.7, 0.3, 0.1, seed=seed, **theirs)
        root = reference.search(position, lambda p: scripted(p.observation(), game.num_actions), simulations, rule)
        action, policy = rule.conclude(root)
        assert result.visits.tolist() == root.visits.tolist(), str(position)
        assert result.action == action
        np.testing.assert_allclose(result.policy, policy, atol=1e-6)
        np.testing.assert_array_equal(result.prior, rule.raw_prior)  # as the network said it


def test_noise_too_small_for_a_number_changes_nothing():
    """Of a forced move a Dirichlet sample is its gamma sample divided by itself, which is 0 for a small alpha."""
    game = Game("tic_tac_toe")
    position = game.start()
    for move in (0, 1, 2, 4, 3, 5, 7, 6):
        position.play(move)
    (only,) = position.legal_actions
    config = PuctConfig(simulations=4, noise=True, dirichlet_alpha=0.001, cache=0)
    for result in search_all(game, [position] * 20, config, range(20)):
        assert (result.action, result.visits.tolist()) == (only, [4])
        assert result.prior.tolist() == [1]


def test_the_root_temperature_falls_with_its_half_life():
    game = Game("connect_four")
    position = game.start()
    for expected in (2.0, 1.75, 1.625, 1.5625):  # 1.5 + 0.5 * 0.5^(ply / 2) at plies 0, 2, 4, 6
        config = PuctConfig(simulations=200, noise=False, temperature=0, root_policy_temperature=1.5,
                              root_policy_temperature_early=2.0, root_policy_temperature_half_life=2.0)
        constant = PuctConfig(simulations=200, noise=False, temperature=0,
                                root_policy_temperature=expected)
        falling, fixed = (search_all(game, [position], c, [0])[0].visits.tolist() for c in (config, constant))
        assert falling == fixed
        for _ in range(2):
            position.play(position.legal_actions[position.ply % 3])


def test_forced_playouts_reach_their_number_and_pruning_takes_most_of_them_back():
    game = Game("connect_four")
    positions = random_positions(game, 30, seed=4)
    shares = {}
    for forced in (0, 2):
        config = PuctConfig(simulations=400, noise=False, forced_playouts=forced,
                              prune_policy=forced > 0)
        results = search_all(game, positions, config, range(30))
        shares[forced] = [result.policy.max() for result in results]
        for result in results:
            visited = result.visits > 0
            least = np.sqrt(forced * result.prior * result.visits.sum())
            assert (result.visits[visited] >= np.floor(least[visited])).all()
            assert result.policy.argmax() == result.visits.argmax()
    assert np.mean(shares[2]) > np.mean(shares[0]) - 0.03
