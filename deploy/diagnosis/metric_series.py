"""The metrics of a run over its training time."""

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shusaku.common.metrics import read_metrics

RECENT = 0.3  # share of the training time that counts as now


class Slope(NamedTuple):
    """What a metric gains in an hour of training, by least squares, and the standard error of that."""

    per_hour: float
    error: float
    points: int


class MetricSeries:
    """Every number of `metrics.jsonl`, by its source and name."""

    def __init__(self, path: Path) -> None:
        columns: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        self.seconds, self.step = 0.0, 0  # of training, and gradient steps, at the last line
        for line in read_metrics(path):
            self.seconds, self.step = max(self.seconds, line.seconds), max(self.step, line.step)
            for name, value in line.values.items():
                if isinstance(value, int | float):
                    columns[line.source, name].append((line.seconds, float(value)))
        self._columns = {key: np.array(points) for key, points in columns.items()}

    def names(self, source: str) -> list[str]:
        """Of a source, in alphabetical order."""
        return sorted(name for of, name in self._columns if of == source)

    def points(self, source: str, name: str) -> NDArray[np.float64]:
        """[K, 2] seconds of training and value, in the order of their lines; K may be 0."""
        return self._columns.get((source, name), np.zeros((0, 2)))

    def recent(self, source: str, name: str) -> float | None:
        """The median over the last part of the run; None if nothing was written there."""
        points = self.points(source, name)
        values = points[points[:, 0] >= (1 - RECENT) * self.seconds, 1]
        return float(np.median(values)) if len(values) else None

    def last(self, source: str, name: str) -> float | None:
        """The newest value; None if there is none."""
        points = self.points(source, name)
        return float(points[-1, 1]) if len(points) else None

    def slope(self, source: str, name: str) -> Slope | None:
        """Over the second half of the training time; None with fewer than four measurements there."""
        points = self.points(source, name)
        return slope_of(points[points[:, 0] >= 0.5 * self.seconds])


def slope_of(points: NDArray[np.float64]) -> Slope | None:
    """Of [K, 2] seconds and values; None with fewer than four."""
    hours, values = points[:, 0] / 3600, points[:, 1]
    if len(points) < 4 or np.ptp(hours) == 0:
        return None
    centred = hours - hours.mean()
    spread = float((centred**2).sum())
    per_hour = float((centred * values).sum()) / spread
    residuals = values - values.mean() - per_hour * centred
    return Slope(per_hour, float(np.sqrt((residuals**2).sum() / (len(points) - 2) / spread)), len(points))
