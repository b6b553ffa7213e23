"""The inference server's listener for clients of other hosts: requests and answers over TCP.

A client proves that it knows the server's token, see `tcp_handshake`; then its requests go to the same queue as those
of shared memory.  The server's side of a connection is `common/core/serving/tcp_peer.h`.
"""

import contextlib
import secrets
import socket

from shusaku.actors.inference.listener import Arrival, Listener
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.tcp_handshake import GREETING, MARK, REPLY, TcpAddress, is_proof, new_nonce, proof
from shusaku.common import _core

LOST_SECONDS = 20  # without a sign of life of the client's host


class TcpServer(Listener):
    """Accepts clients of other hosts and serves them."""

    def __init__(self, server: InferenceServer, host: str, port: int = 0) -> None:
        """Listens on this address of the host; port 0: any free one.  OSError if it cannot."""
        if not hasattr(_core, "RequestPort"):
            raise OSError("the listener needs Linux")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
        self.address = TcpAddress(host, listener.getsockname()[1], secrets.token_hex(32))
        super().__init__(server, listener, "tcp")

    def _greet(self, client: socket.socket) -> bytes | None:
        keep_alive(client)
        nonce = new_nonce()
        client.send(GREETING.pack(MARK, nonce))
        return nonce

    def _take_handshake(self, arrival: Arrival) -> bool:
        data = arrival.socket.recv(REPLY.size - len(arrival.heard))
        if not data:
            raise EOFError
        arrival.heard += data
        if len(arrival.heard) < REPLY.size:
            return False
        mark, number, nonce, found = REPLY.unpack(arrival.heard)
        token = self.address.token
        if mark != MARK or not is_proof(found, proof(token, "client", arrival.said, nonce, number)):
            raise ValueError("not a client of this server")
        arrival.socket.send(proof(token, "server", arrival.said, nonce, number))
        with contextlib.suppress(OSError, RuntimeError, MemoryError):  # it cannot be watched: the descriptor is closed
            self._port.attach_tcp(self._attach(arrival), number)
        return True


def keep_alive(connection: socket.socket) -> None:
    """A host that is gone without a word is noticed; small frames go at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", LOST_SECONDS // 2), ("TCP_KEEPINTVL", LOST_SECONDS // 4),
                          ("TCP_KEEPCNT", 2), ("TCP_USER_TIMEOUT", 1000 * LOST_SECONDS)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
