"""A learner's life beside a buffer that others fill: what it publishes, saves, redoes and refuses."""

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_fixtures import config, make, play

from shusaku.common._core import Game
from shusaku.common.activity import ActivityClock
from shusaku.common.config.schema import Config, NetworkConfig
from shusaku.common.errors import ResumeError, UsageError
from shusaku.common.messages import Control, Weights
from shusaku.common.network import weights as weights_file
from shusaku.common.network.weights import load_weights
from shusaku.learner import checkpoints, training_loop
from shusaku.learner.learner import Batch
from shusaku.learner.state_copy import Diverged, LearnerState
from shusaku.learner.training_loop import TrainingLoop, TrainingReport
from shusaku.replay.backends import make_buffer
from shusaku.replay.buffer import ReplayBuffer
from shusaku.replay.stream.client import ReplayUnavailable, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer


def often_saved(directory: Path, test_share: float = 0.0) -> TrainingLoop:
    """A loop with rows to learn from, and a checkpoint whenever it can."""
    settings = config()
    settings.run.checkpoint_seconds, settings.replay.test_share = 0.01, test_share
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, directory, config_hash="")
    play(buffer, 3000)
    return training


@contextmanager
def running(training: TrainingLoop) -> Iterator[list[BaseException]]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            training.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield errors
    finally:
        training.stop()
        thread.join(20)
        assert not thread.is_alive()


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def until(training: TrainingLoop, condition: Any, seconds: float = 20.0) -> TrainingReport:
    deadline = time.monotonic() + seconds
    while True:
        report = training.report()
        if condition(report):
            return report
        assert time.monotonic() < deadline, report
        time.sleep(0.01)


def test_learns_as_often_as_the_rows_allow_and_then_waits(tmp_path: Path) -> None:
    settings = config()
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    with running(training):
        until(training, lambda r: r.version == 1)
        assert training.report().step == 0
        play(buffer, 600)
        before = until(training, lambda r: r.step > 0).waiting_seconds
        report = until(training, lambda r: r.waiting_seconds > before + 0.3)
        stats = buffer.stats()
        allowed = stats.inserted * 4 - 200 * 4 + max(9 * 4, 32)  # the limiter's rule, replay/rate_limiter.py
        assert report.step * 32 <= stats.sampled <= allowed
        assert stats.sampled > allowed - 3 * 32
        assert training.weights() is not None
        assert report.version == training.weights().version == 1 + report.step // 5  # type: ignore[union-attr]
    saved = load_weights(tmp_path / "weights.safetensors")
    assert saved.version == report.version
    lines = [json.loads(line) for line in (tmp_path / "versions.jsonl").read_text().splitlines()]
    assert [line["version"] for line in lines] == list(range(1, report.version + 1))


def test_goes_on_where_it_stopped_and_versions_rise(tmp_path: Path) -> None:
    settings = config()
    buffer = make(settings)
    first = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    play(buffer, 800)
    with running(first):
        until(first, lambda r: r.step >= 10)
    stopped = first.report()
    again = TrainingLoop(settings, Game("tic_tac_toe"), make(settings), tmp_path, config_hash="")
    assert again.report().step == stopped.step
    for name, tensor in first.learner.state().tensors["optimizer"].items():
        np.testing.assert_array_equal(tensor, again.learner.state().tensors["optimizer"][name])
    with running(again):
        report = until(again, lambda r: r.version > stopped.version)
    assert report.version == stopped.version + 1


