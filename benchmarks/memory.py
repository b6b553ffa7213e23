"""Growth of a run's resident memory between two minutes of training, from its metrics.jsonl.

    python benchmarks/memory.py RUN_DIR [FIRST_MINUTE LAST_MINUTE]

The figure of a minute is the median over the turns in it: a checkpoint or a measurement lifts single turns by 10 %.
"""

import statistics
import sys
from pathlib import Path

from common.metrics import read_metrics


def resident(run: Path, minutes: float) -> float:
    """Median megabytes over the minute of training that ends then."""
    lines = read_metrics(run / "metrics.jsonl", "replay")
    return statistics.median(
        line.values["resident_megabytes"] for line in lines if minutes - 1 < line.seconds / 60 <= minutes
    )


if __name__ == "__main__":
    run, first, last = Path(sys.argv[1]), *(float(m) for m in sys.argv[2:4] or (5, 20))
    before, after = resident(run, first), resident(run, last)
    print(f"{before:.0f} MB after {first:g} minutes, {after:.0f} MB after {last:g}: {after / before - 1:+.1%}")
