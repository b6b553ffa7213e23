"""A process of Ray is killed under a run: one line that names it, the checkpoint, exit code 1, and no process left."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cluster_process import ClusterProcess
from process_family import all_below
from ray_driver import Driver

from shusaku.deploy.ray_runtime.ray_parts import HEAD_PATIENCE_S, RayPart, find_parts

END_S = 20.0

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ClusterProcess]]:
    started: list[ClusterProcess] = []

    def start_one(**options: Any) -> ClusterProcess:
        started.append(ClusterProcess(tmp_path / "run", "actors.count=1", "cluster.dashboard=true", **options))
        return started[-1]

    yield start_one
    for run in started:
        run.close()


def parts_of(pid: int) -> dict[str, RayPart]:
    """Of the Ray that was started below this process."""
    commands = [word for process in all_below(pid) for word in process.cmdline()]
    raylet = next(word for word in commands if word.startswith("--raylet_socket_name="))
    drivers = [pid, *(child.pid for child in psutil.Process(pid).children())]
    return {part.name: part for driver in drivers for part in find_parts(raylet.partition("=")[2], driver)}


def check_end(run: ClusterProcess, began: float, seconds: float, said: str) -> None:
    """It ends with this line and says from where the run goes on; then it does."""
    code = run.process.wait(seconds)
    assert time.monotonic() - began < seconds
    assert code == 1
    run.until_nothing_is_left(1.0)
    last = run.text.splitlines()[-1]
    assert last.startswith(f"shusaku: {said}"), run.text
    named = re.search(r"goes on from the checkpoint of step ([\d,]+)( or a newer one)?$", last)
    assert named, last
    step = int(named[1].replace(",", ""))
    if named[2]:
        assert 0 < step <= run.newest_checkpoint()[0]
    else:
        assert step == run.newest_checkpoint()[0]
    assert "Traceback" not in run.text
    assert "(raylet)" not in run.text


@pytest.mark.parametrize("name", ["GCS server", "raylet", "dashboard agent", "runtime environment agent"])
def test_a_vital_part_is_killed(start: Callable[..., ClusterProcess], name: str) -> None:
    run = start()
    state = run.until(lambda s: s["status"]["step"] >= 40 and any(
        int(path.name) > 0 for path in (run.run_dir / "checkpoints").glob("0*")), 90, "a checkpoint of what it learned")
    state = run.until(lambda s: s["time"] > state["time"] + 3, 30, "the driver has heard of the checkpoint")
    part = parts_of(run.process.pid)[name]
    run.note_processes()
    began = time.monotonic()
    os.kill(part.process.pid, signal.SIGKILL)
    check_end(run, began, END_S, f"{part} has ended; ")
    if name == "GCS server":  # the learner lives, and saves what it has learned
        assert run.newest_checkpoint()[0] >= state["status"]["step"]
    if "agent" not in name:  # with which the raylet ends
        again = start()
        again.until_learning()
        again.check_games()
        assert again.stop() == 143


def test_a_ray_that_is_too_late_is_started_again(start: Callable[..., ClusterProcess]) -> None:
    """Ray gives its raylet 30 s; a machine that has much else to do may need longer."""
    run = start()
    deadline = time.monotonic() + 60
    while not (raylets := [process for process in all_below(run.process.pid) if process.name() == "raylet"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    raylets[0].suspend()
    run.until_learning(180)
    assert run.text.count("; trying again") == 1
    assert not raylets[0].is_running()
    assert run.stop() == 143
    run.until_nothing_is_left(10)


def test_parts_that_do_not_matter_are_killed(start: Callable[..., ClusterProcess]) -> None:
    run = start()
    run.until_learning()
    parts = parts_of(run.process.pid)
    for name in ("dashboard", "log monitor", "autoscaler's monitor"):
        os.kill(parts[name].process.pid, signal.SIGKILL)
        line = f"{parts[name]} has ended; the run goes on without it"
        run.until(lambda s, line=line: line in run.text, 5.0, line)
    step = run.status()["status"]["step"]
    run.until(lambda s: s["status"]["step"] > step + 20, 30, "steps without them")
    assert run.stop() == 143
    assert run.left() == []


def test_the_head_of_a_joined_cluster_is_killed(start: Callable[..., ClusterProcess], tmp_path: Path) -> None:
    """Ray ends the driver 60 s later, with a line of its own."""
    token = str(tmp_path / "token")
    head = Driver(tmp_path, RAY_AUTH_TOKEN_PATH=token)
    try:
        run = start(environment={"RAY_ADDRESS": head.facts["address"], "RAY_AUTH_TOKEN_PATH": token})
        state = run.until_learning()
        began = time.monotonic()
        os.kill(parts_of(head.pid)["GCS server"].process.pid, signal.SIGKILL)
        check_end(run, began, HEAD_PATIENCE_S + END_S,
                  f"the head of the Ray cluster at {head.facts['address']} has not answered for ")
        assert run.newest_checkpoint()[0] >= state["status"]["step"]
    finally:
        head.close()