def test_the_age_of_samples_is_counted_over_a_restart(tmp_path: Path) -> None:
    settings = config()
    buffer = make(settings)
    first = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    play(buffer, 800)
    with running(first):
        until(first, lambda r: r.step >= 10)
    stopped = first.report()
    later = make(settings)
    again = TrainingLoop(settings, Game("tic_tac_toe"), later, tmp_path, config_hash="")
    play(later, 800, actor=1)
    with running(again):
        metrics = until(again, lambda r: "sample_age_steps" in r.metrics).metrics
    # Version 0, which the index does not know, played all rows: they are as old as the first version, of step 0.
    published = (stopped.step // 5 + 1) * 5
    assert metrics["sample_age_steps_max"] == published
    assert stopped.step + 1 <= metrics["sample_age_steps"] <= published  # one step alone may lie between the two
    assert metrics["sample_age_versions_max"] == metrics["sample_age_versions"] == stopped.version + 1


INTERVAL = 10  # steps between two checkpoints, with a clock that each step moves on by a second


class Killed(BaseException):
    """Nothing of ours catches it, and nothing is written behind it."""


class StepClock:
    """A second a step; `kill_at` that step."""

    def __init__(self) -> None:
        self.seconds, self.kill_at = 0.0, -1

    def __call__(self) -> float:
        return self.seconds

    def drive(self, training: TrainingLoop) -> TrainingLoop:
        step = training.learner.step

        def counted(batch: Batch) -> bool:
            is_taken = step(batch)
            self.seconds += 1
            if training.learner.step_count == self.kill_at:
                raise Killed
            return is_taken

        training.learner.step = counted  # type: ignore[method-assign]
        return training


def run_at_once(job: Callable[[], None], name: str) -> Future[None]:
    """A disk that takes no time by a clock of steps."""
    future: Future[None] = Future()
    try:
        job()
        future.set_result(None)
    except BaseException as error:
        future.set_exception(error)
    return future


def die_in_a_checkpoint(monkeypatch: pytest.MonkeyPatch, number: int, *, written: bool) -> None:
    """In the middle of that checkpoint, or right behind it."""
    count = 0
    write, save = checkpoints.write_checkpoint, weights_file.save_weights

    def write_or_die(directory: Path, checkpoint: checkpoints.Checkpoint) -> Path:
        nonlocal count
        count += 1
        if count == number and not written:
            half = directory / f".{checkpoint.step:09d}.{os.getpid()}.part"
            half.mkdir()
            (half / "network.safetensors").write_bytes(b"\0" * 100)
            raise Killed
        return write(directory, checkpoint)

    def save_or_die(path: Path, weights: Weights) -> None:
        if count == number:
            raise Killed
        save(path, weights)

    monkeypatch.setattr("shusaku.learner.training_loop.write_checkpoint", write_or_die)
    monkeypatch.setattr("shusaku.learner.training_loop.save_weights", save_or_die)


@pytest.mark.parametrize(("moment", "step", "saved"), [
    ("between two steps", 57, 50), ("right before a checkpoint", 60, 50), ("in a checkpoint", 60, 50),
    ("behind a checkpoint", 60, 60),
])
def test_a_killed_learner_redoes_no_more_than_one_checkpoint_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, step: int, saved: int
) -> None:
    settings, clock = config(), StepClock()
    settings.run.checkpoint_seconds = INTERVAL
    buffer = make(settings)
    training = clock.drive(TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="", clock=clock))
    with monkeypatch.context() as fault:
        fault.setattr("shusaku.learner.training_loop.run_in_thread", run_at_once)
        if "a checkpoint" in moment and "before" not in moment:
            die_in_a_checkpoint(fault, 6, written="behind" in moment)
        else:
            clock.kill_at = step
        play(buffer, 1500)
        with running(training) as errors:
            wait_until(lambda: errors)
    assert [type(error) for error in errors] == [Killed]
    # A fault in the thread ends the loop after the next step.
    assert training.learner.step_count == step + ("a checkpoint" in moment and "before" not in moment)
    published = [json.loads(line)["version"] for line in (tmp_path / "versions.jsonl").read_text().splitlines()]
    buffer = make(settings)
    successor = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    assert successor.report().step == saved >= step - INTERVAL
    assert published == list(range(1, len(published) + 1))
    play(buffer, 1500, actor=1)
    with running(successor) as errors:
        after = until(successor, lambda r: r.version > 0)
        assert after.version == max(published) + 1, "a number that was published is never used again"
        until(successor, lambda r: r.step > step)
    assert errors == []
    assert load_weights(tmp_path / "weights.safetensors").version == successor.report().version
    assert load_weights(tmp_path / "weights_first.safetensors").version < successor.report().version


