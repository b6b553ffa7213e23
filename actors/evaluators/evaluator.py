"""Positions in, logits and values out: the interface that networks and dummy evaluators share.

Letters of the shapes: B positions of a batch, S positions that the runtime takes at once, A actions, C x H x W planes,
N legal actions of all positions end to end.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.channels_last import Inputs
from shusaku.common._core import BatchInputs
from shusaku.common.errors import UsageError
from shusaku.common.messages import Evaluation, Leaves, Weights
from shusaku.common.search import Evaluate

NO_VERSION = -1  # before the first weights
LARGEST_BATCH = 1024  # positions, of an inference server


class BatchTooLargeError(UsageError):
    """The device has no memory for batches of this size; smaller ones may fit."""


class Evaluator(Evaluate, Protocol):
    """What a search asks.  One thread at a time uses it; the arrays that it returns are valid until the next call.

    It evaluates any number of positions.
    """

    @property
    def description(self) -> str:
        """Runtime, precision and why it was chosen, as text for the user."""

    def load(self, weights: Weights) -> None:
        """Uses these weights from the next call on; `description` may change then."""


class SplitEvaluate(Evaluate, Protocol):
    """The part of an evaluator with two halves that a search needs: what is begun first is finished first."""

    def begin(self, leaves: Leaves) -> None:
        """Starts a batch; the arrays of the leaves are free when this returns."""

    def finish(self) -> Evaluation:
        """Waits for the oldest batch in flight."""


@runtime_checkable
class SplitEvaluator(SplitEvaluate, Evaluator, Protocol):
    """An evaluator with two halves; up to `depth` batches may be in flight.

    If it is more than one, another thread than that of `begin` may call `finish`.
    """

    depth: int


class Stage(Protocol):
    """Memory that a batch is laid into, and that a device reads it from."""

    inputs: BatchInputs


@runtime_checkable
class BatchEvaluator(Evaluator, Protocol):
    """An evaluator that was made for batches of one size."""

    @property
    def worth_rows(self) -> int:
        """Batches of at least so many rows are computed here no slower than by the smaller evaluator they would fit."""


@runtime_checkable
class StagedEvaluator(SplitEvaluator, BatchEvaluator, Protocol):
    """An evaluator whose device reads batches from memory of its own kind: nothing is copied on the host."""

    def new_stage(self, rows: int) -> Stage:
        """Memory for batches of so many positions; all evaluators of one network may read it."""

    def begin_staged(self, stage: Stage, rows: int, actions: int) -> None:
        """Starts a batch that lies in `stage`, which stays untouched until the batch is finished."""


@runtime_checkable
class PreparingEvaluator(Evaluator, Protocol):
    """An evaluator that can make ready what `load` takes, while batches run."""

    def prepare(self, weights: Weights) -> None:
        """Before `load` of the same weights, by any thread; ValueError if they belong to another network."""


@runtime_checkable
class MeasurableEvaluator(Evaluator, Protocol):
    """An evaluator whose network can be timed alone."""

    size: int  # positions of a full batch

    @property
    def runtime_name(self) -> str:
        """Which runtime computes the network now: core | openvino | torch."""

    @property
    def precision(self) -> str:
        """The precision that is in use now: fp32 | bf16 | int8."""

    def fill_inputs(self, random: np.random.Generator) -> None:
        """Prepares a full batch for `run_raw`: half of the bits are set, as zeros might be faster."""

    def run_raw(self, batches: int) -> None:
        """Runs the network alone on this many full batches that are already prepared."""


class Runtime(Protocol):
    """A compiled network: fill `inputs`, call `run`, read `policy` and `values`.  The arrays are never replaced."""

    @property
    def inputs(self) -> Inputs:  # [S, H, W, C]
        """The planes of a batch, to be written by the caller."""

    @property
    def runtime_name(self) -> str:
        """Which runtime computes the network now: core | openvino | torch."""

    @property
    def precision(self) -> str:
        """The precision that is in use now: fp32 | bf16 | int8."""

    @property
    def has_fixed_batch(self) -> bool:
        """Whether a batch that is not full takes as long as a full one."""

    @property
    def policy(self) -> NDArray[np.float32]:  # [S, A]
        """The logits of all actions."""

    @property
    def values(self) -> NDArray[np.float32]:  # [S]
        """The values for the player to move."""

    @property
    def heads(self) -> Mapping[str, NDArray[np.float32]]:
        """Ownership [S, H, W] and score [S], of the tower's further heads; usually none."""

    @property
    def description(self) -> str:
        """Runtime, precision and why it was chosen, as text for the user."""

    def load(self, weights: Weights) -> None:
        """Uses these weights from the next `run` on; ValueError if they belong to another network."""

    def run(self, rows: int) -> None:
        """Evaluates at least the first `rows` inputs and releases the GIL meanwhile."""
