"""From reports to what is shown: which part limits, what a dead learner leaves, and the way to another terminal."""

import time
from collections.abc import Mapping
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
from shusaku.common.config.schema import Config
from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink, Rate, Share, read_metrics
from shusaku.deploy.cluster import status as cluster_progress
from shusaku.deploy.cluster.actor_totals import ActorTotals
from shusaku.deploy.cluster.status import ClusterProgress
from shusaku.deploy.cluster.supervisor import Supervisor
from shusaku.deploy.cluster.workers import RayRole
from shusaku.deploy.commands import control as control_commands
from shusaku.deploy.run.console import plain_line
from shusaku.deploy.run.run_identity import RunIdentity, RunProgress
from shusaku.learner.training_loop import TrainingReport
from shusaku.replay.buffer import ReplayStats
from shusaku.replay.stream.control import ActorMetrics, RedisControl
from shusaku.replay.stream.server import EmbeddedServer

STATS = ReplayStats(games=50, rows=400, window=1000, capacity=5000, inserted=450, sampled=900, deleted=50,
                    samples_per_position=2.0, throttled=False, waits_for="", accepted=50, duplicates=0, fenced=0,
                    other_epoch=0)


def report(step: int, learning: float = 0.0, waiting: float = 0.0, **fields: Any) -> TrainingReport:
    values: dict[str, Any] = {
        "step": step, "version": 1 + step // 10, "ticks": step, "learning_seconds": learning,
        "waiting_seconds": waiting, "losses": {"policy": 1.5, "value": 0.25}, "figures": {"learning_rate": 1e-3},
        "skipped_steps": 0, "rollbacks": 0, "saved_step": 0, "resident_megabytes": 300.0, "replay": STATS,
    }
    return TrainingReport(**(values | fields))


class Exported:
    """In place of `RayMetrics`: what was exported last."""

    def __init__(self, run_id: str, game: str) -> None:
        self.figures: dict[str, float] = {}

    def write(self, figures: Mapping[str, float]) -> None:
        self.figures = dict(figures)


class Run:
    """What the progress sees of a `ClusterRun`, with workers of a fake Ray."""

    def __init__(self, directory: Path, clock: Clock, **groups: int) -> None:
        self.clock = clock
        self.config = Config()
        self.config.experiment, self.config.replay.minimum = "tic_tac_toe", 300
        self.game = SimpleNamespace(name="tic_tac_toe")
        self.identity = RunIdentity(directory / "run.json", "run-1", 3)
        self.directory = SimpleNamespace(path=directory)
        self.progress_state = RunProgress(strength=[(0.0, 0.25), (60.0, 0.875)])
        self.supervisor = Supervisor(clock.monotonic)
        for name, count in groups.items():
            self.supervisor.register(RayRole(name, dict, lambda *_: (), heartbeat=lambda *_: 0.0), count)
        for _ in range(2):
            self.supervisor.reconcile()
        self.totals = ActorTotals(clock.monotonic)
        self.report: TrainingReport | None = None
        self.activity, self.seconds, self.epoch = "playing and learning", 61.0, 3
        self.actors, self.layout = groups["self_play"], SimpleNamespace(max_actors=4)
        self.broadcast = SimpleNamespace(version=8)
        self.first_game_seconds: float | None = 12.5
        self.is_replay_answering, self.quarantined, self.skipped_before = True, 0, 0
        self.store = SimpleNamespace(trouble="", restarts=0, losses=0, pid=77,
                                     identify=lambda: {"host": "h", "driver": 1, "run_dir": str(directory)})
        self.session = SimpleNamespace(dashboard_url="http://127.0.0.1:8265")
        self.lines: list[str] = []
        self.console = SimpleNamespace(say=self.lines.append)
        self.sink: Any = MetricsSink(directory, tensorboard=False)

    def hear(self, **figures: Any) -> None:
        """Of actor 0, with the replay's counters beside it."""
        counters = {name: figures.pop(name, 0) for name in ("inserted", "bytes")}
        self.totals.update({0: ActorMetrics(0, 0.0, msgpack.packb(figures))},
                           {"games": figures.get("games", 0), **counters})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    _, clock = install(monkeypatch, "workers")
    monkeypatch.setattr(cluster_progress, "time", clock)
    monkeypatch.setattr(cluster_progress, "Rate", partial(Rate, clock=clock.monotonic))
    monkeypatch.setattr(cluster_progress, "Share", partial(Share, clock=clock.monotonic))
    monkeypatch.setattr(cluster_progress, "RayMetrics", Exported)
    return Run(tmp_path, clock, learner=1, self_play=2, inference=2)


@pytest.fixture
def progress(run: Run) -> ClusterProgress:
    stand_in: Any = run
    return ClusterProgress(stand_in)


def go_on(run: Run, progress: ClusterProgress, seconds: int, paused: float = 0.0, waiting: float = 0.0) -> str:
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
        limit = progress.status().limit
    return limit


# --- who limits ------------------------------------------------------------------------------------------------------