def test_it_learns_while_a_slow_disk_takes_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is written at a time, of the moment when it began; the last one is waited for, by a loop that goes round."""
    settings = config()
    settings.run.checkpoint_seconds = 0.01
    buffer = make(settings)
    activity = ActivityClock()
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="", activity=activity)
    is_writing, may_write, at_once = threading.Event(), threading.Event(), 0
    write = checkpoints.write_checkpoint

    def write_slowly(directory: Path, checkpoint: checkpoints.Checkpoint) -> Path:
        nonlocal at_once
        at_once += 1
        assert at_once == 1
        is_writing.set()
        assert may_write.wait(20)
        at_once -= 1
        return write(directory, checkpoint)

    monkeypatch.setattr("shusaku.learner.training_loop.write_checkpoint", write_slowly)
    play(buffer, 1500)
    with running(training) as errors:
        assert is_writing.wait(20)
        step = training.report().step
        until(training, lambda r: r.step > step + 20)
        assert training.report().saved_step == 0
        may_write.set()
        saved = until(training, lambda r: r.saved_step > 0).saved_step
        assert saved <= step
        found = checkpoints.load_latest(tmp_path / "checkpoints")
        assert found is not None
        assert found.checkpoint.step >= saved
        is_writing.clear(), may_write.clear()
        assert is_writing.wait(20)
        training.stop()
        until(training, lambda r: activity.heartbeat().waits_for == "disk")
        may_write.set()
    assert errors == []
    assert training.report().saved_step == training.report().step > step + 20


def test_what_a_slow_disk_does_not_take_at_a_stop_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In time, and said; the checkpoints of before stay, and the next start removes what was left."""
    settings = config()
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    play(buffer, 600)
    training.begin_turns(lambda: False)
    training.learn_turn(lambda: False)
    training.checkpoint()
    saved = training.report().saved_step
    training.learn_turn(lambda: False)
    may_sync, fsync = threading.Event(), os.fsync
    monkeypatch.setattr("os.fsync", lambda descriptor: (may_sync.wait(20), fsync(descriptor)))
    begin = time.monotonic()
    training.checkpoint(0.3)
    training.close()
    assert time.monotonic() - begin < 1.0
    report = training.report()
    assert (report.saved_step, report.step) == (saved, saved + 5)
    assert [note for note in report.notes if "given up" in note] == [
        f"the last checkpoint was given up: the disk did not take it within 0 s; the newest is that of step {saved}"]
    found = checkpoints.load_latest(tmp_path / "checkpoints")
    assert found is not None
    assert found.checkpoint.step == saved
    may_sync.set()


def test_a_disk_that_refuses_in_the_thread_costs_that_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config()
    settings.run.checkpoint_seconds = 0.01
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    notes: list[str] = []

    def refuse(directory: Path, checkpoint: checkpoints.Checkpoint) -> Path:
        raise OSError(28, "No space left on device")

    with running(training) as errors:
        with monkeypatch.context() as fault:
            fault.setattr("shusaku.learner.training_loop.write_checkpoint", refuse)
            play(buffer, 600)
            until(training, lambda r: notes.extend(r.notes) or any("No space left" in note for note in notes))
        play(buffer, 600, actor=1)
        until(training, lambda r: r.saved_step > 0)
    assert errors == []


def test_the_cooldown_goes_by_the_share_of_the_run_that_is_over(tmp_path: Path) -> None:
    settings, share = config(schedule="cooldown", cooldown_share=0.5, learning_rate=1e-3), 0.75
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="", share_done=lambda: share)
    play(buffer, 600)
    with running(training):
        until(training, lambda r: r.step >= 40)
    rates = [group["lr"] for group in training.learner._optimizer.param_groups]
    assert rates == pytest.approx([1e-3 * (0.05 + 0.95 * 0.5)] * len(rates))


