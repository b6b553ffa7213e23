"""The evaluators of an inference server, one a batch size, and the batches under way in them."""

from collections import deque
from collections.abc import Callable, Sequence

from shusaku.actors.evaluators.buckets import make_buckets
from shusaku.actors.evaluators.evaluator import Evaluator, SplitEvaluator
from shusaku.actors.inference.batching import smallest_fitting
from shusaku.common.messages import Evaluation, Leaves, Weights


class BatchPipeline:
    """Batches are begun and finished in the same order, `depth` of them under way.  Used by one thread.

    Where the device has no room for a size, those below it are used and `description` says so.
    """

    def __init__(self, make_evaluator: Callable[[int], Evaluator], sizes: Sequence[int]) -> None:
        """What `make_evaluator` raises for the smallest size is raised here."""
        made, why_not_more = make_buckets(make_evaluator, sorted(set(sizes)))
        self._evaluators: dict[int, SplitEvaluator] = {
            size: evaluator if isinstance(evaluator, SplitEvaluator) else _AtOnce(evaluator)
            for size, evaluator in made.items()
        }
        self.sizes = list(made)  # ascending
        self._note = f"; batches of at most {self.sizes[-1]}: {why_not_more}" if why_not_more else ""
        self.depth = min(evaluator.depth for evaluator in self._evaluators.values())
        self._last_size = self.sizes[-1]
        self._weights: Weights | None = None  # what answers; loaded into an evaluator when that is next used
        self._under_way: deque[tuple[SplitEvaluator, int, int]] = deque()  # and how many positions and actions

    @property
    def description(self) -> str:
        """What evaluated last, and why it was taken."""
        return self._evaluators[self._last_size].description + self._note

    def __len__(self) -> int:
        """Batches under way."""
        return len(self._under_way)

    def load(self, weights: Weights, sample: Callable[[int], Leaves]) -> None:
        """New weights for the batches from now on; the first ones go into every size, each of which answers once to
        `sample(size)`.  ValueError when they do not fit: the old ones go on answering.
        """
        if self._weights is None:
            for size, evaluator in self._evaluators.items():
                evaluator.load(weights)
                evaluator(sample(size))
        else:  # the one used last finds out whether they fit; the others load when they are next used
            self._evaluators[self._last_size].load(weights)
        self._weights = weights

    def begin(self, leaves: Leaves) -> None:
        """Into the smallest evaluator that holds them, with the newest weights.

        More than the largest holds are computed at once, in parts: nothing else may be under way then.
        """
        assert self._weights is not None, "load() first"
        assert len(leaves) <= self.sizes[-1] or not self._under_way, "finish() what was begun first"
        self._last_size = smallest_fitting(self.sizes, len(leaves))
        evaluator = self._evaluators[self._last_size]
        if evaluator.version != self._weights.version:
            evaluator.load(self._weights)
        if len(leaves) > self._last_size:
            evaluator = _AtOnce(evaluator)
        evaluator.begin(leaves)
        self._under_way.append((evaluator, len(leaves), len(leaves.actions)))

    def is_done(self) -> bool:
        """Whether `finish` would not wait."""
        return self._under_way[0][0].is_done()

    def finish(self) -> Evaluation:
        """The answer to what was begun first; its arrays hold until the next call.  ValueError for a wrong shape."""
        evaluator, rows, actions = self._under_way.popleft()
        evaluation = evaluator.finish()
        if len(evaluation.logits) != actions or len(evaluation.values) != rows:
            raise ValueError(f"{len(evaluation.logits)} logits and {len(evaluation.values)} values for "
                             f"{actions} actions and {rows} positions")
        return evaluation


class _AtOnce:
    """An evaluator that computes in the calling thread, as one of which a single batch is under way."""

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
