"""The inference server's door for clients of its own host: requests and answers in shared memory, a byte to say so.

A client connects to a Unix socket, hands over the descriptor of a `Segment`, and writes the number of a slot whenever
a request lies there; the server writes it back when the answer does.  A connection belongs to one life of the server
and to one of the client: when either ends, the other reads the end of the stream at once.  The socket lies in Linux's
abstract namespace, where no file is left behind, and takes nobody but its own user.
"""

import contextlib
import os
import secrets
import selectors
import socket
import struct
import threading
from functools import partial

from shusaku.actors.inference.client import ServerUnavailable
from shusaku.actors.inference.server import InferenceServer, Request
from shusaku.actors.inference.shm_segment import Segment, Status
from shusaku.common.codec import CodecError
from shusaku.common.leaves_codec import encode_answer

HELLO = struct.Struct("<8sIII")  # mark, number of the client, slots, bytes of a slot
HELLO_MARK = b"SHUDOOR1"
WELCOME = b"\xff"
MAX_SLOTS, MAX_SLOT_BYTES = 8, 1 << 20  # of one client
MAX_CLIENTS = 4096
FULL_SECONDS = 0.05  # between two looks whether a file may be opened again
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class SharedDoor:
    """Lets clients of this host in; a thread of its own takes their requests, the server's thread answers them."""

    def __init__(self, server: InferenceServer) -> None:
        """OSError where the system has no such sockets."""
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
        self._guests: set[_Guest] = set()
        self._thread = threading.Thread(target=self._run, name="door", daemon=True)
        self._thread.start()

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._guests)

    def close(self) -> None:
        """Every client reads the end of its connection; a second time, nothing happens."""
        with contextlib.suppress(OSError):  # the thread has ended and closed it
            self._wake.send(b"x")
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._woken:
                        return
                    if key.fileobj is self._listener:
                        self._let_in()
                    else:
                        self._serve(key.data)
        finally:
            self._selector.close()
            for guest in self._guests:
                guest.close()
            self._guests.clear()
            for one in (self._listener, self._wake, self._woken):
                one.close()

    def _let_in(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:  # it went away again
            return
        except OSError:  # too many files are open: it stays in the queue
            self._woken.settimeout(FULL_SECONDS)
            with contextlib.suppress(TimeoutError):
                self._woken.recv(1, socket.MSG_PEEK)
            return
        _, uid, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if uid != os.getuid() or len(self._guests) >= MAX_CLIENTS:
            connection.close()
            return
        connection.setblocking(False)
        guest = _Guest(connection)
        self._selector.register(connection, selectors.EVENT_READ, guest)
        self._guests.add(guest)

    def _serve(self, guest: "_Guest") -> None:
        try:
            if guest.segment is None:
                guest.introduce()
                return
            slot = guest.next_slot()
        except BlockingIOError:
            return
        except (OSError, ValueError, EOFError):
            self._let_go(guest)
            return
        try:
            body = guest.segment.read(slot)
            if body.status is not Status.REQUEST:
                raise CodecError(f"slot {slot} holds no request")
            guest.asked[slot] = self._server.submit(guest.client, body.data, partial(guest.settle, slot))
        except (CodecError, ValueError) as error:
            guest.answer(slot, Status.REFUSED, str(error).encode())
        except ServerUnavailable as error:
            guest.answer(slot, Status.UNAVAILABLE, str(error).encode())

    def _let_go(self, guest: "_Guest") -> None:
        self._selector.unregister(guest.connection)
        guest.close()
        for request in guest.asked.values():  # nobody computes what nobody reads
            self._server.withdraw(request)
        self._guests.discard(guest)  # last, so that who counts clients finds nothing left of it


class _Guest:
    """A connected client, as the server sees it.  Its answers are written by the server's thread."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.client = -1
        self.segment: Segment | None = None
        self.asked: dict[int, Request] = {}  # the newest of each slot, answered or not; the door's thread alone uses it
        self._lock = threading.Lock()  # nobody writes into memory that is being given back

    def introduce(self) -> None:
        """Reads who it is and takes its memory; ValueError, EOFError or OSError unless all is right."""
        message, descriptors, _, _ = socket.recv_fds(self.connection, HELLO.size, 4)
        try:
            if not message:
                raise EOFError
            if len(message) != HELLO.size or len(descriptors) != 1:
                raise ValueError("no hello")
            mark, self.client, slots, slot_bytes = HELLO.unpack(message)
            if mark != HELLO_MARK or not 1 <= slots <= MAX_SLOTS or not 1 <= slot_bytes <= MAX_SLOT_BYTES:
                raise ValueError(f"a hello of {mark!r} with {slots} slots of {slot_bytes:,} bytes")
        except (EOFError, ValueError):
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        self.segment = Segment(descriptors[0], slots, slot_bytes)
        self.connection.send(WELCOME)

    def next_slot(self) -> int:
        """The slot of the next request; EOFError when the client has gone, ValueError for a number without a slot."""
        assert self.segment is not None
        message = self.connection.recv(1)
        if not message:
            raise EOFError
        if message[0] >= self.segment.slots:
            raise ValueError(f"there is no slot {message[0]}")
        return message[0]

    def settle(self, slot: int, request: Request) -> None:
        """The server is done with the request of this slot."""
        if request.error is not None:
            self.answer(slot, Status.UNAVAILABLE, str(request.error).encode())
        else:
            self.answer(slot, Status.ANSWER, encode_answer(request.logits, request.values, request.version))

    def answer(self, slot: int, status: Status, body: bytes) -> None:
        """Writes into the slot and tells the client; who has gone is not answered."""
        with self._lock:
            if self.segment is None:
                return
            self.segment.write(slot, status, body if status is Status.ANSWER else body[: self.segment.slot_bytes])
            try:
                self.connection.send(bytes([slot]))
            except OSError:  # it died, or it does not read; the door's thread sees the end and alone closes
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """By the door's thread, which has taken it out of its selector."""
        with self._lock:
            segment, self.segment = self.segment, None
            self.connection.close()
            if segment is not None:
                segment.close()
