"""The batched inference server: requests of many clients in one queue, evaluated together.

    infer() of many threads, ──► bounded queue ──► one thread: gather, lay into one batch, begin it on the device
    requests in shared memory                                                              │
                                   answers ◄── a second thread: wait for the device ◄──────┘

The queue, the batches and the answers are C++ (`common/core/serving`): Python runs once a batch, not once a request.
While a batch runs, the next one is gathered; on a GPU it is queued before the current one ends, and the second thread
answers the one before: a small network takes a GPU no longer than either.  Where a batch is computed by the host's own
cores there is no second thread.  Gathering ends by the rule of `fire_rule.h`; weights are swapped between two batches,
and never for older ones.  Plain threads: the Ray actor is a thin shell around it.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from shusaku.actors.evaluators.evaluator import NO_VERSION, Evaluator
from shusaku.actors.inference.leaves import sample_leaves
from shusaku.actors.inference.pipeline import BatchPipeline, InFlight
from shusaku.actors.inference.protocol import (
    AnswerLateError,
    EvaluationFailedError,
    NoWeightsError,
    QueueFullError,
    ServerClosedError,
    ServerUnavailableError,
)
from shusaku.actors.inference.shm_segment import MAX_SLOT_BYTES
from shusaku.actors.inference.stats import ServerCounters, ServerStats
from shusaku.common._core import FireRule, Game, RequestBatch, RequestQueue
from shusaku.common.activity import ActivityClock
from shusaku.common.codec import CodecError
from shusaku.common.device_failure import first_line, is_device_failure
from shusaku.common.leaves_codec import LeavesCodec
from shusaku.common.messages import Weights

LEAST_WAITING = 512  # requests that the queue takes, for few clients
LEAD_S = 0.001  # before the GPU is free: a batch that is begun then is ready in time
FIRST_WEIGHTS = "waiting for the first weights"
LIVE_SECONDS = 5.0  # the server does not wait for a client that sent no request for so long

# Outcomes of a request of this process, in the numbers of `serving/request_queue.h`.
LATE, ANSWERED, REFUSED, CLOSED, QUEUE_FULL, FAILED = 0, 1, 2, 4, 5, 6
ERRORS: dict[int, type[ServerUnavailableError]] = {
    CLOSED: ServerClosedError, QUEUE_FULL: QueueFullError, FAILED: EvaluationFailedError,
}


@dataclass(frozen=True, slots=True)
class Spare:
    """What evaluates when the device has failed: other evaluators, such as those of the CPU, and their sizes."""

    make_evaluator: Callable[[int], Evaluator]
    sizes: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Publication:
    weights: Weights
    loaded: "Future[None]"  # resolves when they answer, or with the reason why they never will


class InferenceServer:
    """Evaluates the requests of many clients together; every public method may be called by any thread."""

    def __init__(
        self, game: Game, make_evaluator: Callable[[int], Evaluator], *, sizes: Sequence[int], deadline_ms: float,
        max_waiting: int = LEAST_WAITING, activity: ActivityClock | None = None, spare: Spare | None = None,
    ) -> None:
        """Starts the server's thread and waits until it has made its evaluators.

        `make_evaluator(size)` is called once for each of `sizes`, in the server's thread, which alone uses them; its
        errors are raised here.  `max_waiting` bounds the queue in requests, each at most MAX_SLOT_BYTES.
        `activity`: told what the thread does; `spare`: takes over for good when the device fails.
        """
        assert sizes, "a server needs at least one size"
        assert all(size >= 1 for size in sizes), f"{sizes}: a size is at least 1"
        self._game = game
        self._make_evaluator, self._sizes = make_evaluator, sorted(set(sizes))
        rule = FireRule(self._sizes[-1], deadline_ms / 1000)
        self.queue = RequestQueue(LeavesCodec(game, MAX_SLOT_BYTES).rules, rule, max_waiting, LIVE_SECONDS)
        self._activity = activity or ActivityClock()
        self._spare = spare
        self._trouble = ""
        self._pipeline: BatchPipeline  # the server's thread makes it and begins batches in it
        self._failed_pipeline: BatchPipeline | None = None
        self._answerer: threading.Thread | None = None  # of the pipeline, if it computes on a device

        self._lock = threading.Lock()  # guards all below
        self._failure: Exception | None = None  # of the device, as the thread that waits for it has found
        self._publication: _Publication | None = None
        self._is_closed = False
        self._version = self._offered = NO_VERSION  # that answers, and the newest that was accepted
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
        return self._pipeline.description + (f"; {self._trouble}" if self._trouble else "")

    @property
    def trouble(self) -> str:
        """Why the device that was asked for computes no more; empty as long as it does."""
        return self._trouble

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def infer(self, client: int, payload: bytes, timeout: float) -> bytes:
        """The answer to a request of `common.leaves_codec`; blocks for at most `timeout` seconds.

        CodecError for a bad payload; ServerUnavailableError, or a subclass of it, if there is no answer.
        """
        outcome, answer = self.queue.infer(client, payload, timeout)
        if outcome == ANSWERED:
            return answer
        if outcome == LATE:
            if self._version == NO_VERSION:
                raise NoWeightsError(f"the inference server got no weights within {timeout:g} s")
            raise AnswerLateError(f"the inference server did not answer within {timeout:g} s")
        if outcome == REFUSED:
            raise CodecError(answer.decode())
        raise ERRORS[outcome](answer.decode())

    def load(self, weights: Weights, timeout: float = 120.0) -> None:
        """Waits until these weights answer; weights older than the current ones are ignored.

        ValueError if they do not fit the network: the old ones stay in use.  ServerClosedError; AnswerLateError if the
        server's thread did not load them in time (it still may).
        """
        loaded: Future[None] = Future()
        if weights.version > self._offered:
            with suppress(RuntimeError):  # a device that has failed: the server's thread finds out
                self._pipeline.prepare(weights)
        with self._lock:
            if self._is_closed:
                raise ServerClosedError("the inference server is closed")
            waiting, newest = self._publication, self._offered
            if weights.version <= newest:
                self._counters.stale_weights += weights.version < newest
                return
            self._publication, self._offered = _Publication(weights, loaded), weights.version
        self.queue.wake()
        if waiting:
            waiting.loaded.set_result(None)  # replaced by newer ones
        try:
            loaded.result(timeout)
        except TimeoutError:
            raise AnswerLateError(f"weights version {weights.version} were not loaded within {timeout:g} s") from None

    def stats(self) -> ServerStats:
        """Totals since the server was made, and rates of the last seconds."""
        totals, waits = self.queue.counters()
        with self._lock:
            counters = self._counters.copy()
        return counters.stats(time.monotonic(), totals, waits, version=self._version, clients=self.queue.clients,
                              waiting=self.queue.waiting)

    def close(self, timeout: float = 10.0) -> None:
        """Fails every waiting request with ServerClosedError, then waits for the thread to end its batch."""
        self._shut("the inference server was closed")
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _shut(self, reason: str) -> None:
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            publication, self._publication = self._publication, None
            if not was_closed:  # the batches that the queue refers to exist now, and later perhaps no more
                self.queue.close(reason)
        if publication is not None:
            publication.loaded.set_exception(ServerClosedError(reason))

    # --- the server's thread -----------------------------------------------------------------------------------------

    def _run(self, ready: "Future[None]") -> None:
        self._activity.begin("building the evaluators")
        try:
            self._use(BatchPipeline(self._game, self._make_evaluator, self._sizes))
        except BaseException as error:
            self._is_closed = True
            ready.set_exception(error)
            return
        ready.set_result(None)
        try:
            while not self._is_closed:
                self._serve()
        finally:
            self._shut("the thread of the inference server ended")
            self._end_pipeline()

    def _use(self, pipeline: BatchPipeline) -> None:
        self._pipeline = pipeline
        self._answerer = None
        if pipeline.depth > 1:
            self._answerer = threading.Thread(target=self._answer_all, args=(pipeline,), name="answers", daemon=True)
            self._answerer.start()

    def _end_pipeline(self) -> None:
        """Waits for what is in flight."""
        if self._answerer is not None:
            self._pipeline.wait_for_room(self._pipeline.sizes[-1] + 1)
        self._pipeline.close()

    def _serve(self) -> None:
        """New weights, or another batch; on another device if the one before has failed."""
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None and self._spare is not None:
            self._leave_device(self._spare, failure)
        with self._lock:
            publication, self._publication = self._publication, None
        if publication is not None:
            self._swap_weights(publication)
        else:
            self._gather()

    def _gather(self) -> None:
        """Waits for a batch and begins it; returns earlier for new weights, the end, or an answer of the device."""
        pipeline = self._pipeline
        self.queue.set_largest(pipeline.update_largest())
        busy_until = pipeline.busy_until
        if not busy_until and not self.queue.waiting:
            self._activity.wait("waiting for requests" if self._version != NO_VERSION else FIRST_WEIGHTS)
        gathered = self.queue.gather(pipeline.inputs, self._version != NO_VERSION, pipeline.has_room,
                                     busy_until - LEAD_S, math.inf)
        if gathered is None:
            return
        batch, columns = gathered
        self._activity.begin("computing a batch")
        pipeline.wait_for_room(batch.rows)
        try:
            pipeline.begin(batch, columns)
        except Exception as error:
            self._fail(batch, error)
            if self._spare is not None and is_device_failure(error):
                self._leave_device(self._spare, error)
            return
        if self._answerer is None and (oldest := pipeline.wait_for_oldest()) is not None:
            self._answer(pipeline, oldest)

    def _swap_weights(self, publication: _Publication) -> None:
        self._activity.begin("loading weights")
        try:
            self._pipeline.load(publication.weights, lambda size: sample_leaves(self._game, size))
        except Exception as error:
            if self._spare is None or not is_device_failure(error):
                with self._lock:
                    if self._publication is None:  # no newer one waits
                        self._offered = self._version
                publication.loaded.set_exception(error)
                return
            try:
                self._leave_device(self._spare, error)
            except BaseException as failure:
                publication.loaded.set_exception(failure)
                raise
            self._swap_weights(publication)
            return
        self._version = publication.weights.version
        publication.loaded.set_result(None)

    def _leave_device(self, spare: Spare, error: Exception) -> None:
        """The spare evaluators answer from now on; clients ask again for what was in flight, here or elsewhere."""
        self._spare, self._trouble = None, f"the device failed and was left: {first_line(error)}"
        self._activity.begin("building evaluators after the device has failed")
        for batch in self._pipeline.close():
            self.queue.fail(batch, self._trouble)
        # Kept: to free pinned memory of a device that has failed ends the process.
        self._failed_pipeline, weights = self._pipeline, self._pipeline.weights
        self._use(BatchPipeline(self._game, spare.make_evaluator, spare.sizes))
        if weights is not None:
            self._pipeline.load(weights, lambda size: sample_leaves(self._game, size))

    # --- the thread that waits for the device, or the server's --------------------------------------------------------

    def _answer_all(self, pipeline: BatchPipeline) -> None:
        """Until the pipeline is closed."""
        try:
            while (oldest := pipeline.wait_for_oldest()) is not None:
                self._answer(pipeline, oldest)
                self.queue.wake()  # there is room
        except BaseException:
            self._shut("the thread that answers for the inference server ended")  # first: its batches are not dropped
            pipeline.close()
            raise

    def _answer(self, pipeline: BatchPipeline, oldest: InFlight) -> None:
        """Waits for the oldest batch in flight and answers its requests."""
        try:
            finished = pipeline.finish(oldest)
            evaluation = finished.evaluation
            self.queue.answer(oldest.batch, evaluation.logits, evaluation.values, evaluation.version)
        except Exception as error:
            with self._lock:
                if pipeline is self._pipeline and is_device_failure(error):
                    self._failure = error
            self.queue.wake()  # before the clients know: what they ask next is for the spare
            self._fail(oldest.batch, error)
        else:
            with self._lock:
                self._counters.record_batch(finished.begun_at, finished.ended_at, oldest.batch.rows)
        finally:
            pipeline.forget(oldest)

    def _fail(self, batch: RequestBatch, error: Exception) -> None:
        self.queue.fail(batch, f"the evaluator failed: {type(error).__name__}: {error}")
