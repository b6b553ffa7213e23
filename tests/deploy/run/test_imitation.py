"""Runs without actors that learn from finished games, in both wirings: to the end, after kill -9, and refused."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from labelled_games import random_game

from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.run.change_over import move_to_log, move_to_stream
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.learner.checkpoints import checkpoint_paths, load_latest
from shusaku.learner.dataset import open_dataset
from shusaku.learner.training_loop import TrainingLoop
from shusaku.replay.record_log import RecordLog

GAME = Game("go", {"size": 9, "max_plies": 40})
SMALL = (
    "experiment=alphago_9x9_imitation", "game.max_plies=40", "network.filters=4", "network.blocks=1",
    "network.policy_filters=2", "network.value_hidden=2", "learner.batch_size=16", "learner.publish_every=5",
    "learner.threads=1", "dataset.positions=100", "dataset.minutes=0.02", "run.checkpoint_seconds=1",
    "actors.count=1", "cluster.dashboard=false",
)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("games") / "log"
    log = RecordLog(directory)
    log.append([encode_record(random_game(GAME, seed)) for seed in range(120)])
    log.close()
    return directory


def lines(run: Path, source: str) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line for line in read if line["source"] == source]


class Process:
    """`shusaku local|train` with its output in a file."""

    def __init__(self, command: str, games: Path, run: Path, *overrides: str) -> None:
        self.run, self.log = run, run.with_suffix(".log")
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "shusaku", command, *SMALL, f"dataset.records={games}", f"run.dir={run}",
                 "--json", *overrides],
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def wait_for_checkpoint(self, after: int = 0) -> int:
        """The step of a checkpoint later than that one."""
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            paths = checkpoint_paths(self.run / "checkpoints")
            if paths and (step := int(paths[0].name)) > after:
                return step
            time.sleep(0.1)
        raise AssertionError(f"no checkpoint: {self.log.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself, and the test says why
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def result(self) -> dict[str, Any]:
        assert self.process.wait(timeout=280) == 0, self.log.read_text(errors="replace")[-3000:]
        answer: dict[str, Any] = json.loads(self.log.read_text(errors="replace").splitlines()[-1])
        return answer


@pytest.mark.parametrize("command", ["local", pytest.param("train", marks=pytest.mark.long)])
def test_a_run_learns_and_goes_on_after_kill_9(command: str, games: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = Process(command, games, run, "run.minutes=30")
    try:
        saved = first.wait_for_checkpoint()
    finally:
        first.kill()
    found = load_latest(run / "checkpoints")
    assert found is not None
    assert not any("heads.value" in name for part in found.checkpoint.tensors.values() for name in part)
    second = Process(command, games, run, "run.minutes=30")
    try:
        second.wait_for_checkpoint(saved)
    finally:
        second.kill()
    assert f"learning goes on after {saved:,} steps" in second.log.read_text(errors="replace").replace("\n", " ")
    last = Process(command, games, run, "run.minutes=0.001")  # used up: measures and ends
    result = last.result()
    assert result["steps"] > saved
    measured = result["unseen"]["test"]
    assert measured.keys() == {"positions", "top_1", "top_5", "policy_loss"}
    assert 0 < measured["policy_loss"] < 6
    [final] = lines(run, "final_unseen")
    assert final["values"] == measured
    unseen = lines(run, "unseen")
    assert len(unseen) > 1
    assert unseen[-1]["step"] > unseen[0]["step"]
    output = last.log.read_text(errors="replace")
    assert "games not learned from" in output
    assert not (run / "records").exists() or not list((run / "records").iterdir())


def test_a_run_moves_between_the_wirings(games: Path, tmp_path: Path) -> None:
    """Its checkpoint, as the learner of the other wiring reads it, goes on with the same mini-batches."""
    run = tmp_path / "run"
    first = Process("local", games, run, "run.minutes=30")
    try:
        first.wait_for_checkpoint()
    finally:
        first.kill()
    found = load_latest(run / "checkpoints")
    assert found is not None
    config = compose([*SMALL, f"dataset.records={games}", f"run.dir={run}"])
    identity = RunIdentity.of(run)
    for wiring in ("train", "local", "train"):
        if wiring == "train":
            move_to_stream(run, config, "", identity, print)
        else:
            move_to_log(run, config, GAME, print)
        moved = load_latest(run / "checkpoints")
        assert moved is not None
        assert (moved.checkpoint.facts["local"] is None) == (wiring == "train")
        for name in ("replay", "next_batch", "version", "learner"):
            assert moved.checkpoint.facts[name] == found.checkpoint.facts[name], name
    buffer, unseen = open_dataset(config, GAME, threads=1)
    loop = TrainingLoop(config, GAME, buffer, run, config_hash="", unseen=unseen)
    assert loop.report().step == found.checkpoint.step
    loop.close()


def test_a_run_of_its_own_games_is_another_one(
    games: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["local", *SMALL, f"dataset.records={games}", f"run.dir={tmp_path / 'run'}", "run.minutes=0.001"]
    assert main(words) == 0
    assert main([*words, "dataset.records=", "search=gumbel"]) == 2
    assert main([*words, "dataset.records=", "learner.enabled=false"]) == 2
    assert "holds a run that learns from finished games" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("override", "reason"), [
    ("dataset.records={}/missing", "there is no record log"),
    ("game.size=13", "holds another game"),
    ("learner.targets=[ownership]", "policy or value must be among them"),
    ("dataset.positions=0", "must be"),
])
def test_what_cannot_be_is_one_line_and_exit_2(
    override: str, reason: str, games: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["local", *SMALL, f"dataset.records={games}", f"run.dir={tmp_path / 'run'}", override.format(tmp_path)]
    assert main(words) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line]
    assert reason in said[-1]
    assert not (tmp_path / "run").exists()
