"""One run directory, two wirings: what was played and learned in one of them goes on in the other."""

import json
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.codec import decode_record
from shusaku.common.config.schema import Config, config_hash
from shusaku.common.errors import ResumeError, UsageError
from shusaku.common.messages import GameRecord
from shusaku.common.network import fingerprint
from shusaku.common.network.row_labels import row_labels
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.local.driver import LocalRun
from shusaku.deploy.match.match import run as match
from shusaku.deploy.run.change_over import is_of_one_process, move_to_stream
from shusaku.deploy.run.chosen_weights import find_weights
from shusaku.deploy.run.old_formats import migrate_checkpoints
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunIdentity, RunProgress
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.learner.checkpoints import Checkpoint, load_checkpoint, load_latest, write_checkpoint
from shusaku.learner.training_loop import FORMAT, TrainingLoop
from shusaku.replay.backends import make_buffer
from shusaku.replay.record_log import RecordLog
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer

SMALL = [
    "experiment=connect_four", "actors.count=2", "actors.games_per_actor=4", "search.simulations=4",
    "search.considered_actions=4", "replay.minimum=300", "replay.capacity=20000", "replay.window=fixed",
    "replay.megabytes=32", "learner.batch_size=32", "learner.publish_every=4", "learner.threads=1",
    "network.filters=4", "network.blocks=1", "strength.enabled=false",
    "rater.enabled=false", "run.minutes=5", "run.checkpoint_seconds=0",
]
OLD_RUNS = Path(__file__).resolve().parents[2] / "fixtures" / "old_runs"


def run_local(config: Config, rows: int) -> tuple[LocalRun, list[str]]:
    """`shusaku local` until the run has seen so many rows; what it logged."""
    lines: list[str] = []
    with RunDirectory(config) as directory:
        game = Game("connect_four")
        run = LocalRun(config, directory, StopSignals(), [PseudoRandomEvaluator(game, 8) for _ in range(2)])
        run.console.log = lines.append  # type: ignore[method-assign]
        run.is_over = lambda: run.buffer.stats().inserted >= rows  # type: ignore[method-assign]
        run.train()
        run.close()
    return run, lines


class Cluster:
    """The parts of `shusaku train` in this process: Redis, the learner's loop and an actor, without Ray."""

    def __init__(self, config: Config) -> None:
        self.config, self.directory = config, Path(config.run.dir)
        self.server = EmbeddedServer(self.directory / "redis", max_megabytes=32)
        self.server.start()
        self.identity = RunIdentity.of(self.directory)
        control = RedisControl(self.server.url, self.identity.run_id)
        self.notes: list[str] = []
        try:
            move_to_stream(self.directory, config, self.server.url, self.identity, self.notes.append)
        except BaseException:
            self.server.stop()
            raise
        self.epoch = self.identity.next_epoch(control.newest_epoch())
        control.begin(self.epoch, capacity=config.replay.capacity, max_bytes=1 << 25, actors=1, limit=-1)
        self.game = Game("connect_four")
        self.buffer: Any = make_buffer(
            "redis", self.game, config.replay, batch_size=32, labels=row_labels(self.game, config.learner),
            url=self.server.url, run_id=self.identity.run_id, epoch=self.epoch, config_hash=config_hash(config),
        )
        self.control = control
        self.training = TrainingLoop(
            config, self.game, self.buffer, self.directory, config_hash=config_hash(config)
        )

    def play(self, rows: int) -> None:
        actor = SelfPlay(
            self.game, self.config.search, self.config.self_play, PseudoRandomEvaluator(self.game, 8), games=4, seed=5,
            identity=ActorIdentity(0, self.epoch), config_hash=config_hash(self.config),
        )
        for record in actor.play(rows):
            self.buffer.append(record)

    def learn(self, is_done: Callable[[], bool]) -> None:
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self.training.run()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        deadline = threading.Event()
        for _ in range(2000):
            if is_done() or errors:
                break
            deadline.wait(0.01)
        self.training.stop()
        thread.join(20)
        assert errors == []
        assert is_done()

    def records(self) -> list[GameRecord]:
        client: Any = connect(self.server.url)
        entries = client.xrange(RunKeys.of(self.identity.run_id).games)
        return [decode_record(fields[b"d"]) for _, fields in entries]

    def close(self) -> None:
        self.training.close()
        self.buffer.close()
        self.server.stop()


