"""A program that ends TLS for a server which has none: it decrypts what clients send and hands it on.

    stdin    one line of JSON: certificate, key (PEM), host, port (0: any free one), target (a path, or [host, port])
    stdout   the port, once it listens

It ends when its stdin does, which is when the process that started it ends, however that happens.  It imports the
standard library alone, so that it starts within a tenth of a second and needs no package.
"""

import contextlib
import ctypes
import json
import selectors
import signal
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Container
from typing import Any

NAME = "shusaku-tls"  # of the process, in lists of processes
MOST_BYTES = 1 << 20  # that wait on their way to one side; then the other side is not read
READ_BYTES = 1 << 18
RECORD_BYTES = 1 << 14  # of TLS (RFC 8446, section 5.1)
MAX_CLIENTS = 4096
MAX_ARRIVING = 1024  # whose handshake is not over; the oldest gives way to one more
HANDSHAKE_SECONDS = 5.0
CONNECT_SECONDS = 1.0
RETRY_SECONDS = 0.05  # until a connection is accepted again, after the process had too many open files
LOST_SECONDS = 20  # without a sign of life of the client's host

Target = str | tuple[str, int]  # path of a unix socket | TCP


class Pair:
    """A client and its connection to the server."""

    def __init__(self, client: socket.socket, context: ssl.SSLContext, until: float) -> None:
        """`client` does not block; `until`: when the handshake has to be over."""
        self.client, self.until = client, until
        self.server: socket.socket | None = None  # None until the handshake is over
        # Bytes go through memory, so that one call of the system takes many records of TLS, which have 16 KB.
        self._received, self._sealed = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sealed, server_side=True)
        self._to_server, self._to_client = bytearray(), bytearray()
        self._is_ending = False

    def advance(self, target: Target, readable: Container[socket.socket]) -> bool:
        """Does what can be done without waiting; False if the connection is over."""
        try:
            if self.client in readable:
                self._receive()
            if self.server is None:
                self._shake_hands(target)
            if self.server is not None:
                self._hand_on(self.server)
                if self.server in readable:
                    self._seal(self._read(self.server))
            _write(self.client, self._to_client)
        except OSError:
            return False
        return not self._is_ending or bool(self._to_server or self._to_client)

    def events(self) -> dict[socket.socket, int]:
        """What each socket is watched for."""
        events = {self.client: self._events(self._to_server, self._to_client)}
        return events if self.server is None else {**events, self.server: self._events(self._to_client,
                                                                                       self._to_server)}

    def close(self) -> None:
        """Ends both connections."""
        for one in (self.client, self.server):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.close()

    def _events(self, received: bytearray, waiting: bytearray) -> int:
        reads = selectors.EVENT_READ if len(received) < MOST_BYTES and not self._is_ending else 0
        return reads | (selectors.EVENT_WRITE if waiting else 0)

    def _receive(self) -> None:
        data = self._read(self.client)
        if data:
            self._received.write(data)

    def _shake_hands(self, target: Target) -> None:
        try:
            self._tls.do_handshake()
            self.server = _connect(target)
        except ssl.SSLWantReadError:
            pass
        self._to_client += self._sealed.read()

    def _hand_on(self, server: socket.socket) -> None:
        """Decrypts and sends what has come, as far as there is room."""
        while True:
            is_all = self._open()
            _write(server, self._to_server)
            if is_all or len(self._to_server) >= MOST_BYTES:
                return
            # There was no room for the rest, and now there is: no event would come for it.

    def _open(self) -> bool:
        """Decrypts what has come, as far as there is room; whether that was all."""
        with contextlib.suppress(ssl.SSLWantReadError):
            while self._received.pending:
                if len(self._to_server) >= MOST_BYTES:
                    return False
                data = self._tls.read(RECORD_BYTES)
                if not data:  # the client has ended TLS: no more can be decrypted
                    self._is_ending = True
                    break
                self._to_server += data
        return True

    def _seal(self, data: bytes) -> None:
        if data:
            self._tls.write(data)
            self._to_client += self._sealed.read()

    def _read(self, source: socket.socket) -> bytes:
        """Empty if there is nothing, or nothing any more; what was received before is still handed on."""
        try:
            data = source.recv(READ_BYTES)
        except BlockingIOError:
            return b""
        self._is_ending |= not data
        return data


