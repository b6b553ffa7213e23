"""Weights from the learner to the evaluating workers: never older ones, to all of them, and never a queue."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from fake_ray import FakeHandle, death, install, task_error

from shusaku.actors.remote import ServerReport
from shusaku.deploy.cluster.broadcast import Broadcast
from shusaku.deploy.cluster.supervisor import Supervisor
from shusaku.deploy.cluster.workers import RayRole, RayWorker


class World:
    """A supervisor of fake actors, and the broadcast among them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, placement: str = "actor", **groups: int) -> None:
        self.ray, self.clock = install(monkeypatch, "workers", "broadcast")
        self.supervisor = Supervisor(self.clock.monotonic)
        for name, count in groups.items():
            self.supervisor.register(RayRole(name, dict, lambda *_: ()), count)
        self.supervisor.reconcile()
        self.broadcast = Broadcast(self.supervisor, placement)

    def worker(self, name: str, index: int = 0) -> RayWorker:
        worker = self.supervisor.worker(name, index)
        assert isinstance(worker, RayWorker)
        return worker

    def handle(self, name: str, index: int = 0) -> FakeHandle:
        handle: FakeHandle = self.worker(name, index).handle
        return handle

    def replace(self, name: str, index: int = 0) -> None:
        """Dies, and has a successor."""
        self.handle(name, index).newest("run").fail(death())
        self.supervisor.reconcile()
        self.clock.now += 31
        self.supervisor.reconcile()

    def deliver(self) -> None:
        """All workers take what is sent, and once more what is new then."""
        for _ in range(2):
            self.broadcast.deliver()
            for actor in self.ray.actors:
                for call in (*actor.handle.calls("load"), *actor.handle.calls("attach")):
                    call.answer()
            self.broadcast.deliver()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, learner=1, self_play=2)


def weights(version: int, step: int = 0) -> Any:
    return SimpleNamespace(version=version, step=step or version * 100)


def report(version: int) -> Any:
    return SimpleNamespace(version=version)


def sent(handle: FakeHandle) -> list[int]:
    """Versions that an actor was sent, in order."""
    return [call.arguments[0][0].stored.version for call in handle.calls("load")]


def test_it_never_goes_back(world: World) -> None:
    broadcast = world.broadcast
    assert (broadcast.version, broadcast.step) == (0, 0)
    broadcast.adopt(weights(5))
    reference = broadcast.reference
    for version in (3, 5):
        broadcast.adopt(weights(version, step=9_999))
    assert (broadcast.version, broadcast.step) == (5, 500)
    assert broadcast.reference is reference
    assert len(world.ray.stored) == 1, "and what is not sent does not fill the object store"
    broadcast.adopt(weights(6))
    assert broadcast.reference.stored.version == 6


def test_what_the_learner_published_is_fetched_once(world: World) -> None:
    broadcast, learner = world.broadcast, world.worker("learner")
    broadcast.fetch(learner, None)
    broadcast.fetch(learner, report(0))
    assert world.handle("learner").calls("weights") == []
    for version in (1, 2, 3):
        broadcast.fetch(learner, report(version))
    (call,) = world.handle("learner").calls("weights")
    call.answer(weights(4))
    broadcast.fetch(learner, report(4))
    assert broadcast.version == 4
    broadcast.fetch(learner, report(4))
    assert len(world.handle("learner").calls("weights")) == 1
    broadcast.fetch(learner, report(5))
    world.handle("learner").newest("weights").answer(weights(2))
    broadcast.fetch(learner, report(5))
    assert broadcast.version == 4, "an answer that is older than what is there changes nothing"


def test_a_fetch_that_fails_or_brings_nothing_is_asked_again(world: World) -> None:
    broadcast, learner = world.broadcast, world.worker("learner")
    for outcome in (death(), task_error(ValueError("once")), None):
        broadcast.fetch(learner, report(1))
        call = world.handle("learner").newest("weights")
        if outcome is None:
            call.answer(None)
        else:
            call.fail(outcome)
        broadcast.fetch(learner, report(1))
        assert broadcast.version == 0
    assert len(world.handle("learner").calls("weights")) == 3
    broadcast.fetch(learner, report(1))
    world.handle("learner").newest("weights").answer(weights(1))
    broadcast.fetch(learner, report(1))
    assert broadcast.version == 1


def test_what_a_dead_learner_was_asked_for_is_dropped(world: World) -> None:
    broadcast = world.broadcast
    first = world.handle("learner")
    broadcast.fetch(world.worker("learner"), report(7))
    world.replace("learner")
    broadcast.fetch(world.worker("learner"), report(3))
    assert len(world.handle("learner").calls("weights")) == 1, "the new one is asked, whatever became of the old call"
    first.newest("weights").answer(weights(7))
    world.handle("learner").newest("weights").answer(weights(3))
    broadcast.fetch(world.worker("learner"), report(3))
    assert broadcast.version == 3
    broadcast.fetch(None, report(4))
    broadcast.fetch(None, None)