def names(records: list[GameRecord]) -> list[tuple[int, ...]]:
    """Which games, in their order; each of them once."""
    ids = [tuple(record.game_id) for record in records]
    assert len(set(ids)) == len(ids)
    return ids


def records_of(directory: Path) -> list[GameRecord]:
    return [decode_record(data) for data in RecordLog(directory / "records").iterate()]


def versions_of(directory: Path) -> list[int]:
    return [json.loads(line)["version"] for line in (directory / "versions.jsonl").read_text().splitlines()]


def facts_of(directory: Path) -> dict[str, Any]:
    found = load_latest(directory / "checkpoints")
    assert found is not None
    return found.checkpoint.facts


def test_a_run_moves_to_a_cluster_and_back(tmp_path: Path) -> None:
    """Steps go on where they stopped, versions rise, and every finished game stays in the window."""
    config = compose([*SMALL, f"run.dir={tmp_path}"])
    local, _ = run_local(config, 900)
    stopped = local.training.report()
    played = names(records_of(tmp_path))
    assert stopped.step > 0

    cluster = Cluster(config)
    try:
        assert not is_of_one_process(tmp_path)
        assert f"{len(played):,} games of `shusaku local` were copied into Redis" in cluster.notes[0]
        begun = cluster.training.report()
        assert begun.step == stopped.step
        assert (begun.replay.inserted, begun.replay.rows) == (stopped.replay.inserted, stopped.replay.rows)
        assert facts_of(tmp_path)["replay"]["sampled"] == stopped.replay.sampled
        assert begun.replay.quarantined == {}
        assert names(cluster.records()) == played
        assert cluster.control.counters()["inserted"] == stopped.replay.inserted
        assert cluster.control.counters()["games"] == local.games.stored
        cluster.play(600)
        cluster.learn(lambda: cluster.training.report().step >= begun.step + 8)
        cluster.play(50)  # after the last checkpoint
        all_played = names(cluster.records())
        in_cluster = cluster.training.report()
        counters = cluster.control.counters()
    finally:
        cluster.close()
    assert all_played[:len(played)] == played
    assert len(all_played) > len(played)

    again, lines = run_local(config, counters["inserted"] + 300)
    assert f"learning goes on after {in_cluster.step:,} steps" in "\n".join(lines)
    in_log = names(records_of(tmp_path))
    assert in_log[:len(all_played)] == all_played
    assert len(in_log) > len(all_played)
    after = again.training.report()
    assert after.step > in_cluster.step
    assert after.replay.inserted == sum(record.num_rows for record in records_of(tmp_path))
    assert after.replay.sampled == 32 * after.step
    assert again.games.stored == len(in_log)
    assert versions_of(tmp_path) == list(range(1, len(versions_of(tmp_path)) + 1))
    assert facts_of(tmp_path)["local"]["epoch"] > cluster.epoch


def test_finished_games_of_a_stopped_turn_are_not_lost(tmp_path: Path) -> None:
    config = compose([*SMALL, f"run.dir={tmp_path}"])
    with RunDirectory(config) as directory:
        game = Game("connect_four")
        run = LocalRun(config, directory, StopSignals(), [PseudoRandomEvaluator(game, 8) for _ in range(2)])
        run.training.begin_turns(lambda: False)
        assert not run.games.end_turn([actor.play(30) for actor in run.actors], [100, 100])
        run.checkpoint()
        run.close()
    assert records_of(tmp_path) == []
    cluster = Cluster(config)
    try:
        finished = cluster.records()
        assert len(finished) >= 2
        rows = sum(record.num_rows for record in finished)
        cluster.learn(lambda: cluster.training.report().replay.inserted == rows)
        assert cluster.training.report().replay.quarantined == {}
    finally:
        cluster.close()


def test_an_interrupted_change_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose([*SMALL, f"run.dir={tmp_path}"])
    run_local(config, 600)
    played = names(records_of(tmp_path))

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("shusaku.deploy.run.change_over.write_checkpoint", full)
        with pytest.raises(OSError, match="No space left"):
            Cluster(config)
    assert is_of_one_process(tmp_path)
    cluster = Cluster(config)
    try:
        assert names(cluster.records()) == played
        assert cluster.training.report().replay.rows == sum(record.num_rows for record in cluster.records())
    finally:
        cluster.close()


