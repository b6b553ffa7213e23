"""Ratings and the gate beside a cluster run: what is asked for when, and what a dead worker costs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_ray import FakeHandle, death, install

from shusaku.actors.arena.gate import GateResult
from shusaku.actors.arena.rating_log import EloCurve, EloPoint
from shusaku.common.config.schema import Config, GateConfig
from shusaku.common.messages import Weights
from shusaku.deploy.cluster.arena_calls import PAUSE_SECONDS, GateCalls, RaterCalls
from shusaku.deploy.cluster.broadcast import Broadcast
from shusaku.deploy.cluster.workers import RayWorker
from shusaku.deploy.run.gatekeeper import Gatekeeper


def weights(version: int, step: int = 0) -> Weights:
    return Weights(version, step, {"a": np.zeros(2, np.float32)}, {"filters": 8}, "tic_tac_toe", {})


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.ray, self.clock = install(monkeypatch, "workers", "broadcast", "arena_calls")
        self.lines: list[str] = []
        self.workers: dict[str, RayWorker] = {}
        supervisor: Any = SimpleNamespace(worker=lambda name, index=0: self.workers.get(name), workers=lambda name: ())
        config = Config(gating="win_rate", gate=GateConfig(every=100, games=4))
        self.gatekeeper = Gatekeeper(config, directory, self.lines.append, lambda: 0.0)
        self.broadcast = Broadcast(supervisor, "actor", self.admit)
        self.curves: list[EloCurve | None] = []
        self.rater = RaterCalls(supervisor, self.broadcast, self.curves.append, self.lines.append)
        self.gate = GateCalls(supervisor, self.broadcast, self.gatekeeper, self.lines.append)

    def admit(self, published: Weights) -> Weights:
        self.gatekeeper.offer(published)
        assert self.gatekeeper.best is not None
        return self.gatekeeper.best

    def start(self, name: str) -> FakeHandle:
        handle = FakeHandle()
        self.workers[name] = RayWorker(handle)
        return handle


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(monkeypatch, tmp_path)


def test_the_newest_version_is_rated_when_the_one_before_is_done(world: World) -> None:
    world.rater.poll(0.0)  # no worker, no weights
    handle = world.start("evaluator")
    world.rater.poll(0.0)
    assert handle.calls("rate") == []
    for version in (1, 2, 3):
        world.broadcast.publish(weights(version))
        world.rater.poll(10.0 * version)
    call, = handle.calls("rate")
    assert (call.arguments[0][0].stored.version, call.arguments[1]) == (1, 10.0)
    curve = EloCurve((EloPoint(1, 0, 10.0, 5.0, 0.0, 9.0),), {"random": 0.0})
    call.answer((curve, "the disk is full"))
    for _ in range(2):
        world.rater.poll(40.0)
    assert world.curves == [curve]
    assert world.lines == ["rater: the disk is full"]
    assert [call.arguments[0][0].stored.version for call in handle.calls("rate")] == [1, 3]


def test_a_dead_rater_costs_a_line(world: World) -> None:
    handle = world.start("evaluator")
    world.broadcast.publish(weights(1))
    world.rater.poll(0.0)
    handle.newest("rate").fail(death())
    world.rater.poll(1.0)
    assert [line.partition(":")[0] for line in world.lines] == ["a version could not be rated"]
    handle = world.start("evaluator")
    world.rater.poll(2.0)
    assert handle.calls("rate") == []  # it pauses first
    world.clock.now += PAUSE_SECONDS
    world.rater.poll(32.0)  # the same version: the run may publish no other one
    assert [(call.arguments[0][0].stored.version, call.arguments[1]) for call in handle.calls("rate")] == [(1, 32.0)]
    handle.newest("rate").answer((None, ""))
    world.clock.now += PAUSE_SECONDS
    world.rater.poll(70.0)
    assert len(handle.calls("rate")) == 1


def test_self_play_gets_the_candidate_that_has_passed(world: World) -> None:
    world.broadcast.publish(weights(1))
    handle = world.start("gate")
    world.gate.poll()
    assert handle.calls("play") == []
    world.broadcast.publish(weights(2, 50))
    world.broadcast.publish(weights(3, 100))
    assert (world.broadcast.version, world.broadcast.published and world.broadcast.published.version) == (1, 3)
    world.gate.poll()
    world.gate.poll()
    call, = handle.calls("play")
    assert [reference.stored.version for (reference,) in call.arguments] == [1, 3]
    handle.newest("play").fail(death())
    world.gate.poll()
    handle = world.start("gate")
    world.clock.now += PAUSE_SECONDS
    world.gate.poll()
    assert [reference.stored.version for (reference,) in handle.newest("play").arguments] == [1, 3]
    handle.newest("play").answer(GateResult(3, 1, ((1.0, 1.0),), has_passed=True, whole_pairs=1))
    world.gate.poll()
    assert world.broadcast.version == 3
    assert len(handle.calls("play")) == 1
    world.broadcast.publish(weights(4, 210))
    world.gate.poll()
    handle.newest("play").answer(GateResult(4, 3, ((0.0, 0.0),), has_passed=False, whole_pairs=1))
    world.gate.poll()
    assert world.broadcast.version == 3
