"""From the counters of a run to what the console shows and the metrics keep."""

import time
from collections import Counter
from typing import TYPE_CHECKING

import psutil

from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink, Rate, TimeShares, mean_plies
from shusaku.deploy.run.console import Console, Status, Waiting

if TYPE_CHECKING:
    from shusaku.deploy.local.driver import LocalRun

_SHOWN = ("simulations", "searches", "evaluations", "cache_hits", "games", "plies", "rows", "non_finite")


class Progress:
    """Reads the parts of a run, a few times a second for the console and once a turn for the metrics."""

    def __init__(self, run: "LocalRun") -> None:
        self.activity = "starting"
        self._run = run
        self._rates = {name: Rate() for name in (*_SHOWN, "steps")}
        self._time = TimeShares()
        self._losses: dict[str, float] = {}
        self._learning_rate = 0.0
        self._shown_at = 0.0
        self._played_before = 0  # when the window was last seen to grow
        self._rows_before = -1

    def show(self, console: Console) -> None:
        """At most five times a second: the learner asks after every step."""
        now = time.monotonic()
        if now - self._shown_at >= 0.2:
            self._shown_at = now
            console.show(self.status())

    def status(self) -> Status:
        run, config = self._run, self._run.config
        totals = self._totals()
        rates = {name: rate.update(totals[name]) for name, rate in self._rates.items()}
        stats = run.buffer.stats()
        asked = rates["evaluations"] + rates["cache_hits"]
        simulations = config.strength.simulations
        return Status(
            title=config.experiment or run.game.name,
            run_dir=str(run.directory.path),
            seconds=run.seconds,
            minutes=config.run.minutes,
            activity=self.activity,
            waiting=self._waiting(stats.rows, totals["rows"], rates["rows"]),
            games=run.state.games,
            games_per_hour=rates["games"] * 3600,
            rows_per_second=rates["rows"],
            searches_per_second=rates["searches"],
            evaluations_per_second=rates["evaluations"],
            cache_hit_rate=rates["cache_hits"] / asked if asked else 0.0,
            step=run.learner.step_count,
            version=run.versions.newest,
            steps_per_second=rates["steps"],
            learning_rate=self._learning_rate,
            losses=self._losses,
            window_rows=stats.rows,
            window_size=stats.window,
            rows_seen=stats.inserted,
            samples_per_position=stats.samples_per_position,
            strength=run.state.strength,
            strength_label=f"optimal moves with {simulations} simulations",
            skipped_steps=run.learner.skipped_steps + run.learner.refused_publications,
            quarantined=sum(stats.quarantined.values()),
            runtimes=[run.evaluators[0].description],
            time_shares=self._time.update(sum((Counter(actor.timer.counters()) for actor in run.actors), Counter())),
        )

    def write(self, sink: MetricsSink) -> None:
        """One line a source: self_play, learner, replay."""
        run = self._run
        figures = run.learner.metrics()
        if figures:
            self._losses = {
                name.removeprefix("loss/"): value for name, value in figures.items() if name.startswith("loss/")
            }
            self._learning_rate = figures["learning_rate"]
        status = self.status()
        step, seconds = status.step, status.seconds
        totals = self._totals()
        sink.write(Metrics(step, seconds, "self_play", {
            "games": status.games, "games_per_hour": status.games_per_hour, "rows_per_s": status.rows_per_second,
            "searches_per_s": status.searches_per_second, "evaluations_per_s": status.evaluations_per_second,
            "cache_hit_rate": status.cache_hit_rate, "mean_plies": mean_plies(totals),
            "non_finite": totals["non_finite"],
            **{f"time_{part}": share for part, share in status.time_shares.items()},
        }))
        stats = run.buffer.stats()
        sink.write(Metrics(step, seconds, "replay", {
            "rows": stats.rows, "window": stats.window, "inserted": stats.inserted, "sampled": stats.sampled,
            "samples_per_position": stats.samples_per_position, "quarantined": status.quarantined,
            "duplicates": stats.duplicates, "bytes": stats.nbytes,
            "resident_megabytes": psutil.Process().memory_info().rss / 1e6,
        }))
        if figures:
            sink.write(Metrics(step, seconds, "learner", {
                **figures, "steps_per_s": status.steps_per_second, "version": status.version,
                "skipped_steps": status.skipped_steps, "rollbacks": run.state.rollbacks,
            }))

    def _totals(self) -> dict[str, int]:
        counters = [actor.counters() for actor in self._run.actors]
        totals = {name: sum(c[name] for c in counters) for name in _SHOWN}
        return {**totals, "steps": self._run.learner.step_count}

    def _waiting(self, rows: int, played: int, per_second: float) -> Waiting | None:
        """While the window fills for the first time; rows of open games are counted as well."""
        minimum = self._run.config.replay.minimum
        if rows >= minimum or not self._run.config.learner.enabled:
            return None
        if rows != self._rows_before:
            self._rows_before, self._played_before = rows, played
        before = "the first step" if self._run.learner.step_count == 0 else "the next step"
        done = min(minimum, rows + played - self._played_before)
        return Waiting(f"rows before {before}", done, minimum, per_second)
