"""Plain UCT with random rollouts, against a slow reference that makes the same rollouts."""

import numpy as np
import pytest
import reference_search as reference
from external_fixtures import Takeaway, python_game
from reference_search import F, Random, combine
from search_fixtures import random_positions, search_all

from shusaku.common._core import Game
from shusaku.common.config.search import MctsConfig

LANES = 8  # the core draws its random numbers for so many actions at a time


def games():
    return {"tic_tac_toe": (Game("tic_tac_toe"), 9), "connect_four": (Game("connect_four"), 7),
            "moves twice": (python_game(Takeaway, pile=20), 3)}


class Rollouts:
    """The evaluation of a position: random numbers that order its actions, and how a random game from there ends."""

    def __init__(self, game, seed, max_legal):
        self.game, self.seed, self.root = game, seed, None
        self.draws = -(-max_legal // LANES) * LANES

    def __call__(self, position):
        random = Random(combine(self.seed, 1000 + (self.root.total_visits if self.root else 0)))
        order = [random.uniform() for _ in range(self.draws)]
        logits = np.zeros(self.game.num_actions, F)
        logits[position.legal_actions] = order[: len(position.legal_actions)]
        end = position.copy()
        while not end.is_terminal:
            actions = end.legal_actions
            end.play(actions[random.next() * len(actions) >> 64])
        return logits, end.outcome if end.to_play == position.to_play else -end.outcome


class Uct:
    keep_logits = True

    def __init__(self, c_uct, rollouts):
        self.c_uct, self.rollouts = F(c_uct), rollouts

    def begin(self, root):
        self.rollouts.root = root

    def select(self, node, is_root):
        n = np.maximum(node.visits, 1).astype(F)
        log_visits = np.log(F(max(1, node.total_visits - 1)))
        scores = node.value_sum / n + self.c_uct * np.sqrt(log_visits / n)
        return int(np.argmax(np.where(node.visits < 1, F(1e6) + node.prior * F(1e3), scores)))


@pytest.mark.parametrize("name", games())
@pytest.mark.parametrize("simulations", [1, 5, 150])
@pytest.mark.parametrize("c_uct", [0.4, 1.4])
def test_uct_grows_the_golden_tree(name, simulations, c_uct):
    game, max_legal = games()[name]
    positions = random_positions(game, 12, seed=simulations) if name != "moves twice" else [game.start()] * 12
    config = MctsConfig(simulations=simulations, c_uct=c_uct, temperature=0)
    for seed, (position, result) in enumerate(
        zip(positions, search_all(game, positions, config, range(len(positions))), strict=True)
    ):
        rollouts = Rollouts(game, seed, max_legal)
        root = reference.search(position, rollouts, simulations, Uct(c_uct, rollouts))
        assert result.visits.tolist() == root.visits.tolist(), str(position)
        assert result.value == pytest.approx(root.total_value / root.total_visits, abs=1e-6)
        np.testing.assert_allclose(result.policy, root.visits / root.visits.sum(), atol=1e-6)
        assert result.action == root.actions[int(np.argmax(root.visits))]
