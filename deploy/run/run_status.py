"""From the views of a run to what its console shows and its metrics keep; the same for one process and for many."""

import contextlib
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from shusaku.actors.arena.rating_log import EloPoint
from shusaku.actors.arena.strength import Strength
from shusaku.actors.inference.stats import SERVER_FAULTS
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink, Rate, Share, TimeShares, mean_plies
from shusaku.common.resignation import NEVER_RESIGN
from shusaku.deploy.run.console import Status, Waiting
from shusaku.deploy.run.disk_budget import DiskBudget, DiskReport, checkpoint_bytes, report_disk
from shusaku.deploy.run.disk_troubles import DiskTroubles
from shusaku.deploy.run.measurements import strength_metrics
from shusaku.deploy.run.run_view import RunView, WorkersView
from shusaku.learner.checkpoints import checkpoint_paths
from shusaku.learner.sample_age import SAMPLE_AGE
from shusaku.learner.training_loop import TrainingReport

RESIGN_SECONDS = 3600.0  # over which games resigned are counted: few are played on to the end
_COUNTED = ("simulations", "searches", "evaluations", "cache_hits", "games", "rows")
RESIGNATION = ("resign_value", "resigned_share", "wrongly_resigned_share", "played_on")
DISK_SECONDS = 60.0  # between two looks at the disk
LEAST_ROWS = 1000  # from which the mean size of a row is known
MUCH = 0.1  # share of its time that one side may wait before the other one is called the limit


