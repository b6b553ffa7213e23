"""Memory that a client of an inference server shares with it, and the handshake by which the server accepts it.

    slot    status u4 | size u4 | written at f8, seconds of the host's monotonic clock | body [slot_bytes]

The server's side is `common/core/serving/memory_peer.h`.  There is a slot for each request in flight; the answer,
which is never larger, overwrites its request.  The memory is a Linux memfd without a name whose descriptor travels over
a socket, so that nothing is left behind when a process dies.  All of it is allocated at once, so that too little memory
is an error now and not a fault later, and it is sealed, so that neither side can shrink it.
"""

import fcntl
import mmap
import os
import struct
import time

from shusaku.actors.inference.protocol import Body, Status

HANDSHAKE = struct.Struct("<8sIII")  # mark, number of the client, slots, bytes of a slot
HANDSHAKE_MARK = b"SHUSHM01"
ACCEPTED = b"\xff"  # the server's answer to a handshake
MAX_SLOTS, MAX_SLOT_BYTES = 16, 1 << 26  # of one client; a batch of 1,024 positions of shogi takes 5 MB

_HEAD = struct.Struct("<IId")
_ALIGN = 64
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Segment:
    """`slots` bodies of at most `slot_bytes`.  A slot belongs to one side at a time, which other messages decide."""

    def __init__(self, descriptor: int, slots: int, slot_bytes: int) -> None:
        """Maps and owns the memory behind a descriptor; ValueError unless it is sealed and of this size."""
        self.slots, self.slot_bytes, self.descriptor = slots, slot_bytes, descriptor
        self._stride = _stride(slot_bytes)
        size = slots * self._stride
        try:
            found = os.fstat(descriptor).st_size
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
            if found != size or seals & _SEALS != _SEALS:
                raise ValueError(f"shared memory of {found:,} bytes, seals {seals:#x}; {slots} slots of "
                                 f"{slot_bytes:,} bytes take {size:,} and seals {_SEALS:#x}")
            self._map = mmap.mmap(descriptor, size)
        except OSError as error:  # the descriptor is no memfd
            os.close(descriptor)
            raise ValueError(f"not shared memory: {error}") from None
        except ValueError:
            os.close(descriptor)
            raise

    @classmethod
    def create(cls, slots: int, slot_bytes: int) -> "Segment":
        """New memory; OSError if there is too little, or if the system has no memfd."""
        if not hasattr(os, "memfd_create"):
            raise OSError("this system has no memfd")
        descriptor = os.memfd_create("shusaku", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            size = slots * _stride(slot_bytes)
            os.ftruncate(descriptor, size)
            os.posix_fallocate(descriptor, 0, size)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        except OSError:
            os.close(descriptor)
            raise
        return cls(descriptor, slots, slot_bytes)

    def write(self, slot: int, status: Status, body: bytes) -> None:
        """ValueError for a body that does not fit."""
        if len(body) > self.slot_bytes:
            raise ValueError(f"{len(body):,} bytes; a slot takes {self.slot_bytes:,}")
        begin = slot * self._stride + _HEAD.size
        self._map[begin : begin + len(body)] = body
        _HEAD.pack_into(self._map, slot * self._stride, status, len(body), time.monotonic())

    def read(self, slot: int) -> Body:
        """A copy, which later writes of the other side do not change.  ValueError for an invalid header."""
        status, size, written_at = _HEAD.unpack_from(self._map, slot * self._stride)
        if size > self.slot_bytes:
            raise ValueError(f"a body of {size:,} bytes; a slot takes {self.slot_bytes:,}")
        begin = slot * self._stride + _HEAD.size
        return Body(Status(status), self._map[begin : begin + size], written_at)

    def detach(self) -> int:
        """The descriptor, which is the caller's from now on; otherwise as `close`."""
        self._map.close()
        return self.descriptor

    def close(self) -> None:
        """Releases the memory; neither `read` nor `write` may follow."""
        self._map.close()
        os.close(self.descriptor)


def _stride(slot_bytes: int) -> int:
    """Bytes from one slot to the next."""
    return -(-(_HEAD.size + slot_bytes) // _ALIGN) * _ALIGN
