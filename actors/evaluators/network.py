"""The evaluator of a network that a runtime computes in the calling process."""

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.answer_buffers import AnswerBuffers
from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.actors.evaluators.evaluator import NO_VERSION, Runtime
from shusaku.common import _core
from shusaku.common.leaves_codec import slice_leaves
from shusaku.common.messages import Evaluation, Leaves, Weights
from shusaku.common.stage_timer import StageTimer


class NetworkEvaluator:
    """Expands packed positions into the runtime's own input and picks the logits of the legal actions.

    Batches larger than the runtime's are split; rows behind a smaller batch are stale and are never read.
    """

    def __init__(self, game: _core.Game, runtime: Runtime, timer: StageTimer | None = None) -> None:
        self.runtime = runtime
        self.size = len(runtime.inputs)
        self._timer = timer or StageTimer()
        self._game = game
        self._answer = AnswerBuffers(len(runtime.inputs), game)
        self._version = NO_VERSION

    @property
    def version(self) -> int:
        """The version of the weights; NO_VERSION before the first ones."""
        return self._version

    @property
    def description(self) -> str:
        """Runtime, precision and why it was chosen."""
        return self.runtime.description

    @property
    def runtime_name(self) -> str:
        """Which runtime computes the network now: core | openvino | torch."""
        return self.runtime.runtime_name

    @property
    def precision(self) -> str:
        """The precision that is in use now: fp32 | bf16 | int8."""
        return self.runtime.precision

    @property
    def worth_rows(self) -> int:
        """Batches of at least so many rows are computed here no slower than by the smaller evaluator they would fit."""
        return self.size if self.runtime.has_fixed_batch else 0

    def fill_inputs(self, random: np.random.Generator) -> None:
        """Prepares a full batch for `run_raw`, half of whose bits are set."""
        inputs = self.runtime.inputs
        batch, h, w, c = inputs.shape
        inputs[...] = channels_last(random.integers(0, 2, (batch, c, h, w)).astype(np.float32), inputs)

    def run_raw(self, batches: int) -> None:
        """Runs the network alone on this many full batches that are already prepared."""
        for _ in range(batches):
            self.runtime.run(self.size)

    def load(self, weights: Weights) -> None:
        """ValueError if the weights do not fit the game and the network that this evaluator was made for."""
        self.runtime.load(weights)
        self._version = weights.version

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Evaluates any number of positions; RuntimeError before the first weights."""
        if self._version == NO_VERSION:
            raise RuntimeError("an evaluator was asked before it had weights; call load() first")
        logits, values = self._answer.views(leaves)
        if len(leaves) <= self.size:
            self._evaluate(leaves, logits, values)
            heads = {head: array[: len(leaves)] for head, array in self.runtime.heads.items()}
        else:
            heads = {head: np.empty((len(leaves), *array.shape[1:]), np.float32)
                     for head, array in self.runtime.heads.items()}
            for begin in range(0, len(leaves), self.size):
                end = min(begin + self.size, len(leaves))
                first, last = leaves.offsets[begin], leaves.offsets[end]
                self._evaluate(slice_leaves(leaves, begin, end), logits[first:last], values[begin:end])
                for head, array in heads.items():
                    array[begin:end] = self.runtime.heads[head][: end - begin]
        return Evaluation(logits, values, self._version, heads)

    def _evaluate(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """Writes logits [N] and values [B] of one batch."""
        self._game.expand_channels_last(leaves.packed, leaves.uniform, self.runtime.inputs)
        self._timer.charge("encode")
        self.runtime.run(len(leaves))
        self._timer.charge("network")
        _core.gather_logits(self.runtime.policy, leaves.offsets, leaves.actions, logits)
        values[:] = self.runtime.values[: len(leaves)]
        self._timer.charge("expand")
