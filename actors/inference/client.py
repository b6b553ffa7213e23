"""The client of an inference server: an evaluator whose answers come from elsewhere, in one step or in two.

`begin(leaves)` sends, `finish()` waits: between them the caller searches other games.  A call is pure, so whatever
goes wrong on the way is mended by sending it again.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from shusaku.actors.evaluators.evaluator import NO_VERSION
from shusaku.common._core import Game
from shusaku.common.leaves_codec import MAX_REQUEST_BYTES, LeavesCodec, concat_evaluations, decode_evaluation
from shusaku.common.messages import Evaluation, Leaves

MAX_IN_FLIGHT = 2  # requests of one client
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 2.0  # between two attempts
POLL_S = 0.2  # how often a wait looks whether it should stop


class ServerUnavailable(RuntimeError):
    """There is no answer from this server now.  The call is pure: ask again, here or at another server."""


class Transport(Protocol):
    """Carries requests to some server and answers back; used by one thread.

    It may move to another server at any time: between two attempts of a call, too.
    """

    def send(self, payload: bytes) -> Any:
        """A ticket for `receive`, not None; does not wait for the answer.  ServerUnavailable when it cannot be sent."""
        ...

    def receive(self, ticket: Any, timeout: float) -> bytes:
        """The answer.  TimeoutError when none came within `timeout` seconds: the ticket stays good.

        ServerUnavailable when none will come: the ticket is void.
        """
        ...


class EvaluationStopped(RuntimeError):
    """The client was told to stop before the answer came; `finish()` may be called again."""


class _Part:
    """One request of an evaluation under way."""

    __slots__ = ("actions", "answer", "payload", "rows", "sent_at", "ticket")

    def __init__(self, leaves: Leaves, payload: bytes) -> None:
        self.payload, self.rows, self.actions = payload, len(leaves), len(leaves.actions)
        self.ticket: Any = None  # None: not under way
        self.sent_at = 0.0
        self.answer: Evaluation | None = None


class RemoteEvaluation:
    """Asks servers through `transport`; to be used by one thread, like any evaluator.

    Up to two evaluations may be under way, finished in the order in which they were begun, and at most
    MAX_IN_FLIGHT requests of them.
    """

    def __init__(
        self,
        transport: Transport,
        client: int,
        game: Game,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        timeout: float = 10.0,
        max_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        """`client` is the number that this one is known by; a request without answer for `timeout` seconds is sent
        again.  `should_stop` ends every wait within POLL_S.
        """
        self._transport, self._should_stop, self._timeout = transport, should_stop, timeout
        self._codec = LeavesCodec(game, max_bytes)
        self._random = np.random.default_rng(client)  # so that clients do not come back all at once
        self._under_way: deque[list[_Part]] = deque()
        self._in_flight = 0
        self._version = self._answered = NO_VERSION  # newest known of; of the last answer
        self._pause = FIRST_PAUSE_S
        self._never = threading.Event()  # to wait on
        self.resent = 0  # requests that had to be sent again

    @property
    def version(self) -> int:
        """Of the newest answer, or the newest that it was told of; -1 before either.

        It is the best guess of which weights will answer.  A wrong one costs cache hits only: an Evaluation names
        the weights that made it, and the search files it under that.
        """
        return self._version

    def note_version(self, version: int) -> None:
        """These weights answer from now on, somebody says."""
        self._version = max(self._version, version)

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Sends and waits; nothing else may be under way."""
        assert not self._under_way, "finish() what was begun first"
        self.begin(leaves)
        return self.finish()

    def begin(self, leaves: Leaves) -> None:
        """Sends the leaves, at least one, without waiting; their arrays are free when it returns."""
        assert len(leaves), "there is nothing to evaluate"
        assert len(self._under_way) < MAX_IN_FLIGHT, "finish() what was begun first"
        self._under_way.append([_Part(part, self._codec.encode(part)) for part in self._codec.split(leaves)])
        self._send_more()

    def finish(self) -> Evaluation:
        """The answer to what was begun first: new arrays, all of one version.

        EvaluationStopped when `should_stop()` came true; CodecError when a server answers nonsense.
        """
        parts = self._under_way[0]
        while True:
            while any(part.answer is None for part in parts):
                self._receive_one()
            answers = [part.answer for part in parts if part.answer is not None]
            if len({answer.version for answer in answers}) == 1:
                break
            self._ask_again(parts)
        self._under_way.popleft()
        return concat_evaluations(answers)

    def _ask_again(self, parts: list[_Part]) -> None:
        """The weights were swapped between two requests of one evaluation, or another server took over.

        One number must name the weights of all, so those that answered last are asked for the others, too.
        """
        for part in parts:
            if part.answer is not None and part.answer.version != self._answered:
                part.answer = None
                self.resent += 1
        self._wait()

    def _receive_one(self) -> None:
        """Sends what may be sent and waits a while for the oldest request in flight."""
        if self._should_stop():
            raise EvaluationStopped("told to stop while an evaluation was under way")
        self._send_more()
        part = next((part for parts in self._under_way for part in parts if part.ticket is not None), None)
        if part is None:
            self._wait()
            return
        try:
            data = self._transport.receive(part.ticket, min(POLL_S, self._timeout))
        except TimeoutError:
            if time.monotonic() - part.sent_at >= self._timeout:
                self._forget(part)
                self.resent += 1
            return
        except ServerUnavailable:
            self._forget(part)
            self.resent += 1
            self._wait()
            return
        except BaseException:
            self._forget(part)
            raise
        self._forget(part)
        part.answer = decode_evaluation(data, part.rows, part.actions)
        self._answered = part.answer.version
        self._version = max(self._version, self._answered)
        self._pause = FIRST_PAUSE_S

    def _send_more(self) -> None:
        """Sends requests in order as long as few enough are in flight; one that cannot be sent is tried again later."""
        for parts in self._under_way:
            for part in parts:
                if part.ticket is None and part.answer is None:
                    if self._in_flight >= MAX_IN_FLIGHT:
                        return
                    try:
                        part.ticket = self._transport.send(part.payload)
                    except ServerUnavailable:
                        return
                    part.sent_at = time.monotonic()
                    self._in_flight += 1

    def _forget(self, part: _Part) -> None:
        part.ticket = None
        self._in_flight -= 1

    def _wait(self) -> None:
        """Before another attempt: twice as long each time, up to a bound, and no two clients alike."""
        until = time.monotonic() + self._pause * self._random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
        while (left := until - time.monotonic()) > 0 and not self._should_stop():
            self._never.wait(min(left, POLL_S))
