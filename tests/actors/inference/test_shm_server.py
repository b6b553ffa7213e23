"""The shared-memory server: its answers are the evaluator's, and no wait outlives the other side."""

import fcntl
import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import inference_fixtures
import numpy as np
import psutil
import pytest
from inference_fixtures import CODEC, GAME, Scripted, ThreadTransport, eventually, freeze, leaves_of, serving, weights

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.inference.client import RemoteEvaluator
from shusaku.actors.inference.protocol import ServerUnavailableError
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
from shusaku.actors.pipelined_self_play import PipelinedSelfPlay
from shusaku.actors.self_play import ActorIdentity
from shusaku.common.codec import CodecError
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.leaves_codec import decode_evaluation, to_half

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the listener is Linux's: memfd and abstract sockets")
SLOT_BYTES = CODEC.max_bytes


@contextmanager
def a_listener(**settings: object) -> Iterator[tuple[InferenceServer, dict[int, Scripted], SharedMemoryServer]]:
    with serving(**settings) as (server, evaluators):  # type: ignore[arg-type]
        listener = SharedMemoryServer(server)
        try:
            yield server, evaluators, listener
        finally:
            for evaluator in evaluators.values():
                evaluator.free.set()
            listener.close()


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


# --- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 64, 150])
def test_an_answer_is_that_of_the_evaluator(rows: int) -> None:
    leaves = leaves_of(rows)
    with a_listener(version=3) as (_, _, listener):
        transport = client_of(listener)
        data = transport.receive(transport.send(CODEC.encode(leaves)), 10)
        answer = decode_evaluation(data, rows, len(leaves.actions))
        transport.close()
    local = PseudoRandomEvaluator(GAME, rows)(leaves)
    np.testing.assert_array_equal(answer.logits, to_half(local.logits).astype(np.float32))
    assert answer.version == 3
    assert answer.values.tolist() == [3 / 1024] * rows


def test_two_are_under_way_and_may_be_received_in_either_order() -> None:
    requests = [leaves_of(3, seed=1), leaves_of(5, seed=2)]
    with a_listener() as (_, evaluators, listener):
        transport = client_of(listener)
        evaluators[64].free.clear()
        tickets = [transport.send(CODEC.encode(leaves)) for leaves in requests]
        assert len(set(tickets)) == 2
        with pytest.raises(TimeoutError):
            transport.receive(tickets[1], 0.05)
        evaluators[64].free.set()
        for ticket, leaves in reversed(list(zip(tickets, requests, strict=True))):
            answer = decode_evaluation(transport.receive(ticket, 10), len(leaves), len(leaves.actions))
            expected = to_half(PseudoRandomEvaluator(GAME, 9)(leaves).logits).astype(np.float32)
            np.testing.assert_array_equal(answer.logits, expected)
        transport.close()


def test_self_play_is_what_it_is_by_calls() -> None:
    def play(evaluate: object) -> list[list[int]]:
        player = PipelinedSelfPlay(
            GAME, PuctConfig(simulations=12), SelfPlayConfig(random_plies=2), evaluate, games=8,  # type: ignore[arg-type]
            seed=5, identity=ActorIdentity(0),
        )
        return [record.actions.tolist() for _ in range(900) for record in player.step()]

    with a_listener() as (server, _, listener):
        calls = ThreadTransport(1, server)
        games = [play(RemoteEvaluator(transport, 0, GAME)) for transport in (client_of(listener), calls)]
        calls.close()
    assert len(games[0]) > 10
    assert games[0] == games[1]


def test_many_clients_share_batches_and_each_gets_its_own() -> None:
    stop = threading.Event()

    def ask_on(client: int, listener: SharedMemoryServer) -> int:
        leaves, calls = leaves_of(1 + client, seed=client), 0
        expected = to_half(PseudoRandomEvaluator(GAME, 9)(leaves).logits).astype(np.float32)
        transport = client_of(listener, client)
        while not stop.is_set():
            answer = decode_evaluation(transport.receive(transport.send(CODEC.encode(leaves)), 10), len(leaves),
                                       len(leaves.actions))
            np.testing.assert_array_equal(answer.logits, expected)
            assert set(answer.values.tolist()) == {answer.version / 1024}
            calls += 1
        transport.close()
        return calls

    with a_listener() as (server, evaluators, listener), ThreadPoolExecutor(8) as pool:
        running = [pool.submit(ask_on, client, listener) for client in range(8)]
        assert eventually(lambda: listener.connections == 8)
        for version in range(2, 12):
            server.load(weights(version))
            time.sleep(0.03)
        stop.set()
        assert all(future.result(10) > 5 for future in running)
        assert max(evaluators[64].asked) > 8, "no two clients were ever answered together"
        assert eventually(lambda: listener.connections == 0)


# --- ends ------------------------------------------------------------------------------------------------------------


def test_closing_ends_a_waiting_call_at_once() -> None:
    with a_listener() as (_, evaluators, listener):
        transport = client_of(listener)
        evaluators[64].free.clear()
        ticket = transport.send(CODEC.encode(leaves_of(2)))
        assert evaluators[64].entered.wait(10)
        threading.Timer(0.1, listener.close).start()
        begin = time.monotonic()
        with pytest.raises(ServerUnavailableError, match="the server has ended"):
            transport.receive(ticket, 30)
        assert time.monotonic() - begin < 5
        assert transport.is_closed
        with pytest.raises(ServerUnavailableError, match="closed"):
            transport.send(CODEC.encode(leaves_of(2)))


