"""The names of a run's metrics in Prometheus, and the text that a Prometheus server reads.

Names and units follow Prometheus' rules: base units, a unit at the end, `_total` for totals that only grow, shares as
`_ratio` of 0 to 1.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True)
class Exported:
    """One metric as Prometheus reads it."""

    name: str
    is_total: bool  # a total that grows, or a gauge
    help: str
    scale: float = 1.0  # from our unit to Prometheus' base unit
    tag: str = ""  # for names with a slash: the tag whose value is the part behind it


def _counter(name: str, text: str, scale: float = 1.0, tag: str = "") -> Exported:
    return Exported(f"shusaku_{name}_total", True, text, scale, tag)


def _gauge(name: str, text: str, scale: float = 1.0, tag: str = "") -> Exported:
    return Exported(f"shusaku_{name}", False, text, scale, tag)


# By our name of the metric; `loss/` stands for every metric whose name begins with it.
EXPORTED = {
    "seconds": _counter("training_seconds", "Training time of the run directory, summed over resumes."),
    "minutes": _gauge("asked_training_seconds", "Training time asked for.", 60.0),
    "games": _counter("games", "Finished games that the window took."),
    "games_per_hour": _gauge("games_per_second", "Finished games a second.", 1 / 3600),
    "rows_seen": _counter("rows", "Rows (s, pi, z) that the window took."),
    "rows_per_second": _gauge("rows_per_second", "Rows (s, pi, z) that the window takes a second."),
    "resign_value": _gauge("resign_value", "A player to move who sees less resigns; -1: none does."),
    "resigned_share": _gauge("resigned_games_ratio", "Share of the games of the last hour that a player resigned."),
    "wrongly_resigned_share": _gauge(
        "wrongly_resigned_games_ratio", "Share of the games played on that a player who did not lose would resign."),
    "played_on": _counter("played_on_games", "Games in which no player may resign, while there is a threshold."),
    "searches_per_second": _gauge("searches_per_second", "Finished searches a second, of all actors."),
    "evaluations_per_second": _gauge("evaluations_per_second", "Positions through the network a second."),
    "cache_hit_rate": _gauge("cache_hit_ratio", "Share of the leaves that an actor's cache answered."),
    "step": _counter("steps", "Gradient steps; those redone after a fault count again."),
    "steps_per_second": _gauge("steps_per_second", "Gradient steps a second."),
    "version": _gauge("version", "Publication number of the newest weights."),
    "learning_rate": _gauge("learning_rate", "Learning rate of the last step."),
    "loss/": _gauge("loss", "Loss of one target, averaged over the last steps.", tag="target"),
    "unseen/": _gauge("unseen_games", "Of games not learned from: shares of moves, or losses.", tag="measure"),
    "skipped_steps": _counter("skipped_steps", "Steps not taken, because loss or gradient was not finite."),
    "refused_publications": _counter("refused_publications", "Networks not published, because they were not finite."),
    "rollbacks": _counter("rollbacks", "Returns of the learner to its last checkpoint."),
    "send_failures": _counter("send_failures", "Calls of actors to the replay server without an answer."),
    "restored_games": _counter("restored_games", "Open games that actors went on with."),
    "dropped_games": _counter("dropped_open_games", "Saved open games that no actor could go on with."),
    "lost_games": _counter("lost_games", "Games that were played and are not in the replay any more."),
    "skipped_rows": _counter("skipped_rows", "Rows deleted in Redis before the learner read them."),
    "unreachable_seconds": _gauge("replay_unreachable_seconds", "Since Redis last answered the learner; 0: it does."),
    "waiting_share": _gauge("learner_waiting_ratio", "Share of its time that the learner waits for rows."),
    "window_rows": _gauge("window_rows", "Rows that can be sampled."),
    "window_size": _gauge("window_size_rows", "Rows that the window would hold now."),
    "samples_per_position": _gauge("samples_per_position", "How often a position has been learned from."),
    "sample_age_steps": _gauge("sample_age_steps", "Steps since the weights that played a sampled row, mean."),
    "sample_age_steps_max": _gauge("sample_age_max_steps", "The same, of the oldest row that was sampled."),
    "sample_age_versions": _gauge("sample_age_versions", "Versions since the one that played a sampled row, mean."),
    "sample_age_versions_max": _gauge("sample_age_max_versions", "The same, of the oldest row that was sampled."),
    "quarantined": _counter("quarantined_records", "Game records that failed validation."),
    "quarantined/": _counter("quarantined_records_by_reason", "The same by what was wrong.", tag="reason"),
    "duplicates": _counter("duplicate_games", "Games that were sent twice; the window took them once."),
    "fenced": _counter("fenced_games", "Games refused, because a later actor or driver has taken their place."),
    "replay_bytes": _gauge("replay_bytes", "Encoded games in Redis."),
    "strength": _gauge("optimal_moves_ratio", "Share of optimal moves, as last measured."),
    "elo": _gauge("elo", "Elo of the newest version that was rated; the random mover has 0."),
    "elo_low": _gauge("elo_low", "Lower end of its 95 % interval."),
    "elo_high": _gauge("elo_high", "Upper end of its 95 % interval."),
    "rated_version": _gauge("rated_version", "The newest version that was rated; 0: none yet."),
    "actors_alive": _gauge("actors", "Self-play actors that run."),
    "actors_desired": _gauge("actors_desired", "Self-play actors that are asked for."),
    "actors_waiting": _gauge("actors_waiting", "Self-play actors that wait for a node."),
    "paused_share": _gauge("actors_paused_ratio", "Share of their time that actors wait for the learner."),
    "time/": _gauge("self_play_time_ratio", "Share of the actors' time that one stage of a step takes.", tag="stage"),
    "checkpoint_age": _gauge("checkpoint_age_seconds", "Since the newest checkpoint was written."),
    "resident/": _gauge("resident_memory_bytes", "Memory of one part of the run.", 1e6, tag="part"),
    "build/": _gauge("build_info", "1; the version is a tag.", tag="version"),
    "restarts": _counter("restarts", "Workers started again."),
    "troubles": _gauge("troubles", "What is wrong now, as `shusaku status` lists it."),
    "outage_seconds": _counter("outage_seconds", "Time in which nothing could be learned: a part was missing."),
    "inference/rows_per_s": _gauge("inference_rows_per_second", "Positions a second, of all inference servers."),
    "inference/rows_per_batch": _gauge("inference_batch_rows", "Positions a batch, mean over the servers."),
    "inference/wait_p50_ms": _gauge("inference_wait_p50_seconds", "Median of a request's wait for its batch.", 1e-3),
    "inference/wait_p99_ms": _gauge("inference_wait_p99_seconds", "99th percentile of a request's wait.", 1e-3),
    "inference/call_p50_ms": _gauge("inference_call_p50_seconds", "Median of an actor's call, of the slowest.", 1e-3),
    "inference/call_p99_ms": _gauge("inference_call_p99_seconds", "99th percentile of the same.", 1e-3),
    "inference/idle_share": _gauge("inference_idle_ratio", "Share of their time that the servers have nothing to do."),
    "inference/refused": _counter("inference_refused_requests", "Requests that an inference server did not accept."),
    "inference/failed": _counter("inference_failed_requests", "Requests whose batch failed in the evaluator."),
    "inference/non_finite": _counter("inference_non_finite_rows", "Positions answered with NaN or infinity."),
    "inference/stale_weights": _counter("inference_stale_weights", "Publications ignored by a server with newer ones."),
}


class _Families(Collector):
    """The metrics that the table has, as prometheus_client wants them."""

    def __init__(self, metrics: Mapping[str, float], tags: Mapping[str, str]) -> None:
        self._metrics, self._tags = metrics, tags

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """One family for each name of Prometheus."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, value in self._metrics.items():
            exported, tags = look_up(name)
            if exported is None or not math.isfinite(value):
                continue
            labels = {**self._tags, **tags}
            if exported.name not in families:
                kind = CounterMetricFamily if exported.is_total else GaugeMetricFamily
                families[exported.name] = kind(exported.name, exported.help, labels=list(labels))
            families[exported.name].add_metric(list(labels.values()), value * exported.scale)
        yield from families.values()


def exposition(metrics: Mapping[str, float], tags: Mapping[str, str]) -> bytes:
    """The metrics that the table has in Prometheus' text format; `tags` are those of every series."""
    return generate_latest(_Families(metrics, tags))


def look_up(name: str) -> tuple[Exported | None, dict[str, str]]:
    """What the table says of our name of a metric, and the tags that are part of that name."""
    exported = EXPORTED.get(name)
    if exported is not None:
        return exported, {}
    group, slash, member = name.partition("/")
    exported = EXPORTED.get(f"{group}/") if slash else None
    return exported, {exported.tag: member} if exported is not None else {}
