"""Memory that a client of an inference server shares with it: a slot for each request under way.

    slot    status u4 | size u4 | written at f8, seconds of the host's monotonic clock | body [slot_bytes]

An answer takes the place of its request, which is never smaller.  The memory has no name: it is a Linux memfd whose
descriptor travels over a socket, so nothing is left behind however anybody dies.  All of it is allocated at once, for
want of memory is an error then and a fault later; and it is sealed, so that neither side can take it from the other.
"""

import fcntl
import mmap
import os
import struct
import time
from enum import IntEnum
from typing import NamedTuple

_HEAD = struct.Struct("<IId")
_ALIGN = 64
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Status(IntEnum):
    """What the body of a slot is."""

    REQUEST = 0
    ANSWER = 1
    REFUSED = 2  # why the request cannot be answered by anybody, as text
    UNAVAILABLE = 3  # why it was not answered here and now, as text


class Body(NamedTuple):
    """What lies in a slot."""

    status: Status
    data: bytes
    written_at: float  # time.monotonic() of the writer


class Segment:
    """`slots` bodies of at most `slot_bytes`.  A slot belongs to one side at a time; who is told by other means."""

    def __init__(self, descriptor: int, slots: int, slot_bytes: int) -> None:
        """Maps the memory behind a descriptor, which it owns from now on: ValueError unless it is sealed and of this
        size.
        """
        self.slots, self.slot_bytes, self.descriptor = slots, slot_bytes, descriptor
        self._stride = -(-(_HEAD.size + slot_bytes) // _ALIGN) * _ALIGN
        size = slots * self._stride
        try:
            found = os.fstat(descriptor).st_size
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
            if found != size or seals & _SEALS != _SEALS:
                raise ValueError(f"shared memory of {found:,} bytes, seals {seals:#x}; {slots} slots of "
                                 f"{slot_bytes:,} bytes take {size:,} and seals {_SEALS:#x}")
            self._map = mmap.mmap(descriptor, size)
        except OSError as error:  # no memfd at all
            os.close(descriptor)
            raise ValueError(f"not shared memory: {error}") from None
        except ValueError:
            os.close(descriptor)
            raise

    @classmethod
    def create(cls, slots: int, slot_bytes: int) -> "Segment":
        """New memory; OSError where there is too little of it, or the system knows no memfd."""
        if not hasattr(os, "memfd_create"):
            raise OSError("this system has no memfd")
        descriptor = os.memfd_create("shusaku", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            size = slots * (-(-(_HEAD.size + slot_bytes) // _ALIGN) * _ALIGN)
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
        """A copy: whatever the other side writes later, it stays as it is.  ValueError for what no side writes."""
        status, size, written_at = _HEAD.unpack_from(self._map, slot * self._stride)
        if size > self.slot_bytes:
            raise ValueError(f"a body of {size:,} bytes; a slot takes {self.slot_bytes:,}")
        begin = slot * self._stride + _HEAD.size
        return Body(Status(status), self._map[begin : begin + size], written_at)

    def close(self) -> None:
        """Neither `read` nor `write` may follow."""
        self._map.close()
        os.close(self.descriptor)
