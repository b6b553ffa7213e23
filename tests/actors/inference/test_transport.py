"""Which way an actor's requests go: shared memory on the server's host, TCP, Ray calls, and on to the next server.

Ray is a fake here: a reference holds its answer.  Real Ray runs in tests/deploy.
"""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from inference_fixtures import CODEC, GAME, Scripted, eventually, leaves_of, weights

from shusaku.actors.inference import transport as remote_transport
from shusaku.actors.inference.client import RemoteEvaluator
from shusaku.actors.inference.protocol import ServerUnavailableError
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_server import SharedMemoryServer
from shusaku.actors.inference.tcp_server import TcpServer
from shusaku.actors.inference.transport import Listeners, ServerTransport
from shusaku.common.codec import CodecError
from shusaku.common.messages import Evaluation, Leaves

HERE = "this node"


class Reference:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def future(self) -> "Future[Any]":
        done: Future[Any] = Future()
        if isinstance(self.answer, Exception):
            done.set_exception(self.answer)
        else:
            done.set_result(self.answer)
        return done


def remote(function: Any) -> Any:
    """A method of an actor's handle."""
    def call(*arguments: Any) -> Reference:
        try:
            return Reference(function(*arguments))
        except Exception as error:
            return Reference(error)

    return SimpleNamespace(remote=call)


class Served:
    """An inference server with its listeners, as an actor handle offers it."""

    def __init__(self, node: str = HERE, has_shared_memory: bool = True, has_tcp: bool = False) -> None:
        self.evaluator = Scripted()
        self.server = InferenceServer(GAME, lambda size: self.evaluator, sizes=[64], deadline_ms=0.5)
        self.server.load(weights(1))
        self.shared = SharedMemoryServer(self.server)
        self.calls = 0
        self.is_dead = False
        self.tcp = TcpServer(self.server, "127.0.0.1")
        found = Listeners(node, self.shared.address if has_shared_memory else "", self.tcp.address if has_tcp else None)
        self.listeners = remote(lambda: found)
        self.infer = remote(self._infer)

    def _infer(self, client: int, payload: bytes, seconds: float) -> bytes:
        if self.is_dead:
            raise ray.exceptions.RayActorError()
        self.calls += 1
        try:
            return self.server.infer(client, payload, seconds)
        except ServerUnavailableError as error:
            raise ray.exceptions.RayTaskError("infer", f"Traceback\n{error}", error).as_instanceof_cause() from None

    def close(self) -> None:
        self.shared.close()
        self.tcp.close()
        self.server.close()


class Handle:
    """A handle as Ray deserialises it anew for each call: equal to the others of its actor, another object."""

    def __init__(self, served: Served) -> None:
        self.served = served

    def __getattr__(self, name: str) -> Any:
        return getattr(self.served, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.served is self.served

    def __hash__(self) -> int:
        return id(self.served)


def say_nothing() -> None:
    raise ray.exceptions.GetTimeoutError()


@pytest.fixture
def handles(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Served]]:
    def get(reference: Reference, timeout: float) -> Any:
        if isinstance(reference.answer, Exception):
            raise reference.answer
        return reference.answer

    fake = SimpleNamespace(get=get, exceptions=ray.exceptions,
                           get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: HERE))
    monkeypatch.setattr(remote_transport, "ray", fake)
    made: list[Served] = []
    yield made
    for one in made:
        one.close()


def ask(transport: ServerTransport) -> bytes:
    return transport.receive(transport.send(CODEC.encode(leaves_of(3))), 10.0)


def route(transport: ServerTransport) -> Any:
    return transport.metrics()["runtime"]


def test_on_its_host_memory_is_shared_and_timed(handles: list[Served]) -> None:
    handles.append(Served())
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([handles[0]])
    for _ in range(5):
        assert ask(transport)
    assert handles[0].calls == 0
    assert route(transport) == "an inference server, through shared memory"
    metrics = transport.metrics()
    assert 0 < float(metrics["call_p50_ms"]) <= float(metrics["call_p99_ms"]) < 5000


@pytest.mark.parametrize("settings", [{"node": "another"}, {"has_shared_memory": False}])
def test_elsewhere_ray_is_called(handles: list[Served], settings: dict[str, Any]) -> None:
    handles.append(Served(**settings))
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([handles[0]])
    assert ask(transport)
    assert handles[0].calls == 1
    assert "through Ray calls, because it listens for nothing else" in route(transport)


@pytest.mark.parametrize("settings", [{"node": "another"}, {"has_shared_memory": False}])
def test_elsewhere_tcp_carries_requests_of_any_size(handles: list[Served], settings: dict[str, Any]) -> None:
    handles.append(Served(**settings, has_tcp=True))
    transport = ServerTransport(0, GAME, [700, 700])
    transport.attach([handles[0]])
    evaluator = RemoteEvaluator(transport, 0, GAME)
    assert len(evaluator(leaves_of(700)).values) == 700
    assert ask(transport)
    assert handles[0].calls == 0
    assert route(transport) == "an inference server, through TCP"
    assert float(transport.metrics()["call_p50_ms"]) > 0


