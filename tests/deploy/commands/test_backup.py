"""Backup and restore of real runs: one that plays on a cluster, one in one process, and what is refused."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from cluster_process import ClusterProcess, doubled
from local_runs import Questions

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.errors import UsageError
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.commands import backup as command
from shusaku.deploy.commands.backup import backup, restore
from shusaku.deploy.local.driver import LocalRun
from shusaku.deploy.run.archive import ArchiveWriter
from shusaku.deploy.run.learner_start import check_learner_start, load_learner_start
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunIdentity, RunProgress
from shusaku.deploy.run.window_copy import WindowFacts
from shusaku.learner.checkpoints import load_latest

SMALL = [
    "experiment=tic_tac_toe", "actors.count=1", "actors.games_per_actor=4", "search.simulations=4",
    "search.considered_actions=4", "replay.minimum=60", "replay.capacity=5000", "learner.batch_size=16",
    "learner.publish_every=4", "learner.threads=1", "network.filters=4", "network.blocks=1", "strength.enabled=false",
    "rater.enabled=false",
]


def train(directory: Path, questions: int) -> dict[str, int]:
    """One process, for so long; its totals at the end."""
    config = compose([*SMALL, f"run.dir={directory}"])
    with RunDirectory(config) as opened:
        run = LocalRun(config, opened, Questions(questions), [PseudoRandomEvaluator(Game("tic_tac_toe"), 8)])
        try:
            run.train()
            return {"games": run.games.stored, "step": run.training.learner.step_count,
                    "version": run.training.versions.newest}
        finally:
            run.close()


# --- one process -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["backup", "backup.tar"])
def test_a_run_in_one_process_goes_on_from_its_backup(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = train(tmp_path / "run", 300)
    assert before["step"] > 0
    assert main(["backup", f"to={tmp_path / name}", f"run.dir={tmp_path / 'run'}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {key: told[key] for key in ("games", "step")} == {key: before[key] for key in ("games", "step")}
    shutil.rmtree(tmp_path / "run")
    assert main(["restore", f"from={tmp_path / name}", f"run.dir={tmp_path / 'again'}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["games"], told["wiring"]) == (before["games"], "local")
    found = load_latest(tmp_path / "again" / "checkpoints")
    assert found is not None
    assert found.checkpoint.step == before["step"]
    after = train(tmp_path / "again", 300)
    assert after["games"] >= before["games"]
    assert after["step"] > before["step"]
    assert after["version"] > before["version"]
    lines = (tmp_path / "again" / "versions.jsonl").read_text().splitlines()
    versions = [json.loads(line)["version"] for line in lines]
    assert versions == sorted(set(versions))


def test_what_the_run_was_given_comes_with_it(tmp_path: Path) -> None:
    """Weights and games that it still needs when their source is gone; its rows begin with those of another run."""
    train(tmp_path / "first", 300)
    train(tmp_path / "run", 300)
    run, again = tmp_path / "run", tmp_path / "again"
    words = [*SMALL, f"learner.start={tmp_path / 'first'}"]
    load_learner_start(compose([*words, f"run.dir={run}"]), run)
    given = ["reinforce/start.safetensors", "reinforce/pool/00000001.safetensors", "policies/one.safetensors",
             "imported/00000000.records", "precision.json"]
    for number, name in enumerate(given):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(bytes([number]) * 99)
    (run / "reinforce" / "pool" / ".00000051.part").write_bytes(b"half")
    backup(str(tmp_path / "to"), compose([*SMALL, f"run.dir={run}"]), as_json=True)
    shutil.rmtree(tmp_path / "first")
    restore(str(tmp_path / "to"), compose([*SMALL, f"run.dir={again}"]), as_json=True)
    assert [(again / name).read_bytes() for name in given] == [(run / name).read_bytes() for name in given]
    assert [path.name for path in (again / "reinforce" / "pool").iterdir()] == ["00000001.safetensors"]
    check_learner_start(compose([*words, f"run.dir={again}"]))


def test_no_file_names_what_came_after_the_copy_of_what_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver saves its progress every few seconds: that of a later moment would count games as lost."""
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    RunIdentity.of(run, "run-1").next_epoch(0)
    progress = RunProgress(replay={"boot": "b", "games": 10, "stored": 10})
    progress.save(run)

    def copy_window(*_: object) -> WindowFacts:
        replace(progress, replay={"boot": "b", "games": 30, "stored": 30}).save(run)
        return WindowFacts(20, 20, 20, 1)

    def copy(archive: ArchiveWriter, name: str, source: Path, length: int | None = None) -> str:
        copied.append(name)
        return really_copy(archive, name, source, length)

    copied: list[str] = []
    really_copy = ArchiveWriter.copy
    found = SimpleNamespace(checkpoint=SimpleNamespace(facts={"local": None, "version": 1}, step=5))
    monkeypatch.setattr(command, "_copy_checkpoint", lambda *_: found)
    monkeypatch.setattr(command, "_copy_window", copy_window)
    monkeypatch.setattr(ArchiveWriter, "copy", copy)
    for name in ("gate.jsonl", "best.safetensors"):
        (run / name).write_bytes(b"{}")
    backup(str(tmp_path / "to"), compose([*SMALL, f"run.dir={run}"]), as_json=True)
    assert RunProgress.load(tmp_path / "to").replay["games"] == 10
    assert copied.index("gate.jsonl") < copied.index("best.safetensors"), "a decision never comes without its version"


