"""From reports to what is shown: which part limits, what a dead learner leaves, and the way to another terminal."""

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from fake_ray import Clock, death, install

from shusaku.actors.inference.stats import ServerStats
from shusaku.actors.remote import ServerReport
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.metrics import Rate, Share, TimeShares, read_metrics
from shusaku.common.resignation import NEVER_RESIGN
from shusaku.deploy.cluster.actor_totals import ActorTotals
from shusaku.deploy.cluster.status import list_processes, list_runtimes, view_workers
from shusaku.deploy.cluster.supervisor import Supervisor
from shusaku.deploy.cluster.workers import RayRole
from shusaku.deploy.commands import control as control_commands
from shusaku.deploy.run import run_status
from shusaku.deploy.run.console import Status, plain_line
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.deploy.run.run_status import MetricsWriter, StatusBuilder, prometheus_metrics, status_tree
from shusaku.deploy.run.run_view import FaultCounter, RunView
from shusaku.learner.sample_age import SAMPLE_AGE
from shusaku.learner.training_loop import TrainingReport
from shusaku.replay.buffer import ReplayStats
from shusaku.replay.stream.control import ActorMetrics, RedisControl
from shusaku.replay.stream.server import EmbeddedServer

STATS = ReplayStats(games=50, rows=400, window=1000, capacity=5000, inserted=450, sampled=900, deleted=50,
                    samples_per_position=2.0, throttled=False, waits_for="", accepted=50, duplicates=0, fenced=0,
                    other_epoch=0)


def report(step: int, learning: float = 0.0, waiting: float = 0.0, **fields: Any) -> TrainingReport:
    values: dict[str, Any] = {
        "step": step, "version": 1 + step // 10, "learning_seconds": learning,
        "waiting_seconds": waiting, "losses": {"policy": 1.5, "value": 0.25}, "metrics": {"learning_rate": 1e-3},
        "skipped_steps": 0, "refused_publications": 0, "rollbacks": 0, "saved_step": 0,
        "resident_megabytes": 300.0, "replay": STATS,
    }
    return TrainingReport(**(values | fields))


class Run:
    """A run on a cluster, with workers of a fake Ray: what its driver would see."""

    def __init__(self, directory: Path, clock: Clock, **groups: int) -> None:
        self.clock, self.directory = clock, directory
        self.config = Config()
        self.config.experiment, self.config.replay.minimum = "tic_tac_toe", 300
        self.identity = RunIdentity(directory / "run.json", "run-1", 3)
        self.supervisor = Supervisor(clock.monotonic)
        for name, count in groups.items():
            self.supervisor.register(RayRole(name, dict, lambda *_: ()), count)
        for _ in range(3):  # they are started, asked for a heartbeat, and heard
            self.supervisor.reconcile()
        self.totals = ActorTotals()
        self.faults = FaultCounter()
        self.report: TrainingReport | None = None
        self.actors, self.quarantined = groups["self_play"], 0
        self.troubles: tuple[str, ...] = ()
        self.resign_value = NEVER_RESIGN
        self.store: Any = SimpleNamespace(restarts=0, losses=0, pid=77)
        self.lines: list[str] = []
        self.builder = StatusBuilder(self.config, Game("tic_tac_toe"), directory)
        self.writer = MetricsWriter(directory, self.lines.append)

    def view(self) -> RunView:
        if self.report is not None:
            self.faults.update(self.report)
        return RunView(
            seconds=61.0, activity="playing and learning", version=8, games=self.totals.accepted,
            rows=self.totals.rows, totals={**self.totals.total, "rows": self.totals.rows}, report=self.report,
            faults=self.faults.totals, quarantined=self.quarantined, strength=((0.0, 0.25), (60.0, 0.875)),
            runtimes=list_runtimes(self.supervisor, self.totals), troubles=self.troubles,
            resign_value=self.resign_value,
            workers=view_workers(self.supervisor, self.totals, self.store, self.actors),
        )

    def status(self) -> Status:
        return self.builder.build(self.view())

    def write(self) -> None:
        view = self.view()
        self.writer.write(view, self.builder.build(view))

    def hear(self, **figures: Any) -> None:
        """Of actor 0, with the replay's counters beside it."""
        counters = {name: figures.pop(name, 0) for name in ("inserted", "bytes", "other_epoch", "squeezed")}
        self.totals.update({0: ActorMetrics(0, 0.0, msgpack.packb(figures))},
                           {"games": figures.get("games", 0), **counters})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    _, clock = install(monkeypatch, "workers")
    monkeypatch.setattr(run_status, "time", clock)
    for measure in (Rate, Share, TimeShares):
        monkeypatch.setattr(run_status, measure.__name__, partial(measure, clock=clock.monotonic))
    return Run(tmp_path, clock, learner=1, self_play=2, inference=2)