# --- the formats before ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["local", "cluster"])
def older_planes_run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run directory as the program before the common format wrote it (commit 1e2d214)."""
    with tarfile.open(OLD_RUNS / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / str(request.param)


@pytest.fixture
def old_run(older_planes_run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as if it were of a game whose planes are still those of then."""
    monkeypatch.setattr(fingerprint, "CHANGED", {})
    return older_planes_run


def test_a_run_of_tic_tac_toe_with_the_planes_of_before_is_refused(older_planes_run: Path) -> None:
    why = r"weights of tic_tac_toe that were trained with other planes \(the plane of the turn is 1 for X now"
    config = compose(["experiment=tic_tac_toe", *OLD_SETTINGS, f"run.dir={older_planes_run}"])
    with RunDirectory(config) as directory, pytest.raises(UsageError, match=f"run.dir={older_planes_run}: {why}"):
        LocalRun(config, directory, StopSignals())
    for name in (older_planes_run, older_planes_run / "weights.safetensors"):
        with pytest.raises(UsageError, match=f"checkpoint={name}: {why}"):
            find_weights(config, "checkpoint", str(name))


def test_an_old_run_is_migrated(old_run: Path) -> None:
    before = facts_of(old_run)
    known = {"local": 1, "cluster": 2}[old_run.name]
    assert before["format"] == known
    lines: list[str] = []
    for _ in range(2):
        migrate_checkpoints(old_run, lines.append)
        assert lines == [f"checkpoints of format {known} were rewritten in format {FORMAT}"]
    after = facts_of(old_run)
    assert after["learner"] == before["learner"]
    assert after["replay"] == before["replay"]
    assert (after["local"] is not None) == (old_run.name == "local")
    assert RunProgress.load(old_run).seconds > 0


def test_an_old_run_goes_on_in_one_process(old_run: Path) -> None:
    steps, before = facts_of(old_run)["learner"]["step"], facts_of(old_run)["replay"]
    newest = max(versions_of(old_run))
    config = compose(["experiment=tic_tac_toe", *OLD_SETTINGS, f"run.dir={old_run}"])
    with RunDirectory(config) as directory:
        run = LocalRun(config, directory, StopSignals())
        report = run.training.report()
        assert report.step == steps
        assert report.replay.inserted >= before["inserted"]
        assert report.replay.sampled == before["sampled"]
        goal = report.replay.inserted + 60
        run.is_over = lambda: run.buffer.stats().inserted >= goal  # type: ignore[method-assign]
        run.train()
        assert run.training.report().step > steps
        run.close()
    assert versions_of(old_run) == sorted(set(versions_of(old_run)))
    assert max(versions_of(old_run)) > newest


OLD_SETTINGS = [
    "actors.count=1", "actors.games_per_actor=2", "search.simulations=150", "search.cache=0", "replay.minimum=20",
    "replay.capacity=600", "replay.window=fixed", "learner.batch_size=8", "learner.publish_every=4",
    "learner.threads=1", "network.filters=4", "network.blocks=1", "network.value_hidden=4", "strength.enabled=false",
    "rater.enabled=false",
    "run.keep_checkpoints=1", "run.checkpoint_seconds=0", "replay.samples_per_position=1", "run.seed=3",
    "replay.megabytes=16", "run.minutes=5",
]


def test_weights_and_checkpoints_of_old_runs_play(old_run: Path) -> None:
    (checkpoint,) = (old_run / "checkpoints").iterdir()
    result = match(compose([
        "games=2", f"first.checkpoint={checkpoint}", f"second.checkpoint={old_run / 'weights.safetensors'}",
        "first.search.simulations=4", "second.search.simulations=4", "actors.count=1",
    ]), True)
    assert result["games"] == 2
    assert facts_of(old_run)["format"] < FORMAT, "playing changes nothing"


def test_an_unknown_format_is_refused(old_run: Path) -> None:
    (facts,) = (old_run / "checkpoints").glob("*/facts.json")
    newest = load_checkpoint(facts.parent).checkpoint
    write_checkpoint(old_run / "checkpoints", Checkpoint(newest.step, newest.tensors, {**newest.facts, "format": 9}))
    with pytest.raises(ResumeError, match="has format 9, and this program reads 1 to 3: use the program that wrote it"):
        migrate_checkpoints(old_run, print)
