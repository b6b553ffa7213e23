"""What the listeners of an inference server share: they accept clients, and serve them after a handshake.

One thread accepts clients, another serves them in C++, from the bytes that announce a request to its rows in a batch:
`common/core/serving/request_port.h`.
"""

import contextlib
import selectors
import socket
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from shusaku.actors.inference.server import InferenceServer
from shusaku.common import _core

MAX_CLIENTS = 4096
MAX_ARRIVING = 1024  # that have no handshake yet; the oldest gives way to one more
HANDSHAKE_SECONDS = 5.0
RETRY_SECONDS = 0.05  # until a connection is accepted again, after the process had too many open files


@dataclass(eq=False)
class Arrival:
    """A client that is connected, but without its handshake."""

    socket: socket.socket
    until: float  # when it has to be there
    said: bytes = b""  # to it: what its handshake has to answer
    heard: bytearray = field(default_factory=bytearray)


class Listener(ABC):
    """Accepts clients on a socket and serves them until it is closed."""

    def __init__(self, server: InferenceServer, listener: socket.socket, name: str) -> None:
        """`listener`: bound, and owned by this object; `name`: of the threads."""
        self._port = _core.RequestPort(server.queue)
        self._listener = listener
        self._listener.listen(MAX_CLIENTS)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._arriving: dict[socket.socket, Arrival] = {}
        self._threads = [threading.Thread(target=target, name=text, daemon=True) for target, text in (
            (self._accept_all, f"{name}, new clients"), (self._port.run, name))]
        for thread in self._threads:
            thread.start()

    @abstractmethod
    def _greet(self, client: socket.socket) -> bytes | None:
        """Says something to a client that connects; None if it may not.  OSError if it is gone."""

    @abstractmethod
    def _take_handshake(self, arrival: Arrival) -> bool:
        """Reads on; True once the client is attached to the port, which has its descriptor then.

        OSError, ValueError or EOFError if the handshake is wrong.
        """

    @property
    def connections(self) -> int:
        """Clients that are connected."""
        return len(self._arriving) + self._port.connections

    @property
    def is_alive(self) -> bool:
        """Whether its threads run."""
        return all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """Ends every connection; closing it again does nothing."""
        with contextlib.suppress(OSError):  # the thread has ended and closed the socket
            self._wake.send(b"x")
        self._threads[0].join()  # nothing is attached to a port that has ended
        self._port.end()
        self._threads[1].join()

    def _accept_all(self) -> None:
        try:
            while True:
                self._drop_late()
                for key, _ in self._selector.select(HANDSHAKE_SECONDS if self._arriving else None):
                    if key.fileobj is self._woken:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj in self._arriving:  # it may have given way to a new one
                        self._read(key.data)
        finally:
            self._selector.close()
            for one in (*self._arriving, self._listener, self._wake, self._woken):
                one.close()
            self._arriving.clear()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # the client left before it was accepted
            return
        except OSError:  # too many open files: the client stays in the queue
            self._woken.settimeout(RETRY_SECONDS)
            with contextlib.suppress(TimeoutError):
                self._woken.recv(1, socket.MSG_PEEK)
            return
        client.setblocking(False)
        said = None
        if len(self._arriving) >= MAX_ARRIVING:
            self._drop(next(iter(self._arriving.values())))
        if self.connections < MAX_CLIENTS:
            with contextlib.suppress(OSError):
                said = self._greet(client)
        if said is None:
            client.close()
            return
        arrival = Arrival(client, time.monotonic() + HANDSHAKE_SECONDS, said)
        self._selector.register(client, selectors.EVENT_READ, arrival)
        self._arriving[client] = arrival

    def _read(self, arrival: Arrival) -> None:
        client = arrival.socket
        try:
            if not self._take_handshake(arrival):
                return
        except BlockingIOError:
            return
        except (OSError, ValueError, EOFError):
            self._drop(arrival)
            return
        self._arriving.pop(client, None)

    def _attach(self, arrival: Arrival) -> int:
        """The client's descriptor, which this listener no longer reads or owns."""
        self._selector.unregister(arrival.socket)
        return arrival.socket.detach()

    def _drop(self, arrival: Arrival) -> None:
        self._selector.unregister(arrival.socket)
        arrival.socket.close()
        self._arriving.pop(arrival.socket, None)

    def _drop_late(self) -> None:
        now = time.monotonic()
        for arrival in [one for one in self._arriving.values() if one.until <= now]:
            self._drop(arrival)
