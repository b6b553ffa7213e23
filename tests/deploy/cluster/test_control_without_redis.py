"""`status`, `scale` and `stop` of real runs while the replay server hangs, and of a run in one process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_process import ClusterProcess
from prometheus_client.parser import text_string_to_metric_families

from shusaku.deploy.run.control_client import ControlClient

LOCAL = ("experiment=tic_tac_toe", "run.minutes=30", "actors.count=1", "actors.games_per_actor=8",
         "search.simulations=8", "search.considered_actions=8", "strength.enabled=false",
         "rater.enabled=false", "replay.minimum=500",
         "learner.publish_every=20", "run.checkpoint_seconds=2")


def port_of(directory: Path) -> int:
    return int(json.loads((directory / "control.json").read_text())["port"])


def get(directory: Path, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port_of(directory)}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ask(directory: Path) -> tuple[dict[str, Any], float]:
    """The status by the way that `shusaku status` takes, and how long it took."""
    began = time.monotonic()
    client = ControlClient.of(directory)
    assert client is not None
    state: dict[str, Any] = json.loads(client.status())
    return state, time.monotonic() - began


@pytest.fixture
def run(tmp_path: Path) -> Iterator[ClusterProcess]:
    run = ClusterProcess(tmp_path / "run", "actors.count=1", "actors.cpus=0.5")
    yield run
    run.close()


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_status_scale_and_stop_while_redis_hangs(run: ClusterProcess) -> None:
    run.until_learning()
    code, text = get(run.run_dir, "/healthz")
    assert code == 200, text
    assert {name: count["alive"] for name, count in json.loads(text)["roles"].items()} == {
        "learner": 1, "self_play": 1, "replay": 1}
    _, text = get(run.run_dir, "/metrics")
    samples = {s.name: s.value for family in text_string_to_metric_families(text) for s in family.samples}
    assert samples["shusaku_games_total"] > 0
    assert samples["shusaku_actors"] == 1
    run.note_processes()
    pid = run.hurt("replay 0", signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 10
        slowest, troubles = 0.0, ""
        while "replay: " not in troubles and time.monotonic() < deadline:
            state, seconds = ask(run.run_dir)
            slowest, troubles = max(slowest, seconds), "; ".join(state["status"]["troubles"])
            time.sleep(0.2)
        assert "replay: " in troubles
        assert "no answer" in troubles
        assert slowest < 2
        code, text = get(run.run_dir, "/healthz")
        assert code == 503
        assert any("replay" in reason for reason in json.loads(text)["reasons"])
        done = run.command("status")
        assert done.returncode == 0, done.stderr
        assert "no answer" in done.stdout
        client = ControlClient.of(run.run_dir)
        assert client is not None
        client.set_actors(2)
        deadline = time.monotonic() + 10
        while ask(run.run_dir)[0]["desired_actors"] != 2:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        step = ask(run.run_dir)[0]["status"]["step"]
        done = run.command("stop")
        assert done.returncode == 0, done.stderr
        assert run.process.wait(10) == 0, run.text[-2000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    assert run.newest_checkpoint()[0] >= step > 0, "it ended with a checkpoint"
    run.until_nothing_is_left(10)
    assert not (run.run_dir / "control.json").exists()


@pytest.mark.faults
@pytest.mark.timeout(120)
def test_a_run_in_one_process_has_status_health_and_stop(tmp_path: Path) -> None:
    directory, log = tmp_path / "run", (tmp_path / "log").open("wb")
    command = [sys.executable, "-m", "shusaku"]
    with subprocess.Popen([*command, "local", *LOCAL, f"run.dir={directory}"], stdout=log, stderr=log) as process:
        try:
            deadline = time.monotonic() + 60
            while not (directory / "control.json").exists() or ControlClient.of(directory) is None \
                    or ask_step(directory) < 20:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.2)
            assert get(directory, "/healthz")[0] == 200
            assert "shusaku_steps_total{" in get(directory, "/metrics")[1]
            state, seconds = ask(directory)
            assert seconds < 2
            refused = subprocess.run([*command, "scale", "2", f"run.dir={directory}"], capture_output=True, text=True,
                                     check=False)
            assert refused.returncode == 2
            assert "one process" in refused.stderr
            shown = subprocess.run([*command, "status", f"run.dir={directory}"], capture_output=True, text=True,
                                   check=False)
            assert shown.returncode == 0, shown.stderr
            assert "tic_tac_toe" in shown.stdout
            done = subprocess.run([*command, "stop", f"run.dir={directory}"], capture_output=True, text=True,
                                  check=False)
            assert done.returncode == 0, done.stderr
            assert process.wait(5) == 0
        finally:
            if process.poll() is None:
                process.kill()
    steps = [int(path.name) for path in (directory / "checkpoints").iterdir() if path.name.isdigit()]
    assert max(steps) >= state["status"]["step"], "it ended with a checkpoint"


def ask_step(directory: Path) -> int:
    client = ControlClient.of(directory)
    data = client.status() if client else b""
    return int(json.loads(data)["status"]["step"]) if data else 0
