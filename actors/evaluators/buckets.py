"""Batch-size buckets: evaluators of a few fixed sizes, of which the smallest that holds a batch is used."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from shusaku.actors.evaluators.evaluator import BatchEvaluator, BatchTooLargeError, Evaluator, MeasurableEvaluator
from shusaku.common.messages import Evaluation, Leaves, Weights

E = TypeVar("E", bound=Evaluator)


class BucketedEvaluator:
    """Several evaluators with the same weights, used as one: a small batch does not run in a large bucket."""

    def __init__(self, evaluators: Mapping[int, Evaluator]) -> None:
        """`evaluators`: batch size -> evaluator; ValueError if there is none."""
        if not evaluators:
            raise ValueError("a bucketed evaluator needs at least one evaluator")
        self._buckets = sorted(evaluators.items())

    @property
    def largest(self) -> Evaluator:
        """The evaluator of the largest batches."""
        return self._buckets[-1][1]

    @property
    def version(self) -> int:
        """The version of the weights."""
        return self.largest.version

    @property
    def description(self) -> str:
        """Runtime, precision and why it was chosen."""
        return self.largest.description

    @property
    def precision(self) -> str:
        """The precision that is in use now (fp32 | bf16 | int8); empty for dummy evaluators."""
        return self.largest.precision if isinstance(self.largest, MeasurableEvaluator) else ""

    def load(self, weights: Weights) -> None:
        """Loads the weights into every bucket."""
        for _, evaluator in self._buckets:
            evaluator.load(weights)

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Evaluates any number of positions."""
        fitting = (evaluator for size, evaluator in self._buckets if size >= len(leaves))
        return next(fitting, self.largest)(leaves)


def make_buckets(make: Callable[[int], E], sizes: Sequence[int]) -> tuple[dict[int, E], str]:
    """One evaluator of each of the ascending sizes, but for those whose batches the largest one computes as fast.

    The largest is made first: graphs of smaller batches use its memory again.  If the device has no memory for a size,
    it is left out, with the device's error as text.  BatchTooLargeError if it has no memory for the smallest.
    """
    made: dict[int, E] = {}
    error_text, worth = "", sizes[-1]
    for size in reversed(sizes):
        if made and worth < size:
            continue
        try:
            evaluator = make(size)
        except BatchTooLargeError as error:
            if size == sizes[0] and not made:
                raise
            error_text = str(error)
            continue
        if not made:
            worth = evaluator.worth_rows if isinstance(evaluator, BatchEvaluator) else size
        made[size] = evaluator
    return dict(reversed(made.items())), error_text
