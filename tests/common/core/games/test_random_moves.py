"""Random moves are drawn in the core without listing the legal ones; they must be legal, and each as likely."""

import numpy as np
import pytest

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import RowKind

PLIES = 80  # so many that pieces are in hand and on their way to promotion


@pytest.mark.parametrize(("name", "params"), [
    ("connect_four", {}), ("othello", {"size": 6}), ("go", {"size": 5}), ("chess", {"max_plies": PLIES + 2}),
    ("shogi", {"max_plies": PLIES + 2}), ("minishogi", {"max_plies": PLIES + 2}),
])
def test_random_plies_are_legal_and_each_as_likely(name, params):
    """u = (place of the move among the legal ones + a random number) / their number is even in [0, 1)."""
    game, random, drawn, drops = Game(name, params), np.random.default_rng(3), [], []
    player = SelfPlay(game, PuctConfig(simulations=2), SelfPlayConfig(random_plies=PLIES),
                      PseudoRandomEvaluator(game, 32), games=32, seed=7, identity=ActorIdentity(0))
    while len(drawn) < 6000:
        for record in player.step():
            position = game.start()
            for action, kind in zip(record.actions.tolist(), record.kind, strict=True):
                if kind != RowKind.OPENING:
                    break
                legal = position.legal_actions
                drawn.append((legal.index(action) + random.random()) / len(legal))  # ValueError: it is not legal
                if name.endswith("shogi"):
                    are_drops = ["*" in position.to_move(move) for move in legal]
                    drops.append(are_drops[legal.index(action)] - np.mean(are_drops))
                position.play(action)
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    expected = len(drawn) / 20
    assert np.sum((counts - expected) ** 2 / expected) < 50.8, counts  # chi squared, 19 degrees: p = 0.0001
    if drops:
        assert abs(np.sum(drops)) < 4 * np.sqrt(np.sum(np.square(drops)))
        assert np.count_nonzero(drops) > 500, "drops were possible"
