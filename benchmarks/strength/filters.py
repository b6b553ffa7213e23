"""How well wider networks predict the moves of unseen games: AlphaGo's supervised policy with 16 to 128 filters.

    python -m benchmarks.strength.filters LOG [--filters 16 32 64 128] [--steps 4000] [--record] [OVERRIDE ...]

LOG is a record log, as `shusaku records import` makes it.  Each width learns experiment=alphago_9x9_imitation from the
same games in as many steps of equal mini-batches, and says top-1, top-5 and -log p on games of the test part, and the
microseconds that one position takes in a batch of 64 on one core: accuracy is paid for in time (Silver et al. 2016,
Extended Data Table 3, with 128 to 384 filters on 19x19).  A run that was stopped goes on.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from benchmarks.lib import record, run_shusaku

FILE = "filters.jsonl"
EXPERIMENT = "experiment=alphago_9x9_imitation"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", metavar="LOG")
    parser.add_argument("--filters", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--minutes", type=float, default=60, help="after which a run that has made fewer steps fails")
    parser.add_argument("--runs", type=Path, default=Path("runs/filters"), help="directory of the runs")
    parser.add_argument("--record", action="store_true", help=f"append the results to benchmarks/results/{FILE}")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE")
    options = parser.parse_intermixed_args()
    command = shlex.join(["python", "-m", "benchmarks.strength.filters", *sys.argv[1:]])
    lines = [learn(filters, options) for filters in options.filters]
    for line in lines:
        print(line, flush=True)
        if options.record:
            record(FILE, command, **line)


def learn(filters: int, options: argparse.Namespace) -> dict[str, Any]:
    """What a network of so many filters has learned after so many steps."""
    network = [EXPERIMENT, f"network.filters={filters}", *options.overrides]
    answer = run_shusaku([
        "local", *network, f"dataset.records={options.games}", f"learner.steps={options.steps}",
        f"run.minutes={options.minutes:g}", f"run.dir={options.runs}/{filters}"])
    if answer["steps"] < options.steps:
        sys.exit(f"{filters} filters: {answer['steps']} steps of {options.steps} in {options.minutes:g} minutes; "
                 "a larger --minutes lets it go on")
    rows = run_shusaku(["bench", "inference", *network], cores="0")["rows"]
    fastest = max(row["positions_per_s"] for row in rows if row["batch"] == 64 and row["precision"] != "int8")
    test = {name: round(value, 4) for name, value in answer["unseen"]["test"].items()}
    return {"filters": filters, "steps": answer["steps"], "us_a_position": round(1e6 / fastest, 1), **test}


if __name__ == "__main__":
    main()