class StatusBuilder:
    """Knows the rates of the last half minute; everything else is in the view."""

    def __init__(self, config: Config, game: Game, directory: Path) -> None:
        self._config, self._game, self._directory = config, game, directory
        self._title = config.experiment or game.name
        self._rates = {name: Rate() for name in (*_COUNTED, "steps")}
        self._paused = Share()  # of the actors' time
        self._waiting = Share()  # of the learner's time
        self._resigned = Share(RESIGN_SECONDS)  # of the games
        self._wrongly = Share(RESIGN_SECONDS)  # of the games that were played on
        self._time = TimeShares()  # of the actors' time, by what they do
        self._disk: DiskReport | None = None
        self._disk_at = float("-inf")

    def build(self, view: RunView) -> Status:
        """The status of that moment; each view is to be given once, in the order of time."""
        config, learned = self._config, {**self._learned(view.report), **view.faults}
        rates = {name: self._rates[name].update(view.totals.get(name, 0)) for name in _COUNTED}
        paused = view.totals.get("paused_ms", 0)
        self._paused.update(paused, paused + view.totals.get("playing_ms", 0))
        played_on = view.totals.get("played_on", 0)
        asked = rates["evaluations"] + rates["cache_hits"]
        return Status(
            title=self._title, run_dir=str(self._directory), seconds=view.seconds, minutes=config.run.minutes,
            activity=view.activity, waiting=self._filling(view, rates["rows"]), games=view.games, rows_seen=view.rows,
            games_per_hour=rates["games"] * 3600, rows_per_second=rates["rows"], searches_per_second=rates["searches"],
            evaluations_per_second=rates["evaluations"], time_shares=self._time.update(view.totals),
            resign_value=view.resign_value, played_on=played_on,
            resigned_share=self._resigned.update(view.totals.get("resigned", 0), view.totals.get("games", 0)),
            wrongly_resigned_share=self._wrongly.update(view.totals.get("wrongly_resigned", 0), played_on),
            cache_hit_rate=rates["cache_hits"] / asked if asked else 0.0,
            step=view.step, version=view.version, **learned,
            strength=list(view.strength), **_rating(view), quarantined=view.quarantined, lost_games=view.lost_games,
            send_failures=view.totals.get("send_failures", 0),
            restored_games=view.totals.get("restored_games", 0), dropped_games=view.totals.get("dropped_games", 0),
            strength_label=f"optimal moves with {config.strength.simulations} simulations",
            workers=_worker_metrics(view) if view.workers else [], runtimes=list(view.runtimes),
            paused_share=self._paused.value, waiting_share=self._waiting.value, limit=self._limit(view),
            outage_seconds=view.outage_seconds, **self._look_at_disk(view),
        )

    def _look_at_disk(self, view: RunView) -> dict[str, Any]:
        """The line about the disk, from time to time, and the troubles with what it says."""
        now = time.monotonic()
        if now - self._disk_at >= DISK_SECONDS:
            self._disk_at = now
            with suppress(OSError):  # the line is missing then
                self._disk = self._read_disk(view)
        trouble = self._disk.trouble if self._disk else ""
        return {"disk": self._disk.line if self._disk else "",
                "troubles": [*view.troubles, *([trouble] if trouble else [])]}

    def _read_disk(self, view: RunView) -> DiskReport:
        counters = view.workers.replay_counters if view.workers else {}
        rows, data = counters.get("inserted", 0) - counters.get("deleted", 0), counters.get("bytes", 0)
        budget = DiskBudget.of(
            self._config, self._game, bytes_per_row=data / rows if rows > LEAST_ROWS else 0.0,
            checkpoint_bytes=checkpoint_bytes(self._directory), is_local=view.workers is None)
        return report_disk(self._directory, budget)

    def _learned(self, report: TrainingReport | None) -> dict[str, Any]:
        """What the status takes from the learner's report."""
        if report is None:
            return {}
        self._waiting.update(report.waiting_seconds, report.waiting_seconds + report.learning_seconds)
        stats = report.replay
        return {
            # A learner that resumes begins with many steps, which it did not make now.
            "steps_per_second": self._rates["steps"].update(report.step), "losses": report.losses,
            "learning_rate": report.metrics.get("learning_rate", 0.0), "learner_runtime": report.description,
            "window_rows": stats.rows, "window_size": stats.window, "skipped_rows": stats.skipped,
            "samples_per_position": stats.samples_per_position, "unreachable_seconds": stats.unreachable_s,
            "unseen": dict(report.unseen), "reinforce": _reinforce(report),
            **{name: report.metrics.get(name, 0.0) for name in SAMPLE_AGE},
        }

    def _limit(self, view: RunView) -> str:
        """Which side the other one waits for; in one process they take turns, and neither waits."""
        paused, waiting = self._paused.value, self._waiting.value
        if not self._config.learner.enabled:
            return "self-play alone: learner.enabled=false"
        if self._config.dataset.records:
            return ""
        if view.workers is None or view.step == 0:
            return ""
        if paused > MUCH and paused >= waiting:
            return f"the learner: actors pause {paused:.0%} of their time"
        if waiting > MUCH:
            return f"self-play: the learner waits {waiting:.0%} of its time for rows"
        return "none: playing and learning keep step"

    def _filling(self, view: RunView, per_second: float) -> Waiting | None:
        """While the window fills for the first time, or again after its data was lost."""
        minimum = self._config.replay.minimum
        rows = view.report.replay.rows if view.report else 0
        has_minimum = self._config.learner.enabled and not (self._config.dataset.records
                                                            or self._config.reinforce.enabled)
        if not has_minimum or rows >= minimum:
            return None
        before = "the first step" if view.step == 0 else "the next step"
        return Waiting(f"rows before {before}", min(minimum, rows + view.pending_rows), minimum, per_second)


class MetricsWriter:
    """Writes the metrics of a run below its directory; a full disk is logged and costs those lines, not the run."""

    def __init__(self, directory: Path, log: Callable[[str], None]) -> None:
        self._directory, self.troubles = directory, DiskTroubles(log)
        self._sink: MetricsSink | None = None
        self._unseen_step = -1  # of the measurement that was written last

    def write(self, view: RunView, status: Status) -> None:
        """One line for each source: self_play, replay, learner, and on a cluster inference and driver."""
        self._write(view.step, view.seconds, {
            "self_play": _self_play_metrics(view, status),
            "replay": _replay_metrics(view, status),
            "learner": _learner_metrics(view, status),
            "inference": dict(view.workers.inference) if view.workers else {},
            "driver": _driver_metrics(view, view.workers) if view.workers else {},
        })
        report = view.report
        if report is not None and report.unseen and report.unseen_step != self._unseen_step:
            self._unseen_step = report.unseen_step
            self.write_unseen("unseen", report.unseen, report.unseen_step, view.seconds)

    def write_unseen(self, source: str, measured: dict[str, float], step: int, seconds: float) -> None:
        """A measurement on games not learned from; `source`: unseen, or final_unseen for the test games."""
        self._write(step, seconds, {source: dict(measured)})

    def write_strength(self, strength: Strength, source: str, step: int, seconds: float) -> None:
        """A measurement of the weights of that step; `source`: strength, or final_strength for the whole set."""
        self._write(step, seconds, {source: strength_metrics(strength)})

    def write_rating(self, point: EloPoint) -> None:
        """The rating of a version, at the step and the training time of its publication."""
        self._write(point.step, point.seconds, {"rating": {
            "elo": point.elo, "elo_low": point.elo_low, "elo_high": point.elo_high, "version": point.version}})

    def close(self) -> None:
        """Brings everything to the disk, if that takes it."""
        if self._sink is not None:
            with self.troubles.watch("metrics"):
                self._sink.close()

    def _write(self, step: int, seconds: float, by_source: dict[str, dict[str, Any]]) -> None:
        with self.troubles.watch("metrics"):
            self._sink = self._sink or MetricsSink(self._directory)
            try:
                for source, values in by_source.items():
                    if values:
                        self._sink.write(Metrics(step, seconds, source, values))
            except OSError:
                broken, self._sink = self._sink, None  # the next write opens the files again
                with contextlib.suppress(OSError):
                    broken.close()
                raise