def test_what_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    config = compose([*SMALL, f"run.dir={tmp_path / 'run'}"])
    with pytest.raises(UsageError, match="no run with a checkpoint"):
        backup(str(tmp_path / "to"), config, as_json=True)
    train(tmp_path / "run", 300)
    backup(str(tmp_path / "to"), config, as_json=True)
    with pytest.raises(UsageError, match="exists"):
        backup(str(tmp_path / "to"), config, as_json=True)
    with pytest.raises(UsageError, match="is not empty"):
        restore(str(tmp_path / "to"), config, as_json=True)
    config = compose([*SMALL, f"run.dir={tmp_path / 'again'}"])
    weights = tmp_path / "to" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00\x01")
    with pytest.raises(UsageError, match=r"weights\.safetensors differs"):
        restore(str(tmp_path / "to"), config, as_json=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "to"]


@pytest.mark.parametrize(("words", "message"), [
    (["backup", "run.dir=x"], "backup: missing to=PATH"), (["restore", "from="], "restore: missing from=PATH"),
    (["backup", "to=a", "to=b"], "backup: more than one to=PATH"),
    (["restore", "from=missing", "run.dir=x"], "no such file"),
])
def test_words_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# --- a cluster -------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[ClusterProcess]]:
    runs: list[ClusterProcess] = []
    yield runs
    for run in runs:
        run.close()


@pytest.mark.faults
@pytest.mark.timeout(400)
def test_a_backup_of_a_run_that_plays_is_restored_elsewhere(tmp_path: Path, runs: list[ClusterProcess]) -> None:
    """No game that Redis had acknowledged before is missing, none is there twice; steps and versions go on."""
    run = ClusterProcess(tmp_path / "run", "actors.count=1", "actors.cpus=0.5")
    runs.append(run)
    run.until_learning()
    before = run.counters()["games"]
    version = run.control.newest_version()
    done = run.command("backup", f"to={tmp_path / 'backup.tar'}", "--json", seconds=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["games"] >= before
    assert told["version"] >= version
    after = run.counters()["games"]
    assert told["games"] <= after
    run.until(lambda s: s["status"]["games"] > after, 60, "it plays on")
    kept = {number: record.game_id for number, record in run.records().items() if number <= told["games"]}
    assert run.stop() == 143
    words = ["restore", f"from={tmp_path / 'backup.tar'}", f"run.dir={tmp_path / 'new'}"]
    done = subprocess.run([sys.executable, "-m", "shusaku", *words], capture_output=True, text=True, check=False,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert "shusaku train config=" in done.stdout
    again = ClusterProcess(tmp_path / "new", "actors.count=1", "actors.cpus=0.5")
    runs.append(again)
    again.until(lambda s: s["status"]["step"] > told["step"] + 20 and s["status"]["games"] > told["games"], 90, "more")
    assert again.resumed_steps()[0] == told["step"]
    found = {number: record.game_id for number, record in again.records().items()}
    assert {number: name for number, name in found.items() if number <= told["games"]} == kept
    assert doubled(found.values()) == []
    assert again.check_games() > told["games"]
    published = again.published()
    assert published == sorted(set(published))
    assert published[-1] > told["version"]
    assert again.stop() == 143