SERVER = """
import sys
from inference_fixtures import Scripted, GAME, weights
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_server import SharedMemoryServer
server = InferenceServer(GAME, Scripted, sizes=[64], deadline_ms=1.0)
server.load(weights(1))
listener = SharedMemoryServer(server)
print(listener.address[1:], flush=True)
sys.stdin.read()
"""


@contextmanager
def a_server_process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(Path(inference_fixtures.__file__).parent)})
    try:
        assert process.stdout is not None
        yield process, "\0" + process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_a_killed_server_frees_its_client_at_once() -> None:
    with a_server_process() as (process, address):
        transport = SharedMemoryTransport(address, 0, SLOT_BYTES, deadline=60)
        transport.receive(transport.send(CODEC.encode(leaves_of(4))), 20)
        freeze(process)  # so that it is killed while a request waits
        ticket = transport.send(CODEC.encode(leaves_of(4)))
        threading.Timer(0.1, process.kill).start()
        begin = time.monotonic()
        with pytest.raises(ServerUnavailableError):
            transport.receive(ticket, 30)
        assert time.monotonic() - begin < 5
    with pytest.raises(ConnectionRefusedError):
        SharedMemoryTransport(address, 0, SLOT_BYTES, deadline=60)


def test_a_frozen_server_is_given_up_after_the_deadline() -> None:
    with a_server_process() as (process, address):
        transport = SharedMemoryTransport(address, 0, SLOT_BYTES, deadline=0.5)
        transport.receive(transport.send(CODEC.encode(leaves_of(4))), 20)
        freeze(process)
        ticket = transport.send(CODEC.encode(leaves_of(4)))
        with pytest.raises(TimeoutError):
            transport.receive(ticket, 0.1)
        with pytest.raises(ServerUnavailableError, match=r"no answer for 0\.5 s"):
            transport.receive(ticket, 5)
        assert transport.is_closed


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


def test_a_client_that_died_before_its_answer_harms_nobody() -> None:
    """The server's thread meets the broken connection first; the next client gets the same number of a file."""
    with a_listener() as (_, evaluators, listener):
        other = client_of(listener, 1)
        assert other.receive(other.send(CODEC.encode(leaves_of(2))), 10)
        for seed in range(30):
            evaluators[64].entered.clear()
            evaluators[64].free.clear()
            dying = client_of(listener)
            dying.send(CODEC.encode(leaves_of(2, seed=seed)))
            assert evaluators[64].entered.wait(10)
            dying.close()
            if seed % 2:  # the listener sees the end before the answer, or the answer meets it
                assert eventually(lambda: listener.connections == 1)
            evaluators[64].free.set()
            assert eventually(lambda: listener.connections == 1)
        assert other.receive(other.send(CODEC.encode(leaves_of(2))), 10)
        assert listener.is_alive
        other.close()


def test_what_a_departed_client_asked_is_not_computed() -> None:
    with a_listener() as (server, evaluators, listener):
        other, leaver = client_of(listener, 1), client_of(listener, 2)
        evaluators[64].entered.clear()
        evaluators[64].free.clear()
        ticket = other.send(CODEC.encode(leaves_of(3)))
        assert evaluators[64].entered.wait(10)  # the GPU is busy, so that what comes now waits
        for seed in range(2):
            leaver.send(CODEC.encode(leaves_of(7, seed=seed)))
        assert eventually(lambda: server.stats().waiting == 2)
        leaver.close()
        assert eventually(lambda: server.stats().waiting == 0)
        evaluators[64].free.set()
        assert other.receive(ticket, 10)
        assert other.receive(other.send(CODEC.encode(leaves_of(2))), 10)
        assert eventually(lambda: server.stats().rows == 3 + 2)  # counted once the answer is on its way
        other.close()


def test_a_received_answer_is_kept_when_the_server_closes() -> None:
    with a_listener() as (_, _, listener):
        transport = client_of(listener)
        first, second = (transport.send(CODEC.encode(leaves_of(n))) for n in (2, 3))
        assert transport.receive(second, 10)
        assert first in transport._received
        transport.close()
        assert transport.receive(first, 10)
        with pytest.raises(ServerUnavailableError):
            transport.receive(second, 10)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_bad_payload_is_refused_and_the_next_one_answered() -> None:
    with a_listener() as (server, _, listener):
        transport = client_of(listener)
        with pytest.raises(CodecError, match="begins with"):
            transport.receive(transport.send(b"x" * 40), 10)
        assert transport.receive(transport.send(CODEC.encode(leaves_of(2))), 10)
        assert server.stats().refused == 1
        transport.close()


def test_what_the_server_cannot_answer_now_is_said() -> None:
    with a_listener() as (_, evaluators, listener):
        transport = client_of(listener)
        evaluators[64].error = RuntimeError("the GPU is gone")
        with pytest.raises(ServerUnavailableError, match="the GPU is gone"):
            transport.receive(transport.send(CODEC.encode(leaves_of(2))), 10)
        assert not transport.is_closed
        assert transport.receive(transport.send(CODEC.encode(leaves_of(2))), 10)
        transport.close()


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
