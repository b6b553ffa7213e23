"""The inference server's listener for clients of other hosts: requests and answers over TCP.

A client proves that it knows the server's token, see `tcp_handshake`; then its requests go to the same queue as those
of shared memory.  The server's side of a connection is `common/core/serving/tcp_peer.h`.  With a certificate this
listener is reached by its own machine alone, through a process that decrypts (`common.tls.relay`).
"""

import contextlib
import secrets
import socket

from shusaku.actors.inference.listener import Arrival, Listener
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.tcp_handshake import GREETING, MARK, REPLY, TcpAddress, is_proof, new_nonce, proof
from shusaku.common import _core
from shusaku.common.tls.authority import Certificate
from shusaku.common.tls.relay import keep_alive
from shusaku.common.tls.relay_process import RelayProcess

LOOPBACK = "127.0.0.1"


class TcpServer(Listener):
    """Accepts clients of other hosts and serves them."""

    def __init__(self, server: InferenceServer, host: str, port: int = 0, certificate: Certificate | None = None
                 ) -> None:
        """Listens on this address of the host; port 0: any free one.  OSError if it cannot.

        `certificate`: what it encrypts with; None: requests and answers travel in clear.
        """
        if not hasattr(_core, "RequestPort"):
            raise OSError("the listener needs Linux")
        own_host, own_port = (host, port) if certificate is None else (LOOPBACK, 0)
        family = socket.AF_INET6 if ":" in own_host else socket.AF_INET
        listener = socket.create_server((own_host, own_port), family=family)
        self.address = TcpAddress(host, listener.getsockname()[1], secrets.token_hex(32))
        self._relay: RelayProcess | None = None
        if certificate is not None:
            try:
                self._relay = RelayProcess(certificate, host, (LOOPBACK, self.address.port), port)
            except OSError:
                listener.close()
                raise
            self.address = self.address._replace(port=self._relay.port, name=certificate.name,
                                                 authority=certificate.authority)
        super().__init__(server, listener, "tcp")

    @property
    def is_alive(self) -> bool:
        """Whether its threads and its relay run."""
        return super().is_alive and (self._relay is None or self._relay.is_alive)

    def close(self) -> None:
        """Ends every connection; closing it again does nothing."""
        super().close()
        if self._relay is not None:
            self._relay.close()
            self._relay = None

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
