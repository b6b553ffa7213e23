"""The transport of a client on the inference server's host: requests and answers in shared memory."""

import contextlib
import socket
import time
from collections.abc import Callable

from shusaku.actors.inference.connection import CONNECT_SECONDS, Connection
from shusaku.actors.inference.protocol import Body, Status
from shusaku.actors.inference.shm_segment import ACCEPTED, HANDSHAKE, HANDSHAKE_MARK, Segment


class SharedMemoryTransport(Connection):
    """One connection to one server process of this host."""

    name = "shared memory"

    def __init__(self, address: str, client: int, slot_bytes: int, *, deadline: float, slots: int = 2,
                 record_seconds: Callable[[float], None] = lambda seconds: None) -> None:
        """Connects to the server at `address`; `client`: the number of this one, the rest as in `Connection`.

        OSError if there is no such server, or too little memory.
        """
        super().__init__(slot_bytes, slots=slots, deadline=deadline, record_seconds=record_seconds)
        with contextlib.ExitStack() as opened:  # closed again if a later step fails
            self._socket = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            self._segment = Segment.create(slots, slot_bytes)
            opened.callback(self._segment.close)
            self._socket.settimeout(CONNECT_SECONDS)
            self._socket.connect(address)
            handshake = HANDSHAKE.pack(HANDSHAKE_MARK, client, slots, slot_bytes)
            socket.send_fds(self._socket, [handshake], [self._segment.descriptor])
            if self._socket.recv(1) != ACCEPTED:
                raise ConnectionRefusedError("the inference server did not accept the client")
            opened.pop_all()

    def _put(self, slot: int, payload: bytes) -> None:
        self._segment.write(slot, Status.REQUEST, payload)
        self._socket.send(bytes([slot]))

    def _take(self, until: float) -> tuple[int, Body]:
        self._socket.settimeout(max(1e-4, until - time.monotonic()))
        message = self._socket.recv(1)
        if not message:
            raise EOFError
        slot = message[0]
        if slot >= self.slots:
            raise OSError(f"an answer in slot {slot}, which is none")
        return slot, self._segment.read(slot)

    def _release(self) -> None:
        self._socket.close()
        self._segment.close()
