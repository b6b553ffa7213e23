"""One process from end to end: the same seed, the same games; stopped and resumed, the same games too."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from local_runs import KeptRun, Questions, parameters, train_until

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.self_play import SelfPlay
from shusaku.common._core import Game
from shusaku.common.codec import decode_record
from shusaku.common.errors import ResumeError, UsageError
from shusaku.common.metrics import read_metrics
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.local.driver import LocalRun
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.learner.checkpoints import newest_step
from shusaku.replay.record_log import RecordLog

SMALL = [
    "experiment=tic_tac_toe", "actors.count=2", "actors.games_per_actor=8", "search.simulations=8",
    "search.considered_actions=8", "replay.minimum=200", "replay.capacity=3000", "replay.window=fixed",
    "learner.batch_size=32", "learner.publish_every=4", "learner.threads=1", "network.filters=8", "network.blocks=1",
    "strength.enabled=false", "rater.enabled=false", "run.minutes=5", "self_play.random_plies=3",
]


STARTING = "shusaku local: starting\n"  # if it takes longer than a moment


def pseudo_random_evaluators() -> list[PseudoRandomEvaluator]:
    return [PseudoRandomEvaluator(Game("tic_tac_toe"), 8) for _ in range(2)]


def train(directory: Path, questions: float, rows: int, *overrides: str, scripted: bool = True) -> KeptRun:
    """Trains until `rows` rows were played, or until the run has asked `questions` times whether to stop."""
    evaluators = pseudo_random_evaluators() if scripted else None
    return train_until([*SMALL, f"run.dir={directory}", *overrides], questions,
                       lambda run: run.buffer.stats().inserted >= rows, evaluators)


def games_of(directory: Path) -> dict[int, list[tuple[int, ...]]]:
    """Actor -> its games in order, as actions, outcome and versions."""
    games: dict[int, list[tuple[int, ...]]] = {}
    for data in RecordLog(directory / "records").iterate():
        record = decode_record(data)
        assert record.game_id.sequence == len(games.setdefault(record.game_id.actor, []))  # none lost, none twice
        games[record.game_id.actor].append((*record.actions.tolist(), record.outcome, *record.versions.tolist()))
    return games


def test_the_same_seed_gives_the_same_games_and_the_same_network(tmp_path):
    one = train(tmp_path / "one", 1e9, 1500, scripted=False)
    two = train(tmp_path / "two", 1e9, 1500, scripted=False)
    assert games_of(tmp_path / "one") == games_of(tmp_path / "two")
    assert np.array_equal(parameters(one), parameters(two))
    assert one.training.learner.step_count > 20
    train(tmp_path / "other", 1e9, 1500, "run.seed=2", scripted=False)
    assert games_of(tmp_path / "other") != games_of(tmp_path / "one")


@pytest.mark.parametrize("questions", [[3], [40, 75], [300, 20, 500]])
def test_stopped_and_resumed_plays_the_games_of_a_run_that_was_not(tmp_path, questions):
    overrides = ["search.cache=0", "self_play.random_plies=2"]
    whole = train(tmp_path / "whole", 1e9, 1500, *overrides)
    for stop in questions:
        train(tmp_path / "parts", stop, 1500, *overrides)
    parts = train(tmp_path / "parts", 1e9, 1500, *overrides)
    assert games_of(tmp_path / "parts") == games_of(tmp_path / "whole")
    assert parts.training.learner.step_count == whole.training.learner.step_count
    assert np.array_equal(parameters(parts), parameters(whole))
    assert parts.buffer.stats().sampled == whole.buffer.stats().sampled
    assert parts.training.versions.newest == whole.training.versions.newest


def test_metrics_of_a_resumed_run_begin_at_its_checkpoint(tmp_path: Path) -> None:
    step = train(tmp_path, 1e9, 600).training.learner.step_count
    before = len(list(read_metrics(tmp_path / "metrics.jsonl")))
    train(tmp_path, 1e9, 900)
    later = list(read_metrics(tmp_path / "metrics.jsonl"))[before:]
    assert len(later) > 1
    assert min(metrics.step for metrics in later) >= step > 0


def test_the_threshold_of_resignation_survives_a_restart(tmp_path):
    resigns = ["self_play.resign_errors=0.3", "self_play.never_resign_share=0.5"]
    first = train(tmp_path, 1e9, 4000, *resigns)
    before = [actor.resign_value for actor in first.actors]
    assert all(-1 < value < -0.699 for value in before), "over 100 games of each actor were played on"
    line = list(read_metrics(tmp_path / "metrics.jsonl", "self_play"))[-1].values
    assert line["resign_value"] == pytest.approx(statistics.median(before))
    assert line["played_on"] == first._totals()["played_on"] > 100
    assert 0 < line["resigned_share"] < 1
    assert 0 <= line["wrongly_resigned_share"] < 1
    same = train(tmp_path, 0, 4000, *resigns)
    assert [actor.resign_value for actor in same.actors] == before, "the open games brought it"
    # The open games of another number of games begin anew, with the threshold of the run.
    other = train(tmp_path, 0, 4000, *resigns, "actors.games_per_actor=4")
    assert any("begin anew" in line for line in other.lines)
    assert [actor.resign_value for actor in other.actors] == pytest.approx([statistics.median(before)] * 2)
    assert other.view().resign_value == pytest.approx(statistics.median(before))


def test_games_after_the_checkpoint_are_dropped_and_played_again(tmp_path):
    """What a kill leaves behind: records that no checkpoint names, half a frame, a torn line."""
    whole = train(tmp_path / "whole", 1e9, 1500, "search.cache=0")
    train(tmp_path / "killed", 200, 1500, "search.cache=0")
    log = RecordLog(tmp_path / "killed" / "records")
    log.append(list(RecordLog(tmp_path / "whole" / "records").iterate())[:5])
    log.close()
    newest = max((tmp_path / "killed" / "records").iterdir())
    newest.write_bytes(newest.read_bytes() + b"\x10\0\0\0half a frame")
    with (tmp_path / "killed" / "versions.jsonl").open("a") as file:
        file.write('{"version": 9')
    killed = train(tmp_path / "killed", 1e9, 1500, "search.cache=0")
    assert games_of(tmp_path / "killed") == games_of(tmp_path / "whole")
    assert np.array_equal(parameters(killed), parameters(whole))


def test_versions_never_repeat_after_a_fall_back_to_an_older_checkpoint(tmp_path):
    train(tmp_path / "run", 1e9, 600, "run.checkpoint_seconds=0.01")
    checkpoints = sorted((tmp_path / "run" / "checkpoints").iterdir())
    assert len(checkpoints) >= 2
    damaged = checkpoints[-1] / "average.safetensors"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    run = train(tmp_path / "run", 1e9, 1200)
    assert any("average.safetensors" in line and "SHA-256" in line for line in run.lines)
    lines = [json.loads(line) for line in (tmp_path / "run" / "versions.jsonl").read_text().splitlines()]
    versions = [line["version"] for line in lines]
    assert versions == sorted(set(versions))
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        (checkpoint / "manifest.json").write_text("{}")
    with pytest.raises(ResumeError, match=r"no checkpoint in .* is whole"):
        train(tmp_path / "run", 1e9, 1300)


def test_a_network_that_diverges_is_rolled_back_and_never_published(tmp_path):
    train(tmp_path / "run", 1e9, 600)
    config = compose([*SMALL, f"run.dir={tmp_path / 'run'}"])
    with RunDirectory(config) as opened:
        run = LocalRun(config, opened, Questions(1e9), pseudo_random_evaluators())
        run.is_over = lambda: run.buffer.stats().inserted >= 900  # type: ignore[method-assign]
        for parameter in run.training.learner.network.parameters():
            parameter.data.fill_(float("nan"))
        run.train()
        assert run.training.report().rollbacks >= 1
        assert run.training.learner.skipped_steps >= 1
        assert np.isfinite(parameters(run)).all()
        assert run.training.learner.step_count > 0
        run.close()


def shusaku(*arguments: str, **options: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "shusaku", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.05)


def steps_of(directory: Path) -> int:
    return max((m.step for m in read_metrics(directory / "metrics.jsonl", "learner")), default=0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_ends_in_a_checkpoint_within_25_seconds(tmp_path, number, code):
    process = shusaku("local", *SMALL, f"run.dir={tmp_path}")
    wait_for(lambda: steps_of(tmp_path) >= 8)
    begin = time.monotonic()
    process.send_signal(number)
    assert process.wait(25) == code, process.communicate()
    assert time.monotonic() - begin < 25
    assert (tmp_path / "weights.safetensors").exists()
    again = shusaku("local", *SMALL, f"run.dir={tmp_path}")
    output = []
    while not any("goes on after" in line for line in output):
        line = again.stdout.readline()
        assert line, output
        output.append(line)
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=25)


@pytest.mark.parametrize("reader", ["a full disk", "a closed pipe"])
def test_a_run_outlives_its_stdout(tmp_path, reader):
    if reader == "a full disk":
        stdout = os.open("/dev/full", os.O_WRONLY)
    else:
        end, stdout = os.pipe()
        os.close(end)
    try:
        command = [sys.executable, "-m", "shusaku", "local", *SMALL, "run.minutes=0.05", f"run.dir={tmp_path}"]
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    finally:
        os.close(stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "weights.safetensors").exists()
    assert steps_of(tmp_path) > 0


def test_a_kill_at_any_time_costs_no_more_than_the_last_checkpoint(tmp_path):
    killed_at = []
    for _ in range(4):
        process = shusaku("local", *SMALL, "run.checkpoint_seconds=0.3", f"run.dir={tmp_path}")
        before = steps_of(tmp_path)
        wait_for(lambda: (tmp_path / "checkpoints").is_dir() and any((tmp_path / "checkpoints").glob("0*")))
        wait_for(lambda before=before: steps_of(tmp_path) > before)
        time.sleep(0.1 * len(killed_at))
        process.kill()
        process.wait()
        killed_at.append(steps_of(tmp_path))
    process = shusaku("local", *SMALL, f"run.dir={tmp_path}", "run.minutes=0.001")
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0, output
    assert "goes on after" in output
    games_of(tmp_path)  # checks that no sequence number is missing or there twice


class Gone(PseudoRandomEvaluator):
    """Is refused after so many calls, as an evaluator whose GPU has gone."""

    def __init__(self, calls: int) -> None:
        super().__init__(Game("tic_tac_toe"), 8)
        self.calls = calls

    def __call__(self, leaves):
        self.calls -= 1
        if self.calls < 0:
            raise UsageError("inference.device=cuda: there is no GPU")
        return super().__call__(leaves)


def test_what_was_learned_outlives_a_refusal(tmp_path):
    """A new directory is removed only if its first start is refused; hours later all the work of a run is in it."""
    config = compose([*SMALL, f"run.dir={tmp_path / 'run'}", "actors.count=1"])

    def train(calls: int) -> None:
        with RunDirectory(config) as opened:
            run = LocalRun(config, opened, Questions(1e9), [Gone(calls)])
            try:
                run.train()
            finally:
                run.close()

    for calls, is_kept in [(0, False), (20_000, True)]:
        with pytest.raises(UsageError, match="no GPU"):
            train(calls)
        assert (tmp_path / "run").exists() == is_kept
    assert any(True for _ in RecordLog(tmp_path / "run" / "records").iterate())


def test_an_actor_that_comes_back_goes_on_counting_its_games(tmp_path):
    """On four cores, then on two, then on four: games with the numbers of earlier ones would be dropped as the same."""
    words = [*SMALL, f"run.dir={tmp_path}"]
    for actors, rows in [(2, 600), (1, 900), (2, 1500)]:
        run = train_until([*words, f"actors.count={actors}"], 1e9,
                          lambda run, rows=rows: run.buffer.stats().inserted >= rows,
                          pseudo_random_evaluators()[:actors])
        assert run.buffer.stats().duplicates == 0
    assert games_of(tmp_path)[1]


def test_a_second_process_on_the_same_directory_is_refused(tmp_path):
    first = shusaku("local", *SMALL, f"run.dir={tmp_path}")
    wait_for(lambda: (tmp_path / "metrics.jsonl").exists())
    second = shusaku("local", *SMALL, f"run.dir={tmp_path}")
    output = second.communicate(timeout=60)[0]
    assert second.returncode == 2
    assert "in use by process" in output
    assert len(output.removeprefix(STARTING).splitlines()) == 1
    first.send_signal(signal.SIGINT)
    assert first.wait(25) == 130


def test_a_run_directory_without_a_good_checkpoint_exits_with_3(tmp_path):
    train(tmp_path, 1e9, 400)
    for checkpoint in (tmp_path / "checkpoints").iterdir():
        (checkpoint / "facts.json").write_bytes(b"")
    process = shusaku("local", *SMALL, f"run.dir={tmp_path}", env={**os.environ, "COLUMNS": "200"})
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 3, output
    assert "facts.json has 0 bytes" in output
    assert len(output.removeprefix(STARTING).splitlines()) == 1


def test_no_checkpoint_counts_games_that_the_disk_did_not_take(tmp_path, monkeypatch):
    """A resume from it would miss them; they wait, and the next checkpoint has them all."""
    config = compose([*SMALL, f"run.dir={tmp_path}"])
    with RunDirectory(config) as opened:
        run = LocalRun(config, opened, Questions(1e9), pseudo_random_evaluators())
        run.training.begin_turns(run.signals.should_stop)

        def full(records: list[bytes]) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as disk:
            disk.setattr(run.games.log, "append", full)
            run.play_turn()
            run.checkpoint()
            assert not (tmp_path / "checkpoints").exists()
        run.checkpoint()
        inserted = run.buffer.stats().inserted
        run.close()
    assert sum(decode_record(d).num_rows for d in RecordLog(tmp_path / "records").iterate()) == inserted > 0
    with RunDirectory(config) as opened:
        evaluators = pseudo_random_evaluators()
        resumed = LocalRun(config, opened, Questions(1e9), evaluators)
        assert resumed.buffer.stats().rows == inserted
        resumed.close()


def test_a_run_ends_after_so_many_evaluations_also_when_resumed(tmp_path: Path) -> None:
    games_at_once = 2 * 8
    for limit in (1500, 4000):  # the second goes on with the first
        config = compose([*SMALL, f"run.dir={tmp_path}", f"run.evaluations={limit}"])
        with RunDirectory(config) as opened:
            evaluators = pseudo_random_evaluators()
            run = LocalRun(config, opened, Questions(float("inf")), evaluators)
            before = run.evaluations
            run.train()
            counted = sum(actor.counters()["evaluations"] for actor in run.actors)
            run.close()
        assert 0.8 * limit <= run.evaluations < limit + games_at_once  # an actor may wait for the other's rows
        assert run.evaluations == before + counted
        assert run.finish()["evaluations"] == run.evaluations


def test_the_trees_of_a_stranger_never_reach_the_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are memory as it was, and a copied run directory may hold anything; the games go on from their moves."""
    directory = tmp_path / "run"
    train(directory, 400, 10**9)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))

    def refuse(player: SelfPlay, snapshot: bytes) -> None:
        raise AssertionError("the core was given a stranger's memory")

    with monkeypatch.context() as core:
        core.setattr(SelfPlay, "restore", refuse)
        again = train(directory, 400, 10**9)
    (line,) = [line for line in again.lines if "begin anew" in line]
    assert "another user saved them" in line
    assert "games go on from their moves, without their trees" in line
    games_of(directory)


