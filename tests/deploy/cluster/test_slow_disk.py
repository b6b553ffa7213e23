"""Each fsync below checkpoints/ takes 5 seconds: learning goes on, checkpoints come, and a stop ends in time."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from runs_in_process import WIRINGS

from shusaku.learner.checkpoints import load_latest

pytestmark = pytest.mark.faults

SHIM = Path(__file__).resolve().parents[2] / "fixtures" / "slow_fsync.c"
INTERVAL = 15  # seconds between two checkpoints
SMALL = ["experiment=tic_tac_toe", "actors.count=1", "actors.games_per_actor=4", "actors.cpus=0.5",
         "search.simulations=4", "search.considered_actions=4", "replay.minimum=60", "learner.batch_size=16",
         "network.filters=4", "network.blocks=1", "strength.enabled=false", f"run.checkpoint_seconds={INTERVAL}",
         "run.minutes=10", "run.keep_checkpoints=50"]


@pytest.fixture
def slow_disk(tmp_path: Path) -> dict[str, str]:
    """The environment of a program whose disk is slow."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        assert not os.environ.get("CI"), "no C compiler"
        pytest.skip("no C compiler")
    library = tmp_path / "slow_fsync.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"], check=True)
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


def test_learning_is_as_fast_as_on_a_quick_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Medians of the ratio of neighbouring rounds with a checkpoint every second, in one process."""
    run = WIRINGS["local"]("connect_four", tmp_path / "run", "run.checkpoint_seconds=1",
                           "replay.samples_per_position=100000")
    run.play_and_learn(200)
    fsync, training = os.fsync, run.training

    def steps_per_second(delay: float) -> float:
        def slow(file: int) -> None:
            time.sleep(delay)
            fsync(file)

        monkeypatch.setattr("os.fsync", slow)
        begin, before = time.monotonic(), training.learner.step_count
        while time.monotonic() - begin < 4:
            training.learn_turn(lambda: False)
            training.checkpoint_if_due()
        return (training.learner.step_count - before) / (time.monotonic() - begin)

    try:
        steps_per_second(0.0)  # to warm up
        ratios = [steps_per_second(5.0) / steps_per_second(0.0) for _ in range(5)]
    finally:
        monkeypatch.setattr("os.fsync", fsync)
        run.close()
    assert statistics.median(ratios) >= 0.95, ratios
