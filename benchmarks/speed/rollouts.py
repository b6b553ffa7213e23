"""Moves a second of rollouts on one core: uniform ones, and those of rollout policies that `shusaku rollout` wrote.

    python -m benchmarks.speed.rollouts [FILE ...] [--seconds 5] [--repeats 3] [--record]

Each FILE says of which game and board it is.  Rollouts begin at the first position and end by the rules; time is that
of the processor, so that a busy machine changes little.  `--record` appends a line for each to rollouts.jsonl.
"""

import argparse
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.lib import record
from shusaku.common._core import Game, Rollouts, describe_rollout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--seconds", type=float, default=5.0, help="of one measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    for file in options.files or [""]:
        found = describe_rollout(Path(file).read_bytes()) if file else None
        size = int(found["board"].split("x")[0]) if found else 9
        game = Game("go", {"size": size})
        for name, rollouts in {"uniform": Rollouts(game), "policy": Rollouts(game, file)}.items():
            if name == "policy" and found is None:
                continue
            weights = len(found["keys"]) if found and name == "policy" else 0
            runs = [measure(game, rollouts, options.seconds) for _ in range(options.repeats)]
            middle = statistics.median(run["moves_per_s"] for run in runs)
            print(f"go {size}x{size}, {name}, {weights:,} weights: {middle:,.0f} moves/s a core", flush=True)
            if options.record:
                command = shlex.join(["python", "-m", "benchmarks.speed.rollouts", *sys.argv[1:]])
                record("rollouts.jsonl", command, name=f"speed, go {size}x{size}, {name}", weights=weights, runs=runs)


def measure(game: Game, rollouts: Rollouts, seconds: float) -> dict[str, Any]:
    start, moves, games, seed = game.start(), 0, 0, 0
    begin = time.process_time()
    while (spent := time.process_time() - begin) < seconds:
        seed += 1
        moves += rollouts.count_plies(start, 100, seed)
        games += 100
    return {"moves_per_s": moves / spent, "rollouts_per_s": games / spent, "moves_a_rollout": moves / games}


if __name__ == "__main__":
    main()
