"""A learner far from the run directory: that has all that counts, and another learner goes on from it elsewhere."""

import filecmp
import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from training_fixtures import config, make, play

from shusaku.common._core import Game
from shusaku.common.errors import ResumeError
from shusaku.learner.checkpoints import MANIFEST, kept_steps, load_latest, read_files
from shusaku.learner.remote import RunFilesActor
from shusaku.learner.run_mirror import RunFiles, RunMirror
from shusaku.learner.training_loop import TrainingLoop

GAME = Game("tic_tac_toe")


class Faulty(RunFiles):
    """Refuses, or damages, what it is told to."""

    refuses: tuple[str, ...] = ()
    damages = False

    def append_version(self, line: str) -> None:
        self._check("version")
        super().append_version(line)

    def write_checkpoint(self, step: int, files: Mapping[str, bytes]) -> None:
        self._check("checkpoint")
        if self.damages:
            files = {name: data[:-1] if name == "network.safetensors" else data for name, data in files.items()}
        super().write_checkpoint(step, files)

    def _check(self, what: str) -> None:
        if what in self.refuses:
            raise OSError("the run directory does not answer")


@pytest.fixture
def files(tmp_path: Path) -> Faulty:
    (tmp_path / "run").mkdir()
    return Faulty(tmp_path / "run", keep=3, history_seconds=0.0)


def learner(files: RunFiles, directory: Path) -> TrainingLoop:
    directory.mkdir()
    buffer = make(config())
    training = TrainingLoop(config(), GAME, buffer, directory, config_hash="", mirror=RunMirror(files, directory))
    play(buffer, 3000)
    training.begin_turns(lambda: False)
    return training


def learn(training: TrainingLoop, steps: int) -> None:
    goal, deadline = training.learner.step_count + steps, time.monotonic() + 30
    while training.learner.step_count < goal:
        assert training._advance() or time.monotonic() < deadline, "no rows"


def same_files(one: Path, other: Path) -> bool:
    names = sorted(path.name for path in one.iterdir())
    return names == sorted(path.name for path in other.iterdir()) and filecmp.cmpfiles(
        one, other, names, shallow=False)[0] == names


def test_the_run_directory_has_what_the_learner_has(files: Faulty, tmp_path: Path) -> None:
    here, there = tmp_path / "learner", tmp_path / "run"
    training = learner(files, here)
    learn(training, 20)
    training.checkpoint()
    assert training.report().saved_step == 20
    assert kept_steps(there / "checkpoints") == [20]
    assert same_files(here / "checkpoints" / "000000020", there / "checkpoints" / "000000020")
    for name in ("versions.jsonl", "weights.safetensors", "weights_first.safetensors"):
        assert (here / name).read_bytes() == (there / name).read_bytes(), name
    for _ in range(4):
        learn(training, 5)
        training.checkpoint()
    training.close()
    assert kept_steps(there / "checkpoints") == [40, 35, 30], "as many as run.keep_checkpoints"
    assert kept_steps(here / "checkpoints") == [40], "which the learner's machine need not have"
    assert (here / "weights_first.safetensors").read_bytes() == (there / "weights_first.safetensors").read_bytes()


def test_another_machine_goes_on_with_the_learner_of_the_last_checkpoint(files: Faulty, tmp_path: Path) -> None:
    lost = learner(files, tmp_path / "b")
    learn(lost, 20)
    lost.checkpoint()
    saved = lost.learner.state()
    learn(lost, 7)  # which nobody keeps
    lost.close()
    other = learner(files, tmp_path / "c")
    assert other.report().step == 20
    state = other.learner.state()
    assert state.facts == saved.facts
    for part, tensors in saved.tensors.items():
        assert all((tensors[name] == state.tensors[part][name]).all() for name in tensors), part
    other.close()
    versions = [json.loads(line)["version"] for line in (tmp_path / "run" / "versions.jsonl").read_text().splitlines()]
    assert versions == sorted(set(versions)), "a number is never used twice"


def test_a_checkpoint_that_does_not_arrive_does_not_count(files: Faulty, tmp_path: Path) -> None:
    training = learner(files, tmp_path / "learner")
    learn(training, 10)
    files.refuses = ("checkpoint",)
    training.checkpoint()
    assert training.report().saved_step == 0
    assert "the run directory does not answer" in training.report().trouble
    files.refuses, files.damages = (), True
    learn(training, 5)
    training.checkpoint()
    assert "a checkpoint of step 15 is not whole: network.safetensors has" in training.report().trouble
    assert load_latest(tmp_path / "run" / "checkpoints") is None
    files.damages = False
    learn(training, 5)
    training.checkpoint()
    assert (training.report().saved_step, training.report().trouble) == (20, "")
    training.close()


