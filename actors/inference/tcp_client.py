"""The transport of a client on another host than its inference server: requests and answers over TCP."""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import NoReturn

from shusaku.actors.inference.protocol import ServerUnavailableError
from shusaku.actors.inference.shm_segment import Status
from shusaku.actors.inference.tcp_handshake import (
    ANSWER_HEAD,
    GREETING,
    MARK,
    PROOF_BYTES,
    REPLY,
    REQUEST_HEAD,
    TcpAddress,
    is_proof,
    new_nonce,
    proof,
)
from shusaku.actors.inference.tcp_server import keep_alive
from shusaku.common.codec import CodecError

CONNECT_SECONDS = 5.0
MAX_TICKETS = 1 << 32
STAGED_BYTES = 1 << 16  # read at once, so that a small answer takes one call


class TcpTransport:
    """One connection to one server process; used by one thread.  After a failure it stays closed."""

    def __init__(self, address: TcpAddress, client: int, max_bytes: int, *, deadline: float, slots: int = 2,
                 record_seconds: Callable[[float], None] = lambda seconds: None) -> None:
        """Connects to the server at `address`.

        `max_bytes`: of a request, of which `slots` may be in flight; `deadline`: seconds for an answer, after which the
        connection is closed; `record_seconds` gets the round-trip time of each call.  OSError if there is no such
        server, or another one.
        """
        self._deadline, self._record_seconds = deadline, record_seconds
        self.max_bytes, self.slots = max_bytes, slots
        self._sent_at: dict[int, float] = {}  # tickets in flight
        self._received: dict[int, tuple[int, bytes, float]] = {}  # outcome, body, time; not asked for yet
        self._staged = bytearray()
        self._next = 0
        self._socket = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
        self._is_closed = False
        try:
            keep_alive(self._socket)
            self._shake_hands(address.token, client)
        except OSError:
            self.close()
            raise

    def send(self, payload: bytes) -> int:
        """Sends a request; its ticket.  ServerUnavailableError if the connection is closed."""
        if self._is_closed or len(self._sent_at) >= self.slots:  # an abandoned request keeps its place
            self._fail("the connection was closed" if self._is_closed else "requests were abandoned")
        ticket = self._next
        self._next = (ticket + 1) % MAX_TICKETS
        self._sent_at[ticket] = time.monotonic()
        try:
            self._socket.settimeout(self._deadline)
            frame = memoryview(REQUEST_HEAD.pack(len(payload), ticket) + payload)
            while frame:
                frame = frame[self._socket.send(frame):]
        except OSError as error:
            self._fail(str(error))
        return ticket

    def receive(self, ticket: int, timeout: float) -> bytes:
        """The answer.  TimeoutError and ServerUnavailableError as in `Transport`; CodecError for an invalid request."""
        until = time.monotonic() + timeout
        while ticket not in self._received:
            self._receive_any(ticket, until)
        outcome, body, received_at = self._received.pop(ticket)
        self._record_seconds(received_at - self._sent_at.pop(ticket))
        if outcome == Status.ANSWER:
            return body
        text = body.decode(errors="replace")
        if outcome == Status.REFUSED:
            raise CodecError(text)
        raise ServerUnavailableError(text)

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._is_closed

    def close(self) -> None:
        """Ends the connection; closing it again does nothing."""
        self._is_closed = True
        self._socket.close()

    def _receive_any(self, ticket: int, until: float) -> None:
        """Waits for any answer; TimeoutError at `until`, ServerUnavailableError if the server ended or is too late.

        What has arrived of an answer is kept for the next call.
        """
        if self._is_closed:
            self._fail("the connection was closed")
        try:
            self._read(ANSWER_HEAD.size, until)
            size, answered, outcome = ANSWER_HEAD.unpack_from(self._staged)
            if answered not in self._sent_at or size > self.max_bytes:
                self._fail(f"an answer of {size:,} bytes to ticket {answered}, which is none")
            self._read(ANSWER_HEAD.size + size, until)
        except TimeoutError:
            if time.monotonic() - self._sent_at[ticket] < self._deadline:
                raise TimeoutError from None
            self._fail(f"no answer for {self._deadline:g} s")
        except OSError as error:
            self._fail(str(error))
        body = bytes(self._staged[ANSWER_HEAD.size : ANSWER_HEAD.size + size])
        del self._staged[: ANSWER_HEAD.size + size]
        self._received[answered] = outcome, body, time.monotonic()

    def _read(self, size: int, until: float) -> None:
        """Until so many bytes are staged."""
        while len(self._staged) < size:
            self._socket.settimeout(max(1e-4, until - time.monotonic()))
            data = self._socket.recv(max(STAGED_BYTES, size - len(self._staged)))
            if not data:
                self._fail("the server has ended")
            self._staged += data

    def _shake_hands(self, token: str, client: int) -> None:
        mark, server_nonce = GREETING.unpack(self._read_exactly(GREETING.size))
        if mark != MARK:
            raise ConnectionRefusedError("this is no inference server")
        nonce = new_nonce()
        self._socket.sendall(REPLY.pack(MARK, client, nonce, proof(token, "client", server_nonce, nonce, client)))
        if not is_proof(self._read_exactly(PROOF_BYTES), proof(token, "server", server_nonce, nonce, client)):
            raise ConnectionRefusedError("this is another inference server")

    def _read_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionRefusedError("the inference server did not accept the client")
            data += part
        return bytes(data)

    def _fail(self, reason: str) -> NoReturn:
        with contextlib.suppress(OSError):
            self.close()
        raise ServerUnavailableError(f"tcp: {reason}")
