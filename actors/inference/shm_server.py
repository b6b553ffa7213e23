"""The inference server's listener for clients of its own host: requests and answers in shared memory.

A client connects to a Unix socket, hands over the descriptor of a `Segment`, and writes the number of a slot whenever
a request lies there; the server writes the number back when the answer does.  A connection belongs to one server
process and one client process: if either ends, the other reads the end of the stream at once.  The socket lies in
Linux's abstract namespace, which leaves no file behind, and only processes of the same user are accepted.
"""

import contextlib
import os
import secrets
import selectors
import socket
import struct
import threading
from functools import partial

from shusaku.actors.inference.protocol import ServerUnavailableError
from shusaku.actors.inference.server import InferenceServer, Request
from shusaku.actors.inference.shm_segment import (
    ACCEPTED,
    HANDSHAKE,
    HANDSHAKE_MARK,
    MAX_SLOT_BYTES,
    MAX_SLOTS,
    Segment,
    Status,
)
from shusaku.common.codec import CodecError
from shusaku.common.leaves_codec import encode_answer

MAX_CLIENTS = 4096
RETRY_SECONDS = 0.05  # until a connection is accepted again, after the process had too many open files
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class SharedMemoryServer:
    """Accepts clients of this host; its own thread takes their requests, the inference thread answers them."""

    def __init__(self, server: InferenceServer) -> None:
        """OSError if the system has no abstract sockets."""
        self.address = f"\0shusaku-{secrets.token_hex(16)}"
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.address)
        self._listener.listen(MAX_CLIENTS)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._connections: set[_Connection] = set()
        self._thread = threading.Thread(target=self._run, name="shared memory", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends every connection; closing it again does nothing."""
        with contextlib.suppress(OSError):  # the thread has ended and closed the socket
            self._wake.send(b"x")
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._woken:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._serve(key.data)
        finally:
            self._selector.close()
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            for one in (self._listener, self._wake, self._woken):
                one.close()

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
        if uid != os.getuid() or len(self._connections) >= MAX_CLIENTS:
            client.close()
            return
        client.setblocking(False)
        connection = _Connection(client)
        self._selector.register(client, selectors.EVENT_READ, connection)
        self._connections.add(connection)

    def _serve(self, connection: "_Connection") -> None:
        try:
            if connection.segment is None:
                connection.accept_handshake()
                return
            slot = connection.next_slot()
        except BlockingIOError:
            return
        except (OSError, ValueError, EOFError):
            self._drop(connection)
            return
        try:
            body = connection.segment.read(slot)
            if body.status is not Status.REQUEST:
                raise CodecError(f"slot {slot} holds no request")
            settled = partial(connection.answer_request, slot)
            connection.requests[slot] = self._server.submit(connection.client, body.data, settled)
        except (CodecError, ValueError) as error:
            connection.answer(slot, Status.REFUSED, str(error).encode())
        except ServerUnavailableError as error:
            connection.answer(slot, Status.UNAVAILABLE, str(error).encode())

    def _drop(self, connection: "_Connection") -> None:
        self._selector.unregister(connection.socket)
        connection.close()
        for request in connection.requests.values():  # the answer would have no reader
            self._server.withdraw(request)
        self._connections.discard(connection)  # last, so that it is listed until everything is released


class _Connection:
    """A connected client, as the server sees it.  The inference thread writes its answers."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.client = -1
        self.segment: Segment | None = None
        self.requests: dict[int, Request] = {}  # the newest of each slot; used by the listener's thread alone
        self._lock = threading.Lock()  # so that no answer is written into memory that is being released

    def accept_handshake(self) -> None:
        """Reads the client's number and maps its memory; ValueError, EOFError or OSError if the handshake is wrong."""
        message, descriptors, _, _ = socket.recv_fds(self.socket, HANDSHAKE.size, 4)
        try:
            if not message:
                raise EOFError
            if len(message) != HANDSHAKE.size or len(descriptors) != 1:
                raise ValueError("not a handshake")
            mark, self.client, slots, slot_bytes = HANDSHAKE.unpack(message)
            if mark != HANDSHAKE_MARK or not 1 <= slots <= MAX_SLOTS or not 1 <= slot_bytes <= MAX_SLOT_BYTES:
                raise ValueError(f"a handshake of {mark!r} with {slots} slots of {slot_bytes:,} bytes")
        except (EOFError, ValueError):
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        self.segment = Segment(descriptors[0], slots, slot_bytes)
        self.socket.send(ACCEPTED)

    def next_slot(self) -> int:
        """The slot of the next request; EOFError if the client has ended, ValueError for a number without a slot."""
        assert self.segment is not None
        message = self.socket.recv(1)
        if not message:
            raise EOFError
        if message[0] >= self.segment.slots:
            raise ValueError(f"there is no slot {message[0]}")
        return message[0]

    def answer_request(self, slot: int, request: Request) -> None:
        """Writes the answer, or the error, of the request in this slot."""
        if request.error is not None:
            self.answer(slot, Status.UNAVAILABLE, str(request.error).encode())
        else:
            self.answer(slot, Status.ANSWER, encode_answer(request.logits, request.values, request.version))

    def answer(self, slot: int, status: Status, body: bytes) -> None:
        """Writes into the slot and notifies the client; does nothing if the connection has ended."""
        with self._lock:
            if self.segment is None:
                return
            self.segment.write(slot, status, body if status is Status.ANSWER else body[: self.segment.slot_bytes])
            try:
                self.socket.send(bytes([slot]))
            except OSError:  # the client died or does not read; the listener's thread sees the end and closes
                with contextlib.suppress(OSError):
                    self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Releases socket and memory; called by the listener's thread after it left the selector."""
        with self._lock:
            segment, self.segment = self.segment, None
            self.socket.close()
            if segment is not None:
                segment.close()