def test_nothing_is_said_before_the_first_step(run: Run, progress: ClusterProgress) -> None:
    assert go_on(run, progress, 20) == ""
    run.report = report(0)
    assert progress.status().limit == ""


@pytest.mark.parametrize(("paused", "waiting", "limit"), [
    (0.0, 0.0, "none: playing and learning keep step"),
    (0.09, 0.09, "none: playing and learning keep step"),
    (0.4, 0.0, "the learner: actors pause 40% of their time"),
    (0.4, 0.2, "the learner: actors pause 40% of their time"),
    (0.0, 0.6, "self-play: the learner waits 60% of its time for rows"),
    (0.2, 0.6, "self-play: the learner waits 60% of its time for rows"),
    (1.0, 0.0, "the learner: actors pause 100% of their time"),
])
def test_which_side_limits(run: Run, progress: ClusterProgress, paused: float, waiting: float, limit: str) -> None:
    run.report = report(100, 50.0, 50.0)
    assert go_on(run, progress, 40, paused, waiting) == limit


def test_the_newest_half_minute_counts(run: Run, progress: ClusterProgress) -> None:
    run.report = report(100)
    assert "actors pause 80%" in go_on(run, progress, 100, paused=0.8)
    assert "actors pause" in go_on(run, progress, 20, paused=0.0)
    assert go_on(run, progress, 15, paused=0.0) == "none: playing and learning keep step"


def test_without_a_learner_nobody_is_waited_for(run: Run, progress: ClusterProgress) -> None:
    run.config.learner.enabled = False
    assert go_on(run, progress, 20) == "self-play alone: nobody learns"
    assert progress.status().waiting is None


# --- what a dead learner leaves --------------------------------------------------------------------------------------


def test_figures_go_on_when_the_learner_begins_anew(run: Run, progress: ClusterProgress) -> None:
    run.report = report(100, skipped_steps=3)
    go_on(run, progress, 30)
    alive = progress.status()
    assert alive.steps_per_second == pytest.approx(1.0, rel=0.1)
    run.supervisor.workers("learner")[0][1].handle.newest("run").fail(death())  # type: ignore[attr-defined]
    run.supervisor.reconcile()
    before = run.report
    assert before is not None
    for _ in range(60):
        run.clock.now += 1
        dead = progress.status()
    assert (dead.step, dead.losses, dead.window_rows) == (before.step, before.losses, 400), "as last heard"
    assert dead.steps_per_second == 0.0
    run.skipped_before = 3
    run.report = report(90, 0.5, 0.5)  # from its last checkpoint, its seconds from nothing
    again = progress.status()
    assert (again.step, again.skipped_steps) == (90, 3)
    assert again.steps_per_second == 0.0
    assert "-" not in again.limit
    assert go_on(run, progress, 20, waiting=0.5).startswith("self-play: the learner waits 50%")
    assert progress.status().steps_per_second == pytest.approx(1.0, rel=0.1)


def test_what_the_run_waits_for(run: Run, progress: ClusterProgress) -> None:
    waiting = progress.status().waiting
    assert waiting is not None
    assert (waiting.what, waiting.done, waiting.total) == ("rows before the first step", 0, 300)
    run.report = report(70, replay=replace(STATS, rows=120))
    waiting = progress.status().waiting
    assert waiting is not None
    assert (waiting.what, waiting.done) == ("rows before the next step", 120), "the window was lost"
    run.report = report(70)
    assert progress.status().waiting is None


def test_troubles_are_named(run: Run, progress: ClusterProgress) -> None:
    run.is_replay_answering, run.store.trouble = False, "no answer in time"
    run.quarantined = 5
    assert progress.status().troubles == ["replay: no answer in time; finished games wait"]
    run.store.trouble = ""
    assert progress.status().troubles == ["replay: no answer; finished games wait"]
    assert "5 records in quarantine" in plain_line(progress.status())
    run.is_replay_answering = True
    assert progress.status().troubles == []
    run.report = report(1, replay=replace(STATS, trouble="its memory is full"))
    assert progress.status().troubles == ["the learner's view of the replay: its memory is full"]


# --- rates and servers -----------------------------------------------------------------------------------------------


def test_rates_of_what_the_actors_count(run: Run, progress: ClusterProgress) -> None:
    for second in range(60):
        run.clock.now += 1
        run.hear(games=second * 2, searches=second * 100, evaluations=second * 300, cache_hits=second * 100,
                 simulations=second * 800, inserted=second * 90)
        status = progress.status()
    assert status.games_per_hour == pytest.approx(7200)
    assert status.searches_per_second == pytest.approx(100)
    assert status.rows_per_second == pytest.approx(90)
    assert status.cache_hit_rate == pytest.approx(0.25)
    assert (status.games, status.rows_seen) == (118, 59 * 90)


