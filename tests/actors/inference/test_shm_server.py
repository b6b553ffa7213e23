"""The shared-memory server: its answers are the evaluator's, and no wait outlives the other side."""

import fcntl
import gc
import os
import socket
import sys
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import psutil
import pytest
from inference_fixtures import CODEC, Scripted, eventually, leaves_of, listening

from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_client import SharedMemoryTransport
from shusaku.actors.inference.shm_segment import (
    ACCEPTED,
    HANDSHAKE,
    HANDSHAKE_MARK,
    MAX_SLOT_BYTES,
    MAX_SLOTS,
    Segment,
    Status,
)
from shusaku.actors.inference.shm_server import SharedMemoryServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the listener is Linux's: memfd and abstract sockets")
SLOT_BYTES = CODEC.max_bytes


def a_listener(
    **settings: object
) -> AbstractContextManager[tuple[InferenceServer, dict[int, Scripted], SharedMemoryServer]]:
    return listening(SharedMemoryServer, **settings)


def client_of(listener: SharedMemoryServer, client: int = 0, deadline: float = 10.0) -> SharedMemoryTransport:
    return SharedMemoryTransport(listener.address, client, SLOT_BYTES, deadline=deadline)


def open_descriptors() -> int:
    """This process's shared memory and sockets; other descriptors come and go with their own threads."""
    gc.collect()
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            links.append(os.readlink(descriptor))
    connections = psutil.Process().net_connections("unix")
    memory = sum(link.startswith("/memfd:") for link in links)
    return memory + sum(int(connection.type) == int(socket.SOCK_SEQPACKET) for connection in connections)


def test_a_client_that_dies_leaves_nothing_behind() -> None:
    """Neither memory, nor descriptors, nor files; whoever comes next is served."""
    with a_listener() as (_, evaluators, listener):
        first = client_of(listener)
        first.receive(first.send(CODEC.encode(leaves_of(2))), 10)
        first.close()
        assert eventually(lambda: listener.connections == 0)
        open_before, shared_before = open_descriptors(), set(os.listdir("/dev/shm"))
        for seed in range(20):
            transport = client_of(listener)
            evaluators[64].free.clear()
            transport.send(CODEC.encode(leaves_of(2, seed=seed)))
            assert eventually(lambda: listener.connections == 1)
            assert open_descriptors() > open_before
            transport.close()  # its request is on its way
            evaluators[64].free.set()
        assert eventually(lambda: listener.connections == 0)
        assert open_descriptors() == open_before
        assert not any("shusaku" in name for name in set(os.listdir("/dev/shm")) - shared_before)
        last = client_of(listener)
        assert last.receive(last.send(CODEC.encode(leaves_of(2))), 10)
        last.close()


# --- refusals --------------------------------------------------------------------------------------------------------


def handshake(slots: int = 2, slot_bytes: int = 1000, mark: bytes = HANDSHAKE_MARK) -> bytes:
    return HANDSHAKE.pack(mark, 0, slots, slot_bytes)


@pytest.mark.parametrize("misuse", [
    "nothing", "no memory", "another mark", "too many slots", "too large slots", "memory of another size",
    "memory that is not sealed", "two descriptors", "a slot that is not there", "short",
])
def test_a_client_that_breaks_the_protocol_is_disconnected(misuse: str) -> None:
    with a_listener() as (_, _, listener):
        good = client_of(listener, 1)
        segment = Segment.create(2, 1000)
        bare = os.memfd_create("bare", os.MFD_ALLOW_SEALING)
        os.ftruncate(bare, os.fstat(segment.descriptor).st_size)
        descriptors_before = open_descriptors()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(10)
            connection.connect(listener.address)
            message, descriptors = {
                "nothing": (b"", []),
                "no memory": (handshake(), []),
                "another mark": (handshake(mark=b"SHUSHM02"), [segment.descriptor]),
                "too many slots": (handshake(slots=MAX_SLOTS + 1), [segment.descriptor]),
                "too large slots": (handshake(slot_bytes=MAX_SLOT_BYTES + 1), [segment.descriptor]),
                "memory of another size": (handshake(slot_bytes=2000), [segment.descriptor]),
                "memory that is not sealed": (handshake(), [bare]),
                "two descriptors": (handshake(), [segment.descriptor, bare]),
                "a slot that is not there": (handshake(), [segment.descriptor]),
                "short": (handshake()[:5], [segment.descriptor]),
            }[misuse]
            if message:
                socket.send_fds(connection, [message], descriptors)
            else:
                connection.shutdown(socket.SHUT_WR)
            if misuse == "a slot that is not there":
                assert connection.recv(1) == ACCEPTED
                connection.send(b"\x02")
            assert connection.recv(1) == b""
        assert eventually(lambda: listener.connections == 1)
        assert open_descriptors() == descriptors_before
        assert good.receive(good.send(CODEC.encode(leaves_of(2))), 10)
        good.close()
        segment.close()
        os.close(bare)


def test_memory_cannot_be_taken_from_the_other_side() -> None:
    segment = Segment.create(2, 1000)
    with pytest.raises(PermissionError):
        os.ftruncate(segment.descriptor, 0)
    with pytest.raises(PermissionError):
        fcntl.fcntl(segment.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    segment.close()


def test_too_little_memory_is_an_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    before = open_descriptors()
    with a_listener() as (_, _, listener), pytest.raises(OSError, match="No space left"):
        client_of(listener)
    assert open_descriptors() == before


def test_too_many_open_files_leave_no_memory_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    before = open_descriptors()
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            SharedMemoryTransport("\0nowhere", 0, SLOT_BYTES, deadline=10.0)
    assert open_descriptors() == before


def test_slots_keep_their_bounds() -> None:
    segment = Segment.create(3, 100)
    bodies = [bytes([slot]) * 100 for slot in range(3)]
    for slot, body in enumerate(bodies):
        segment.write(slot, Status.REQUEST, body)
    assert [segment.read(slot).data for slot in range(3)] == bodies
    segment.write(1, Status.ANSWER, b"")
    assert (segment.read(1).status, segment.read(1).data) == (Status.ANSWER, b"")
    assert [segment.read(slot).data for slot in (0, 2)] == [bodies[0], bodies[2]]
    with pytest.raises(ValueError, match="101 bytes; a slot takes 100"):
        segment.write(0, Status.REQUEST, bytes(101))
    segment.close()
