"""The transport of a client on another host than its inference server: requests and answers over TCP."""

import socket
import ssl
import time
from collections.abc import Callable

from shusaku.actors.inference.connection import CONNECT_SECONDS, Connection
from shusaku.actors.inference.protocol import Body, Status
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
from shusaku.common.tls.relay import keep_alive

STAGED_BYTES = 1 << 16  # read at once, so that a small answer takes one call


class TcpTransport(Connection):
    """One connection to one server process of another host."""

    name = "tcp"

    def __init__(self, address: TcpAddress, client: int, max_bytes: int, *, deadline: float, slots: int = 2,
                 record_seconds: Callable[[float], None] = lambda seconds: None) -> None:
        """Connects to the server at `address`; `client`: the number of this one, the rest as in `Connection`.

        OSError if there is no such server, or another one.
        """
        super().__init__(max_bytes, slots=slots, deadline=deadline, record_seconds=record_seconds)
        self._staged = bytearray()  # what has arrived of the next answers
        self._socket = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
        try:
            keep_alive(self._socket)
            if address.authority:
                self._socket = _encrypted(self._socket, address)
            self._shake_hands(address.token, client)
        except OSError:
            self.close()
            raise

    def _put(self, slot: int, payload: bytes) -> None:
        until = time.monotonic() + self.deadline
        frame = memoryview(REQUEST_HEAD.pack(len(payload), slot) + payload)
        while frame:
            self._socket.settimeout(max(1e-4, until - time.monotonic()))
            frame = frame[self._socket.send(frame):]

    def _take(self, until: float) -> tuple[int, Body]:
        self._read(ANSWER_HEAD.size, until)
        size, slot, status = ANSWER_HEAD.unpack_from(self._staged)
        if slot >= self.slots or size > self.max_bytes or status not in iter(Status):
            raise OSError(f"an answer of {size:,} bytes in slot {slot} with status {status}, which is none")
        self._read(ANSWER_HEAD.size + size, until)
        body = bytes(self._staged[ANSWER_HEAD.size : ANSWER_HEAD.size + size])
        del self._staged[: ANSWER_HEAD.size + size]
        return slot, Body(Status(status), body, time.monotonic())

    def _read(self, size: int, until: float) -> None:
        """Until so many bytes are staged; what has come until a time-out stays."""
        while len(self._staged) < size:
            self._socket.settimeout(max(1e-4, until - time.monotonic()))
            data = self._socket.recv(max(STAGED_BYTES, size - len(self._staged)))
            if not data:
                raise EOFError
            self._staged += data

    def _release(self) -> None:
        self._socket.close()

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


def _encrypted(connection: socket.socket, address: TcpAddress) -> socket.socket:
    """The same connection by TLS; OSError if this is not the server of the address."""
    context = ssl.create_default_context(cadata=address.authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        return context.wrap_socket(connection, server_hostname=address.name)
    except OSError:
        connection.close()
        raise
