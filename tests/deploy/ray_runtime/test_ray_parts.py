"""Which processes are Ray's, and what the end of one means; the real ones are ended in tests/deploy/cluster."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from process_family import all_below

from shusaku.deploy.ray_runtime import ray_parts
from shusaku.deploy.ray_runtime.ray_parts import PartsWatch, RayPart, find_parts
from shusaku.deploy.ray_runtime.watchdog import Process

Sleeper = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    """Starts a process that sleeps, with these words behind its own."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen(["sh", "-c", "sleep 60 & wait", *words]))
        return processes[-1]

    yield start
    for process in processes:
        for child in all_below(process.pid):
            child.kill()
        process.kill()
        process.wait()


class Heard:
    """A watch, and what it said."""

    def __init__(self, parts: list[RayPart], head: str = "") -> None:
        self.ended: list[str] = []
        self.lines: list[str] = []
        self.watch = PartsWatch(lambda: parts, head, self.ended.append, self.lines.append)
        time.sleep(0.2)

    def until(self, said: list[str], seconds: float = 2.0) -> str:
        deadline = time.monotonic() + seconds
        while not said:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return said[-1]


def part(process: subprocess.Popen[bytes], is_vital: bool) -> RayPart:
    return RayPart("raylet" if is_vital else "dashboard", Process(process.pid, 0), is_vital)


def test_parts_are_named_by_their_commands(sleeper: Sleeper, tmp_path: Path) -> None:
    ours = str(tmp_path / "sockets" / "raylet")
    place = str(tmp_path / "ray")
    gcs = sleeper(f"{place}/core/gcs/gcs_server", "--raylet/raylet")
    raylet = sleeper(f"{place}/raylet/raylet", f"--raylet_socket_name={ours}")
    sleeper(f"{place}/raylet/raylets_log", "--x")  # no part
    time.sleep(0.05)  # clock ticks, in which the system counts
    no_children = " & ".join(f"sh -c 'sleep 60 & wait' {place}/raylet/raylet --raylet_socket_name={name}"
                             for name in (f"{ours}2", ours))  # another Ray's; ours has forked a worker a moment ago
    other = subprocess.Popen(["sh", "-c", f"{no_children} & wait"])
    try:
        time.sleep(0.2)
        found = {(found.name, found.process.pid, found.is_vital) for found in find_parts(ours, os.getpid())}
        assert found == {("GCS server", gcs.pid, True), ("raylet", raylet.pid, True)}
        assert {found.name for found in find_parts(ours, driver=1)} == {"raylet"}, "found by its socket: a joined Ray"
    finally:
        for process in [*all_below(other.pid), psutil.Process(other.pid)]:
            process.kill()
        other.wait()


def test_the_end_of_a_vital_part_is_noticed_at_once(sleeper: Sleeper) -> None:
    dashboard, raylet = sleeper(), sleeper()
    heard = Heard([part(dashboard, False), part(raylet, True)])
    dashboard.kill()
    assert heard.until(heard.lines) == (f"Ray's dashboard (process {dashboard.pid}) has ended; the run goes on "
                                        "without it")
    assert heard.ended == []
    raylet.kill()  # nobody has collected it yet
    assert heard.until(heard.ended) == f"Ray's raylet (process {raylet.pid}) has ended"
    heard.watch.close()


def test_an_orderly_end_is_no_failure(sleeper: Sleeper) -> None:
    raylet = sleeper()
    heard = Heard([part(raylet, True)])
    heard.watch.close()
    heard.watch.close()
    raylet.kill()
    time.sleep(0.2)
    assert heard.ended == []


def test_a_head_that_is_gone_is_given_up_and_one_that_comes_back_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_parts, "ASK_S", 0.1)
    monkeypatch.setattr(ray_parts, "HEAD_PATIENCE_S", 1.0)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    heard = Heard([], f"127.0.0.1:{port}")
    server.close()
    time.sleep(0.5)
    with socket.create_server(("127.0.0.1", port)):
        time.sleep(1.0)
        assert heard.ended == []
    assert f"the head of the Ray cluster at 127.0.0.1:{port} has not answered for 1 s" in heard.until(heard.ended, 4.0)
    heard.watch.close()


def test_a_cluster_whose_head_may_be_away_for_longer_gets_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ray_parts.RECONNECT, "300")
    heard = Heard([], "127.0.0.1:1")
    assert heard.watch._patience == 285.0
    heard.watch.close()
