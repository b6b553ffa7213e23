"""What the rater costs self-play: searches/s of `shusaku train` with and without it, in turn.

    python -m benchmarks.strength.rater_cost [--pairs 10] [--seconds 40] [--no-record] [overrides …]

Each run goes on from a run directory that has learned for a while, so that versions are there to be rated.  The rate is
that of the second half of its time.  The cost is 1 - the median ratio of the pairs.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.lib import ROOT, record
from shusaku.common.metrics import read_metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--no-record", action="store_true", help="only print")
    parser.add_argument("overrides", nargs="*", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begun = Path(folder) / "begun"
        train(begun, 2.0, True, options.overrides)
        ratios = []
        for number in range(options.pairs):
            rates = {}
            for is_rated in (True, False) if number % 2 else (False, True):
                run = Path(folder) / "run"
                shutil.copytree(begun, run)
                train(run, 2.0 + options.seconds / 60, is_rated, options.overrides)
                lines = [line for line in read_metrics(run / "metrics.jsonl", "self_play")
                         if line.seconds > 120 + options.seconds / 2]
                rates[is_rated] = statistics.mean(line.values["searches_per_s"] for line in lines)
                shutil.rmtree(run)
            ratios.append(rates[True] / rates[False])
            print(f"pair {number}: with {rates[True]:,.0f}, without {rates[False]:,.0f} searches/s, {ratios[-1]:.3f}",
                  flush=True)
    cost = 1 - statistics.median(ratios)
    print(f"the rater costs {cost:.1%} (median of {len(ratios)} pairs)")
    if not options.no_record:
        record("rater_cost.jsonl", "python -m benchmarks.strength.rater_cost", cost=round(cost, 4),
               ratios=[round(ratio, 4) for ratio in ratios])


def train(run: Path, minutes: float, is_rated: bool, overrides: list[str]) -> None:
    command = [sys.executable, "-m", "shusaku", "train", f"run.dir={run}", f"run.minutes={minutes}",
               f"rater.enabled={str(is_rated).lower()}", "strength.enabled=false", *overrides]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
