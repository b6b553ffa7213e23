"""How the temperature of the played move falls: move by move what the reference draws, and as often as it should be."""


import numpy as np
import pytest
import reference_search as reference

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.config.search import make_search
from shusaku.common.search import search_positions

SEARCHES = 1000

# Name -> temperature, half-life, final temperature and cut-off.
SCHEDULES = {
    "constant": (0.8, 0.0, 0.0, 1000),
    "cut off": (1.0, 0.0, 0.0, 4),
    "cut to the final one": (1.0, 0.0, 0.3, 4),
    "KataGo on 9 x 9": (0.75, 9.0, 0.15, 1000),
    "falls to nothing": (1.0, 2.0, 0.0, 1000),
    "rises": (0.2, 5.0, 1.0, 1000),
    "falls, then is cut off": (1.2, 6.0, 0.5, 9),
}


def after(game, plies):
    position = game.start()
    for ply in range(plies):
        position.play(position.legal_actions[ply % 3 + ply % 2])
    assert not position.is_terminal
    assert position.ply == plies
    return position


@pytest.mark.parametrize("policy", ["puct", "mcts", "policy_only"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_moves_are_drawn_by_the_temperature_of_their_ply(policy, schedule):
    game = Game("connect_four")
    temperature, half_life, final, plies = SCHEDULES[schedule]
    config = make_search(policy, simulations=24, noise=False, temperature=temperature,
                          temperature_half_life=half_life, temperature_final=final, temperature_plies=plies)
    for ply in (0, 3, 4, 8, 12):
        results = search_positions(game, [after(game, ply)] * SEARCHES, config, PseudoRandomEvaluator(game, SEARCHES),
                                   batch=SEARCHES)
        expected_temperature = reference.move_temperature(ply, temperature, half_life, final, plies)
        expected, played = np.zeros(len(results[0].actions)), np.zeros(len(results[0].actions))
        for seed, result in enumerate(results):
            weights = result.prior if policy == "policy_only" else result.visits
            probabilities = reference.move_probabilities(weights, result.prior, expected_temperature)
            choice = result.actions.tolist().index(result.action)
            assert choice == reference.drawn(probabilities, seed), f"ply {ply}, seed {seed}"
            expected += probabilities
            played[choice] += 1
        share = expected / SEARCHES
        assert (np.abs(played / SEARCHES - share) <= 5 * np.sqrt(share * (1 - share) / SEARCHES)).all(), f"ply {ply}"


def test_the_half_life_halves_what_is_left():
    early, late = 0.75, 0.15
    fallen = [reference.move_temperature(ply, early, 9, late, 1000) - late for ply in range(0, 90, 9)]
    np.testing.assert_allclose(np.array(fallen[1:]) / fallen[:-1], 0.5, rtol=1e-4)
