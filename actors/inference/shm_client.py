"""The transport of a client on the inference server's host: requests and answers in shared memory."""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import NoReturn

from shusaku.actors.inference.protocol import ServerUnavailableError
from shusaku.actors.inference.shm_segment import ACCEPTED, HANDSHAKE, HANDSHAKE_MARK, Body, Segment, Status
from shusaku.common.codec import CodecError

CONNECT_SECONDS = 5.0


class SharedMemoryTransport:
    """One connection to one server process; used by one thread.  After a failure it stays closed."""

    def __init__(self, address: str, client: int, slot_bytes: int, *, deadline: float, slots: int = 2,
                 record_seconds: Callable[[float], None] = lambda seconds: None) -> None:
        """Connects to the server at `address`.

        `slot_bytes`: size of the largest request, of which `slots` may be in flight; `deadline`: seconds for an answer,
        after which the connection is closed; `record_seconds` gets the round-trip time of each call.
        OSError if there is no such server, or too little memory.
        """
        self._deadline, self._record_seconds = deadline, record_seconds
        self.max_bytes, self.slots = slot_bytes, slots
        self._segment = Segment.create(slots, slot_bytes)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._is_closed = False
        try:
            self._socket.settimeout(CONNECT_SECONDS)
            self._socket.connect(address)
            handshake = HANDSHAKE.pack(HANDSHAKE_MARK, client, slots, slot_bytes)
            socket.send_fds(self._socket, [handshake], [self._segment.descriptor])
            if self._socket.recv(1) != ACCEPTED:
                raise ConnectionRefusedError("the inference server did not accept the client")
        except OSError:
            self.close()
            raise
        self._free = list(range(slots))
        self._sent_at: dict[int, float] = {}  # slots in flight
        self._received: dict[int, Body] = {}  # answers that were not asked for yet

    def send(self, payload: bytes) -> int:
        """Writes a request; the slot that holds it.  ServerUnavailableError if the connection is closed."""
        if self._is_closed or not self._free:  # an abandoned request keeps its slot
            self._fail("the connection was closed" if self._is_closed else "requests were abandoned")
        slot = self._free.pop()
        self._segment.write(slot, Status.REQUEST, payload)
        self._sent_at[slot] = time.monotonic()
        try:
            self._socket.send(bytes([slot]))
        except OSError as error:
            self._fail(str(error))
        return slot

    def receive(self, slot: int, timeout: float) -> bytes:
        """The answer.  TimeoutError and ServerUnavailableError as in `Transport`; CodecError for an invalid request."""
        until = time.monotonic() + timeout
        while slot not in self._received:
            self._receive_any(slot, until)
        body = self._received.pop(slot)
        self._free.append(slot)
        self._record_seconds(body.written_at - self._sent_at.pop(slot))
        if body.status is Status.ANSWER:
            return body.data
        text = body.data.decode(errors="replace")
        if body.status is Status.REFUSED:
            raise CodecError(text)
        raise ServerUnavailableError(text)

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._is_closed

    def close(self) -> None:
        """Ends the connection; closing it again does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._socket.close()
            self._segment.close()

    def _receive_any(self, slot: int, until: float) -> None:
        """Waits for any answer; TimeoutError at `until`, ServerUnavailableError if the server ended or is too late."""
        if self._is_closed:
            self._fail("the connection was closed")
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
            self._fail("the server has ended")
        if message[0] in self._sent_at:
            self._received[message[0]] = self._segment.read(message[0])

    def _fail(self, reason: str) -> NoReturn:
        with contextlib.suppress(OSError):
            self.close()
        raise ServerUnavailableError(f"shared memory: {reason}")