def test_a_replay_that_is_away_at_the_start_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone knows which versions there were, so that none is used twice; ours failed for good after six tries."""
    settings, activity = config(), ActivityClock()
    buffer = make(settings)
    control = buffer.control
    answers = threading.Event()

    def ask() -> Control:
        if not answers.is_set():
            raise ReplayUnavailable("no answer within 5 s")
        return replace(control(), version=17)

    monkeypatch.setattr(buffer, "control", ask)
    monkeypatch.setattr("shusaku.learner.training_loop.RETRY_SECONDS", 0.01)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="", activity=activity)
    with running(training) as errors:
        until(training, lambda r: activity.heartbeat().waits_for == "replay")
        assert activity.heartbeat().is_wait
        assert training.report().version == 0
        answers.set()
        assert until(training, lambda r: r.version > 0).version == 18
    assert errors == []


def test_a_network_that_is_not_finite_is_never_published(tmp_path: Path) -> None:
    settings = config()
    settings.run.checkpoint_seconds = 0.01
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    published: list[Weights] = []
    note = training.versions.append

    def note_and_keep(weights: Weights) -> None:
        published.append(weights)
        note(weights)

    training.versions.append = note_and_keep  # type: ignore[method-assign]
    play(buffer, 3000)
    with running(training) as errors:
        until(training, lambda r: r.saved_step >= 5)
        poison = next(iter(training.learner.network.parameters()))
        poison.data.fill_(float("nan"))
        report = until(training, lambda r: r.rollbacks >= 1)
        assert any("rolled back to the last checkpoint: " in note for note in report.notes)
        until(training, lambda r: r.step > report.step + 2 * settings.learner.publish_every)
    assert errors == []
    assert training.learner.rate_factor == 0.5 ** training.report().rollbacks, "or the same batches would diverge again"
    assert all(np.isfinite(tensor).all() for weights in published for tensor in weights.tensors.values())
    assert [weights.version for weights in published] == list(range(1, len(published) + 1))


def test_a_network_whose_answers_are_not_finite_is_rolled_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: the checkpoint's answers are.  Always: there is nothing to go on from, and the run ends with the reason."""
    training = often_saved(tmp_path)
    with running(training) as errors:
        until(training, lambda r: r.saved_step >= 5)
        answers = iter([False])
        monkeypatch.setattr(training.learner, "answers_are_finite", lambda: next(answers, True))
        report = until(training, lambda r: r.rollbacks >= 1)
        assert any("rolled back to the last checkpoint: " in note for note in report.notes)
        until(training, lambda r: r.step > report.step + 2 * config().learner.publish_every)
        assert errors == []
        monkeypatch.setattr(training.learner, "answers_are_finite", lambda: False)
        until(training, lambda r: bool(errors))
    [error] = errors
    assert "that of the newest checkpoint" in str(error)
    assert "learner.learning_rate" in str(error)


def test_a_run_goes_back_to_the_checkpoint_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or that one, which is newer than the steps after the rollback, would be the newest for long."""
    training = often_saved(tmp_path)
    write, writes, goes_on = training_loop.write_checkpoint, threading.Event(), threading.Event()
    written: list[int] = []

    def write_slowly(directory: Path, checkpoint: checkpoints.Checkpoint) -> Path:
        if training.report().saved_step >= 5 and not goes_on.is_set():
            written.append(checkpoint.step)
            writes.set()
            assert goes_on.wait(20)
        return write(directory, checkpoint)

    monkeypatch.setattr(training_loop, "write_checkpoint", write_slowly)
    restored: list[int] = []
    go_back = training.learner.go_back

    def note(state: LearnerState) -> None:
        restored.append(int(state.facts["step"]))
        go_back(state)

    monkeypatch.setattr(training.learner, "go_back", note)
    with running(training) as errors:
        assert writes.wait(20)
        publish = training.learner.publish
        raised = threading.Event()

        def diverge(version: int) -> Weights | None:
            if not raised.is_set():
                raised.set()
                threading.Timer(0.3, goes_on.set).start()
                raise Diverged("5 steps in a row were not finite")
            return publish(version)

        monkeypatch.setattr(training.learner, "publish", diverge)
        until(training, lambda r: r.rollbacks == 1)
    assert errors == []
    assert restored == written


def test_the_last_checkpoint_is_written_although_the_run_goes_back_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = often_saved(tmp_path)
    with running(training) as errors:
        until(training, lambda r: r.saved_step >= 5)
        training.stop()
    before = training.report()
    answers = iter([False])
    monkeypatch.setattr(training.learner, "answers_are_finite", lambda: next(answers, True))
    training.checkpoint()
    assert errors == []
    assert training.report().rollbacks == before.rollbacks + 1
    found = checkpoints.load_latest(tmp_path / "checkpoints")
    assert found is not None
    assert found.checkpoint.facts["learner"]["rate_factor"] == 0.5


def test_steps_that_turn_out_to_be_bad_at_the_end_are_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the outcome of the last steps is known when they are measured: the checkpoint is that before them."""
    training = often_saved(tmp_path, test_share=0.2)
    with running(training) as errors:
        until(training, lambda r: r.saved_step >= 5)

        measure, measure_at_end, ended = training.learner.measure, training.measure_at_end, threading.Event()

        def diverge(batch: Batch) -> dict[str, float]:
            if not ended.is_set() or training.report().rollbacks:
                return measure(batch)  # of a publication, which has read the outcomes before
            raise Diverged("5 steps in a row were not finite")

        def end() -> None:
            ended.set()
            measure_at_end()

        monkeypatch.setattr(training, "measure_at_end", end)
        monkeypatch.setattr(training.learner, "measure", diverge)
    assert errors == []
    report = training.report()
    assert report.rollbacks >= 1
    assert report.saved_step == report.step