class Relay:
    """Accepts clients until it is ended; one thread."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext, target: Target) -> None:
        """`listener` is bound and listens."""
        self._listener, self._context, self._target = listener, context, target
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._arriving: dict[Pair, None] = {}  # oldest first
        self._pairs: dict[Pair, dict[socket.socket, int]] = {}  # with what is watched

    def run(self, end: int) -> None:
        """Until the descriptor `end` can be read."""
        self._selector.register(end, selectors.EVENT_READ)
        while True:
            busy: dict[Pair, list[socket.socket]] = {}  # with those of its sockets that can be read
            for key, events in self._selector.select(1.0 if self._arriving else None):
                if key.fileobj == end:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    readable = busy.setdefault(key.data, [])
                    if events & selectors.EVENT_READ and isinstance(key.fileobj, socket.socket):
                        readable.append(key.fileobj)
            for pair, sockets in busy.items():
                if pair in self._pairs:  # it may have given way to a new one
                    self._advance(pair, sockets)
            now = time.monotonic()
            for late in [pair for pair in self._arriving if pair.until <= now]:
                self._drop(late)

    def _accept(self) -> None:
        try:
            raw, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # too many open files: the client stays in the queue
            time.sleep(RETRY_SECONDS)
            return
        if len(self._arriving) >= MAX_ARRIVING:
            self._drop(next(iter(self._arriving)))
        if len(self._pairs) >= MAX_CLIENTS:
            raw.close()
            return
        try:
            keep_alive(raw)
            raw.setblocking(False)
        except OSError:
            raw.close()
            return
        pair = Pair(raw, self._context, time.monotonic() + HANDSHAKE_SECONDS)
        self._pairs[pair] = {}
        self._arriving[pair] = None
        self._advance(pair, ())

    def _advance(self, pair: Pair, readable: Container[socket.socket]) -> None:
        if not pair.advance(self._target, readable):
            self._drop(pair)
            return
        if pair.server is not None:
            self._arriving.pop(pair, None)
        watched, wanted = self._pairs[pair], pair.events()
        for one, events in wanted.items():
            before = watched.get(one, 0)
            if events == before:
                continue
            if not before:
                self._selector.register(one, events, pair)
            elif events:
                self._selector.modify(one, events, pair)
            else:
                self._selector.unregister(one)
        self._pairs[pair] = wanted

    def _drop(self, pair: Pair) -> None:
        for one, events in self._pairs.pop(pair).items():
            if events:
                self._selector.unregister(one)
        self._arriving.pop(pair, None)
        pair.close()


def keep_alive(connection: socket.socket) -> None:
    """A host that is gone without a word is noticed; small frames go at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", LOST_SECONDS // 2), ("TCP_KEEPINTVL", LOST_SECONDS // 4),
                          ("TCP_KEEPCNT", 2), ("TCP_USER_TIMEOUT", 1000 * LOST_SECONDS)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _connect(target: Target) -> socket.socket:
    if isinstance(target, str):
        server = socket.socket(socket.AF_UNIX)
        try:
            server.setblocking(False)  # a full queue is an error at once
            server.connect(target)
        except OSError:
            server.close()
            raise
        return server
    server = socket.create_connection(target, CONNECT_SECONDS)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server.setblocking(False)
    return server


def _write(sink: socket.socket, data: bytearray) -> None:
    if not data:
        return
    with contextlib.suppress(BlockingIOError):
        del data[: sink.send(data)]


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS 1.3 with this certificate; the key passes through a file of mode 600 that has no name afterwards."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # connections last as long as the run
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate + key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def main() -> None:
    """See the head of this file."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):  # `ray job stop` sends them to all processes
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(15, NAME.encode(), 0, 0, 0)  # PR_SET_NAME
    with open(0, "rb", buffering=0, closefd=False) as stdin:  # nothing is read ahead: the end is waited for below
        settings: dict[str, Any] = json.loads(stdin.readline())
    context = server_context(settings["certificate"], settings["key"])
    host, target = settings["host"], settings["target"]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, settings["port"]), family=family, backlog=MAX_CLIENTS)
    print(listener.getsockname()[1], flush=True)
    relay = Relay(listener, context, target if isinstance(target, str) else (target[0], target[1]))
    relay.run(sys.stdin.fileno())


if __name__ == "__main__":
    main()
