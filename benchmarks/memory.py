"""Growth of a run's resident memory between two moments of training, from its metrics.jsonl."""

import sys
from pathlib import Path

from common.metrics import read_metrics


def resident(run: Path, minutes: float) -> float:
    """Megabytes at the line nearest to that minute of training."""
    lines = list(read_metrics(run / "metrics.jsonl", "replay"))
    nearest = min(lines, key=lambda line: abs(line.seconds - 60 * minutes))
    return float(nearest.values["resident_megabytes"])


if __name__ == "__main__":
    run, first, last = Path(sys.argv[1]), *(float(m) for m in sys.argv[2:4] or (5, 20))
    before, after = resident(run, first), resident(run, last)
    print(f"{before:.0f} MB after {first:g} minutes, {after:.0f} MB after {last:g}: {after / before - 1:+.1%}")