def server(rows_per_s: float, p99: float, idle: float) -> ServerReport:
    return ServerReport(4, ServerStats(
        version=4, rows=1, batches=1, rows_per_s=rows_per_s, rows_per_batch=32.0, wait_p50_ms=1.0, wait_p99_ms=p99,
        idle_share=idle, busy_seconds=1.0, clients=2, waiting=0, refused=0, failed=0, non_finite=0, stale_weights=0,
    ), "torch on cuda, bf16 (the cuda device computes in bf16)")


def test_what_evaluates_is_said_once_each(run: Run, progress: ClusterProgress) -> None:
    assert progress.status().runtimes == []
    run.hear(games=1, runtime="openvino 2026.4.1, fp32 (this CPU does not compute in bf16)")
    run.hear(games=2, runtime="openvino 2026.4.1, fp32 (this CPU does not compute in bf16)")
    (_, first), _ = run.supervisor.workers("inference")
    first.report = server(1000.0, 5.0, 0.25)  # type: ignore[attr-defined]
    assert progress.status().runtimes == [
        "torch on cuda, bf16 (the cuda device computes in bf16)",
        "openvino 2026.4.1, fp32 (this CPU does not compute in bf16)",
    ]


def test_servers_together(run: Run, progress: ClusterProgress) -> None:
    assert progress.status().workers == [("2 of 2", "actors")]
    (_, first), (_, second) = run.supervisor.workers("inference")
    first.report = server(1000.0, 5.0, 0.25)  # type: ignore[attr-defined]
    assert ("1,000", "positions/s served") in progress.status().workers
    second.report = server(500.0, 9.0, 0.75)  # type: ignore[attr-defined]
    run.hear(call_p50_ms=2.5, call_p99_ms=8.0)
    assert progress.status().workers == [
        ("2 of 2", "actors"), ("1,500", "positions/s served"), ("32", "a batch"), ("1.0/9.0", "ms wait p50/p99"),
        ("2.5/8.0", "ms a call p50/p99"), ("50%", "idle"),
    ]
    first.handle.newest("run").fail(death())  # type: ignore[attr-defined]
    run.supervisor.reconcile()
    run.store.restarts = 2
    run.actors = 3
    workers = progress.status().workers
    assert ("500", "positions/s served") in workers, "a dead one serves nobody"
    assert workers[-1] == ("3", "restarts")
    assert workers[0] == ("2 of 3", "actors")


# --- where it goes ---------------------------------------------------------------------------------------------------


def test_the_status_reaches_another_terminal(
    run: Run, progress: ClusterProgress, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = Config()
    config.run.dir = str(tmp_path)
    run.identity.next_epoch(0)
    run.report = report(1234)
    go_on(run, progress, 5, waiting=0.4)
    (_, actor), _ = run.supervisor.workers("self_play")
    actor.handle.newest("location").answer(("this node", 4242))  # type: ignore[attr-defined]
    actor.poll()
    run.clock.time = time.time  # type: ignore[method-assign]
    embedded = EmbeddedServer(tmp_path / "redis", max_megabytes=16)
    embedded.start()
    try:
        control = RedisControl(embedded.url, run.identity.run_id)
        control.begin(4, capacity=10, max_bytes=1000, actors=2)
        control.put_status(progress.to_json())
        monkeypatch.setattr(control_commands, "_is_running", lambda directory: True)
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


def test_a_line_for_every_source_and_the_same_figures_for_prometheus(run: Run, progress: ClusterProgress) -> None:
    lines = run.directory.path / "metrics.jsonl"
    progress.write()
    assert [line.source for line in read_metrics(lines)] == ["self_play", "driver"], "nobody else has spoken"
    run.report = report(50, 8.0, 2.0)
    run.supervisor.workers("inference")[0][1].report = server(1000.0, 5.0, 0.25)  # type: ignore[attr-defined]
    run.hear(games=3, plies=21, resident_mb=150, inserted=21, bytes=999)
    progress.write()
    by_source = {line.source: line for line in read_metrics(lines)}
    assert set(by_source) == {"self_play", "replay", "learner", "inference", "driver"}
    assert {line.step for line in by_source.values()} == {50}
    assert by_source["self_play"].values["mean_plies"] == 7
    assert by_source["replay"].values["bytes"] == 999
    assert by_source["learner"].values["learning_rate"] == 1e-3
    exported: Any = progress._metrics
    assert exported.figures["loss/policy"] == 1.5
    assert exported.figures["strength"] == 0.875
    assert exported.figures["inference/rows_per_s"] == 1000.0
    assert exported.figures["actors_alive"] == 2


def test_a_full_disk_costs_these_lines(run: Run, progress: ClusterProgress) -> None:
    class Full:
        def write(self, metrics: Metrics) -> None:
            raise OSError("No space left on device")

    run.sink = Full()
    progress.write()
    assert run.lines == ["metrics could not be written: No space left on device"]


def test_the_console_is_told_twice_a_second(run: Run, progress: ClusterProgress) -> None:
    shown: list[Any] = []
    console: Any = SimpleNamespace(show=shown.append)
    for _ in range(50):
        run.clock.now += 0.1
        progress.show(console)
    assert 8 <= len(shown) <= 10
