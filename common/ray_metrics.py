"""The metrics of a run as Ray's metrics, which Prometheus reads at the metrics port of the driver's node.

Ray puts `ray_` before every name: `shusaku_games_total` is scraped as `ray_shusaku_games_total`.
"""

import math
from collections.abc import Mapping

from ray.util.metrics import Counter, Gauge

from shusaku.common.prometheus import Exported, look_up


class RayMetrics:
    """Exports metrics by name; Ray must be running in this process.  Not safe to call from several threads."""

    def __init__(self, run_id: str, game: str) -> None:
        """`run_id` and `game` are the tags of every series."""
        self._tags = {"run": run_id, "game": game}
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._totals: dict[str, float] = {}

    def write(self, metrics: Mapping[str, float]) -> None:
        """Exports the metrics that the table has; one that is not finite is skipped."""
        for name, value in metrics.items():
            exported, tags = look_up(name)
            if exported is None or not math.isfinite(value):
                continue
            if exported.is_total:
                self._count(name, exported, value)
            else:
                self._gauge(exported, tags).set(value * exported.scale, tags={**self._tags, **tags})

    def _count(self, name: str, exported: Exported, total: float) -> None:
        """Ray's counters take increments; a total that fell was reset, and its increments up to then stay counted."""
        grown = total - self._totals.get(name, 0.0)
        self._totals[name] = total
        if exported.name not in self._counters:
            self._counters[exported.name] = Counter(exported.name, exported.help, tag_keys=tuple(self._tags))
        if grown > 0:
            self._counters[exported.name].inc(grown * exported.scale, tags=self._tags)

    def _gauge(self, exported: Exported, tags: Mapping[str, str]) -> Gauge:
        if exported.name not in self._gauges:
            self._gauges[exported.name] = Gauge(exported.name, exported.help, tag_keys=(*self._tags, *tags))
        return self._gauges[exported.name]