def go_on(run: Run, seconds: int, paused: float = 0.0, waiting: float = 0.0) -> str:
    """So many seconds in which actors pause, and the learner waits, these shares of their time; the last limit."""
    before = run.report
    totals = run.totals.total
    limit = ""
    for second in range(1, seconds + 1):
        run.clock.now += 1
        run.hear(playing_ms=totals.get("playing_ms", 0) + round(2000 * second * (1 - paused)),
                 paused_ms=totals.get("paused_ms", 0) + round(2000 * second * paused), games=second)
        if before is not None:
            run.report = report(
                before.step + second, before.learning_seconds + second * (1 - waiting),
                before.waiting_seconds + second * waiting,
            )
        limit = run.status().limit
    return limit


# --- who limits ------------------------------------------------------------------------------------------------------


def test_nothing_is_said_before_the_first_step(run: Run) -> None:
    assert go_on(run, 20) == ""
    run.report = report(0)
    assert run.status().limit == ""


@pytest.mark.parametrize(("paused", "waiting", "limit"), [
    (0.0, 0.0, "none: playing and learning keep step"),
    (0.09, 0.09, "none: playing and learning keep step"),
    (0.4, 0.0, "the learner: actors pause 40% of their time"),
    (0.4, 0.2, "the learner: actors pause 40% of their time"),
    (0.0, 0.6, "self-play: the learner waits 60% of its time for rows"),
    (0.2, 0.6, "self-play: the learner waits 60% of its time for rows"),
    (1.0, 0.0, "the learner: actors pause 100% of their time"),
])
def test_which_side_limits(run: Run, paused: float, waiting: float, limit: str) -> None:
    run.report = report(100, 50.0, 50.0)
    assert go_on(run, 40, paused, waiting) == limit


def test_the_newest_half_minute_counts(run: Run) -> None:
    run.report = report(100)
    assert "actors pause 80%" in go_on(run, 100, paused=0.8)
    assert "actors pause" in go_on(run, 20, paused=0.0)
    assert go_on(run, 15, paused=0.0) == "none: playing and learning keep step"


def test_without_a_learner_nobody_is_waited_for(run: Run) -> None:
    run.config.learner.enabled = False
    assert go_on(run, 20) == "self-play alone: learner.enabled=false"
    assert run.status().waiting is None


# --- what a dead learner leaves --------------------------------------------------------------------------------------


def test_figures_go_on_when_the_learner_begins_anew(run: Run) -> None:
    run.report = report(100, skipped_steps=3)
    run.status()
    go_on(run, 30)
    alive = run.status()
    assert alive.steps_per_second == pytest.approx(1.0, rel=0.1)
    run.supervisor.workers("learner")[0][1].handle.newest("run").fail(death())  # type: ignore[attr-defined]
    run.supervisor.reconcile()
    before = run.report
    assert before is not None
    for _ in range(60):
        run.clock.now += 1
        dead = run.status()
    assert (dead.step, dead.losses, dead.window_rows) == (before.step, before.losses, 400), "as last heard"
    assert dead.steps_per_second == 0.0
    run.report = report(90, 0.5, 0.5)  # from its last checkpoint, its seconds from nothing
    again = run.status()
    assert (again.step, again.skipped_steps) == (90, 3)
    assert again.steps_per_second == 0.0
    assert "-" not in again.limit
    assert go_on(run, 20, waiting=0.5).startswith("self-play: the learner waits 50%")
    assert run.status().steps_per_second == pytest.approx(1.0, rel=0.1)


def test_what_the_run_waits_for(run: Run) -> None:
    waiting = run.status().waiting
    assert waiting is not None
    assert (waiting.what, waiting.done, waiting.total) == ("rows before the first step", 0, 300)
    run.report = report(70, replay=replace(STATS, rows=120))
    waiting = run.status().waiting
    assert waiting is not None
    assert (waiting.what, waiting.done) == ("rows before the next step", 120), "the window was lost"
    run.report = report(70)
    assert run.status().waiting is None


