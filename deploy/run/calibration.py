"""Scales of 8 bits for weights that were published without: from positions of a few games that they play."""

from dataclasses import replace
from typing import Any

import numpy as np

from shusaku.actors.evaluators.evaluator import Evaluator
from shusaku.actors.evaluators.factory import choose_runtime, make_evaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig, NetworkConfig, SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.errors import RunError
from shusaku.common.hardware import cpu_has_int8
from shusaku.common.messages import Evaluation, Leaves, Weights
from shusaku.common.network.weights import tower_shape

GAMES, PLIES, SIMULATIONS = 16, 12, 8  # parallel games, searches of each, and simulations of a search


def with_scales(inference: InferenceConfig, game: Game, network: NetworkConfig, weights: Weights) -> Weights:
    """The same weights, with scales where inference.precision=int8 wants them and can be had.

    RunError if the error of 8 bits would be too large.  Less than a second for 64 filters x 5 blocks.
    """
    if weights.scales or not (inference.is_quantised and cpu_has_int8() and choose_runtime(inference)[0] == "openvino"):
        return weights
    from shusaku.learner.quantisation import positions_for, quantise  # imports torch, which only quantisation needs

    tower = tower_shape(game, network)
    planes = _positions(replace(inference, precision="auto"), game, network, weights)
    spread = np.linspace(0, len(planes) - 1, min(positions_for(tower), len(planes))).astype(int)
    quantised, _ = quantise(weights, tower, planes[spread])
    if quantised.rejected:
        raise RunError(f"inference.precision=int8 is rejected: {quantised.rejected}; use inference.precision=auto")
    return quantised


def _positions(inference: InferenceConfig, game: Game, network: NetworkConfig, weights: Weights) -> Any:
    """Planes [N, C, H, W] that the network was asked for in warm-up games, in their order."""
    evaluator = _Listening(make_evaluator(game, inference, network, GAMES), game)
    evaluator.load(weights)
    search = PuctConfig(simulations=SIMULATIONS, cache=0)
    player = SelfPlay(game, search, SelfPlayConfig(), evaluator, games=GAMES, seed=1, identity=ActorIdentity(0))
    while player.counters()["searches"] < GAMES * PLIES:
        player.step()
    return np.concatenate(evaluator.planes)


class _Listening:
    """An evaluator that keeps what it was asked."""

    def __init__(self, evaluator: Evaluator, game: Game) -> None:
        self._evaluator, self._game = evaluator, game
        self.planes: list[Any] = []

    @property
    def version(self) -> int:
        return self._evaluator.version

    def load(self, weights: Weights) -> None:
        self._evaluator.load(weights)

    def __call__(self, leaves: Leaves) -> Evaluation:
        planes = np.zeros((len(leaves), *self._game.observation_shape), np.float32)
        self._game.expand(leaves.packed, leaves.uniform, planes)
        self.planes.append(planes)
        return self._evaluator(leaves)
