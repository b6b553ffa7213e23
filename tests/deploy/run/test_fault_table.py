"""One table of faults, and both wirings go through all of it: the run goes on, and what was saved before stays good.

`local` is the whole of `shusaku local` in this process.  `cluster` is the loop that the learner actor runs, with the
driver's writers beside it, and a buffer in memory in place of Redis.
"""

import errno
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.local.driver import LocalRun
from shusaku.deploy.run.disk_troubles import DiskTroubles
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunIdentity, RunProgress
from shusaku.deploy.run.run_status import MetricsWriter, StatusBuilder
from shusaku.deploy.run.run_view import FaultCounter, RunView
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.learner.checkpoints import load_latest, whole_checkpoints
from shusaku.learner.training_loop import TrainingLoop
from shusaku.replay.backends import make_buffer

SMALL = [
    "experiment=tic_tac_toe", "actors.count=1", "actors.games_per_actor=4", "search.simulations=4",
    "search.considered_actions=4", "replay.minimum=60", "replay.capacity=5000", "replay.window=fixed",
    "learner.batch_size=16", "learner.publish_every=4", "learner.threads=1", "learner.max_bad_steps=2",
    "learner.warmup_steps=0", "network.filters=4", "network.blocks=1", "strength.enabled=false",
    "rater.enabled=false", "run.minutes=5",
]
ROWS = 100  # that a round plays


class Run(Protocol):
    """What the table needs of a wiring."""

    lines: list[str]  # for the user
    training: TrainingLoop

    def play_and_learn(self) -> None:
        """A round: plays, makes a few steps, tries to save, and writes metrics and progress."""

    def close(self) -> None:
        """Ends it in order."""


class Local:
    """`shusaku local`, a round at a time."""

    def __init__(self, directory: Path) -> None:
        config = compose([*SMALL, f"run.dir={directory}", "run.checkpoint_seconds=0"])
        self.lines: list[str] = []
        self._opened = RunDirectory(config)
        self._run = LocalRun(config, self._opened, StopSignals(), [PseudoRandomEvaluator(Game("tic_tac_toe"), 8)])
        self._run.console.log = self.lines.append  # type: ignore[method-assign]
        self.training = self._run.training

    def play_and_learn(self) -> None:
        goal = self._run.buffer.stats().inserted + ROWS
        self._run.is_over = lambda: self._run.buffer.stats().inserted >= goal  # type: ignore[method-assign]
        self._run.train()
        self._run.view()  # takes the notes of the checkpoint

    def close(self) -> None:
        self._run.close()
        self._opened.close()


class Cluster:
    """The learner actor's loop in a thread, and what the driver writes."""

    def __init__(self, directory: Path) -> None:
        config = compose([*SMALL, f"run.dir={directory}", "run.checkpoint_seconds=0.05"])
        self.lines: list[str] = []
        self._directory, self._opened = directory, RunDirectory(config)
        game = Game("tic_tac_toe")
        self._buffer = make_buffer("memory", game, config.replay, batch_size=16)
        found = load_latest(directory / "checkpoints")
        played = max((newest for *_, newest in found.checkpoint.facts["replay"]["seen"]), default=-1) if found else -1
        self._actor = SelfPlay(game, config.search, config.self_play, PseudoRandomEvaluator(game, 8), games=4,
                               seed=played + 2, identity=ActorIdentity(0))
        self._actor.begin_anew(played + 1)
        self.training = TrainingLoop(config, game, self._buffer, directory, config_hash="")
        self._metrics, self._troubles = MetricsWriter(directory, self.lines.append), DiskTroubles(self.lines.append)
        self._status = StatusBuilder(config, game, directory)
        self._faults = FaultCounter()
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._learn)
        self._thread.start()

    def _learn(self) -> None:
        try:
            self.training.run()
        except BaseException as error:
            self._errors.append(error)

    def play_and_learn(self) -> None:
        self._take_report()
        before = self.training.report()
        for record in self._actor.play(ROWS):
            self._buffer.append(record)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not self._errors:
            report = self._take_report()
            is_waiting = report.waiting_seconds > before.waiting_seconds + 0.15  # in which a checkpoint is due
            if report.learning_seconds > before.learning_seconds and report.version and is_waiting:
                break
            time.sleep(0.02)
        if self._errors:
            raise self._errors[0]
        report = self._take_report()
        view = RunView(
            seconds=1.0, activity="", version=report.version, games=1, rows=1, totals={}, report=report,
            faults=self._faults.totals, quarantined=0, strength=(), runtimes=(),
        )
        self._metrics.write(view, self._status.build(view))
        with self._troubles.watch("the progress"):
            RunProgress(seconds=1.0).save(self._directory)

    def _take_report(self) -> Any:
        report = self.training.report()
        self._faults.update(report)
        self.lines += report.notes
        return report

    def close(self) -> None:
        self.training.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._take_report()
        self._metrics.close()
        self._opened.close()


WIRINGS: dict[str, Callable[[Path], Run]] = {"local": Local, "cluster": Cluster}


