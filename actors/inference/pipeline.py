"""The evaluators of an inference server, one per batch-size bucket, and the batches in flight in them."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.buckets import make_buckets
from shusaku.actors.evaluators.evaluator import Evaluator, PreparingEvaluator, SplitEvaluator, StagedEvaluator
from shusaku.actors.inference.protocol import SERVER_SECONDS
from shusaku.common._core import BatchInputs, Game, RequestBatch
from shusaku.common.messages import Evaluation, Leaves, Weights

# That a batch may take if a smaller one takes less: its requests may have waited for others.
BATCH_SECONDS = SERVER_SECONDS / 4
SAME = 1.25  # a batch that takes so many times as long as one of the smallest size takes no longer
SMOOTHING = 0.2  # weight of the newest batch in the time that a batch of its size is expected to take


class InFlight(NamedTuple):
    """A batch that the device has."""

    batch: RequestBatch
    evaluator: SplitEvaluator
    size: int
    begun_at: float


class Finished(NamedTuple):
    """What became of a batch: its answer, valid until the next one is finished, and when it was on the device."""

    evaluation: Evaluation
    begun_at: float  # seconds of the monotonic clock; not before the batch before it ended
    ended_at: float


class BatchPipeline:
    """Begins and finishes batches in the same order; up to `depth` are in flight.

    One thread begins them; the same, or another one, finishes them.  If the device has no memory for a size, or takes
    too long for it, only smaller sizes are used and `description` says so.
    """

    def __init__(self, game: Game, make_evaluator: Callable[[int], Evaluator], sizes: Sequence[int]) -> None:
        """An error of `make_evaluator` for the smallest size is raised here."""
        made, memory_error = make_buckets(make_evaluator, sorted(set(sizes)))
        self._evaluators: dict[int, SplitEvaluator] = {
            size: evaluator if isinstance(evaluator, SplitEvaluator) else _Synchronous(evaluator)
            for size, evaluator in made.items()
        }
        self.sizes = list(made)  # ascending
        self.largest = self.sizes[-1]  # that is used now; one of `sizes`
        largest = made[self.sizes[-1]]
        which = f"batches of at most {self.sizes[-1]}" if self.sizes[-1] < max(sizes) else "fewer sizes of batches"
        self._note = f"; {which}: {memory_error}" if memory_error else ""
        self.depth = min(evaluator.depth for evaluator in self._evaluators.values())
        # One more than are in flight, which is laid meanwhile; the first is the next.
        self._stages = deque(
            largest.new_stage(self.sizes[-1]) for _ in range(self.depth + 1)
        ) if isinstance(largest, StagedEvaluator) else None
        # Another evaluator has copied a batch when `begin` returns, so one set of arrays is enough.
        self._inputs = new_inputs(game, self.sizes[-1]) if self._stages is None else None
        self._last_size = self.sizes[-1]
        self._weights: Weights | None = None  # the newest; an evaluator loads them when it is next used
        self._changed = threading.Condition()  # guards all below
        self._in_flight: deque[InFlight] = deque()
        self._busy_until = 0.0  # when the device is expected to end the last batch in flight
        self._seconds: dict[int, float] = {}  # size -> what a batch of it takes
        self._newest_seconds: dict[int, float] = {}  # size -> what the newest batch of it took
        self._bound, self._limit = self.largest, BATCH_SECONDS  # the next `largest`, and what a batch of it may take
        self._last_end = 0.0  # of a batch
        self._is_closed = False

    @property
    def description(self) -> str:
        """Runtime and precision of the evaluator that was used last, and why they were chosen."""
        is_slow = self.largest < self.sizes[-1]
        note = f"; batches of at most {self.largest}, because larger ones take too long" if is_slow else ""
        return self._evaluators[self._last_size].description + self._note + note

    @property
    def inputs(self) -> BatchInputs:
        """What the next batch is laid into."""
        return self._stages[0].inputs if self._stages is not None else cast(BatchInputs, self._inputs)

    @property
    def weights(self) -> Weights | None:
        """The newest ones."""
        return self._weights

    def __len__(self) -> int:
        """Batches in flight."""
        return len(self._in_flight)

    @property
    def has_room(self) -> bool:
        """Whether another batch may be begun."""
        return len(self._in_flight) < self.depth

    @property
    def busy_until(self) -> float:
        """When the device is expected to end the last batch in flight, in seconds of the monotonic clock; 0: none."""
        with self._changed:
            return self._busy_until if self._in_flight else 0.0

    def prepare(self, weights: Weights) -> None:
        """Makes ready what `load` takes, if the evaluators can; any thread may call this.  ValueError as there."""
        evaluator = self._evaluators[self._last_size]
        if isinstance(evaluator, PreparingEvaluator):
            evaluator.prepare(weights)

    def load(self, weights: Weights, sample: Callable[[int], Leaves]) -> None:
        """New weights for the next batches; the first ones go into every size, which evaluates `sample(size)` once.

        That is timed, and ends at the first size that takes too long.  ValueError if the weights do not fit the
        network: the old ones stay in use.
        """
        if self._weights is None:
            self._load_first(weights, sample)
        else:  # the last evaluator checks that they fit; the others load them when they are next used
            self._evaluators[self._last_size].load(weights)
        self._weights = weights

    def _load_first(self, weights: Weights, sample: Callable[[int], Leaves]) -> None:
        smallest = largest = self.sizes[0]
        limit, least = BATCH_SECONDS, 0.0
        for size, evaluator in self._evaluators.items():
            evaluator.load(weights)
            leaves = sample(size)
            seconds = _time(evaluator, leaves)
            if seconds > limit:  # what is compiled or allocated at the first call is no part of the second one
                seconds = min(seconds, _time(evaluator, leaves))
            if size == smallest:
                limit, least = max(limit, SAME * seconds), seconds
            elif seconds > limit:
                break
            largest = size
        self._last_size = largest
        with self._changed:
            self._bound, self._limit, self._newest_seconds = largest, limit, {smallest: least}

    def update_largest(self) -> int:
        """The positions that a batch may have from now on; for the thread that begins batches, before it lays one."""
        with self._changed:
            self.largest = self._bound
        return self.largest

    def wait_for_room(self, rows: int) -> None:
        """Until a batch of so many positions may be begun: one that is larger than `largest` runs alone."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room_for(rows) or self._is_closed)

    def _has_room_for(self, rows: int) -> bool:
        return len(self._in_flight) < (self.depth if rows <= self.largest else 1)

    def begin(self, batch: RequestBatch, columns: Sequence[NDArray[np.generic]]) -> None:
        """Starts a batch, whose leaves are these columns, in the smallest evaluator that holds it; there must be room.

        Unless it is larger than `largest`, it lies in `inputs`.  A larger one is computed synchronously, in parts.
        """
        assert self._weights is not None, "load() first"
        assert self._has_room_for(batch.rows), "wait_for_room() first"
        size = self._last_size = next(size for size in self.sizes if size >= min(batch.rows, self.largest))
        evaluator = self._evaluators[size]
        if evaluator.version != self._weights.version:
            evaluator.load(self._weights)
        if batch.rows > size:
            evaluator = _Synchronous(evaluator)
        begun_at = time.monotonic()
        if self._stages is not None and isinstance(evaluator, StagedEvaluator):
            evaluator.begin_staged(self._stages[0], batch.rows, batch.actions)
            self._stages.rotate(-1)
        else:
            evaluator.begin(Leaves(*columns))  # type: ignore[arg-type]
        with self._changed:
            free_at = max(begun_at, self._busy_until) if self._in_flight else begun_at
            self._busy_until = free_at + self._seconds.get(size, 0.0)
            self._in_flight.append(InFlight(batch, evaluator, size, begun_at))
            self._changed.notify_all()

    def wait_for_oldest(self) -> InFlight | None:
        """Until a batch is in flight; None once the pipeline is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight or self._is_closed)
            return self._in_flight[0] if self._in_flight else None

    def finish(self, oldest: InFlight) -> Finished:
        """Waits for the oldest batch, which stays in flight until `forget` is told that its answer is read."""
        evaluation = oldest.evaluator.finish()
        now = time.monotonic()
        with self._changed:
            begun_at = max(oldest.begun_at, self._last_end)
            self._record(oldest.size, oldest.batch.rows, now - begun_at)
            self._last_end = now
        return Finished(evaluation, begun_at, now)

    def _record(self, size: int, rows: int, seconds: float) -> None:
        """What a batch took; under the lock."""
        spent = seconds / math.ceil(rows / size)  # of each part, if it was larger
        before = self._seconds.get(size, spent)
        self._seconds[size] = SMOOTHING * spent + (1 - SMOOTHING) * before
        self._choose_bound(size, min(rows, size), spent)

    def _choose_bound(self, size: int, rows: int, seconds: float) -> None:
        """Smaller sizes after two slow batches of this one, a larger one if its rows would be fast enough."""
        least = min(seconds, self._newest_seconds.get(size, 0.0))
        self._newest_seconds[size] = seconds
        place = self.sizes.index(size)
        if place == 0:
            self._limit = max(BATCH_SECONDS, SAME * least)
        elif least > self._limit:
            self._bound = min(self._bound, self.sizes[place - 1])
            del self._newest_seconds[size]
        if size == self._bound < self.sizes[-1] and seconds / rows * self.sizes[place + 1] <= self._limit:
            self._bound = self.sizes[place + 1]

    def forget(self, oldest: InFlight) -> None:
        """It is in flight no more; nothing happens if the pipeline was closed meanwhile."""
        with self._changed:
            if self._in_flight and self._in_flight[0] is oldest:
                self._in_flight.popleft()
                self._changed.notify_all()

    def close(self) -> list[RequestBatch]:
        """Ends every wait here.  Returns the batches that were in flight; none is after this."""
        with self._changed:
            self._is_closed = True
            batches = [one.batch for one in self._in_flight]
            self._in_flight.clear()
            self._changed.notify_all()
        return batches


def _time(evaluator: Evaluator, leaves: Leaves) -> float:
    """Seconds that a batch takes."""
    begun_at = time.monotonic()
    evaluator(leaves)
    return time.monotonic() - begun_at


def new_inputs(game: Game, rows: int) -> BatchInputs:
    """Arrays for a batch of so many positions."""
    return BatchInputs(
        np.zeros((rows, game.packed_bytes), np.uint8), np.zeros((rows, game.num_uniform_planes), np.float32),
        np.zeros(rows + 1, np.int32), np.zeros(rows * game.max_legal_actions, np.uint16),
    )


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

    def finish(self) -> Evaluation:
        assert self._answer is not None, "begin() first"
        answer, self._answer = self._answer, None
        return answer
