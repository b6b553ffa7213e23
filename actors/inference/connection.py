"""A client's connection to one inference server: what does not depend on how bytes travel."""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NoReturn

from shusaku.actors.inference.protocol import Body, ServerUnavailableError, Status
from shusaku.common.codec import CodecError

CONNECT_SECONDS = 2.0


class Connection(ABC):
    """Requests in flight and their answers; used by one thread.  After a failure it stays closed."""

    name: str  # in errors

    def __init__(
        self, max_bytes: int, *, slots: int, deadline: float, record_seconds: Callable[[float], None]
    ) -> None:
        """`max_bytes`: of a request, of which `slots` may be in flight.

        `deadline`: seconds for an answer, after which the connection is closed, and which may be changed;
        `record_seconds` gets the round-trip time of each call.
        """
        self.max_bytes, self.slots = max_bytes, slots
        self.deadline, self._record_seconds = deadline, record_seconds
        self._free = list(range(slots))
        self._sent_at: dict[int, float] = {}  # requests in flight
        self._received: dict[int, Body] = {}  # that were not asked for yet
        self._is_closed = False
        self.was_late = False  # it was closed because an answer did not come in time

    @abstractmethod
    def _put(self, slot: int, payload: bytes) -> None:
        """Sends a request; OSError if that fails."""

    @abstractmethod
    def _take(self, until: float) -> tuple[int, Body]:
        """Waits for any answer; TimeoutError at `until`, EOFError if the server has ended, other OSErrors."""

    @abstractmethod
    def _release(self) -> None:
        """Closes what the connection holds."""

    def send(self, payload: bytes) -> int:
        """Sends a request; the slot that it has.  ServerUnavailableError if the connection is closed."""
        if self._is_closed or not self._free:  # an abandoned request keeps its slot
            self._fail("the connection was closed" if self._is_closed else "requests were abandoned")
        slot = self._free.pop()
        self._sent_at[slot] = time.monotonic()
        try:
            self._put(slot, payload)
        except OSError as error:
            self._fail(str(error))
        return slot

    def receive(self, slot: int, timeout: float) -> bytes:
        """The answer.  TimeoutError and ServerUnavailableError as in `Transport`; CodecError for an invalid request."""
        until = time.monotonic() + timeout
        while slot not in self._received:
            self._receive_any(slot, until)
        answer = self._received.pop(slot)
        self._free.append(slot)
        sent_at = self._sent_at.pop(slot)
        if answer.status is Status.ANSWER:  # a refusal says nothing about how long the server takes
            self._record_seconds(answer.written_at - sent_at)
            return answer.data
        text = answer.data.decode(errors="replace")
        if answer.status is Status.REFUSED:
            raise CodecError(text)
        raise ServerUnavailableError(text)

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._is_closed

    @property
    def is_idle(self) -> bool:
        """Whether no answer is awaited."""
        return not self._sent_at

    def close(self) -> None:
        """Ends the connection; closing it again does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._release()

    def _receive_any(self, slot: int, until: float) -> None:
        """Waits for any answer; ServerUnavailableError if the server has ended, or is too late with this one."""
        if self._is_closed:
            self._fail("the connection was closed")
        try:
            found, answer = self._take(until)
        except TimeoutError:
            if time.monotonic() - self._sent_at[slot] < self.deadline:
                raise TimeoutError from None
            self.was_late = True
            self._fail(f"no answer for {self.deadline:g} s")
        except EOFError:
            self._fail("the server has ended")
        except OSError as error:
            self._fail(str(error))
        if found in self._sent_at:
            self._received[found] = answer

    def _fail(self, reason: str) -> NoReturn:
        with contextlib.suppress(OSError):
            self.close()
        raise ServerUnavailableError(f"{self.name}: {reason}")
