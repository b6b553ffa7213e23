"""What holds for every way to an inference server: answers are the evaluator's, and no wait outlives the other side."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import inference_fixtures
import numpy as np
import pytest
from inference_fixtures import CODEC, GAME, Scripted, ThreadTransport, eventually, freeze, leaves_of, listening, weights

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.inference.client import RemoteEvaluator
from shusaku.actors.inference.connection import Connection
from shusaku.actors.inference.listener import Listener
from shusaku.actors.inference.protocol import ServerUnavailableError
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_client import SharedMemoryTransport
from shusaku.actors.inference.shm_server import SharedMemoryServer
from shusaku.actors.inference.tcp_client import TcpTransport
from shusaku.actors.inference.tcp_handshake import TcpAddress
from shusaku.actors.inference.tcp_server import TcpServer
from shusaku.actors.pipelined_self_play import PipelinedSelfPlay
from shusaku.actors.self_play import ActorIdentity
from shusaku.common.codec import CodecError
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.leaves_codec import decode_evaluation, to_half

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the listeners are Linux's")


class Memory:
    """Shared memory, on the server's host."""

    name = "shared memory"
    code = "SharedMemoryServer(server).address[1:]"

    def listen(self, server: InferenceServer) -> Listener:
        return SharedMemoryServer(server)

    def connect(self, address: Any, client: int = 0, deadline: float = 10.0) -> Connection:
        return SharedMemoryTransport(address, client, CODEC.max_bytes, deadline=deadline)

    def address(self, said: str) -> Any:
        """Of what `code` prints."""
        return f"\0{said}"


class Tcp:
    """From anywhere."""

    name = "tcp"
    code = "*TcpServer(server, '127.0.0.1').address"

    def listen(self, server: InferenceServer) -> Listener:
        return TcpServer(server, "127.0.0.1")

    def connect(self, address: Any, client: int = 0, deadline: float = 10.0) -> Connection:
        return TcpTransport(address, client, CODEC.max_bytes, deadline=deadline)

    def address(self, said: str) -> Any:
        host, port, token = said.split()
        return TcpAddress(host, int(port), token)


Way = Memory | Tcp


@pytest.fixture(params=[Memory(), Tcp()], ids=["memory", "tcp"])
def way(request: pytest.FixtureRequest) -> Way:
    made: Way = request.param
    return made


def a_listener(
    way: Way, **settings: object
) -> AbstractContextManager[tuple[InferenceServer, dict[int, Scripted], Any]]:
    return listening(way.listen, **settings)


SERVER = """
import sys
from inference_fixtures import Scripted, GAME, weights
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_server import SharedMemoryServer
from shusaku.actors.inference.tcp_server import TcpServer
server = InferenceServer(GAME, Scripted, sizes=[64], deadline_ms=1.0)
server.load(weights(1))
print({}, flush=True)
sys.stdin.read()
"""


