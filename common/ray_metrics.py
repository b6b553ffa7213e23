"""The metrics of a run as Ray's metrics, which Prometheus reads at the metrics port of the driver's node.

Ray puts `ray_` before every name: `shusaku_games_total` is scraped as `ray_shusaku_games_total`.
"""

import math
from collections.abc import Mapping

from ray.util.metrics import Gauge

from shusaku.common.prometheus import Exported, look_up


class RayMetrics:
    """Exports metrics by name; Ray must be running in this process.  Not safe to call from several threads."""

    def __init__(self, run_id: str, game: str) -> None:
        """`run_id` and `game` are the tags of every series."""
        self._tags = {"run": run_id, "game": game}
        self._gauges: dict[str, Gauge] = {}
        self._totals: dict[str, float] = {}
        self._counted: dict[str, float] = {}  # of totals: what is exported

    def write(self, metrics: Mapping[str, float]) -> None:
        """Exports the metrics that the table has; one that is not finite is skipped."""
        for name, value in metrics.items():
            exported, tags = look_up(name)
            if exported is None or not math.isfinite(value):
                continue
            if exported.is_total:
                value = self._count(name, value)
            self._gauge(exported, tags).set(value * exported.scale, tags={**self._tags, **tags})

    def _count(self, name: str, total: float) -> float:
        """A total that only grows: one that fell was reset, and what it had counted up to then stays.

        A gauge of Ray, because its counters have no series before they count something, and a panel or an alert about
        what never happens should show 0.
        """
        grown = total - self._totals.get(name, 0.0)
        self._totals[name] = total
        self._counted[name] = self._counted.get(name, 0.0) + max(0.0, grown)
        return self._counted[name]

    def _gauge(self, exported: Exported, tags: Mapping[str, str]) -> Gauge:
        if exported.name not in self._gauges:
            self._gauges[exported.name] = Gauge(exported.name, exported.help, tag_keys=(*self._tags, *tags))
        return self._gauges[exported.name]