def status_tree(view: RunView, status: Status, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """For `shusaku status` in another terminal; `metadata`: what the driver says of itself."""
    workers = view.workers
    counts = {} if workers is None else {
        "desired_actors": workers.desired_actors, "alive_actors": workers.alive_actors,
        "waiting_actors": workers.waiting_actors,
        "inference": dict(workers.inference),
    }
    return {**metadata, "status": asdict(status), "time": time.time(), **counts, "totals": dict(view.totals),
            "failures": _failures(view, metadata.get("roles", {}))}


def _failures(view: RunView, roles: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Why the replay server does not answer, which makes a run unhealthy from its start on; other troubles do not."""
    if not (replay := roles.get("replay")) or replay["alive"]:
        return []
    return [line for line in view.troubles if line.startswith("replay: ")][:1]


def prometheus_metrics(view: RunView, status: Status) -> dict[str, float]:
    """The numbers of the status and the workers by the names of `common.prometheus`."""
    metrics = {name: float(value) for name, value in asdict(status).items() if isinstance(value, int | float)}
    metrics |= {f"loss/{name}": value for name, value in status.losses.items()}
    if status.strength:
        metrics["strength"] = status.strength[-1][1]
    metrics |= {f"unseen/{name}": value for name, value in status.unseen.items()}
    metrics |= {f"time/{stage}": share for stage, share in status.time_shares.items()}
    metrics["troubles"] = len(status.troubles)
    metrics[f"build/{metadata.version('shusaku')}"] = 1
    metrics["resident/driver"] = psutil.Process().memory_info().rss / 1e6
    if (age := _checkpoint_age(Path(status.run_dir))) is not None:
        metrics["checkpoint_age"] = age
    if view.report is not None:
        metrics["resident/learner"] = view.report.resident_megabytes
        metrics |= {f"quarantined/{reason}": count for reason, count in view.report.replay.quarantined.items()}
    workers = view.workers
    if workers is None:
        return metrics
    counters = workers.replay_counters
    return metrics | {
        **{name: counters.get(name, 0) for name in ("duplicates", "fenced")},
        "resident/actors": workers.resident_megabytes,
        "actors_alive": workers.alive_actors, "actors_desired": workers.desired_actors,
        "actors_waiting": workers.waiting_actors,
        "restarts": workers.restarts, "replay_bytes": counters.get("bytes", 0),
        **{f"inference/{name}": value for name, value in workers.inference.items()},
    }


def _checkpoint_age(run: Path) -> float | None:
    """Seconds since the newest checkpoint of this run directory was written; None without one."""
    newest = next(iter(checkpoint_paths(run / "checkpoints")), None)
    try:
        return time.time() - newest.stat().st_mtime if newest is not None else None
    except OSError:  # it has just been replaced
        return None


def _reinforce(report: TrainingReport) -> dict[str, float]:
    """How policy gradient goes; empty in other runs."""
    prefix = "reinforce/"
    known = {name.removeprefix(prefix): value for name, value in report.metrics.items() if name.startswith(prefix)}
    return known | {"too_old": float(report.replay.too_old)} if known else {}


def _rating(view: RunView) -> dict[str, Any]:
    """What the status takes from the newest rating."""
    if not view.elo:
        return {}
    newest = view.elo[-1]
    return {"elo": newest.elo, "elo_low": newest.elo_low, "elo_high": newest.elo_high, "rated_version": newest.version,
            "elo_curve": [(point.seconds, point.elo) for point in view.elo]}


def _self_play_metrics(view: RunView, status: Status) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "games": status.games, "games_per_hour": status.games_per_hour, "rows_per_s": status.rows_per_second,
        "searches_per_s": status.searches_per_second, "evaluations_per_s": status.evaluations_per_second,
        "cache_hit_rate": status.cache_hit_rate, "mean_plies": mean_plies(view.totals),
        "non_finite": view.totals.get("non_finite", 0),
        **{f"time_{part}": share for part, share in status.time_shares.items()},
    }
    if view.totals.get("discarded", 0):
        metrics["discarded_games"] = view.totals["discarded"]
    if status.resign_value > NEVER_RESIGN:
        metrics |= {name: getattr(status, name) for name in RESIGNATION}
    if view.workers is not None:
        metrics |= {"actors": view.workers.alive_actors, "desired_actors": view.workers.desired_actors,
                    "paused_share": status.paused_share, "send_failures": status.send_failures,
                    "restored_games": status.restored_games, "dropped_games": status.dropped_games,
                    "resident_megabytes": view.workers.resident_megabytes}
    return metrics


def _replay_metrics(view: RunView, status: Status) -> dict[str, Any]:
    if view.report is None:
        return {}
    stats = view.report.replay
    kept = ("rows", "window", "inserted", "sampled", "samples_per_position", "duplicates", "fenced", "other_epoch",
            "skipped", "unreachable_s", "too_old")
    metrics = {name: getattr(stats, name) for name in kept}
    metrics |= {"quarantined": status.quarantined, "lost_games": status.lost_games, "bytes": stats.nbytes,
                "fenced_actors": len(stats.fenced_actors)}
    if view.workers is not None:
        counted = ("duplicates", "fenced", "other_epoch", "malformed", "squeezed", "bytes")
        metrics |= {name: view.workers.replay_counters.get(name, 0) for name in counted}
        metrics |= {"restarts": view.workers.replay_restarts, "losses": view.workers.replay_losses}
    return metrics


def _learner_metrics(view: RunView, status: Status) -> dict[str, Any]:
    if view.report is None:
        return {}
    return {**view.report.metrics, "steps_per_s": status.steps_per_second, "version": status.version, **view.faults,
            "waiting_share": status.waiting_share, "resident_megabytes": view.report.resident_megabytes}


def _driver_metrics(view: RunView, workers: WorkersView) -> dict[str, Any]:
    return {"restarts": workers.restarts, "troubles": len(view.troubles), "outage_seconds": view.outage_seconds,
            "resident_megabytes": psutil.Process().memory_info().rss / 1e6}


def _worker_metrics(view: RunView) -> list[tuple[str, str]]:
    """Values with their units, for the console."""
    workers = view.workers
    assert workers is not None
    shown = [(f"{workers.alive_actors} of {workers.desired_actors}", "actors")]
    if workers.waiting_actors:
        shown.append((f"{workers.waiting_actors}", "of them wait for a node"))
    server = workers.inference
    if server:
        shown += [
            (f"{server['rows_per_s']:,.0f}", "positions/s served"), (f"{server['rows_per_batch']:.0f}", "a batch"),
            (f"{server['wait_p50_ms']:.1f}/{server['wait_p99_ms']:.1f}", "ms wait p50/p99"),
            (f"{server['call_p50_ms']:.1f}/{server['call_p99_ms']:.1f}", "ms a call p50/p99"),
            (f"{server['idle_share']:.0%}", "idle"),
            *((f"{server[name]:,.0f}", unit) for name, unit in SERVER_FAULTS.items() if server[name]),
        ]
    restarts = workers.restarts + workers.replay_restarts
    if restarts:
        shown.append((f"{restarts}", "restarts"))
    if view.totals.get("restored_games", 0):
        shown.append((f"{view.totals['restored_games']:,}", "open games restored"))
    return shown