def test_troubles_are_named(run: Run) -> None:
    run.troubles, run.quarantined = ("replay: no answer in time; finished games wait",), 5
    line = plain_line(run.status())
    assert "replay: no answer in time; finished games wait" in line
    assert "5 records in quarantine" in line
    run.hear(send_failures=7)
    run.report = report(1, skipped_steps=2, refused_publications=1, rollbacks=3, replay=replace(STATS, skipped=40))
    line = plain_line(run.status())
    for text in ("2 steps skipped", "1 publications refused", "3 rollbacks", "40 rows deleted before they were read",
                 "7 calls to the replay server without an answer"):
        assert text in line


# --- rates and servers -----------------------------------------------------------------------------------------------


def test_rates_of_what_the_actors_count(run: Run) -> None:
    for second in range(60):
        run.clock.now += 1
        run.hear(games=second * 2, searches=second * 100, evaluations=second * 300, cache_hits=second * 100,
                 simulations=second * 800, inserted=second * 90)
        status = run.status()
    assert status.games_per_hour == pytest.approx(7200)
    assert status.searches_per_second == pytest.approx(100)
    assert status.rows_per_second == pytest.approx(90)
    assert status.cache_hit_rate == pytest.approx(0.25)
    assert (status.games, status.rows_seen) == (118, 59 * 90)


def test_resignation_and_its_errors_are_shown_once_there_is_a_threshold(run: Run) -> None:
    for second in range(30):
        run.clock.now += 1
        run.hear(games=second * 100, resigned=second * 40, played_on=second * 10, wrongly_resigned=second * 2)
        status = run.status()
    assert (status.resigned_share, status.wrongly_resigned_share, status.played_on) == (0.4, 0.2, 290)
    assert "resigned" not in plain_line(status), "no player resigns yet"
    run.resign_value = -0.8125
    run.write()
    line = plain_line(run.status())
    assert "-0.81 resigned below | 40% of the games resigned | 20.0% wrongly, by 290 played on" in line
    names = ("resign_value", "resigned_share", "wrongly_resigned_share", "played_on")
    written = list(read_metrics(run.directory / "metrics.jsonl", "self_play"))[-1].values
    assert [written[name] for name in names] == [-0.8125, pytest.approx(0.4), pytest.approx(0.2), 290]
    exported = prometheus_metrics(run.view(), run.status())
    assert [exported[name] for name in names] == [-0.8125, pytest.approx(0.4), pytest.approx(0.2), 290]


def test_how_old_the_samples_are_is_shown(run: Run) -> None:
    ages = dict(zip(SAMPLE_AGE, (120.4, 900.0, 2.5, 18.0), strict=True))
    run.report = report(1000, metrics={"learning_rate": 1e-3, **ages})
    status = run.status()
    assert {name: getattr(status, name) for name in SAMPLE_AGE} == ages
    assert "samples 120 steps old" in plain_line(status)
    run.write()
    written = list(read_metrics(run.directory / "metrics.jsonl", "learner"))[-1].values
    assert {name: written[name] for name in SAMPLE_AGE} == ages
    assert {name: prometheus_metrics(run.view(), status)[name] for name in SAMPLE_AGE} == ages


def server(rows_per_s: float, p99: float, idle: float, failed: int = 0) -> ServerReport:
    return ServerReport(4, ServerStats(
        version=4, rows=1, batches=1, rows_per_s=rows_per_s, rows_per_batch=32.0, wait_p50_ms=1.0, wait_p99_ms=p99,
        idle_share=idle, busy_seconds=1.0, clients=2, waiting=0, refused=0, failed=failed, non_finite=0,
        stale_weights=0,
    ), "torch on cuda, bf16 (the cuda device computes in bf16)")


def test_what_evaluates_is_said_once_each(run: Run) -> None:
    assert run.status().runtimes == []
    run.hear(games=1, runtime="openvino 2026.4.1, fp32 (this CPU does not compute in bf16)")
    run.hear(games=2, runtime="openvino 2026.4.1, fp32 (this CPU does not compute in bf16)")
    (_, first), _ = run.supervisor.workers("inference")
    first.report = server(1000.0, 5.0, 0.25)  # type: ignore[attr-defined]
    assert run.status().runtimes == [
        "torch on cuda, bf16 (the cuda device computes in bf16)",
        "openvino 2026.4.1, fp32 (this CPU does not compute in bf16)",
    ]