def test_open_games_go_on_when_the_number_of_parallel_games_changes(tmp_path: Path) -> None:
    """Without their trees, which fit no longer; the longest ones, and those that had no search yet begin anew."""
    directory = tmp_path / "run"
    first = train(directory, 400, 10**9)
    open_games = [[tuple(game.record.actions.tolist()) for game in actor.open_games()] for actor in first.actors]
    kept = [sorted(games, key=len, reverse=True)[:5] for games in open_games]
    again = train(directory, 400, 10**9, "actors.games_per_actor=5")
    (line,) = [line for line in again.lines if "begin anew" in line]
    assert f"{sum(map(len, kept))} games go on from their moves, without their trees" in line
    later = [[tuple(game.record.actions.tolist()) for game in actor.open_games()] for actor in again.actors]
    for data in RecordLog(directory / "records").iterate():
        record = decode_record(data)
        later[record.game_id.actor].append(tuple(record.actions.tolist()))
    for actor, games in enumerate(kept):
        assert games
        assert all(any(moves == game[: len(moves)] for game in later[actor]) for moves in games)
    games_of(directory)


def test_the_steps_of_a_run_end_it_and_a_larger_number_goes_on(tmp_path: Path) -> None:
    """The command itself: exit 0, a checkpoint of the last step, a summary; the same command has nothing left to do."""
    command = [sys.executable, "-m", "shusaku", "local", *SMALL, f"run.dir={tmp_path}", "--json"]
    done = subprocess.run([*command, "learner.steps=10"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == 10
    assert "all 10 steps are made, go on with learner.steps=20" in done.stderr + done.stdout
    assert newest_step(tmp_path / "checkpoints") == 10
    again = subprocess.run([*command, "learner.steps=10"], capture_output=True, text=True, timeout=120)
    assert (again.returncode, json.loads(again.stdout.splitlines()[-1])["steps"]) == (0, 10), again.stderr
    more = subprocess.run([*command, "learner.steps=14"], capture_output=True, text=True, timeout=120)
    assert (more.returncode, json.loads(more.stdout.splitlines()[-1])["steps"]) == (0, 14), more.stderr