def test_every_actor_gets_the_newest_and_a_slow_one_no_queue(world: World) -> None:
    broadcast = world.broadcast
    broadcast.deliver()
    fast, slow = world.handle("self_play", 0), world.handle("self_play", 1)
    assert fast.made == [c for c in fast.made if c.method in ("location", "run")], "nothing to send yet"
    for version in (1, 2, 3):
        broadcast.adopt(weights(version))
        broadcast.deliver()
        fast.newest("load").answer()
        broadcast.deliver()
    assert sent(fast) == [1, 2, 3]
    assert sent(slow) == [1]
    slow.newest("load").answer()
    broadcast.deliver()
    assert sent(slow) == [1, 3]
    assert world.handle("learner").calls("load") == []


def test_a_successor_is_sent_what_its_forerunner_had(world: World) -> None:
    world.broadcast.adopt(weights(1))
    world.deliver()
    first = world.handle("self_play", 1)
    world.replace("self_play", 1)
    world.deliver()
    assert world.handle("self_play", 1) is not first
    assert sent(world.handle("self_play", 1)) == [1]
    assert sent(world.handle("self_play", 0)) == [1], "and the others nothing twice"


def test_many_replaced_workers_leave_nothing_behind(world: World) -> None:
    world.broadcast.adopt(weights(1))
    workers = []
    for _ in range(20):
        world.deliver()
        assert sent(world.handle("self_play", 1)) == [1]
        workers.append(weakref.ref(world.worker("self_play", 1)))
        world.replace("self_play", 1)
    world.ray.actors.clear()  # the calls of the fake keep errors, and their tracebacks keep workers
    gc.collect()
    assert sum(worker() is not None for worker in workers) <= 3


# --- with inference servers ------------------------------------------------------------------------------------------


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, "server", self_play=2, inference=2)


def attached(handle: FakeHandle) -> list[list[FakeHandle]]:
    """Sets of servers that an actor was told, in order."""
    return [call.arguments[0] for call in handle.calls("attach")]


def say(world: World, index: int, version: int) -> None:
    """The server's report."""
    stats: Any = None
    world.worker("inference", index).report = ServerReport(version, stats, "a stand-in")


def test_servers_get_the_weights_and_actors_the_ready_servers(served: World) -> None:
    world = served
    world.broadcast.adopt(weights(1))
    world.deliver()
    assert sent(world.handle("inference", 0)) == sent(world.handle("inference", 1)) == [1]
    assert sent(world.handle("self_play", 0)) == []
    assert attached(world.handle("self_play", 0)) == [], "no server is ready yet"
    say(world, 0, -1)
    say(world, 1, 1)
    world.deliver()
    first, second = world.handle("inference", 0), world.handle("inference", 1)
    for actor in (0, 1):
        assert attached(world.handle("self_play", actor)) == [[second]]
    say(world, 0, 1)
    world.deliver()
    for actor in (0, 1):
        assert attached(world.handle("self_play", actor)) == [[second], [first, second]]
    for version in (2, 3):
        world.broadcast.adopt(weights(version))
        say(world, 0, version)
        world.deliver()
    assert len(attached(world.handle("self_play", 0))) == 2, "the same servers are told once"
    assert sent(first) == [1, 2, 3]


def test_a_changed_set_is_attached_again(served: World) -> None:
    world = served
    world.broadcast.adopt(weights(1))
    for index in (0, 1):
        say(world, index, 1)
    world.deliver()
    first, second = world.handle("inference", 0), world.handle("inference", 1)
    world.handle("inference", 0).newest("run").fail(death())
    world.supervisor.reconcile()
    world.deliver()
    assert attached(world.handle("self_play", 0)) == [[first, second], [second]], "its successor is not ready yet"
    say(world, 0, 1)
    world.deliver()
    assert attached(world.handle("self_play", 0))[-1] == [world.handle("inference", 0), second]
    world.replace("self_play", 1)
    world.deliver()
    assert attached(world.handle("self_play", 1)) == [[world.handle("inference", 0), second]]


def test_without_a_ready_server_actors_keep_the_ones_they_know(served: World) -> None:
    world = served
    world.broadcast.adopt(weights(1))
    say(world, 0, 1)
    world.deliver()
    before = attached(world.handle("self_play", 0))
    world.worker("inference", 0).report = None
    world.deliver()
    assert attached(world.handle("self_play", 0)) == before


def test_every_ready_server_is_told_however_often_they_die(served: World) -> None:
    """Some die before they are ready: a successor must never be taken for a server of before."""
    world = served
    world.broadcast.adopt(weights(1))
    for life in range(40):
        if life % 2 == 0:
            say(world, 0, 1)
        world.deliver()
        if life % 2 == 0:
            assert attached(world.handle("self_play", 0))[-1] == [world.handle("inference", 0)], life
        world.replace("inference", 0)