def test_another_network_or_format_is_refused(tmp_path: Path) -> None:
    settings = config()
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    with running(training):
        until(training, lambda r: r.version == 1)
    other = config()
    other.network = NetworkConfig(filters=16, blocks=1, value_hidden=8)
    with pytest.raises(UsageError):
        TrainingLoop(other, Game("tic_tac_toe"), make(other), tmp_path, config_hash="")
    for path in (tmp_path / "checkpoints").glob("*/facts.json"):
        path.write_text(path.read_text().replace('"format": 3', '"format": 9'))
    with pytest.raises(ResumeError):
        TrainingLoop(settings, Game("tic_tac_toe"), make(settings), tmp_path, config_hash="")


# --- with the window in Redis ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path_factory.mktemp("redis"), max_megabytes=64)
    server.start()
    yield server
    server.stop()


class RedisRun:
    """One run in the server, and the buffers of those who learn from it, one after the other."""

    numbers = itertools.count()

    def __init__(self, url: str, settings: Config) -> None:
        self.id, self.url, self.settings = f"training-{next(self.numbers)}", url, settings
        self.control = RedisControl(url, self.id)
        self.begin()
        self.buffers: list[Any] = []

    def begin(self) -> None:
        replay = self.settings.replay
        self.control.begin(0, capacity=replay.capacity, max_bytes=1 << 26, actors=0, limit=replay.minimum)

    def buffer(self) -> ReplayBuffer:
        self.buffers.append(make_buffer(
            "redis", Game("tic_tac_toe"), self.settings.replay, batch_size=self.settings.learner.batch_size,
            url=self.url, run_id=self.id,
        ))
        return self.buffers[-1]  # type: ignore[no-any-return]

    def lose_everything(self) -> None:
        connect(self.url).delete(*RunKeys.of(self.id))

    @property
    def inserted(self) -> int:
        return self.control.counters()["inserted"]

    def allowed(self, inserted: int) -> float:
        """Samples that the limiter's rule grants for so many rows."""
        replay, batch = self.settings.replay, self.settings.learner.batch_size
        each = replay.samples_per_position
        return inserted * each - replay.minimum * each + max(9 * each, batch)


@pytest.fixture
def redis_run(server: EmbeddedServer) -> Iterator[RedisRun]:
    settings = config()
    settings.run.checkpoint_seconds, settings.replay.window = INTERVAL, "fixed"
    run = RedisRun(server.url, settings)
    yield run
    for buffer in run.buffers:
        buffer.close()


def wait_for_rows(training: TrainingLoop, run: RedisRun) -> TrainingReport:
    """It has learned from everything as often as it may."""
    batch = run.settings.learner.batch_size
    return until(training, lambda r: r.replay.inserted == run.inserted and r.replay.waits_for
                 and run.allowed(r.replay.inserted) - 3 * batch < r.replay.sampled
                 and r.replay.sampled == run.control.counters().get("sampled", 0))


def kill_one(run: RedisRun, directory: Path) -> TrainingLoop:
    """A learner that was killed at step 28, its checkpoint of step 20, and games that came between the two."""
    clock, buffer = StepClock(), run.buffer()
    training = clock.drive(
        TrainingLoop(run.settings, Game("tic_tac_toe"), buffer, directory, config_hash="", clock=clock)
    )
    clock.kill_at = 28
    with running(training) as errors:
        play(buffer, 400)
        before = wait_for_rows(training, run)
        assert 20 <= before.step < 28
        play(buffer, 300, actor=1)
        wait_until(lambda: errors)
    assert [type(error) for error in errors] == [Killed]
    run.buffers.pop().close()
    return training


