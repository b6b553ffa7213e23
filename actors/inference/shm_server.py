"""The inference server's listener for clients of its own host: requests and answers in shared memory.

A client connects to a Unix socket, hands over the descriptor of a `Segment`, and writes the number of a slot whenever
a request lies there; the server writes the number back when the answer does.  A connection belongs to one server
process and one client process: if either ends, the other reads the end of the stream at once.  The socket lies in
Linux's abstract namespace, which leaves no file behind, and only processes of the same user are accepted.

One thread accepts clients, another serves them in C++, from the byte that announces a request to its row in a batch:
`common/core/serving/request_port.h`.
"""

import contextlib
import os
import secrets
import selectors
import socket
import struct
import threading

from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_segment import (
    ACCEPTED,
    HANDSHAKE,
    HANDSHAKE_MARK,
    MAX_SLOT_BYTES,
    MAX_SLOTS,
    Segment,
)
from shusaku.common import _core

MAX_CLIENTS = 4096
RETRY_SECONDS = 0.05  # until a connection is accepted again, after the process had too many open files
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class SharedMemoryServer:
    """Accepts clients of this host and serves them, each in a thread of its own."""

    def __init__(self, server: InferenceServer) -> None:
        """OSError if the system has no abstract sockets."""
        if not hasattr(_core, "RequestPort"):
            raise OSError("shared memory needs Linux")
        self.address = f"\0shusaku-{secrets.token_hex(16)}"
        self._port = _core.RequestPort(server.queue)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.address)
        self._listener.listen(MAX_CLIENTS)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._arriving: set[socket.socket] = set()  # connected, but without their handshake
        self._threads = [threading.Thread(target=target, name=name, daemon=True) for target, name in (
            (self._accept_all, "shared memory, new clients"), (self._port.run, "shared memory"))]
        for thread in self._threads:
            thread.start()

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
                for key, _ in self._selector.select():
                    if key.fileobj is self._woken:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._take_handshake(key.data)
        finally:
            self._selector.close()
            for one in (*self._arriving, self._listener, self._wake, self._woken):
                one.close()
            self._arriving.clear()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:  # the client left before it was accepted
            return
        except OSError:  # too many open files: the client stays in the queue
            self._woken.settimeout(RETRY_SECONDS)
            with contextlib.suppress(TimeoutError):
                self._woken.recv(1, socket.MSG_PEEK)
            return
        _, uid, _ = _CREDENTIALS.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid != os.getuid() or self.connections >= MAX_CLIENTS:
            client.close()
            return
        client.setblocking(False)
        self._selector.register(client, selectors.EVENT_READ, client)
        self._arriving.add(client)

    def _take_handshake(self, client: socket.socket) -> None:
        try:
            number, segment = _read_handshake(client)
        except BlockingIOError:
            return
        except (OSError, ValueError, EOFError):
            self._selector.unregister(client)
            client.close()
            self._arriving.discard(client)
            return
        self._selector.unregister(client)
        memory = segment.detach()
        # The client may send as soon as it is accepted, and is served from now on.
        with contextlib.suppress(OSError):
            client.send(ACCEPTED)
        with contextlib.suppress(OSError, RuntimeError):  # no memory for another mapping: both descriptors are closed
            self._port.attach(client.detach(), memory, segment.slots, segment.slot_bytes, number)
        self._arriving.discard(client)


def _read_handshake(client: socket.socket) -> tuple[int, Segment]:
    """The client's number and its memory; ValueError, EOFError or OSError if the handshake is wrong."""
    message, descriptors, _, _ = socket.recv_fds(client, HANDSHAKE.size, 4)
    try:
        if not message:
            raise EOFError
        if len(message) != HANDSHAKE.size or len(descriptors) != 1:
            raise ValueError("not a handshake")
        mark, number, slots, slot_bytes = HANDSHAKE.unpack(message)
        if mark != HANDSHAKE_MARK or not 1 <= slots <= MAX_SLOTS or not 1 <= slot_bytes <= MAX_SLOT_BYTES:
            raise ValueError(f"a handshake of {mark!r} with {slots} slots of {slot_bytes:,} bytes")
    except (EOFError, ValueError):
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    return number, Segment(descriptors[0], slots, slot_bytes)
