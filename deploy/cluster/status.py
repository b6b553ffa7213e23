"""From the reports of a cluster's workers to what the console shows, the metrics keep, and Prometheus scrapes."""

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import psutil

from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink, Rate, Share, TimeShares, mean_plies
from shusaku.common.prometheus import RayMetrics
from shusaku.deploy.run.console import Console, Status, Waiting

if TYPE_CHECKING:
    from shusaku.deploy.cluster.driver import ClusterRun

_COUNTED = ("simulations", "searches", "evaluations", "cache_hits", "games", "plies", "non_finite")
MUCH = 0.1  # of its time that a part may wait before the other one is said to limit


class ClusterProgress:
    """Reads what the driver holds; asks nobody."""

    def __init__(self, run: "ClusterRun") -> None:
        self._run = run
        self._rates = {name: Rate() for name in (*_COUNTED, "steps", "rows")}
        self._paused = Share()  # of the actors' time
        self._waiting = Share()  # of the learner's
        self._time = TimeShares()  # of the actors', by what they do
        self._shown_at = 0.0
        self._status: Status | None = None
        self._metrics = RayMetrics(run.identity.run_id, run.game.name)

    def show(self, console: Console) -> None:
        """At most twice a second."""
        now = time.monotonic()
        if now - self._shown_at >= 0.5:
            self._shown_at = now
            self._status = self.status()
            console.show(self._status)

    def status(self) -> Status:
        run, config, report = self._run, self._run.config, self._run.report
        totals = run.totals.total
        steps = report.step if report else 0
        rates = {name: rate.update(totals.get(name, 0)) for name, rate in self._rates.items() if name in _COUNTED}
        rates["steps"] = self._rates["steps"].update(steps) if report else 0.0  # a resumed learner begins with many
        rates["rows"] = self._rates["rows"].update(run.totals.rows)
        self._update_shares()
        asked = rates["evaluations"] + rates["cache_hits"]
        stats = report.replay if report else None
        troubles = [f"replay: {run.store.trouble or 'no answer'}; finished games wait"]
        if run.is_replay_answering:
            troubles = [f"the learner's view of the replay: {stats.trouble}"] if stats and stats.trouble else []
        simulations = config.strength.simulations
        return Status(
            title=config.experiment or run.game.name,
            run_dir=str(run.directory.path),
            seconds=run.seconds,
            minutes=config.run.minutes,
            activity=run.activity,
            waiting=self._filling(rates["rows"]),
            games=run.totals.accepted,
            games_per_hour=rates["games"] * 3600,
            rows_per_second=rates["rows"],
            searches_per_second=rates["searches"],
            evaluations_per_second=rates["evaluations"],
            cache_hit_rate=rates["cache_hits"] / asked if asked else 0.0,
            step=steps,
            version=run.broadcast.version,
            steps_per_second=rates["steps"],
            learning_rate=report.figures.get("learning_rate", 0.0) if report else 0.0,
            losses=report.losses if report else {},
            window_rows=stats.rows if stats else 0,
            window_size=stats.window if stats else 0,
            rows_seen=run.totals.rows,
            samples_per_position=stats.samples_per_position if stats else 0.0,
            strength=run.progress_state.strength,
            strength_label=f"optimal moves with {simulations} simulations",
            skipped_steps=run.skipped_before + (report.skipped_steps if report else 0),
            quarantined=run.quarantined,
            workers=self._workers(),
            time_shares=self._time.update(totals),
            runtimes=self.runtimes(),
            limit=self._limit(),
            troubles=troubles,
        )

    def to_json(self) -> bytes:
        """For `shusaku status` in another terminal."""
        status = self._status or self.status()
        run = self._run
        processes = {
            f"{name} {replica.index}": {"incarnation": replica.incarnation, "pid": getattr(worker, "pid", None)}
            for name in run.supervisor.groups for replica, worker in run.supervisor.workers(name)
        }
        processes["replay 0"] = {"incarnation": run.store.restarts, "pid": run.store.pid}
        content = {
            **run.store.identify(), "status": asdict(status), "time": time.time(), "desired_actors": run.actors,
            "alive_actors": run.supervisor.groups["self_play"].alive, "max_actors": run.layout.max_actors,
            "dashboard": run.session.dashboard_url, "epoch": run.epoch, "processes": processes,
            "inference": self._server(), "cpus_per_actor": run.config.actors.cpus,
            "first_game_seconds": run.first_game_seconds, "totals": run.totals.total,
        }
        return json.dumps(content).encode()

    def write(self) -> None:
        """One line a source, and Ray's metrics; a full disk is said and costs these lines."""
        try:
            self._write(self._run.sink)
        except OSError as error:
            self._run.console.say(f"metrics could not be written: {error}")

    def _write(self, sink: MetricsSink) -> None:
        run, status, report = self._run, self.status(), self._run.report
        step, seconds, totals = status.step, status.seconds, run.totals.total
        groups = run.supervisor.groups
        sink.write(Metrics(step, seconds, "self_play", {
            "games": status.games, "games_per_hour": status.games_per_hour, "rows_per_s": status.rows_per_second,
            "searches_per_s": status.searches_per_second, "evaluations_per_s": status.evaluations_per_second,
            "cache_hit_rate": status.cache_hit_rate, "mean_plies": mean_plies(totals),
            "non_finite": totals.get("non_finite", 0), "actors": groups["self_play"].alive,
            "desired_actors": run.actors, "paused_share": self._paused.share,
            "resident_megabytes": sum(int(f.get("resident_mb", 0)) for f in run.totals.by_actor.values()),
            **{f"time_{part}": share for part, share in status.time_shares.items()},
        }))
        figures: dict[str, Any] = {}
        if report is not None:
            stats = report.replay
            sink.write(Metrics(step, seconds, "replay", {
                "rows": stats.rows, "window": stats.window, "inserted": stats.inserted, "sampled": stats.sampled,
                "samples_per_position": stats.samples_per_position, "quarantined": status.quarantined,
                "duplicates": run.totals.counters.get("duplicates", 0), "fenced": run.totals.counters.get("fenced", 0),
                "bytes": run.totals.counters.get("bytes", 0), "restarts": run.store.restarts,
                "losses": run.store.losses,
            }))
            figures = {
                **report.figures, "steps_per_s": status.steps_per_second, "version": status.version,
                "skipped_steps": status.skipped_steps, "rollbacks": report.rollbacks,
                "waiting_share": self._waiting.share, "resident_megabytes": report.resident_megabytes,
            }
            sink.write(Metrics(step, seconds, "learner", figures))
        server = self._server()
        if server:
            sink.write(Metrics(step, seconds, "inference", server))
        sink.write(Metrics(step, seconds, "driver", {
            "restarts": run.supervisor.restarts, "resident_megabytes": psutil.Process().memory_info().rss / 1e6,
        }))
        self._metrics.write(self._flat(status, server))

    def _flat(self, status: Status, server: dict[str, float]) -> dict[str, float]:
        """The figures of the block by the names of `common.prometheus`."""
        run = self._run
        flat: dict[str, float] = {
            name: float(value) for name, value in asdict(status).items() if isinstance(value, int | float)
        }
        flat |= {f"loss/{name}": value for name, value in status.losses.items()}
        if status.strength:
            flat["strength"] = status.strength[-1][1]
        flat |= {
            "actors_alive": run.supervisor.groups["self_play"].alive, "actors_desired": run.actors,
            "paused_share": self._paused.share, "waiting_share": self._waiting.share,
            "restarts": run.supervisor.restarts, "replay_bytes": run.totals.counters.get("bytes", 0),
            **{f"inference/{name}": value for name, value in server.items()},
        }
        return flat

    def _workers(self) -> list[tuple[str, str]]:
        run = self._run
        group = run.supervisor.groups["self_play"]
        figures = [(f"{group.alive} of {run.actors}", "actors")]
        server = self._server()
        if server:
            figures += [
                (f"{server['rows_per_s']:,.0f}", "positions/s served"), (f"{server['rows_per_batch']:.0f}", "a batch"),
                (f"{server['wait_p50_ms']:.1f}/{server['wait_p99_ms']:.1f}", "ms wait p50/p99"),
                (f"{server['call_p50_ms']:.1f}/{server['call_p99_ms']:.1f}", "ms a call p50/p99"),
                (f"{server['idle_share']:.0%}", "idle"),
            ]
        restarts = run.supervisor.restarts + run.store.restarts
        if restarts:
            figures.append((f"{restarts}", "restarts"))
        return figures

    def runtimes(self) -> list[str]:
        """What evaluates, a line for each kind: actors of several machines may differ, and so may their ways."""
        reports = [worker.report for _, worker in self._run.supervisor.workers("inference")]  # type: ignore[attr-defined]
        served = {report.runtime for report in reports if report is not None}
        actors = self._run.totals.by_actor.values()
        return sorted(served) + sorted({str(stats["runtime"]) for stats in actors if "runtime" in stats})

    def _server(self) -> dict[str, float]:
        """Figures of all inference servers; empty where there are none."""
        reports = [worker.report for _, worker in self._run.supervisor.workers("inference")]  # type: ignore[attr-defined]
        stats = [report.stats for report in reports if report is not None]
        if not stats:
            return {}
        return {
            "rows_per_s": sum(s.rows_per_s for s in stats),
            "rows_per_batch": sum(s.rows_per_batch for s in stats) / len(stats),
            "wait_p50_ms": max(s.wait_p50_ms for s in stats),
            "wait_p99_ms": max(s.wait_p99_ms for s in stats),
            "idle_share": sum(s.idle_share for s in stats) / len(stats),
            **{name: max((float(f.get(name, 0.0)) for f in self._run.totals.by_actor.values()), default=0.0)
               for name in ("call_p50_ms", "call_p99_ms")},
        }

    def _update_shares(self) -> None:
        """How much actors pause and the learner waits."""
        totals, report = self._run.totals.total, self._run.report
        paused = totals.get("paused_ms", 0)
        self._paused.update(paused, paused + totals.get("playing_ms", 0))
        if report is not None:
            waiting = report.waiting_seconds
            self._waiting.update(waiting, waiting + report.learning_seconds)

    def _limit(self) -> str:
        """Which part the others wait for."""
        report, paused, waiting = self._run.report, self._paused.share, self._waiting.share
        if not self._run.config.learner.enabled:
            return "self-play alone: nobody learns"
        if report is None or report.step == 0:
            return ""
        if paused > MUCH and paused >= waiting:
            return f"the learner: actors pause {paused:.0%} of their time"
        if waiting > MUCH:
            return f"self-play: the learner waits {waiting:.0%} of its time for rows"
        return "none: playing and learning keep step"

    def _filling(self, per_second: float) -> Waiting | None:
        """While the window fills for the first time."""
        run, report = self._run, self._run.report
        minimum = run.config.replay.minimum
        rows = report.replay.rows if report else 0
        if not run.config.learner.enabled or rows >= minimum:
            return None
        before = "the first step" if report is None or report.step == 0 else "the next step"
        return Waiting(f"rows before {before}", rows, minimum, per_second)
