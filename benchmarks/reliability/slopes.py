"""How memory, descriptors and threads of processes grow with the time of day, whatever the age of each process.

A process that is killed now and then is young on average, and young processes grow.  So only samples of the same age
are compared, or of processes that have settled: the median of their pairwise slopes (Theil 1950, Sen 1968), with an
interval from resampling blocks of a minute of a process.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SETTLED_SECONDS = 300.0  # from this age on a process is compared with itself, too
LEAST_GAP = 60.0  # seconds between two samples that are compared
MOST_SAMPLES = 600  # of a role: there are half of its square as many pairs
RESAMPLES = 200


@dataclass(frozen=True)
class Sample:
    """One process at one moment."""

    role: str
    pid: int
    time: float  # seconds
    age: float  # of the process
    megabytes: float
    descriptors: int
    threads: int


@dataclass(frozen=True)
class Slope:
    """Growth an hour, with its 95 % interval."""

    value: float
    low: float
    high: float
    pairs: int


def slope_of(samples: list[Sample], what: str) -> Slope | None:
    """Growth an hour of `what`, a field of the samples; None if no two of them can be compared."""
    step = -(-len(samples) // MOST_SAMPLES)
    chosen = sorted(samples, key=lambda sample: sample.time)[::step] if samples else []
    times = np.array([sample.time for sample in chosen])
    ages = np.array([sample.age for sample in chosen])
    values = np.array([float(getattr(sample, what)) for sample in chosen])
    blocks = np.unique([f"{sample.pid} {int(sample.time // 60)}" for sample in chosen], return_inverse=True)[1]
    first, second = np.triu_indices(len(chosen), 1)
    gap = times[second] - times[first] if len(chosen) else np.zeros(0)
    tolerance = np.maximum(5.0, 0.1 * np.minimum(ages[first], ages[second])) if len(chosen) else gap
    same_age = np.abs(ages[second] - ages[first]) <= tolerance if len(chosen) else gap > 0
    settled = np.minimum(ages[first], ages[second]) >= SETTLED_SECONDS if len(chosen) else gap > 0
    fits = (gap >= LEAST_GAP) & (same_age | settled)
    if not fits.any():
        return None
    first, second = first[fits], second[fits]
    slopes: NDArray[np.float64] = (values[second] - values[first]) / gap[fits] * 3600
    order = np.argsort(slopes)
    slopes, first, second = slopes[order], blocks[first[order]], blocks[second[order]]
    random = np.random.default_rng(1)
    count = int(blocks.max()) + 1
    medians = []
    for _ in range(RESAMPLES):
        weights = np.bincount(random.integers(count, size=count), minlength=count)
        cumulative = np.cumsum(weights[first] * weights[second])
        if cumulative[-1]:
            medians.append(slopes[np.searchsorted(cumulative, cumulative[-1] / 2)])
    low, high = np.percentile(medians, [2.5, 97.5]) if medians else (float("-inf"), float("inf"))
    value = float(np.median(slopes))
    return Slope(value, min(value, float(low)), max(value, float(high)), len(slopes))
