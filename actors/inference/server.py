"""The batched inference server: requests of many clients in one queue, evaluated together by one thread.

    infer() of many threads ──► bounded queue ──► one thread: gather, lay into one batch, evaluate ──► answers

While a batch runs, the next one gathers; where it runs on a card, the next one is queued before it ends.  Gathering
ends by `actors.inference.batching.FireRule`; weights are swapped between two batches, and never
for older ones.
Plain threads: a Ray actor is a thin shell around it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.evaluator import NO_VERSION, Evaluator
from shusaku.actors.inference.batching import FireRule, LiveClients
from shusaku.actors.inference.client import ServerUnavailable
from shusaku.actors.inference.leaves import concat_leaves, non_finite_rows, sample_leaves
from shusaku.actors.inference.pipeline import BatchPipeline
from shusaku.actors.inference.stats import ServerFigures, ServerStats
from shusaku.common._core import Game
from shusaku.common.codec import CodecError
from shusaku.common.leaves_codec import LeavesCodec, encode_answer, to_half
from shusaku.common.messages import Leaves, Weights

POLL_S = 0.0003  # between two looks whether the card is done, while nothing is to be begun
LIVE_SECONDS = 5.0  # a client that was not heard of for so long is not waited for


class ServerClosed(ServerUnavailable):
    """It was closed, or its thread died."""


class QueueFull(ServerUnavailable):
    """So many requests wait already that one more would only grow the queue."""


class NoWeights(ServerUnavailable):
    """Nobody gave it weights within the caller's time."""


class AnswerLate(ServerUnavailable):
    """The evaluator did not come to the request within the caller's time."""


class EvaluationFailed(ServerUnavailable):
    """The evaluator raised, or answered in the wrong shape; every caller of the batch is told the same."""


class Request:
    """Positions of one client on their way; when they are answered, or never will be, `settled` is called once."""

    __slots__ = ("error", "leaves", "logits", "queued_at", "settled", "values", "version")

    def __init__(self, leaves: Leaves, now: float, settled: "Callable[[Request], None]") -> None:
        self.leaves, self.queued_at, self.settled = leaves, now, settled
        self.error: ServerUnavailable | None = None
        self.logits: NDArray[np.float16]
        self.values: NDArray[np.float16]
        self.version = NO_VERSION

    def fail(self, error: ServerUnavailable) -> None:
        self.error = error
        self.settled(self)


@dataclass(slots=True, eq=False)
class _Batch:
    """Requests that are evaluated together."""

    requests: list[Request]
    began_at: float


@dataclass(frozen=True, slots=True)
class _Publication:
    weights: Weights
    taken: "Future[None]"  # resolves when they answer, or with the reason why they never will


