"""Trackers follow metrics.jsonl from where they were: with the real packages if they are installed, offline."""

import importlib.util
import json
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from oracles import missing

from shusaku.common.config import rules
from shusaku.common.errors import UsageError
from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink
from shusaku.deploy.run import trackers as trackers_module
from shusaku.deploy.run.trackers import STATE, Line, MetricsFollower, check_trackers


class Kept:
    """A tracker that keeps what it gets."""

    lines: list[Line]
    runs: list[str]
    is_failing = False
    reason = "no route\nto host"

    def __init__(self, directory: Path, run: str) -> None:
        Kept.runs.append(run)
        self.run = "r1"

    def write(self, lines: Sequence[Line]) -> None:
        if Kept.is_failing:
            raise ConnectionError(Kept.reason)
        Kept.lines += lines

    def close(self) -> None:
        pass


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> type[Kept]:
    Kept.lines, Kept.runs, Kept.is_failing = [], [], False
    monkeypatch.setitem(trackers_module.TRACKERS, "mlflow", Kept)
    return Kept


def write_lines(directory: Path, *steps: int) -> None:
    sink = MetricsSink(directory)
    for step in steps:
        sink.write(Metrics(step, 1.0, "learner", {"loss": step / 2, "by": {"a": 1}, "name": "text"}))
    sink.close()


def eventually(is_so: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so()


def test_each_line_arrives_once_over_two_starts(tmp_path: Path, kept: type[Kept]) -> None:
    write_lines(tmp_path, 1, 2)
    follower = MetricsFollower(tmp_path, ["mlflow"], seconds=0.02)
    assert eventually(lambda: len(kept.lines) == 2)
    write_lines(tmp_path, 3)
    follower.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"torn')
    write_lines(tmp_path, 4)  # which heals the file
    MetricsFollower(tmp_path, ["mlflow"], seconds=0.02).close()
    assert [line.step for line in kept.lines] == [1, 2, 3, 4]
    assert kept.lines[0].numbers == {"learner/loss": 0.5, "learner/by/a": 1.0}
    assert kept.runs == ["", "r1"], "the second start goes on with the run of the first"


def test_a_tracker_that_fails_is_named_and_gets_the_lines_later(tmp_path: Path, kept: type[Kept]) -> None:
    kept.is_failing = True
    write_lines(tmp_path, 1)
    follower = MetricsFollower(tmp_path, ["mlflow"], seconds=0.02)
    assert eventually(lambda: bool(follower.troubles))
    assert follower.troubles == ("run.trackers=mlflow: ConnectionError: no route to host; it is tried again",)
    kept.is_failing = False
    assert eventually(lambda: not follower.troubles)
    follower.close()
    assert [line.step for line in kept.lines] == [1]


def test_a_metrics_file_that_was_lost_is_followed_from_its_begin(tmp_path: Path, kept: type[Kept]) -> None:
    write_lines(tmp_path, 1, 2, 3)
    MetricsFollower(tmp_path, ["mlflow"], seconds=0.02).close()
    (tmp_path / "metrics.jsonl").unlink()
    follower = MetricsFollower(tmp_path, ["mlflow"], seconds=0.02)
    write_lines(tmp_path, 4)
    follower.close()
    assert [line.step for line in kept.lines] == [1, 2, 3, 4]


def test_after_a_metrics_file_lost_its_end_only_new_lines_are_sent(tmp_path: Path, kept: type[Kept]) -> None:
    write_lines(tmp_path, *range(100))
    MetricsFollower(tmp_path, ["mlflow"], seconds=0.02).close()
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_bytes(b"".join(metrics.read_bytes().splitlines(keepends=True)[:90]))
    follower = MetricsFollower(tmp_path, ["mlflow"], seconds=0.02)
    write_lines(tmp_path, 100)
    follower.close()
    assert [line.step for line in kept.lines] == [*range(100), 100]


def test_a_password_in_the_error_of_a_tracker_is_masked(
    tmp_path: Path, kept: type[Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.is_failing = True
    monkeypatch.setattr(kept, "reason", "GET https://me:long-password@host/api failed")
    write_lines(tmp_path, 1)
    follower = MetricsFollower(tmp_path, ["mlflow"], seconds=0.02)
    assert eventually(lambda: bool(follower.troubles))
    (trouble,) = follower.troubles
    follower.close()
    assert trouble == "run.trackers=mlflow: ConnectionError: GET https://me:***@host/api failed; it is tried again"


@pytest.mark.parametrize("is_failing", [False, True])
def test_wandb_sees_the_command_line_without_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_failing: bool
) -> None:
    seen: list[list[str]] = []

    def init(**_: object) -> SimpleNamespace:
        seen.append(sys.argv)
        if is_failing:
            raise OSError("no space")
        return SimpleNamespace(id="r1", define_metric=lambda *_, **__: None)

    own = ["shusaku", "train", "replay.url=redis://me:long-password@host:1/0", "replay.password=long", "game=go"]
    monkeypatch.setattr(sys, "argv", own)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, Settings=dict))
    with suppress(OSError):
        trackers_module.WandbTracker(tmp_path, "")
    assert seen == [["shusaku", "train", "replay.url=redis://me:***@host:1/0", "replay.password=***", "game=go"]]
    assert sys.argv is own
    assert "long-password" in own[2]


