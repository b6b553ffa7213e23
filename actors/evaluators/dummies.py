"""Dummy evaluators, which answer without a network: for tests, and to measure everything else."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.answer_buffers import AnswerBuffers
from shusaku.common import _core
from shusaku.common.messages import Evaluation, Leaves, Weights


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
