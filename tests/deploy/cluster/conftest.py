"""Real runs for the tests of this folder."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_process import ClusterProcess, answers

from shusaku.replay.stream.server import find_binary


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ClusterProcess]]:
    """Runs that are ended with the test, whatever happens."""
    started: list[ClusterProcess] = []

    def start_one(*overrides: str, run_dir: Path = tmp_path / "run", **options: Any) -> ClusterProcess:
        started.append(ClusterProcess(run_dir, *overrides, **options))
        return started[-1]

    yield start_one
    for run in started:
        run.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[Path, subprocess.Popen[bytes]]]]:
    """Starts a Redis of the user's that keeps nothing on disk, as often as asked at the same address.

    Takes variables for its environment; gives the path of its socket, and its process.
    """
    folder = Path(tempfile.mkdtemp(prefix="server-"))
    servers: list[subprocess.Popen[bytes]] = []

    def serve_one(**environment: str) -> tuple[Path, subprocess.Popen[bytes]]:
        command = [find_binary(), "--port", "0", "--unixsocket", str(folder / "s"), "--save", "", "--appendonly", "no",
                   "--maxmemory-policy", "noeviction", "--dir", str(folder)]
        servers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment}))
        deadline = time.monotonic() + 20
        while not answers(f"unix://{folder / 's'}"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return folder / "s", servers[-1]

    yield serve_one
    for server in servers:
        server.kill()
        server.wait()
    shutil.rmtree(folder, ignore_errors=True)
