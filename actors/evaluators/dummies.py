"""Dummy evaluators, which answer without a network: for tests, and to measure everything else."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.answer_buffers import AnswerBuffers
from shusaku.common import _core
from shusaku.common.messages import Evaluation, Leaves, Weights

# One observation [C, H, W] -> logits [A] of all actions, value.
Script = Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], float]]


class DummyEvaluator(ABC):
    """Answers without a network; weights change its version only."""

    def __init__(self, game: _core.Game, batch_size: int, version: int = 0) -> None:
        self._answer = AnswerBuffers(batch_size, game)
        self.version = version
        self.description = type(self).__name__

    def load(self, weights: Weights) -> None:
        """Takes the version of the weights."""
        self.version = weights.version

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Evaluates any number of positions."""
        logits, values = self._answer.views(leaves)
        self._fill(leaves, logits, values)
        return Evaluation(logits, values, self.version)

    @abstractmethod
    def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """Writes logits [N] and values [B]."""


class UniformEvaluator(DummyEvaluator):
    """The same logit for every legal action, value 0 for every position."""

    def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        logits.fill(0)
        values.fill(0)


class PseudoRandomEvaluator(DummyEvaluator):
    """A hash of position and action, nearly free: the speed of a search is measured with it."""

    def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        _core.pseudo_random_evaluate(leaves.packed, leaves.uniform, leaves.offsets, leaves.actions, logits, values)


class ScriptedEvaluator(DummyEvaluator):
    """Answers with a Python function of one observation."""

    def __init__(self, game: _core.Game, script: Script, version: int = 0) -> None:
        super().__init__(game, 1, version)
        self._game, self._script = game, script

    def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        observations = np.empty((len(leaves), *self._game.observation_shape), np.float32)
        self._game.expand(leaves.packed, leaves.uniform, observations)
        policy = np.empty((len(leaves), self._game.num_actions), np.float32)  # [B, A]
        for row, observation in enumerate(observations):
            policy[row], values[row] = self._script(observation)
        _core.gather_logits(policy, leaves.offsets, leaves.actions, logits)