@pytest.fixture(params=list(WIRINGS))
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Opens the run directory with this wiring."""

    @contextmanager
    def opened() -> Iterator[Run]:
        run = WIRINGS[request.param](tmp_path)
        try:
            yield run
        finally:
            run.close()

    return opened


def versions_of(directory: Path) -> list[int]:
    return [json.loads(line)["version"] for line in (directory / "versions.jsonl").read_text().splitlines()]


def check_goes_on(start: Callable[[], Any], directory: Path) -> None:
    """A healthy run after the fault: it goes on, saves, and no version was given out twice."""
    found = load_latest(directory / "checkpoints")
    with start() as run:
        assert run.training.learner.step_count == (found.checkpoint.step if found else 0)
        run.play_and_learn()
        step = run.training.learner.step_count
        assert step > (found.checkpoint.step if found else 0)
    newest = load_latest(directory / "checkpoints")
    assert newest is not None
    assert newest.damaged == ()
    assert newest.checkpoint.step >= step
    assert versions_of(directory) == sorted(set(versions_of(directory)))


# --- full disk at each file that is written --------------------------------------------------------------------------


@dataclass(frozen=True)
class FullDisk:
    """No file with this in its path can be opened for writing."""

    file: str
    line: str  # what the user reads
    is_fresh: bool = False  # the run directory is new
    costs_checkpoint: bool = False
    times: float = float("inf")  # that the disk refuses; then it takes everything again


FULL_DISKS = [
    FullDisk("network.safetensors", "no checkpoint was written: ", costs_checkpoint=True),
    FullDisk("facts.json", "no checkpoint was written: ", costs_checkpoint=True),
    FullDisk("manifest.json", "no checkpoint was written: ", costs_checkpoint=True),
    FullDisk("weights.safetensors", "is whole, but not all beside it: "),
    FullDisk("weights_first.safetensors", "no checkpoint was written: ", is_fresh=True, costs_checkpoint=True),
    FullDisk("versions.jsonl", "was not published: "),
    FullDisk("versions.jsonl", "was not published: ", is_fresh=True, times=3),
    FullDisk("metrics.jsonl", "metrics could not be written: "),
    FullDisk("progress.json", "the progress could not be written: "),
]


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, fault: FullDisk) -> Iterator[None]:
    """`open` fails as on a full disk."""
    left, real = fault.times, io.open

    def refuse(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        nonlocal left
        if fault.file in str(path) and set(mode) & set("wax") and left > 0:
            left -= 1
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real(path, mode, *arguments, **options)

    with monkeypatch.context() as disk:
        disk.setattr("io.open", refuse)
        disk.setattr("builtins.open", refuse)
        disk.setattr("shusaku.learner.training_loop.RETRY_SECONDS", 0.01)
        yield


@pytest.mark.parametrize("fault", FULL_DISKS, ids=lambda f: f"{f.file}{' (new run)' if f.is_fresh else ''}")
def test_a_full_disk_costs_what_it_refuses_and_not_the_run(
    start: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: FullDisk
) -> None:
    if not fault.is_fresh:
        with start() as run:
            run.play_and_learn()
    saved = max((found.path.name for found in whole_checkpoints(tmp_path / "checkpoints")), default="")
    with start() as run, full_disk(monkeypatch, fault):
        before = run.training.learner.step_count
        run.play_and_learn()
        assert run.training.learner.step_count > before, run.lines
        assert any(fault.line in line and "No space left on device" in line for line in run.lines), run.lines
        newest = max((found.path.name for found in whole_checkpoints(tmp_path / "checkpoints")), default="")
        assert (newest == saved) == fault.costs_checkpoint
    check_goes_on(start, tmp_path)


def test_a_run_that_goes_on_learns_though_no_version_can_be_written(
    start: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full before the run starts again: what was published last stays in use."""
    with start() as run:
        run.play_and_learn()
    published = versions_of(tmp_path)[-1]
    with full_disk(monkeypatch, FullDisk("versions.jsonl", "was not published: ")), start() as run:
        before = run.training.learner.step_count
        run.play_and_learn()
        assert run.training.learner.step_count > before, run.lines
        assert run.training.weights().version == published
    check_goes_on(start, tmp_path)


def test_a_run_that_cannot_write_its_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = RunIdentity.of(tmp_path)
    with full_disk(monkeypatch, FullDisk("run.json", "")), pytest.raises(OSError, match=r"No space left.*run\.json"):
        identity.next_epoch(-1)
    assert identity.next_epoch(-1) == 1


# --- everything else -------------------------------------------------------------------------------------------------


def poison(run: Run) -> None:
    """One write: the loop may roll back at any moment, and what is written after that would make it do so again."""
    next(run.training.learner.network.parameters()).data.fill_(float("nan"))


def test_a_loss_that_is_not_finite_is_rolled_back(start: Callable[[], Any], tmp_path: Path) -> None:
    with start() as run:
        run.play_and_learn()
    with start() as run:
        poison(run)
        run.play_and_learn()
        assert any("rolled back to the last checkpoint: " in line for line in run.lines), run.lines
        rollbacks = run.training.report().rollbacks
        assert rollbacks >= 1
        assert run.training.learner.rate_factor == 0.5 ** rollbacks
        assert all(np.isfinite(tensor).all() for tensor in run.training.weights().tensors.values())
    check_goes_on(start, tmp_path)


def test_each_rollback_halves_the_rate(
    start: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without a checkpoint between them, which would keep the lower rate."""
    with start() as run:
        run.play_and_learn()
    with start() as run, full_disk(monkeypatch, FullDisk("manifest.json", "")):
        factors = []
        for _ in range(3):
            poison(run)
            run.play_and_learn()
            factors.append(run.training.learner.rate_factor)
    assert factors == [0.5, 0.25, 0.125]


def test_a_damaged_newest_checkpoint_is_passed_over(start: Callable[[], Any], tmp_path: Path) -> None:
    for _ in range(2):
        with start() as run:
            run.play_and_learn()
    newest, second, *_ = whole_checkpoints(tmp_path / "checkpoints")
    file = newest.path / "average.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with start() as run:
        assert run.training.learner.step_count == second.checkpoint.step
        run.play_and_learn()
        assert any("damaged and passed over: " in line and "average.safetensors" in line for line in run.lines)
        assert run.training.learner.step_count > second.checkpoint.step
    assert versions_of(tmp_path) == sorted(set(versions_of(tmp_path)))