@contextmanager
def a_server_process(way: Way) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER.format(way.code)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(Path(inference_fixtures.__file__).parent)})
    try:
        assert process.stdout is not None
        yield process, way.address(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("rows", [1, 64, 150])
def test_an_answer_is_that_of_the_evaluator(way: Way, rows: int) -> None:
    leaves = leaves_of(rows)
    with a_listener(way, version=3) as (_, _, listener):
        transport = way.connect(listener.address)
        data = transport.receive(transport.send(CODEC.encode(leaves)), 10)
        answer = decode_evaluation(data, rows, len(leaves.actions))
        transport.close()
    local = PseudoRandomEvaluator(GAME, rows)(leaves)
    np.testing.assert_array_equal(answer.logits, to_half(local.logits).astype(np.float32))
    assert answer.version == 3
    assert answer.values.tolist() == [3 / 1024] * rows


def test_two_are_under_way_and_may_be_received_in_either_order(way: Way) -> None:
    requests = [leaves_of(3, seed=1), leaves_of(5, seed=2)]
    with a_listener(way) as (_, evaluators, listener):
        transport = way.connect(listener.address)
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


def test_self_play_is_what_it_is_by_calls(way: Way) -> None:
    def play(evaluate: object) -> list[list[int]]:
        player = PipelinedSelfPlay(
            GAME, PuctConfig(simulations=12), SelfPlayConfig(random_plies=2), evaluate, games=8,  # type: ignore[arg-type]
            seed=5, identity=ActorIdentity(0),
        )
        return [record.actions.tolist() for _ in range(900) for record in player.step()]

    with a_listener(way) as (server, _, listener):
        calls = ThreadTransport(1, server)
        games = [play(RemoteEvaluator(transport, 0, GAME)) for transport in (way.connect(listener.address), calls)]
        calls.close()
    assert len(games[0]) > 10
    assert games[0] == games[1]


def test_many_clients_share_batches_and_each_gets_its_own(way: Way) -> None:
    stop = threading.Event()

    def ask_on(client: int, listener: Listener) -> int:
        leaves, calls = leaves_of(1 + client, seed=client), 0
        expected = to_half(PseudoRandomEvaluator(GAME, 9)(leaves).logits).astype(np.float32)
        transport = way.connect(listener.address, client)
        while not stop.is_set():
            answer = decode_evaluation(transport.receive(transport.send(CODEC.encode(leaves)), 10), len(leaves),
                                       len(leaves.actions))
            np.testing.assert_array_equal(answer.logits, expected)
            assert set(answer.values.tolist()) == {answer.version / 1024}
            calls += 1
        transport.close()
        return calls

    with a_listener(way) as (server, evaluators, listener), ThreadPoolExecutor(8) as pool:
        running = [pool.submit(ask_on, client, listener) for client in range(8)]
        assert eventually(lambda: listener.connections == 8)
        for version in range(2, 12):
            server.load(weights(version))
            time.sleep(0.03)
        stop.set()
        assert all(future.result(10) > 5 for future in running)
        assert max(evaluators[64].asked) > 8, "no two clients were ever answered together"
        assert eventually(lambda: listener.connections == 0)


def test_closing_ends_a_waiting_call_at_once(way: Way) -> None:
    with a_listener(way) as (_, evaluators, listener):
        transport = way.connect(listener.address)
        evaluators[64].free.clear()
        ticket = transport.send(CODEC.encode(leaves_of(2)))
        assert evaluators[64].entered.wait(10)
        threading.Timer(0.1, listener.close).start()
        begin = time.monotonic()
        with pytest.raises(ServerUnavailableError, match=way.name):
            transport.receive(ticket, 30)
        assert time.monotonic() - begin < 5
        assert transport.is_closed
        with pytest.raises(ServerUnavailableError, match="closed"):
            transport.send(CODEC.encode(leaves_of(2)))


def test_a_killed_server_frees_its_client_at_once(way: Way) -> None:
    with a_server_process(way) as (process, address):
        transport = way.connect(address, deadline=60)
        transport.receive(transport.send(CODEC.encode(leaves_of(4))), 20)
        freeze(process)  # so that it is killed while a request waits
        ticket = transport.send(CODEC.encode(leaves_of(4)))
        threading.Timer(0.1, process.kill).start()
        begin = time.monotonic()
        with pytest.raises(ServerUnavailableError):
            transport.receive(ticket, 30)
        assert time.monotonic() - begin < 5
    with pytest.raises(ConnectionRefusedError):
        way.connect(address, deadline=60)


def test_a_frozen_server_is_given_up_after_the_deadline(way: Way) -> None:
    with a_server_process(way) as (process, address):
        transport = way.connect(address, deadline=0.5)
        transport.receive(transport.send(CODEC.encode(leaves_of(4))), 20)
        freeze(process)
        ticket = transport.send(CODEC.encode(leaves_of(4)))
        with pytest.raises(TimeoutError):
            transport.receive(ticket, 0.1)
        with pytest.raises(ServerUnavailableError, match=r"no answer for 0\.5 s"):
            transport.receive(ticket, 5)
        assert transport.is_closed


def test_a_client_that_died_before_its_answer_harms_nobody(way: Way) -> None:
    """The server's thread meets the broken connection first; the next client gets the same number of a file."""
    with a_listener(way) as (_, evaluators, listener):
        other = way.connect(listener.address, 1)
        assert other.receive(other.send(CODEC.encode(leaves_of(2))), 10)
        for seed in range(30):
            evaluators[64].entered.clear()
            evaluators[64].free.clear()
            dying = way.connect(listener.address)
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


def test_what_a_departed_client_asked_is_not_computed(way: Way) -> None:
    with a_listener(way) as (server, evaluators, listener):
        other, leaver = way.connect(listener.address, 1), way.connect(listener.address, 2)
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


def test_a_received_answer_is_kept_when_the_server_closes(way: Way) -> None:
    with a_listener(way) as (_, _, listener):
        transport = way.connect(listener.address)
        first, second = (transport.send(CODEC.encode(leaves_of(n))) for n in (2, 3))
        assert transport.receive(second, 10)
        assert first in transport._received
        transport.close()
        assert transport.receive(first, 10)
        with pytest.raises(ServerUnavailableError):
            transport.receive(second, 10)


def test_a_bad_payload_is_refused_and_the_next_one_answered(way: Way) -> None:
    with a_listener(way) as (server, _, listener):
        transport = way.connect(listener.address)
        with pytest.raises(CodecError, match="begins with"):
            transport.receive(transport.send(b"x" * 40), 10)
        assert transport.receive(transport.send(CODEC.encode(leaves_of(2))), 10)
        assert server.stats().refused == 1
        transport.close()


def test_what_the_server_cannot_answer_now_is_said(way: Way) -> None:
    with a_listener(way) as (_, evaluators, listener):
        transport = way.connect(listener.address)
        evaluators[64].error = RuntimeError("the GPU is gone")
        with pytest.raises(ServerUnavailableError, match="the GPU is gone"):
            transport.receive(transport.send(CODEC.encode(leaves_of(2))), 10)
        assert not transport.is_closed
        assert transport.receive(transport.send(CODEC.encode(leaves_of(2))), 10)
        transport.close()
