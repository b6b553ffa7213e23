"""inference.precision=auto beside each fixed precision: the rate of self-play, and searches of a run of some minutes.

    python -m benchmarks.speed.precision [--games connect_four go_9x9 tic_tac_toe] [--repeats 3] [--record]
    python -m benchmarks.speed.precision --minutes 5 --games connect_four [--record]     # runs; 45 minutes
        [--fixed bf16]      # a processor that multiplies bf16 makes half as many searches in fp32: 30 minutes

Rates: `bench selfplay` in turns; auto is to reach 97 % of the best fixed choice.  Runs: `shusaku local`, each with an
empty cache, so that measuring and compiling are in it; auto is to search at most 2 % less than the better of bf16 and
fp32.
Medians of the repeats.  Exits with 1 if a bound is missed.
"""

import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.lib import record, run_shusaku

FILE = "precision.jsonl"
GAMES = {
    "connect_four": ["game=connect_four", "network.filters=64", "network.blocks=5"],
    "go_9x9": ["game=go", "game.size=9", "network.filters=64", "network.blocks=4"],
    "tic_tac_toe": ["experiment=tic_tac_toe"],
}
FIXED = ("fp32", "bf16", "int8")
LEAST_RATE, LEAST_SEARCHES = 0.97, 0.98


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement of a rate")
    parser.add_argument("--minutes", type=float, default=0, help="of each run; 0: rates are measured")
    parser.add_argument("--fixed", nargs="+", choices=FIXED,
                        help="what auto is compared with; default: all, in runs fp32 and bf16")
    parser.add_argument("--record", action="store_true", help=f"append each game to benchmarks/results/{FILE}")
    options = parser.parse_args()
    measured = [measure(game, options) for game in options.games]
    sys.exit(0 if all(measured) else 1)


def measure(game: str, options: argparse.Namespace) -> bool:
    """Whether auto reaches its bound in this game."""
    fixed = tuple(options.fixed or (("fp32", "bf16") if options.minutes else FIXED))
    counts: dict[str, list[float]] = {name: [] for name in ("auto", *fixed)}
    chosen: list[str] = []
    for _ in range(options.repeats):
        for name, values in counts.items():
            count, precision = searches_of_a_run(game, name, options.minutes) if options.minutes else (
                rate(game, name, options.seconds))
            values.append(count)
            if name == "auto":
                chosen.append(precision)
    medians = {name: statistics.median(values) for name, values in counts.items()}
    best = max(fixed, key=lambda name: medians[name])
    share, least = medians["auto"] / medians[best], LEAST_SEARCHES if options.minutes else LEAST_RATE
    print(f"{game}: auto took {', '.join(sorted(set(chosen)))}; {share:.1%} of {best} "
          f"({', '.join(f'{name} {value:,.0f}' for name, value in medians.items())})", flush=True)
    if options.record:
        command = shlex.join(["python", "-m", "benchmarks.speed.precision", *sys.argv[1:]])
        record(FILE, command, game=game, minutes=options.minutes, chosen=chosen, counts=counts, share=round(share, 4))
    return share >= least


def rate(game: str, precision: str, seconds: float) -> tuple[float, str]:
    """Evaluations/s of two actors, and the precision that they had."""
    run = run_shusaku(["bench", "selfplay", *GAMES[game], "actors.count=2", f"bench.seconds={seconds:g}",
                       f"inference.precision={precision}", "run.minutes=20"])  # long enough for auto to measure
    return run["evaluations_per_s"], run["precision"]


def searches_of_a_run(game: str, precision: str, minutes: float) -> tuple[float, str]:
    """Rows of a run in one process, each of them a search, for so many minutes of the clock on the wall; its precision.

    The time before the first game, in which auto measures and networks are compiled, is in it.
    """
    with tempfile.TemporaryDirectory(prefix="shusaku-precision-") as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        begin = time.monotonic()
        run: dict[str, Any] = run_shusaku([
            "local", *GAMES[game], f"run.dir={folder}/run", f"run.minutes={minutes:g}", "strength.enabled=false",
            "rater.enabled=false", f"inference.precision={precision}"])
        spent = time.monotonic() - begin
        del os.environ["XDG_CACHE_HOME"]
        kept = Path(folder) / "run" / "precision.json"
        chosen = next(iter(json.loads(kept.read_text()).values()))["name"] if kept.exists() else precision
    return run["rows"] * minutes * 60 / spent, chosen


if __name__ == "__main__":
    main()
