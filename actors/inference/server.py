"""The batched inference server: requests of many clients in one queue, evaluated together by one thread.

    infer() of many threads ──► bounded queue ──► one thread: gather, join into one batch, evaluate ──► answers

While a batch runs, the next one is gathered; on a GPU it is queued before the current one ends.  Gathering ends by
`actors.inference.batching.FireRule`; weights are swapped between two batches, and never for older ones.
Plain threads: the Ray actor is a thin shell around it.
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
from shusaku.actors.inference.leaves import concat_leaves, non_finite_rows, sample_leaves
from shusaku.actors.inference.pipeline import BatchPipeline
from shusaku.actors.inference.protocol import (
    AnswerLateError,
    EvaluationFailedError,
    NoWeightsError,
    QueueFullError,
    ServerClosedError,
    ServerUnavailableError,
)
from shusaku.actors.inference.stats import ServerCounters, ServerStats
from shusaku.common._core import Game
from shusaku.common.activity import ActivityClock
from shusaku.common.codec import CodecError
from shusaku.common.leaves_codec import LeavesCodec, encode_answer, to_half
from shusaku.common.messages import Leaves, Weights

POLL_S = 0.0003  # between two looks whether the GPU is done, while there is no batch to begin
FIRST_WEIGHTS = "waiting for the first weights"
LIVE_SECONDS = 5.0  # the server does not wait for a client that sent no request for so long


class Request:
    """Positions of one client; `settled` is called once, with the answer or with the error."""

    __slots__ = ("error", "leaves", "logits", "queued_at", "settled", "values", "version")

    def __init__(self, leaves: Leaves, now: float, settled: "Callable[[Request], None]") -> None:
        self.leaves, self.queued_at, self.settled = leaves, now, settled
        self.error: ServerUnavailableError | None = None
        self.logits: NDArray[np.float16]
        self.values: NDArray[np.float16]
        self.version = NO_VERSION

    def fail(self, error: ServerUnavailableError) -> None:
        """Settles the request with an error."""
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
    loaded: "Future[None]"  # resolves when they answer, or with the reason why they never will


class InferenceServer:
    """Evaluates the requests of many clients together; every public method may be called by any thread."""

    def __init__(
        self, game: Game, make_evaluator: Callable[[int], Evaluator], *, sizes: Sequence[int], deadline_ms: float,
        max_waiting: int = 512, activity: ActivityClock | None = None,
    ) -> None:
        """Starts the server's thread and waits until it has made its evaluators.

        `make_evaluator(size)` is called once for each of `sizes`, in the server's thread, which alone uses them; its
        errors are raised here.  `max_waiting` bounds the queue in requests, each at most MAX_REQUEST_BYTES.
        `activity`: told what the thread does.
        """
        assert sizes, "a server needs at least one size"
        assert all(size >= 1 for size in sizes), f"{sizes}: a size is at least 1"
        self._codec, self._game = LeavesCodec(game), game
        self._make_evaluator, self._sizes = make_evaluator, sorted(set(sizes))
        self._rule = FireRule(self._sizes[-1], deadline_ms / 1000)
        self._max_waiting = max_waiting
        self._activity = activity or ActivityClock()
        self._pipeline: BatchPipeline  # the server's thread makes it and alone uses it

        self._wake = threading.Condition(threading.Lock())  # guards all below; the server's thread waits on it
        self._queue: deque[Request] = deque()
        self._positions = 0  # in the queue
        self._running: deque[_Batch] = deque()
        self._publication: _Publication | None = None
        self._is_closed = False
        self._version = NO_VERSION
        self._clients = LiveClients(LIVE_SECONDS)
        self._counters = ServerCounters(time.monotonic())

        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="inference", daemon=True)
        self._thread.start()
        ready.result()

    # --- called by any thread ----------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version of the weights that answer the next batch; -1 before the first."""
        return self._version

    @property
    def description(self) -> str:
        """Runtime and precision, and why they were chosen."""
        return self._pipeline.description

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def infer(self, client: int, payload: bytes, timeout: float) -> bytes:
        """The answer to a request of `common.leaves_codec`; blocks for at most `timeout` seconds.

        CodecError for a bad payload; ServerUnavailableError, or a subclass of it, if there is no answer.
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
        """`infer` without waiting: `settled` is called with the request, in the server's thread, and must be short.

        An error before the request is queued is raised here, and `settled` is not called then.
        """
        now = time.monotonic()
        try:
            request = Request(self._codec.decode(payload), now, settled)
        except CodecError:
            with self._wake:
                self._counters.counts["refused"] += 1
            raise
        with self._wake:
            self._clients.record(client, now)
            if self._is_closed:
                self._counters.counts["refused"] += 1
                raise ServerClosedError("the inference server is closed")
            if len(self._queue) >= self._max_waiting:
                self._counters.counts["refused"] += 1
                raise QueueFullError(f"{len(self._queue)} requests wait at the inference server; that is its bound")
            self._queue.append(request)
            self._positions += len(request.leaves)
            if len(self._queue) == 1 or self._seconds_left(now) <= 0:  # otherwise the thread sleeps until the deadline
                self._wake.notify()
        return request

    def withdraw(self, request: Request) -> bool:
        """Takes a request out of the queue, so that `settled` is never called; False if it is no longer there."""
        with self._wake:
            return self._drop(request)

    def load(self, weights: Weights, timeout: float = 120.0) -> None:
        """Waits until these weights answer; weights older than the current ones are ignored.

        ValueError if they do not fit the network: the old ones stay in use.  ServerClosedError; AnswerLateError if the
        server's thread did not load them in time (it still may).
        """
        loaded: Future[None] = Future()
        with self._wake:
            if self._is_closed:
                raise ServerClosedError("the inference server is closed")
            waiting = self._publication
            newest = max(self._version, waiting.weights.version if waiting else NO_VERSION)
            if weights.version <= newest:
                self._counters.counts["stale_weights"] += weights.version < newest
                return
            self._publication = _Publication(weights, loaded)
            self._wake.notify()
        if waiting:
            waiting.loaded.set_result(None)  # replaced by newer ones
        try:
            loaded.result(timeout)
        except TimeoutError:
            raise AnswerLateError(f"weights version {weights.version} were not loaded within {timeout:g} s") from None

    def stats(self) -> ServerStats:
        """Totals since the server was made, and rates of the last seconds."""
        now = time.monotonic()
        with self._wake:
            counters, clients, waiting = self._counters.copy(), self._clients.count(now), len(self._queue)
        return counters.stats(now, version=self._version, clients=clients, waiting=waiting)

    def close(self, timeout: float = 10.0) -> None:
        """Fails every waiting request with ServerClosedError, then waits for the thread to end its batch."""
        self._shut("the inference server was closed")
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    # --- the callers' side -------------------------------------------------------------------------------------------

    def _give_up(self, request: Request, gate: threading.Lock, timeout: float) -> None:
        """Takes the request out of the queue and raises; returns only if the answer came after all."""
        with self._wake:
            if gate.acquire(blocking=False):
                return
            self._drop(request)
            self._counters.counts["refused"] += 1
        if self._version == NO_VERSION:
            raise NoWeightsError(f"the inference server got no weights within {timeout:g} s")
        raise AnswerLateError(f"the inference server did not answer within {timeout:g} s")

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

    def _shut(self, reason: str) -> None:
        with self._wake:
            self._is_closed = True
            abandoned = [*(request for batch in self._running for request in batch.requests), *self._queue]
            for batch in self._running:
                batch.requests = []
            self._queue.clear()
            self._positions = 0
            publication, self._publication = self._publication, None
            self._counters.counts["refused"] += len(abandoned)
            self._wake.notify()
        for request in abandoned:
            request.fail(ServerClosedError(reason))
        if publication is not None:
            publication.loaded.set_exception(ServerClosedError(reason))

    # --- the server's thread -----------------------------------------------------------------------------------------

    def _run(self, ready: "Future[None]") -> None:
        self._activity.begin("building the evaluators")
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
                    self._swap_weights(work)
                elif work is not None:
                    self._begin(work)
                if len(self._pipeline) >= self._pipeline.depth or (work is None and len(self._pipeline)):
                    self._finish()
        finally:
            self._shut("the thread of the inference server ended")

    def _gather(self) -> _Batch | _Publication | None:
        """Waits for the next work: new weights or a batch; None: finish the batches in flight, or end."""
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
                if left is None:
                    self._activity.wait("waiting for requests" if self._version != NO_VERSION else FIRST_WEIGHTS)
                self._wake.wait(left)
        return None

    def _next_batch(self) -> _Batch:
        """The oldest requests that fit into the largest size; a request larger than that is a batch of its own."""
        requests = [self._queue.popleft()]
        positions = len(requests[0].leaves)
        while self._queue and positions + len(self._queue[0].leaves) <= self._rule.largest:
            requests.append(self._queue.popleft())
            positions += len(requests[-1].leaves)
        self._positions -= positions
        batch = _Batch(requests, time.monotonic())
        self._running.append(batch)
        return batch

    def _swap_weights(self, publication: _Publication) -> None:
        self._activity.begin("loading weights")
        try:
            self._pipeline.load(publication.weights, lambda size: sample_leaves(self._game, size))
        except Exception as error:
            publication.loaded.set_exception(error)
            return
        self._version = publication.weights.version
        publication.loaded.set_result(None)

    def _begin(self, batch: _Batch) -> None:
        self._activity.begin("computing a batch")
        requests = batch.requests
        while len(self._pipeline) and sum(len(request.leaves) for request in requests) > self._rule.largest:
            self._finish()  # a request larger than any size needs an empty pipeline
        try:
            self._pipeline.begin(concat_leaves([request.leaves for request in requests]))
        except Exception as error:
            self._fail(batch, error)

    def _finish(self) -> None:
        """Waits for the oldest batch in flight and settles its requests."""
        self._activity.begin("computing a batch")
        batch = self._running[0]
        requests = batch.requests
        try:
            evaluation = self._pipeline.finish()
            # New arrays: those of the evaluator are valid only until its next call.
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
            requests, batch.requests = batch.requests, []  # empty if the server was closed meanwhile
            self._counters.record_batch(batch.began_at, end, row, bad)
            self._counters.waits.extend(end - request.queued_at for request in requests)
        for request in requests:
            request.settled(request)

    def _fail(self, batch: _Batch, error: Exception) -> None:
        with self._wake:
            self._running.remove(batch)
            requests, batch.requests = batch.requests, []
            self._counters.counts["failed"] += len(requests)
        for request in requests:
            request.fail(EvaluationFailedError(f"the evaluator failed: {type(error).__name__}: {error}"))
