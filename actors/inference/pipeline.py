"""The evaluators of an inference server, one per batch-size bucket, and the batches in flight in them."""

from collections import deque
from collections.abc import Callable, Sequence

from shusaku.actors.evaluators.buckets import make_buckets
from shusaku.actors.evaluators.evaluator import Evaluator, SplitEvaluator
from shusaku.actors.inference.batching import smallest_fitting
from shusaku.common.messages import Evaluation, Leaves, Weights


class BatchPipeline:
    """Begins and finishes batches in the same order; up to `depth` are in flight.  Used by one thread.

    If the device has no memory for a size, only smaller sizes are used and `description` says so.
    """

    def __init__(self, make_evaluator: Callable[[int], Evaluator], sizes: Sequence[int]) -> None:
        """An error of `make_evaluator` for the smallest size is raised here."""
        made, memory_error = make_buckets(make_evaluator, sorted(set(sizes)))
        self._evaluators: dict[int, SplitEvaluator] = {
            size: evaluator if isinstance(evaluator, SplitEvaluator) else _Synchronous(evaluator)
            for size, evaluator in made.items()
        }
        self.sizes = list(made)  # ascending
        self._note = f"; batches of at most {self.sizes[-1]}: {memory_error}" if memory_error else ""
        self.depth = min(evaluator.depth for evaluator in self._evaluators.values())
        self._last_size = self.sizes[-1]
        self._weights: Weights | None = None  # the newest; an evaluator loads them when it is next used
        self._in_flight: deque[tuple[SplitEvaluator, int, int]] = deque()  # evaluator, positions, actions

    @property
    def description(self) -> str:
        """Runtime and precision of the evaluator that was used last, and why they were chosen."""
        return self._evaluators[self._last_size].description + self._note

    def __len__(self) -> int:
        """Batches in flight."""
        return len(self._in_flight)

    def load(self, weights: Weights, sample: Callable[[int], Leaves]) -> None:
        """New weights for the next batches; the first ones go into every size, which evaluates `sample(size)` once.

        ValueError if they do not fit the network: the old weights stay in use.
        """
        if self._weights is None:
            for size, evaluator in self._evaluators.items():
                evaluator.load(weights)
                evaluator(sample(size))
        else:  # the last evaluator checks that they fit; the others load them when they are next used
            self._evaluators[self._last_size].load(weights)
        self._weights = weights

    def begin(self, leaves: Leaves) -> None:
        """Starts a batch in the smallest evaluator that holds it, with the newest weights.

        A batch larger than the largest evaluator is computed synchronously, in parts; no other may be in flight then.
        """
        assert self._weights is not None, "load() first"
        assert len(leaves) <= self.sizes[-1] or not self._in_flight, "finish() the batches that were begun before"
        self._last_size = smallest_fitting(self.sizes, len(leaves))
        evaluator = self._evaluators[self._last_size]
        if evaluator.version != self._weights.version:
            evaluator.load(self._weights)
        if len(leaves) > self._last_size:
            evaluator = _Synchronous(evaluator)
        evaluator.begin(leaves)
        self._in_flight.append((evaluator, len(leaves), len(leaves.actions)))

    def is_done(self) -> bool:
        """Whether `finish` would return without waiting."""
        return self._in_flight[0][0].is_done()

    def finish(self) -> Evaluation:
        """Waits for the oldest batch; its arrays are valid until the next call.  ValueError for a wrong shape."""
        evaluator, rows, actions = self._in_flight.popleft()
        evaluation = evaluator.finish()
        if len(evaluation.logits) != actions or len(evaluation.values) != rows:
            raise ValueError(f"{len(evaluation.logits)} logits and {len(evaluation.values)} values for "
                             f"{actions} actions and {rows} positions")
        return evaluation


class _Synchronous:
    """Adapts an evaluator without halves: `begin` computes the batch in the calling thread."""

    depth = 1

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._answer: Evaluation | None = None

    @property
    def version(self) -> int:
        return self._evaluator.version

    @property
    def description(self) -> str:
        return self._evaluator.description

    def load(self, weights: Weights) -> None:
        self._evaluator.load(weights)

    def __call__(self, leaves: Leaves) -> Evaluation:
        return self._evaluator(leaves)

    def begin(self, leaves: Leaves) -> None:
        self._answer = self._evaluator(leaves)

    def is_done(self) -> bool:
        return True

    def finish(self) -> Evaluation:
        assert self._answer is not None, "begin() first"
        answer, self._answer = self._answer, None
        return answer