def test_without_shared_memory_the_same_host_is_reached_by_tcp(
    handles: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    handles.append(Served(has_tcp=True))
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([handles[0]])
    assert ask(transport)
    assert (handles[0].calls, route(transport)) == (0, "an inference server, through TCP")


def test_a_tcp_connection_that_ends_is_replaced_by_ray_calls(handles: list[Served]) -> None:
    handles.append(Served("another", has_tcp=True))
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([handles[0]])
    assert ask(transport)
    handles[0].tcp.close()
    with pytest.raises(ServerUnavailableError, match="tcp"):
        ask(transport)
    assert ask(transport)
    assert handles[0].calls == 1
    assert route(transport) == "an inference server, through Ray calls, because its TCP connection closed"


def test_too_little_memory_is_said_and_ray_is_called(handles: list[Served], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    handles.append(Served())
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([handles[0]])
    for _ in range(2):
        assert ask(transport)
    assert handles[0].calls == 2
    assert "through Ray calls, because there is no shared memory: [Errno 28] No space left" in route(transport)


def test_a_closed_connection_is_not_tried_again_until_a_successor_comes(handles: list[Served]) -> None:
    handles += [Served(), Served()]
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([handles[0]])
    assert ask(transport)
    handles[0].evaluator.free.clear()
    ticket = transport.send(CODEC.encode(leaves_of(3)))
    assert handles[0].evaluator.entered.wait(10)
    handles[0].shared.close()
    with pytest.raises(ServerUnavailableError, match="shared memory"):
        transport.receive(ticket, 10)
    handles[0].evaluator.free.set()
    assert ask(transport)
    assert handles[0].calls == 1
    assert route(transport) == "an inference server, through Ray calls, because its shared memory connection closed"
    transport.attach([handles[1]])
    assert ask(transport)
    assert handles[1].calls == 0
    assert route(transport) == "an inference server, through shared memory"


def test_another_server_is_asked_when_one_fails(handles: list[Served]) -> None:
    handles += [Served(), Served(node="another")]
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach(list(handles))
    handles[0].evaluator.error = RuntimeError("the GPU is gone")
    with pytest.raises(ServerUnavailableError, match="the GPU is gone"):
        ask(transport)
    assert ask(transport)
    assert handles[1].calls == 1, "the next one"
    handles[1].is_dead = True
    with pytest.raises(ServerUnavailableError):
        ask(transport)
    assert ask(transport), "and round again"


def servers_that_answer(handles: list[Served], clients: Sequence[int]) -> list[int]:
    """Requests that each server answers if each client asks once."""
    before = [handle.server.stats().rows for handle in handles]
    for client in clients:
        transport = ServerTransport(client, GAME, [64, 64])
        transport.attach(list(handles))
        assert ask(transport)

    def counts() -> list[int]:
        return [(handle.server.stats().rows - rows) // 3 for handle, rows in zip(handles, before, strict=True)]

    assert eventually(lambda: sum(counts()) == len(clients))  # counted once the answer is on its way
    return counts()


def test_servers_of_the_own_node_come_first_and_are_asked_evenly(handles: list[Served]) -> None:
    handles += [Served("another", has_tcp=True), Served(), Served()]
    assert servers_that_answer(handles, range(0, 12, 2)) == [0, 3, 3], "actors go by turns to two nodes"
    assert servers_that_answer(handles[1:], range(6)) == [3, 3], "all on one node"
    assert servers_that_answer(handles[:1], range(2)) == [2]


def test_a_server_that_does_not_say_where_it_listens_keeps_its_place(handles: list[Served]) -> None:
    handles += [Served(), Served("another", has_tcp=True)]
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([Handle(served) for served in handles])
    assert ask(transport)
    handles[0].listeners = remote(say_nothing)
    transport.attach([Handle(served) for served in handles])
    assert ask(transport)
    assert route(transport) == "an inference server, through shared memory"
    assert handles[0].calls == 0


def test_a_server_that_did_not_say_where_it_listens_is_asked_again(
    handles: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And has the place then that it would have had, without another call of `attach`."""
    handles += [Served("another", has_tcp=True), Served()]
    says, handles[1].listeners = handles[1].listeners, remote(say_nothing)
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([Handle(served) for served in handles])
    assert ask(transport)
    assert route(transport) == "an inference server, through TCP"
    handles[1].listeners = says
    assert ask(transport)
    assert route(transport) == "an inference server, through TCP", "not at once"
    monkeypatch.setattr(remote_transport, "RETRY_SECONDS", 0.0)
    assert ask(transport)
    assert route(transport) == "an inference server, through shared memory"
    assert [served.calls for served in handles] == [0, 0]


def test_a_request_to_a_server_that_is_attached_again_may_fail(handles: list[Served]) -> None:
    """It leads to the next server, though the handle that it was sent by is an old one."""
    handles += [Served(has_shared_memory=False), Served(has_shared_memory=False)]
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([Handle(served) for served in handles])
    handles[0].is_dead = True
    lost = transport.send(CODEC.encode(leaves_of(3)))
    transport.attach([Handle(served) for served in handles])
    with pytest.raises(ServerUnavailableError):
        transport.receive(lost, 10)
    assert ask(transport)
    assert handles[1].calls == 1


def test_an_old_failure_does_not_lead_away_from_the_server_of_now(handles: list[Served]) -> None:
    handles += [Served(has_shared_memory=False), Served(has_shared_memory=False)]
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach(list(handles))
    handles[0].is_dead = True
    lost = [transport.send(CODEC.encode(leaves_of(3))) for _ in range(2)]
    for ticket in lost:  # the second one fails when the next server is asked already
        with pytest.raises(ServerUnavailableError):
            transport.receive(ticket, 10)
    assert ask(transport)
    assert handles[1].calls == 1


def test_a_way_that_fails_again_and_again_is_tried_less_and_less_often(
    handles: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a firewall that hides the port, each try costs seconds of self-play."""
    now, tries = [0.0], []

    def refuse(way: object, *_: object, **__: object) -> None:
        tries.append(now[0])
        raise OSError("timed out")

    handles.append(Served("another", has_tcp=True))
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([handles[0]])
    monkeypatch.setattr(remote_transport, "TcpTransport", refuse)
    monkeypatch.setattr(remote_transport, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for _ in range(2000):
        transport._connect(transport._servers[0].ways)
        now[0] += 10
    assert [later - earlier for earlier, later in pairwise(tries)][:8] == [
        60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_the_near_server_is_asked_again_after_a_while(
    handles: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    handles += [Served("another", has_tcp=True), Served()]
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach(list(handles))
    handles[1].evaluator.error = RuntimeError("out of memory for once")
    with pytest.raises(ServerUnavailableError):
        ask(transport)
    handles[1].evaluator.error = None
    assert ask(transport)
    assert route(transport) == "an inference server, through TCP"
    monkeypatch.setattr(remote_transport, "RETRY_SECONDS", 0.0)
    assert ask(transport)
    assert route(transport) == "an inference server, through shared memory"
    assert eventually(lambda: handles[1].server.stats().rows == 3)


def test_a_defect_of_ours_is_not_hidden(handles: list[Served]) -> None:
    handles.append(Served())
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([handles[0]])
    with pytest.raises(CodecError):
        transport.receive(transport.send(b"nonsense of sixteen bytes and more"), 10.0)
    assert ask(transport)


@pytest.mark.parametrize("has_shared_memory", [True, False])
def test_a_slow_server_is_given_more_time_until_it_answers(
    has_shared_memory: bool, handles: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for ever: once its answers are quick, a server that hangs is left as soon as before."""
    monkeypatch.setattr(remote_transport, "SERVER_SECONDS", 0.1)
    monkeypatch.setattr(remote_transport, "RETRY_SECONDS", 0.0)
    handles.append(Served(has_shared_memory=has_shared_memory))
    evaluate = Scripted.__call__

    def evaluate_slowly(evaluator: Scripted, leaves: Leaves) -> Evaluation:
        time.sleep(0.5)
        return evaluate(evaluator, leaves)

    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([Handle(handles[0])])
    until = time.monotonic() + 20
    remote_evaluation = RemoteEvaluator(transport, 0, GAME, should_stop=lambda: time.monotonic() > until)
    with monkeypatch.context() as patched:
        patched.setattr(Scripted, "__call__", evaluate_slowly)
        for _ in range(2):
            assert len(remote_evaluation(leaves_of(5)).values) == 5
    assert remote_evaluation.resent >= 3
    assert transport._server_seconds >= 0.8
    while transport._server_seconds > 0.1:
        remote_evaluation(leaves_of(5))
    handles[0].evaluator.free.clear()
    with pytest.raises(ServerUnavailableError, match=r"no answer for 0\.1 s|within 0\.1 s"):
        ask(transport)
    handles[0].evaluator.free.set()


def test_an_evaluation_survives_the_end_of_the_connection(handles: list[Served]) -> None:
    """The client of `actors.inference.client` sends again what was lost, by the way that is left."""
    handles.append(Served())
    transport = ServerTransport(0, GAME, [64, 64])
    transport.attach([handles[0]])
    remote_evaluation = RemoteEvaluator(transport, 0, GAME)
    leaves = leaves_of(5)
    first = remote_evaluation(leaves)
    handles[0].evaluator.free.clear()
    handles[0].evaluator.entered.clear()
    remote_evaluation.begin(leaves)
    assert handles[0].evaluator.entered.wait(10)
    handles[0].shared.close()
    handles[0].evaluator.free.set()
    again = remote_evaluation.finish()
    assert again.logits.tolist() == first.logits.tolist()
    assert handles[0].calls == 1
    assert remote_evaluation.resent == 1
