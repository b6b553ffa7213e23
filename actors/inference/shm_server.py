"""The inference server's listener for clients of its own host: requests and answers in shared memory.

A client connects to a Unix socket, hands over the descriptor of a `Segment`, and writes the number of a slot whenever
a request lies there; the server writes the number back when the answer does.  A connection belongs to one server
process and one client process: if either ends, the other reads the end of the stream at once.  The socket lies in
Linux's abstract namespace, which leaves no file behind, and only processes of the same user are accepted.

The server's side of a connection is `common/core/serving/memory_peer.h`.
"""

import contextlib
import os
import secrets
import socket
import struct

from shusaku.actors.inference.listener import Arrival, Listener
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

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class SharedMemoryServer(Listener):
    """Accepts clients of this host and serves them."""

    def __init__(self, server: InferenceServer) -> None:
        """OSError if the system has no abstract sockets."""
        if not hasattr(_core, "RequestPort"):
            raise OSError("shared memory needs Linux")
        self.address = f"\0shusaku-{secrets.token_hex(16)}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(self.address)
        super().__init__(server, listener, "shared memory")

    def _greet(self, client: socket.socket) -> bytes | None:
        _, uid, _ = _CREDENTIALS.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return b"" if uid == os.getuid() else None

    def _take_handshake(self, arrival: Arrival) -> bool:
        number, segment = _read_handshake(arrival.socket)
        memory = segment.detach()
        # The client may send as soon as it is accepted, and is served from now on.
        with contextlib.suppress(OSError):
            arrival.socket.send(ACCEPTED)
        # Without memory for another mapping both descriptors are closed.
        with contextlib.suppress(OSError, RuntimeError, MemoryError):
            self._port.attach_memory(self._attach(arrival), memory, segment.slots, segment.slot_bytes, number)
        return True


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
