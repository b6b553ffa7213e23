"""The client of an inference server: an evaluator whose answers come from another process, in one step or in two.

`begin(leaves)` sends, `finish()` waits: between them the caller searches other games.  Evaluation has no side effects,
so every failure is repaired by sending the request again.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from shusaku.actors.evaluators.evaluator import NO_VERSION
from shusaku.actors.inference.protocol import MAX_IN_FLIGHT, ServerUnavailableError, Transport
from shusaku.actors.inference.shm_segment import MAX_SLOT_BYTES
from shusaku.common._core import Game
from shusaku.common.leaves_codec import LeavesCodec, concat_evaluations, decode_evaluation
from shusaku.common.messages import Evaluation, Leaves

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 2.0  # between two attempts
POLL_S = 0.2  # a waiting client looks this often whether it should stop


class EvaluationStoppedError(RuntimeError):
    """The client was told to stop before the answer came; `finish()` may be called again."""


class _Request:
    """One request of an evaluation in flight."""

    __slots__ = ("actions", "answer", "payload", "rows", "sent_at", "ticket")

    def __init__(self, leaves: Leaves, payload: bytes) -> None:
        self.payload, self.rows, self.actions = payload, len(leaves), len(leaves.actions)
        self.ticket: Any = None  # None: not in flight
        self.sent_at = 0.0
        self.answer: Evaluation | None = None


class RemoteEvaluator:
    """Asks servers through `transport`; used by one thread, like any evaluator.

    Up to MAX_IN_FLIGHT evaluations may be in flight; they are finished in the order in which they were begun.  Each is
    one request, or as few as the transport carries.
    """

    def __init__(
        self, transport: Transport, client: int, game: Game, *, should_stop: Callable[[], bool] = lambda: False,
        on_wait: Callable[[], None] = lambda: None, timeout: float = 10.0,
    ) -> None:
        """`client`: the number of this client; `timeout`: seconds until an unanswered request is sent again.

        `should_stop` ends every wait within POLL_S; `on_wait` is called each time that no answer came within POLL_S.
        """
        self._on_wait = on_wait
        self._transport, self._should_stop, self._timeout = transport, should_stop, timeout
        self._codec = LeavesCodec(game, MAX_SLOT_BYTES)
        self._random = np.random.default_rng(client)  # so that clients do not come back all at once
        self._in_flight: deque[list[_Request]] = deque()
        self._requests_in_flight = 0
        self._newest_version = self._last_version = NO_VERSION
        self._pause = FIRST_PAUSE_S
        self._never = threading.Event()  # to wait on
        self.resent = 0  # requests that had to be sent again

    @property
    def version(self) -> int:
        """The newest version that answered; NO_VERSION before the first answer.

        It is the best guess of which weights will answer next.  A wrong guess costs only cache hits: an Evaluation
        names its version, and the search stores it under that version.
        """
        return self._newest_version

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Sends the leaves and waits for the answer; no evaluation may be in flight."""
        assert not self._in_flight, "finish() the evaluation that was begun before"
        self.begin(leaves)
        return self.finish()

    def begin(self, leaves: Leaves) -> None:
        """Sends the leaves, at least one, without waiting; their arrays are free when it returns."""
        assert len(leaves), "there is nothing to evaluate"
        assert len(self._in_flight) < MAX_IN_FLIGHT, "finish() the evaluation that was begun before"
        parts = self._codec.split(leaves, self._transport.max_bytes)
        self._in_flight.append([_Request(part, self._codec.encode(part)) for part in parts])
        self._send_more()

    def finish(self) -> Evaluation:
        """Waits for the oldest evaluation: new arrays, all of one version.

        EvaluationStoppedError if `should_stop()` became true; CodecError for an invalid answer.
        """
        requests = self._in_flight[0]
        while True:
            while any(request.answer is None for request in requests):
                self._receive_one()
            answers = [request.answer for request in requests if request.answer is not None]
            if len({answer.version for answer in answers}) == 1:
                break
            self._ask_again(requests)
        self._in_flight.popleft()
        return concat_evaluations(answers)

    def _ask_again(self, requests: list[_Request]) -> None:
        """Drops the answers of all versions but the last one that answered.

        The weights were swapped between two requests of one evaluation, or another server took over.
        """
        for request in requests:
            if request.answer is not None and request.answer.version != self._last_version:
                request.answer = None
                self.resent += 1
        self._wait()

    def _receive_one(self) -> None:
        """Sends what may be sent and waits for the oldest request in flight, at most POLL_S."""
        if self._should_stop():
            raise EvaluationStoppedError("told to stop while an evaluation was in flight")
        self._send_more()
        request = next((one for requests in self._in_flight for one in requests if one.ticket is not None), None)
        if request is None:
            self._on_wait()
            self._wait()
            return
        try:
            data = self._transport.receive(request.ticket, min(POLL_S, self._timeout))
        except TimeoutError:
            self._on_wait()
            if time.monotonic() - request.sent_at >= self._timeout:
                self._drop_ticket(request)
                self.resent += 1
            return
        except ServerUnavailableError:
            self._on_wait()
            self._drop_ticket(request)
            self.resent += 1
            self._wait()
            return
        except BaseException:
            self._drop_ticket(request)
            raise
        self._drop_ticket(request)
        request.answer = decode_evaluation(data, request.rows, request.actions)
        self._last_version = request.answer.version
        self._newest_version = max(self._newest_version, self._last_version)
        self._pause = FIRST_PAUSE_S

    def _send_more(self) -> None:
        """Sends requests in order while few enough are in flight; a request that cannot be sent is retried later."""
        for requests in self._in_flight:
            for request in requests:
                if request.ticket is None and request.answer is None:
                    if self._requests_in_flight >= self._transport.slots:
                        return
                    try:
                        request.ticket = self._transport.send(request.payload)
                    except ServerUnavailableError:
                        return
                    request.sent_at = time.monotonic()
                    self._requests_in_flight += 1

    def _drop_ticket(self, request: _Request) -> None:
        request.ticket = None
        self._requests_in_flight -= 1

    def _wait(self) -> None:
        """Waits before another attempt: twice as long each time up to a bound, and different for every client."""
        until = time.monotonic() + self._pause * self._random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
        while (left := until - time.monotonic()) > 0 and not self._should_stop():
            self._never.wait(min(left, POLL_S))
