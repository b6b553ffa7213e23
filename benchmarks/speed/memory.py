"""Growth of a run's resident memory between two minutes of training, from its metrics.jsonl.

    python benchmarks/speed/memory.py RUN_DIR [FIRST_MINUTE LAST_MINUTE]

Two readings: the single sample nearest to each moment, and the median of the minute before it.  A checkpoint or a
measurement lifts single samples by up to 10 %, so the two can disagree; both are printed.  The bound of 5 % is judged
by the median, for every run from 2026-11-21 on; the run before that was read by the single samples first.
"""

import statistics
import sys
from pathlib import Path

from shusaku.common.metrics import read_metrics


def resident(run: Path) -> list[tuple[float, float]]:
    """Minute of training and megabytes, a pair a turn."""
    lines = read_metrics(run / "metrics.jsonl", "learner")
    return [(line.seconds / 60, float(line.values["resident_megabytes"])) for line in lines]


def nearest(samples: list[tuple[float, float]], minute: float) -> float:
    return min(samples, key=lambda sample: abs(sample[0] - minute))[1]


def median(samples: list[tuple[float, float]], minute: float) -> float:
    return statistics.median(size for at, size in samples if minute - 1 < at <= minute)


if __name__ == "__main__":
    samples = resident(Path(sys.argv[1]))
    first, last = (float(minute) for minute in sys.argv[2:4] or (5, 20))
    for reading in (nearest, median):
        before, after = reading(samples, first), reading(samples, last)
        print(f"{reading.__name__}: {before:.0f} MB at minute {first:g}, {after:.0f} MB at minute {last:g}: "
              f"{after / before - 1:+.1%}")