def test_a_successor_reads_its_window_back_from_redis(redis_run: RedisRun, tmp_path: Path) -> None:
    run = redis_run
    killed = kill_one(run, tmp_path)
    play(run.buffer(), 100, actor=2)  # while nobody learns
    inserted = run.inserted
    buffer = run.buffer()
    successor = TrainingLoop(run.settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    first = successor.report()
    assert first.step == 20
    assert first.notes[0].startswith("learning goes on after 20 steps with ")
    stats = until(successor, lambda r: r.replay.inserted >= inserted).replay
    assert (stats.inserted, stats.rows, stats.deleted) == (inserted, inserted, 0), "each row once, all of them"
    assert (stats.skipped, stats.losses, stats.quarantined) == (0, 0, {})
    batch, ahead = run.settings.learner.batch_size, run.settings.learner.prefetch + 1
    found = checkpoints.load_latest(tmp_path / "checkpoints")
    assert found is not None
    saved = found.checkpoint.facts["replay"]["sampled"]
    assert (20 - ahead) * batch <= saved <= 20 * batch, "what was drawn ahead and not learned from is drawn again"
    assert saved <= stats.sampled <= saved + ahead * batch
    with running(successor) as errors:
        after = wait_for_rows(successor, run)
        assert after.replay.sampled <= run.allowed(inserted)
        assert after.version > killed.report().version
        play(buffer, 100, actor=3)
        until(successor, lambda r: r.step > after.step)
    assert errors == []


def test_a_window_that_was_lost_meanwhile_is_waited_for(redis_run: RedisRun, tmp_path: Path) -> None:
    run = redis_run
    killed = kill_one(run, tmp_path)
    run.lose_everything()
    run.begin()
    buffer = run.buffer()
    successor = TrainingLoop(run.settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    assert (successor.report().step, successor.report().replay.rows) == (20, 0)
    with running(successor) as errors:
        until(successor, lambda r: r.version > killed.report().version)
        play(buffer, run.settings.replay.minimum - 50, actor=5)
        until(successor, lambda r: r.replay.rows == run.inserted)
        time.sleep(0.3)
        assert successor.report().step == 20, "not before the minimum is there"
        play(buffer, 200, actor=6)
        after = until(successor, lambda r: r.step > 25)
        assert after.replay.sampled <= run.allowed(after.replay.inserted)
    assert errors == []


def test_a_number_that_redis_has_seen_is_not_used_again(redis_run: RedisRun, tmp_path: Path) -> None:
    """The run directory may be an older copy."""
    run = redis_run
    kill_one(run, tmp_path)
    run.control.record_version(50)
    successor = TrainingLoop(run.settings, Game("tic_tac_toe"), run.buffer(), tmp_path, config_hash="")
    with running(successor):
        assert until(successor, lambda r: r.version > 0).version == 51
    assert run.control.newest_version() >= 51


def test_it_stops_at_the_steps_of_the_run_publishes_the_last_one_and_waits_for_the_driver(tmp_path: Path) -> None:
    settings = config(steps=12)  # the last publication would be that of step 10
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    play(buffer, 1200)
    with running(training):
        until(training, lambda r: r.step == 12 and r.version == 4)
        time.sleep(0.3)
        assert training.report().step == 12
        weights = training.weights()
        assert weights is not None
        assert weights.step == 12
    assert training.report().saved_step == 12
    assert buffer.stats().rows > 13 * 32  # rows were not what was missing


@pytest.mark.parametrize(("steps", "publications"), [(20, [0, 5, 10, 15, 20]), (12, [0, 5, 10, 12])])
def test_turns_end_at_the_steps_of_the_run(tmp_path: Path, steps: int, publications: list[int]) -> None:
    settings = config(steps=steps, prefetch=3)
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    play(buffer, 2500)
    training.begin_turns(lambda: False)
    for _ in range(10):
        training.learn_turn(lambda: False)
    assert training.learner.step_count == steps
    assert list(training.versions.steps.values()) == publications
    sampled = buffer.stats().sampled
    assert sampled == steps * 32  # none was drawn for a step that never comes
    training.close()


def test_a_cooldown_goes_by_the_steps_of_the_run(tmp_path: Path) -> None:
    settings = config(steps=40, schedule="cooldown", cooldown_share=0.5)
    buffer = make(settings)
    training = TrainingLoop(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    play(buffer, 3000)
    training.begin_turns(lambda: False)
    shares = []
    while not training.is_complete:
        training.learn_turn(lambda: False, lambda: shares.append(training.learner.run_share))
    training.close()
    np.testing.assert_allclose(shares, np.arange(40) / 40)
    assert training.learner._rate(39) < 0.2 * settings.learner.learning_rate
