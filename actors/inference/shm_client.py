"""A client of the inference server's shared-memory door: the transport of `actors.inference.client` on one host."""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import NoReturn

from shusaku.actors.inference.client import MAX_IN_FLIGHT, ServerUnavailable
from shusaku.actors.inference.shm_segment import Body, Segment, Status
from shusaku.actors.inference.shm_server import HELLO, HELLO_MARK, WELCOME
from shusaku.common.codec import CodecError

CONNECT_SECONDS = 5.0


class SharedTransport:
    """One connection to one life of a server; used by one thread.  Once it has failed it stays closed."""

    def __init__(self, address: str, client: int, slot_bytes: int, *, deadline: float,
                 note_seconds: Callable[[float], None] = lambda seconds: None) -> None:
        """`slot_bytes`: of the largest request; `deadline`: seconds for an answer, after which the door is given up;
        `note_seconds` hears how long each call took, there and back.

        OSError where there is no such door, or too little memory.
        """
        self._deadline, self._note_seconds = deadline, note_seconds
        self._segment = Segment.create(MAX_IN_FLIGHT, slot_bytes)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._is_closed = False
        try:
            self._socket.settimeout(CONNECT_SECONDS)
            self._socket.connect(address)
            hello = HELLO.pack(HELLO_MARK, client, MAX_IN_FLIGHT, slot_bytes)
            socket.send_fds(self._socket, [hello], [self._segment.descriptor])
            if self._socket.recv(1) != WELCOME:
                raise ConnectionRefusedError("the door of the inference server let nobody in")
        except OSError:
            self.close()
            raise
        self._free = list(range(MAX_IN_FLIGHT))
        self._sent_at: dict[int, float] = {}  # slots under way
        self._heard: dict[int, Body] = {}  # answers that nobody has asked for yet

    def send(self, payload: bytes) -> int:
        """The slot that it lies in; ServerUnavailable when nobody is behind the door any more."""
        if self._is_closed or not self._free:  # a request that was given up has kept its slot
            self._fail("the door was closed" if self._is_closed else "requests were left behind")
        slot = self._free.pop()
        self._segment.write(slot, Status.REQUEST, payload)
        self._sent_at[slot] = time.monotonic()
        try:
            self._socket.send(bytes([slot]))
        except OSError as error:
            self._fail(str(error))
        return slot

    def receive(self, slot: int, timeout: float) -> bytes:
        """The answer.  TimeoutError, ServerUnavailable as in `Transport`; CodecError for a request that is none."""
        until = time.monotonic() + timeout
        while slot not in self._heard:
            self._hear(slot, until)
        body = self._heard.pop(slot)
        self._free.append(slot)
        self._note_seconds(body.written_at - self._sent_at.pop(slot))
        if body.status is Status.ANSWER:
            return body.data
        text = body.data.decode(errors="replace")
        if body.status is Status.REFUSED:
            raise CodecError(text)
        raise ServerUnavailable(text)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._socket.close()
            self._segment.close()

    def _hear(self, slot: int, until: float) -> None:
        """Waits for any answer; TimeoutError at `until`, ServerUnavailable when the server has gone or is too late."""
        if self._is_closed:
            self._fail("the door was closed")
        now = time.monotonic()
        try:
            self._socket.settimeout(max(1e-4, until - now))
            message = self._socket.recv(1)
        except TimeoutError:
            if time.monotonic() - self._sent_at[slot] < self._deadline:
                raise TimeoutError from None
            self._fail(f"no answer for {self._deadline:g} s")
        except OSError as error:
            self._fail(str(error))
        if not message:
            self._fail("the server has gone")
        if message[0] in self._sent_at:
            self._heard[message[0]] = self._segment.read(message[0])

    def _fail(self, reason: str) -> NoReturn:
        with contextlib.suppress(OSError):
            self.close()
        raise ServerUnavailable(f"shared memory: {reason}")
