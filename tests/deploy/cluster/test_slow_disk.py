"""Each fsync below checkpoints/ takes 5 seconds: learning goes on, checkpoints come, and a stop ends in time."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from preloaded import compiled

from shusaku.learner.checkpoints import load_latest

pytestmark = pytest.mark.faults

SHIM = Path(__file__).resolve().parents[2] / "fixtures" / "slow_fsync.c"
INTERVAL = 15  # seconds between two checkpoints
SMALL = ["experiment=tic_tac_toe", "actors.count=1", "actors.games_per_actor=4", "actors.cpus=0.5",
         "search.simulations=4", "search.considered_actions=4", "replay.minimum=60", "learner.batch_size=16",
         "network.filters=4", "network.blocks=1", "strength.enabled=false",
         "rater.enabled=false", f"run.checkpoint_seconds={INTERVAL}",
         "run.minutes=10", "run.keep_checkpoints=50"]


@pytest.fixture
def slow_disk(tmp_path: Path) -> dict[str, str]:
    """The environment of a program whose disk is slow."""
    library = compiled(SHIM.read_text(), tmp_path)
    return {**os.environ, "LD_PRELOAD": str(library), "SLOW_FSYNC_BELOW": "/checkpoints", "SLOW_FSYNC_SECONDS": "5"}


@pytest.mark.parametrize("command", ["train", "local"])
def test_a_run_on_a_slow_disk_goes_on(slow_disk: dict[str, str], tmp_path: Path, command: str) -> None:
    """No worker is restarted, a checkpoint comes at least every two intervals, and SIGTERM ends it within 25 s."""
    directory, log = tmp_path / "run", tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "shusaku", command, *SMALL, f"run.dir={directory}"],
                                   stdout=output, stderr=output, env=slow_disk)
    seen: dict[str, float] = {}
    try:
        deadline = time.monotonic() + 240
        while len(seen) < 5:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            for path in directory.glob("checkpoints/[0-9]*"):
                seen.setdefault(path.name, time.monotonic())
            time.sleep(0.1)
        times = sorted(seen.values())
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert max(gaps) <= 2 * INTERVAL, gaps
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        assert time.monotonic() - begin <= 25
    finally:
        process.kill()
        process.wait()
    text = log.read_text()
    assert "started again" not in text, text
    assert "restart" not in text, text
    found = load_latest(directory / "checkpoints")
    assert found is not None
    assert found.damaged == ()
    assert json.loads((directory / "progress.json").read_text())["restarts"] == 0