class InferenceServer:
    """Evaluates the requests of many clients together; every public method may be called by any thread."""

    def __init__(
        self,
        game: Game,
        make_evaluator: Callable[[int], Evaluator],
        *,
        sizes: Sequence[int],
        deadline_ms: float,
        max_waiting: int = 512,
        live_seconds: float = LIVE_SECONDS,
    ) -> None:
        """`make_evaluator(size)` is called once for each of `sizes`, in the server's thread, which alone uses them;
        what it raises is raised here.  `max_waiting` bounds the queue in requests, each at most MAX_REQUEST_BYTES.
        """
        assert sizes, "a server needs at least one size"
        assert all(size >= 1 for size in sizes), f"{sizes}: a size is at least 1"
        self._codec, self._game = LeavesCodec(game), game
        self._make_evaluator, self._sizes = make_evaluator, sorted(set(sizes))
        self._rule = FireRule(self._sizes[-1], deadline_ms / 1000)
        self._max_waiting = max_waiting
        self._pipeline: BatchPipeline  # the server's thread makes it and alone uses it

        self._wake = threading.Condition(threading.Lock())  # guards all below; the server's thread waits on it
        self._queue: deque[Request] = deque()
        self._positions = 0  # in the queue
        self._running: deque[_Batch] = deque()  # under way
        self._publication: _Publication | None = None
        self._is_closed = False
        self._version = NO_VERSION
        self._clients = LiveClients(live_seconds)
        self._figures = ServerFigures(time.monotonic())

        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="inference", daemon=True)
        self._thread.start()
        ready.result()

    # --- asked by any thread -----------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Of the weights that answer the next batch; -1 before the first."""
        return self._version

    @property
    def description(self) -> str:
        """What evaluates, and why it was taken."""
        return self._pipeline.description

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def is_ready(self) -> bool:
        """Whether it has weights and every size has answered once with them."""
        return self._version != NO_VERSION and not self._is_closed

    def infer(self, client: int, payload: bytes, timeout: float) -> bytes:
        """The answer to a request of `common.leaves_codec`; blocks for at most `timeout` seconds.

        CodecError for a bad payload; a ServerUnavailable (see above) where there is no answer.
        """
        gate = threading.Lock()
        gate.acquire()
        request = self.submit(client, payload, lambda _: gate.release())
        if not gate.acquire(timeout=max(0.0, timeout)):
            self._give_up(request, gate, timeout)
        if request.error is not None:
            raise request.error
        return encode_answer(request.logits, request.values, request.version)

    def submit(self, client: int, payload: bytes, settled: Callable[[Request], None]) -> Request:
        """The same without waiting: `settled` is called with the request, in the server's thread, which waits for it.

        What `infer` raises at once is raised here, and `settled` is not called then.
        """
        now = time.monotonic()
        try:
            request = Request(self._codec.decode(payload), now, settled)
        except CodecError:
            self._count("refused")
            raise
        with self._wake:
            self._clients.hear(client, now)
            if self._is_closed:
                self._figures.counts["refused"] += 1
                raise ServerClosed("the inference server is closed")
            if len(self._queue) >= self._max_waiting:
                self._figures.counts["refused"] += 1
                raise QueueFull(f"{len(self._queue)} requests wait at the inference server; that is its bound")
            self._queue.append(request)
            self._positions += len(request.leaves)
            if len(self._queue) == 1 or self._seconds_left(now) <= 0:  # else it sleeps on until its deadline
                self._wake.notify()
        return request

    def withdraw(self, request: Request) -> bool:
        """Whether it still waited: then it is not computed, and `settled` is never called."""
        with self._wake:
            return self._drop(request)

    def load(self, weights: Weights, timeout: float = 120.0) -> None:
        """Answers with these weights from the next batch on, and returns then; older ones than it has are ignored.

        ValueError when they do not fit the network: the old ones go on answering.  ServerClosed; AnswerLate when the
        server's thread did not take them in time (it still may).
        """
        taken: Future[None] = Future()
        with self._wake:
            if self._is_closed:
                raise ServerClosed("the inference server is closed")
            waiting = self._publication
            newest = max(self._version, waiting.weights.version if waiting else NO_VERSION)
            if weights.version <= newest:
                self._figures.counts["stale_weights"] += weights.version < newest
                return
            self._publication = _Publication(weights, taken)
            self._wake.notify()
        if waiting:
            waiting.taken.set_result(None)  # overtaken by newer ones
        try:
            taken.result(timeout)
        except TimeoutError:
            raise AnswerLate(f"weights version {weights.version} were not taken within {timeout:g} s") from None

    def stats(self) -> ServerStats:
        now = time.monotonic()
        with self._wake:
            figures, clients, waiting = self._figures.copy(), self._clients.count(now), len(self._queue)
        return figures.stats(now, version=self._version, clients=clients, waiting=waiting)

    def close(self, timeout: float = 10.0) -> None:
        """Every waiting caller gets ServerClosed at once; then waits for the thread to end its batch."""
        self._shut("the inference server was closed")
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    # --- the callers' side -------------------------------------------------------------------------------------------

    def _give_up(self, request: Request, gate: threading.Lock, timeout: float) -> None:
        """Leaves the queue, so that nobody computes what nobody reads; returns only if the answer came after all."""
        with self._wake:
            if gate.acquire(blocking=False):
                return
            self._drop(request)
            self._figures.counts["refused"] += 1
        if self._version == NO_VERSION:
            raise NoWeights(f"the inference server got no weights within {timeout:g} s")
        raise AnswerLate(f"the inference server did not answer within {timeout:g} s")

    def _drop(self, request: Request) -> bool:
        if request not in self._queue:
            return False
        self._queue.remove(request)
        self._positions -= len(request.leaves)
        return True

    def _seconds_left(self, now: float) -> float:
        return self._rule.seconds_left(
            self._positions, len(self._queue), self._clients.count(now), now - self._queue[0].queued_at,
            is_busy=len(self._running) > 0,
        )

    def _count(self, what: str, by: int = 1) -> None:
        with self._wake:
            self._figures.counts[what] += by

    def _shut(self, reason: str) -> None:
        with self._wake:
            self._is_closed = True
            abandoned = [*(request for batch in self._running for request in batch.requests), *self._queue]
            for batch in self._running:
                batch.requests = []
            self._queue.clear()
            self._positions = 0
            publication, self._publication = self._publication, None
            self._figures.counts["refused"] += len(abandoned)
            self._wake.notify()
        for request in abandoned:
            request.fail(ServerClosed(reason))
        if publication is not None:
            publication.taken.set_exception(ServerClosed(reason))

    # --- the server's thread -----------------------------------------------------------------------------------------

    def _run(self, ready: "Future[None]") -> None:
        try:
            self._pipeline = BatchPipeline(self._make_evaluator, self._sizes)
        except BaseException as error:
            self._is_closed = True
            ready.set_exception(error)
            return
        self._rule = FireRule(self._pipeline.sizes[-1], self._rule.deadline_s)
        ready.set_result(None)
        try:
            while (work := self._gather()) is not None or len(self._pipeline):
                if isinstance(work, _Publication):
                    self._take(work)
                elif work is not None:
                    self._begin(work)
                if len(self._pipeline) >= self._pipeline.depth or (work is None and len(self._pipeline)):
                    self._finish()
        finally:
            self._shut("the thread of the inference server ended")

    def _gather(self) -> _Batch | _Publication | None:
        """Waits for what is to be done next: new weights or a batch; None: finish what is under way, or end."""
        with self._wake:
            while not self._is_closed:
                if self._publication is not None:
                    publication, self._publication = self._publication, None
                    return publication
                left = None
                if self._queue and self._version != NO_VERSION:
                    left = self._seconds_left(time.monotonic())
                    if left <= 0:
                        return self._next_batch()
                if len(self._pipeline):
                    if self._pipeline.is_done():
                        return None
                    left = POLL_S if left is None else min(left, POLL_S)
                self._wake.wait(left)
        return None

    def _next_batch(self) -> _Batch:
        """The oldest requests that fit the largest size together; one larger than that goes alone."""
        requests = [self._queue.popleft()]
        positions = len(requests[0].leaves)
        while self._queue and positions + len(self._queue[0].leaves) <= self._rule.largest:
            requests.append(self._queue.popleft())
            positions += len(requests[-1].leaves)
        self._positions -= positions
        batch = _Batch(requests, time.monotonic())
        self._running.append(batch)
        return batch

    def _take(self, publication: _Publication) -> None:
        """New weights for the next batch."""
        try:
            self._pipeline.load(publication.weights, lambda size: sample_leaves(self._game, size))
        except Exception as error:
            publication.taken.set_exception(error)
            return
        self._version = publication.weights.version
        publication.taken.set_result(None)

    def _begin(self, batch: _Batch) -> None:
        requests = batch.requests
        while len(self._pipeline) and sum(len(request.leaves) for request in requests) > self._rule.largest:
            self._finish()  # one that is larger than any batch waits for nobody's card
        try:
            self._pipeline.begin(concat_leaves([request.leaves for request in requests]))
        except Exception as error:
            self._fail(batch, error)

    def _finish(self) -> None:
        """Waits for the oldest batch under way, and lets its callers go."""
        batch = self._running[0]
        requests = batch.requests
        try:
            evaluation = self._pipeline.finish()
            # New arrays: what the evaluator returned holds only until its next call.
            logits, values = to_half(evaluation.logits), to_half(evaluation.values)
        except Exception as error:
            self._fail(batch, error)
            return
        row = action = 0
        for request in requests:
            end_row, end_action = row + len(request.leaves), action + len(request.leaves.actions)
            request.values, request.logits = values[row:end_row], logits[action:end_action]
            request.version = evaluation.version
            row, action = end_row, end_action
        bad = non_finite_rows([request.leaves for request in requests], logits, values)
        end = time.monotonic()
        with self._wake:
            self._running.popleft()
            requests, batch.requests = batch.requests, []  # none when the server was closed meanwhile
            self._figures.note_batch(batch.began_at, end, row, bad)
            self._figures.waits.extend(end - request.queued_at for request in requests)
        for request in requests:
            request.settled(request)

    def _fail(self, batch: _Batch, error: Exception) -> None:
        with self._wake:
            self._running.remove(batch)
            requests, batch.requests = batch.requests, []
            self._figures.counts["failed"] += len(requests)
        for request in requests:
            request.fail(EvaluationFailed(f"the evaluator failed: {type(error).__name__}: {error}"))