def test_a_version_that_the_run_directory_does_not_know_is_not_published(files: Faulty, tmp_path: Path) -> None:
    training = learner(files, tmp_path / "learner")
    version = training.report().version
    files.refuses = ("version",)
    learn(training, 20)
    report = training.report()
    assert report.version == version
    assert any("was not published: the run directory does not answer" in line for line in report.notes)
    files.refuses = ()
    learn(training, 5)
    assert training.report().version > version
    training.close()


def line(version: int) -> str:
    return json.dumps({"version": version, "step": 10 * version, "sha256": "0" * 64})


def lines(*versions: int) -> str:
    return "".join(line(version) + "\n" for version in versions)


def test_a_line_that_is_sent_again_stands_there_once(files: Faulty, tmp_path: Path) -> None:
    files.append_version(line(1))
    files.append_version(line(1))
    again = RunFiles(tmp_path / "run", 3, 0.0)  # the process was started again
    again.append_version(line(1))
    again.append_version(line(2))
    assert (tmp_path / "run" / "versions.jsonl").read_text() == lines(1, 2)


def test_a_torn_line_is_put_aside_before_one_is_added(files: Faulty, tmp_path: Path) -> None:
    versions = tmp_path / "run" / "versions.jsonl"
    versions.write_bytes(lines(1).encode() + b'nonsense\n{"version": 2, "st\xff')
    again = RunFiles(tmp_path / "run", 3, 0.0)
    assert again.read().notes == ["versions.jsonl: 1 damaged lines were moved to versions.jsonl.damaged"]
    again.append_version(line(3))
    assert versions.read_text() == lines(1, 3)
    assert again.read().notes == []


def test_damaged_checkpoints_are_set_aside_and_said(files: Faulty, tmp_path: Path) -> None:
    training = learner(files, tmp_path / "learner")
    for _ in range(2):
        learn(training, 5)
        training.checkpoint()
    training.close()
    (tmp_path / "run" / "checkpoints" / "000000010" / "facts.json").write_text("{}")
    other = learner(files, tmp_path / "other")
    report = other.report()
    other.close()
    assert report.step == 5
    assert any("damaged and passed over: " in note and "000000010" in note for note in report.notes)
    assert kept_steps(tmp_path / "run" / "checkpoints") == [5], "nothing counts the other one any more"


def test_what_cannot_be_sent_does_not_fill_the_learners_disk(files: Faulty, tmp_path: Path) -> None:
    training = learner(files, tmp_path / "learner")
    files.refuses = ("checkpoint",)
    for _ in range(4):
        learn(training, 5)
        training.checkpoint()
        assert len(kept_steps(tmp_path / "learner" / "checkpoints")) == 1
    files.refuses = ()
    learn(training, 5)
    training.checkpoint()
    training.close()
    assert kept_steps(tmp_path / "run" / "checkpoints") == [25]
    assert (tmp_path / "run" / "weights_first.safetensors").exists()


def test_a_learner_that_has_a_successor_writes_no_more(tmp_path: Path) -> None:
    """It was cut off, and nobody could end it."""
    (tmp_path / "run").mkdir()
    actor = RunFilesActor(str(tmp_path / "run"), 3, 0.0)
    actor.call(0, "append_version", line(1))
    assert actor.call(1, "read").files["versions.jsonl"] == lines(1).encode()
    with pytest.raises(OSError, match="another learner has taken over the run directory"):
        actor.call(0, "append_version", line(2))
    actor.call(1, "append_version", line(2))


def test_files_of_no_checkpoint_are_refused(files: Faulty, tmp_path: Path) -> None:
    training = learner(files, tmp_path / "learner")
    learn(training, 5)
    training.checkpoint()
    training.close()
    good = read_files(tmp_path / "run" / "checkpoints" / "000000005")
    for bad in ({}, {name: data for name, data in good.items() if name != MANIFEST}, {**good, "../evil.bin": b"x"},
                {**good, "more.bin": b"x"}):
        with pytest.raises(OSError, match="a checkpoint of step 5 is not whole"):
            files.write_checkpoint(5, bad)
    with pytest.raises(OSError, match="a checkpoint of step 6 is not whole"):
        files.write_checkpoint(6, good)
    assert read_files(tmp_path / "run" / "checkpoints" / "000000005") == good
    assert not (tmp_path / "evil.bin").exists()


def test_a_run_directory_with_damaged_checkpoints_alone_is_an_error(files: Faulty, tmp_path: Path) -> None:
    training = learner(files, tmp_path / "learner")
    learn(training, 5)
    training.checkpoint()
    training.close()
    (tmp_path / "run" / "checkpoints" / "000000005" / "facts.json").write_text("{}")
    (tmp_path / "other").mkdir()
    with pytest.raises(ResumeError, match=r"no checkpoint in .* is whole: .*facts\.json"):
        RunMirror(files, tmp_path / "other")
