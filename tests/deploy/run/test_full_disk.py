"""A full disk: at the start one line and exit code 1; later it costs what the disk refuses, and no more."""

import contextlib
import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oracles import missing

from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink, read_metrics
from shusaku.deploy.cli.main import main
from shusaku.deploy.run.disk_troubles import DiskTroubles

SMALL = ["experiment=tic_tac_toe", "actors.count=1", "actors.games_per_actor=4", "search.simulations=4",
         "search.considered_actions=4", "replay.minimum=60", "learner.batch_size=16", "network.filters=4",
         "network.blocks=1", "strength.enabled=false", "rater.enabled=false", "run.checkpoint_seconds=1"]


def refuse_writing(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """`open` for writing fails on this file as on a full disk."""
    real = io.open

    def refuse(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if file in str(path) and set(mode) & set("wax"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, mode, *arguments, **options)

    monkeypatch.setattr("io.open", refuse)
    monkeypatch.setattr("builtins.open", refuse)


@pytest.mark.parametrize("file", ["lock", "config.yaml", "starts.jsonl"])
@pytest.mark.parametrize("command", ["local", "train"])
def test_a_start_on_a_full_disk_is_one_line_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, file: str
) -> None:
    refuse_writing(monkeypatch, file)
    assert main([command, *SMALL, f"run.dir={tmp_path}"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "No space left on device" in error
    assert file in error


@pytest.mark.parametrize(("words", "stdout", "stderr", "code"), [
    (["plan", "learner.batch_size=0"], os.devnull, "/dev/full", 2),
    (["games", "--json"], "/dev/full", os.devnull, 1),
    (["games", "--json"], "/dev/full", "/dev/full", 1),
])
def test_an_output_on_a_full_disk_keeps_the_exit_code(words: list[str], stdout: str, stderr: str, code: int) -> None:
    with open(stdout, "w") as out, open(stderr, "w") as err:
        done = subprocess.run([sys.executable, "-m", "shusaku", *words], stdout=out, stderr=err, check=False)
    assert done.returncode == code


def test_what_the_disk_refuses_is_said_once_and_shown_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    troubles = DiskTroubles(lines.append)
    for is_full in (True, True, False, False):
        with monkeypatch.context() as disk, troubles.watch("metrics"):
            if is_full:
                refuse_writing(disk, "metrics.jsonl")
            sink = MetricsSink(tmp_path)
            sink.write(Metrics(1, 1.0, "learner", {"loss": 1.0}))
            sink.close()
        assert bool(troubles.lines) == is_full
    begin, end = lines
    assert begin.startswith("metrics could not be written: [Errno 28] No space left on device")
    assert end == "metrics can be written again"
    assert len(list(read_metrics(tmp_path / "metrics.jsonl"))) == 2


# --- a real disk that is full ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def mount_disk(disk: Path, megabytes: int) -> Iterator[Path]:
    """A disk in memory."""
    if os.geteuid() != 0:
        missing("mounting a tmpfs needs root")
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    with mount_disk(tmp_path / "disk", 3) as disk:
        yield disk


def fill(disk: Path) -> Path:
    """Takes all the room that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\1" * 512)
    return ballast


def start(command: str, directory: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen([sys.executable, "-m", "shusaku", command, *SMALL, f"run.dir={directory}",
                                 "run.minutes=5"], stdout=output, stderr=output)


def wait_for(condition: Callable[[], object], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.faults
@pytest.mark.parametrize("command", ["local", "train"])
def test_a_command_on_a_disk_without_room_is_one_line(tiny_disk: Path, tmp_path: Path, command: str) -> None:
    (tiny_disk / "run").mkdir()
    fill(tiny_disk)
    process = start(command, tiny_disk / "run", tmp_path / "log")
    assert process.wait(120) == 1
    text = (tmp_path / "log").read_text()
    assert "Traceback" not in text
    assert len([line for line in text.splitlines() if "No space left" in line or "no space is left" in line]) == 1, text


@pytest.mark.faults
@pytest.mark.parametrize(("command", "megabytes"), [("local", 3), ("train", 30)])
def test_a_disk_that_fills_while_a_run_goes_on_costs_only_what_it_refuses(
    tmp_path: Path, command: str, megabytes: int
) -> None:
    """Checkpoints stay whole, the status says the trouble, and all is written again when there is room."""
    with mount_disk(tmp_path / "disk", megabytes) as disk:
        directory, log = disk / "run", tmp_path / "log"
        process = start(command, directory, log)
        try:
            wait_for(lambda: list(directory.glob("checkpoints/*/manifest.json")) or process.poll() is not None)
            ballast = fill(disk)
            wait_for(lambda: any(said in log.read_text() for said in ("could not be written", "no checkpoint was")))
            time.sleep(5)
            assert process.poll() is None, log.read_text()
            assert any("No space left" in line for line in status_of(directory)["troubles"])
            games = status_of(directory)["totals"]["games"]
            ballast.unlink()
            before = {path.name for path in (directory / "checkpoints").iterdir()}
            wait_for(lambda: {path.name for path in directory.glob("checkpoints/[0-9]*")} - before)
            wait_for(lambda: status_of(directory)["totals"]["games"] > games)
            wait_for(lambda: not any("No space left" in line for line in status_of(directory)["troubles"]))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 143
            assert "Traceback" not in log.read_text()
        finally:
            process.kill()
            process.wait()


def status_of(directory: Path) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "shusaku", "status", f"run.dir={directory}", "--json"],
                          capture_output=True, text=True, check=True)
    state: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**state, **state["status"]}
