"""A learner's life beside a buffer that others fill: what it publishes, saves, redoes and refuses."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.evaluators import PseudoRandomEvaluator
from actors.self_play import ActorIdentity, SelfPlay
from common._core import Game
from common.config import Config, NetworkConfig, SearchConfig, SelfPlayConfig
from common.errors import ResumeError, UsageError
from common.weights import load_weights
from learner.training import Training, TrainingReport
from replay.buffer import ReplayBuffer, make_buffer


def config(**learner: Any) -> Config:
    made = Config()
    made.game.name = "tic_tac_toe"
    made.network = NetworkConfig(filters=8, blocks=1, value_hidden=8)
    made.replay.minimum, made.replay.capacity, made.replay.samples_per_position = 200, 5000, 4.0
    made.learner.batch_size, made.learner.publish_every, made.learner.warmup_steps = 32, 5, 0
    made.run.checkpoint_seconds = 0
    for name, value in learner.items():
        setattr(made.learner, name, value)
    return made


def make(settings: Config) -> ReplayBuffer:
    return make_buffer("memory", Game("tic_tac_toe"), settings.replay, batch_size=settings.learner.batch_size)


def play(buffer: ReplayBuffer, rows: int, actor: int = 0) -> None:
    game = Game("tic_tac_toe")
    player = SelfPlay(
        game, SearchConfig(simulations=4), SelfPlayConfig(), PseudoRandomEvaluator(game, 8), games=8, seed=actor,
        identity=ActorIdentity(actor),
    )
    for record in player.play(rows):
        buffer.append(record)


@contextmanager
def running(training: Training) -> Iterator[list[BaseException]]:
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


def until(training: Training, condition: Any, seconds: float = 20.0) -> TrainingReport:
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
    training = Training(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
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
    first = Training(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    play(buffer, 800)
    with running(first):
        until(first, lambda r: r.step >= 10)
    stopped = first.report()
    again = Training(settings, Game("tic_tac_toe"), make(settings), tmp_path, config_hash="")
    assert again.report().step == stopped.step
    for name, tensor in first.learner.state().tensors["optimizer"].items():
        np.testing.assert_array_equal(tensor, again.learner.state().tensors["optimizer"][name])
    with running(again):
        report = until(again, lambda r: r.version > stopped.version)
    assert report.version == stopped.version + 1


def test_a_killed_learner_redoes_no_more_than_one_checkpoint_interval(tmp_path: Path) -> None:
    settings = config()
    settings.run.checkpoint_seconds, settings.run.keep_checkpoints = 0.05, 1000
    buffer = make(settings)
    copy = tmp_path.with_name(f"{tmp_path.name}-copy")
    training = Training(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    play(buffer, 1500)
    with running(training):
        report = until(training, lambda r: r.saved_step >= 10)
        shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("*.part"))  # what a kill would leave
    published = [json.loads(line)["version"] for line in (copy / "versions.jsonl").read_text().splitlines()]
    successor = Training(settings, Game("tic_tac_toe"), make(settings), copy, config_hash="")
    assert successor.report().step >= report.saved_step
    with running(successor):
        after = until(successor, lambda r: r.version > 0)
    assert after.version == max(published) + 1, "a number that was published is never used again"


def test_a_network_that_is_not_finite_is_never_published(tmp_path: Path) -> None:
    settings = config()
    settings.run.checkpoint_seconds = 0.01
    buffer = make(settings)
    training = Training(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    play(buffer, 3000)
    with running(training) as errors:
        until(training, lambda r: r.saved_step >= 5)
        poison = next(iter(training.learner.network.parameters()))
        poison.data.fill_(float("nan"))
        report = until(training, lambda r: r.rollbacks >= 1)
        assert report.skipped_steps >= 1 or report.rollbacks >= 1
        until(training, lambda r: r.step > report.step or r.version > report.version)
    assert errors == []
    weights = training.weights()
    assert weights is not None
    assert all(np.isfinite(tensor).all() for tensor in weights.tensors.values())


def test_another_network_or_format_is_refused(tmp_path: Path) -> None:
    settings = config()
    buffer = make(settings)
    training = Training(settings, Game("tic_tac_toe"), buffer, tmp_path, config_hash="")
    with running(training):
        until(training, lambda r: r.version == 1)
    other = config()
    other.network = NetworkConfig(filters=16, blocks=1, value_hidden=8)
    with pytest.raises(UsageError):
        Training(other, Game("tic_tac_toe"), make(other), tmp_path, config_hash="")
    for path in (tmp_path / "checkpoints").glob("*/facts.json"):
        path.write_text(path.read_text().replace('"format": 2', '"format": 9'))
    with pytest.raises(ResumeError):
        Training(settings, Game("tic_tac_toe"), make(settings), tmp_path, config_hash="")
