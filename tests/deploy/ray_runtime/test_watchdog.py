"""Whom the watchdog of a local Ray ends, and whom it leaves alone."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from process_family import alive, all_below

from shusaku.deploy.ray_runtime import watchdog as ray_watchdog


@pytest.fixture
def sleeper() -> Iterator[Callable[..., psutil.Process]]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(**arguments: Any) -> psutil.Process:
        processes.append(subprocess.Popen(["sleep", "60"], **arguments))
        return psutil.Process(processes[-1].pid)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_the_watchdog_ends_workers_and_recorded_processes_and_no_others(
    tmp_path: Path, sleeper: Callable[..., psutil.Process]
) -> None:
    session = tmp_path / "session_1"
    session.mkdir()
    log = session / "worker.out"
    with log.open("w") as out, (tmp_path / "session_12.out").open("w") as other:
        worker, neighbour = sleeper(stdout=out), sleeper(stdout=other)
        reader = sleeper(stdin=log.open(), pass_fds=[out.fileno()])  # a reader of the log
    noted, reused = sleeper(), sleeper()
    began = {process.pid: process.began for process in ray_watchdog.running_processes()}
    ray_watchdog.end({
        ray_watchdog.Process(noted.pid, began[noted.pid]), ray_watchdog.Process(reused.pid, began[reused.pid] - 1),
    }, str(session), grace=0.2)
    assert alive([worker, noted]) == []
    assert len(alive([neighbour, reader, reused])) == 3


def test_only_children_from_rays_package_belong_to_ray(
    tmp_path: Path, sleeper: Callable[..., psutil.Process]
) -> None:
    own = sleeper()  # such as a Redis server
    package = tmp_path / "site-packages" / "ray" / "core"
    package.mkdir(parents=True)
    own_python = tmp_path / "ray" / "bin" / "python"  # as in Ray's images, and the watchdog runs by it, too
    own_python.parent.mkdir(parents=True)
    own_python.symlink_to(sys.executable)
    ours = subprocess.Popen([str(own_python), "-c", "import time; time.sleep(60)"])
    daemon = subprocess.Popen(["sh", "-c", "sleep 60 & wait", str(package / "raylet")])
    try:
        deadline = time.monotonic() + 5
        while not all_below(daemon.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        grandchild = all_below(daemon.pid)[0]
        found = {process.pid for process in ray_watchdog.ray_processes(os.getpid())}
        assert found == {daemon.pid, grandchild.pid}
        assert own.pid not in found
    finally:
        ours.kill()
        ours.wait()
        for process in all_below(daemon.pid):
            process.kill()
        daemon.kill()
        daemon.wait()