def test_a_damaged_state_begins_anew_and_no_tracker_starts_no_thread(tmp_path: Path, kept: type[Kept]) -> None:
    (tmp_path / STATE).write_text('{"mlflow": 3}')
    write_lines(tmp_path, 1)
    MetricsFollower(tmp_path, ["mlflow"], seconds=0.02).close()
    assert [line.step for line in kept.lines] == [1]
    follower = MetricsFollower(tmp_path, [])
    follower.close()
    assert not follower._thread.is_alive()


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"run.trackers=wandb: its package is not installed; pip install '"):
        check_trackers(["wandb"])


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else "local"
        assert host in ("local", "127.0.0.1", "::1"), f"{host} was asked for"
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", refuse)


def needs(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        missing(f"{name} is missing: `make oracles` installs it")


def test_the_rules_know_every_tracker() -> None:
    assert set(rules.TRACKERS) == set(trackers_module.TRACKERS)


def follow_two_starts(directory: Path, name: str) -> None:
    for steps in ((1, 2), (3,)):
        write_lines(directory, *steps)
        MetricsFollower(directory, [name]).close(is_over=True)


@pytest.mark.usefixtures("no_network")
def test_mlflow_has_the_curve_of_two_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(trackers_module, "LAST_SECONDS", 60.0)
    from mlflow.tracking import MlflowClient

    follow_two_starts(tmp_path, "mlflow")
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("shusaku").experiment_id])
    history = client.get_metric_history(run.info.run_id, "learner/loss")
    assert [(point.step, point.value) for point in history] == [(1, 0.5), (2, 1.0), (3, 1.5)]
    assert run.info.run_name == tmp_path.name
    assert run.info.status == "FINISHED"


@pytest.mark.usefixtures("no_network")
def test_wandb_keeps_the_run_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr(trackers_module, "LAST_SECONDS", 60.0)
    monkeypatch.setattr(sys, "argv", ["shusaku", "train", "replay.url=redis://me:long-password@host"])
    follow_two_starts(tmp_path, "wandb")
    run = json.loads((tmp_path / STATE).read_text())["wandb"]["run"]
    files = sorted((tmp_path / "wandb").glob(f"offline-run-*-{run}/run-{run}.wandb"))
    assert len(files) == 2, "one a start, which `wandb sync` joins by their id"
    # wandb writes them from a process of its own, which may be some milliseconds behind `finish`.
    assert eventually(lambda: all(b"learner/loss" in file.read_bytes() for file in files))
    written = b"".join(file.read_bytes() for file in (tmp_path / "wandb").rglob("*") if file.is_file())
    assert b"redis://me:***@host" in written
    assert b"long-password" not in written
