"""Stragglers, clocks that jump, and machines with too few descriptors or too little shared memory; all real."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster_process import SMALL, ClusterProcess
from oracles import missing
from preloaded import WallClock

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]
Start = Callable[..., ClusterProcess]
Serve = Callable[..., tuple[Path, subprocess.Popen[bytes]]]
HOUR = 3600


@contextmanager
def straggling(pid: int, running: float, stopped: float) -> Iterator[None]:
    """The process runs and stands still by turns, in seconds."""
    is_over = threading.Event()

    def take_turns() -> None:
        with contextlib.suppress(ProcessLookupError):
            while not is_over.is_set():
                os.kill(pid, signal.SIGSTOP)
                time.sleep(stopped)
                os.kill(pid, signal.SIGCONT)
                is_over.wait(running)

    thread = threading.Thread(target=take_turns, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def games_of(run: ClusterProcess, seconds: float) -> list[int]:
    """Games that each of two actors finished in that time, by the records in the stream."""
    def counts() -> list[int]:
        ids = run.games()
        return [sum(one.actor == actor for one in ids) for actor in (0, 1)]

    before = counts()
    time.sleep(seconds)
    return [now - then for now, then in zip(counts(), before, strict=True)]


def test_one_slow_actor_holds_up_no_other_and_is_not_killed(start: Start) -> None:
    """It has a tenth of the time; it shares its server with the other one, whose batches do not wait for it."""
    run = start("actors.count=2", "actors.cpus=0.5", "inference.placement=server", "learner.enabled=false",
                "search.simulations=600", "search.cache=0",
                "replay.capacity=1000000")
    state = run.until(lambda s: s["totals"].get("games", 0) > 50, 90, "games")
    fair = games_of(run, 10)
    with straggling(int(state["processes"]["self_play 1"]["pid"]), running=0.1, stopped=0.9):
        slow = games_of(run, 10)
    assert slow[1] < 0.6 * fair[1], "it is a straggler"
    assert slow[0] > 0.6 * fair[0], "and the other one plays on"
    assert [run.status()["processes"][f"self_play {actor}"]["incarnation"] for actor in (0, 1)] == [0, 0]
    run.check_games()


def test_a_wall_clock_that_jumps_changes_nothing(
    start: Start, serve: Serve, tmp_path: Path
) -> None:
    """An hour forth, a day back: no worker is taken for dead, rates stay finite and positive, time passes as before."""
    clock = WallClock(tmp_path)
    run = start("actors.count=1", url=f"unix://{serve(**clock.for_redis)[0]}", environment=clock.for_python)
    state = run.until_learning(120)
    for jump in (HOUR, -24 * HOUR, 0):
        clock.jump(jump)
        began, before = time.monotonic(), state["status"]["seconds"]
        time.sleep(8)
        games = run.counters()["games"]
        state = newest_status(run)
        passed, trained = time.monotonic() - began, state["status"]["seconds"] - before
        assert abs(trained - passed) < 4, jump
        assert state["alive_actors"] == 1
        assert state["status"]["games_per_hour"] >= 0
        assert state["status"]["steps_per_second"] >= 0
        deadline = time.monotonic() + 10
        while run.counters()["games"] <= games:
            assert time.monotonic() < deadline, "games go on"
            time.sleep(0.2)
    assert "ended: " not in run.text
    assert all(worker["incarnation"] == 0 for worker in state["processes"].values())
    run.check_games()


def newest_status(run: ClusterProcess) -> dict[str, dict[str, float]]:
    """Whatever its age says: our own clock has not jumped."""
    control = run.control
    try:
        state: dict[str, dict[str, float]] = json.loads(control.status())
        return state
    finally:
        control.close()


def test_too_few_descriptors_are_named_before_anything_is_started(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    done = subprocess.run(["prlimit", "--nofile=48:48", sys.executable, "-m", "shusaku", "train", *SMALL,
                           f"run.dir={run_dir}"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "ulimit -n is 48: Ray needs 90 open files at least" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_little_shared_memory_is_lived_with(start: Start, tmp_path: Path) -> None:
    """A container's 64 MB of /dev/shm: Ray's store takes less, and the run learns."""
    if os.geteuid() != 0:
        missing("a mount namespace needs root")
    run = start("actors.count=1", prefix=["unshare", "--mount", "sh", "-c",
                                          'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"', "sh"])
    run.until_learning(120)
    assert "Traceback" not in run.text
    assert run.stop() == 143