def test_servers_together(run: Run) -> None:
    assert run.status().workers == [("2 of 2", "actors")]
    (_, first), (_, second) = run.supervisor.workers("inference")
    first.report = server(1000.0, 5.0, 0.25)  # type: ignore[attr-defined]
    assert ("1,000", "positions/s served") in run.status().workers
    second.report = server(500.0, 9.0, 0.75, failed=3)  # type: ignore[attr-defined]
    run.hear(call_p50_ms=2.5, call_p99_ms=8.0)
    assert run.status().workers == [
        ("2 of 2", "actors"), ("1,500", "positions/s served"), ("32", "a batch"), ("1.0/9.0", "ms wait p50/p99"),
        ("2.5/8.0", "ms a call p50/p99"), ("50%", "idle"),
        ("3", "requests failed"),
    ]
    first.handle.newest("run").fail(death())  # type: ignore[attr-defined]
    run.supervisor.reconcile()
    run.store.restarts = 2
    run.actors = 3
    workers = run.status().workers
    assert ("500", "positions/s served") in workers, "a dead one serves nobody"
    assert workers[-1] == ("3", "restarts")
    assert workers[0] == ("2 of 3", "actors")


# --- where it goes ---------------------------------------------------------------------------------------------------


def test_the_status_reaches_another_terminal(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = Config()
    config.run.dir = str(tmp_path)
    run.identity.next_epoch(0)
    run.report = report(1234)
    go_on(run, 5, waiting=0.4)
    (_, actor), _ = run.supervisor.workers("self_play")
    actor.handle.newest("location").answer(("this node", 4242))  # type: ignore[attr-defined]
    actor.poll()
    run.clock.time = time.time  # type: ignore[method-assign]
    embedded = EmbeddedServer(tmp_path / "redis", max_megabytes=16)
    embedded.start()
    try:
        control = RedisControl(embedded.url, run.identity.run_id)
        control.begin(4, capacity=10, max_bytes=1000, actors=2)
        view = run.view()
        control.put_status(json.dumps(status_tree(view, run.builder.build(view), {
            "driver": 1, "epoch": 3, "max_actors": 4, "first_game_seconds": 12.5,
            "processes": list_processes(run.supervisor, run.store),
        })).encode())
        monkeypatch.setattr(control_commands, "is_running", lambda directory: True)
        state = control_commands.status(config, as_json=False)
    finally:
        embedded.stop()
    shown = capsys.readouterr().out
    for text in ("2 of 2 actors", "1,239 steps", "1.500 policy loss", "self-play: the learner waits 40%", "0.875"):
        assert text in shown, shown
    assert (state["desired_actors"], state["alive_actors"], state["max_actors"], state["epoch"]) == (2, 2, 4, 3)
    assert state["processes"]["self_play 0"] == {"incarnation": 0, "pid": 4242}
    assert state["processes"]["replay 0"] == {"incarnation": 0, "pid": 77}
    assert set(state["processes"]) == {
        "learner 0", "self_play 0", "self_play 1", "inference 0", "inference 1", "replay 0"
    }
    assert state["totals"]["games"] == 5
    assert state["first_game_seconds"] == 12.5


def test_a_line_for_every_source_and_the_same_figures_for_prometheus(run: Run) -> None:
    lines = run.directory / "metrics.jsonl"
    run.write()
    assert [line.source for line in read_metrics(lines)] == ["self_play", "driver"], "nobody else has spoken"
    run.report = report(50, 8.0, 2.0, replay=replace(STATS, skipped=40, unreachable_s=2.5))
    run.supervisor.workers("inference")[0][1].report = server(1000.0, 5.0, 0.25)  # type: ignore[attr-defined]
    run.hear(games=3, plies=21, resident_mb=150, inserted=21, bytes=999, other_epoch=3, squeezed=4)
    run.write()
    by_source = {line.source: line for line in read_metrics(lines)}
    assert set(by_source) == {"self_play", "replay", "learner", "inference", "driver"}
    assert {line.step for line in by_source.values()} == {50}
    assert by_source["self_play"].values["mean_plies"] == 7
    shown = by_source["replay"].values
    assert (shown["bytes"], shown["other_epoch"], shown["squeezed"]) == (999, 3, 4)
    assert (shown["skipped"], shown["unreachable_s"]) == (40, 2.5)
    assert by_source["learner"].values["learning_rate"] == 1e-3
    exported = prometheus_metrics(run.view(), run.status())
    assert exported["loss/policy"] == 1.5
    assert exported["strength"] == 0.875
    assert exported["inference/rows_per_s"] == 1000.0
    assert exported["actors_alive"] == 2


def test_a_full_disk_costs_these_lines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("shusaku.common.metrics.MetricsSink.write", refuse)
        run.write()
    assert run.lines == ["metrics could not be written: No space left on device; it is tried again"]
    run.write()
    assert [line.source for line in read_metrics(run.directory / "metrics.jsonl")] == ["self_play", "driver"]
