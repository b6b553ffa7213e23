"""How long stop() takes to answer: 1,000 times, 2 threads, 16 leaves, Go 9x9 with 64 filters x 4 blocks.

    python -m benchmarks.analysis.stop [--times 1000] [--record]

Each search is stopped after 5 to 50 ms.  Prints median, p99 and longest in milliseconds; p99 is to be at most 50.
"""

import argparse
import json
import time

import numpy as np

from benchmarks.analysis.speed import analysis_of
from benchmarks.lib import record
from shusaku.actors.analysis.analysis import Limits
from shusaku.common._core import Game


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    analysis, random, seconds = analysis_of(Game("go", {"size": 9}), 2, 16), np.random.default_rng(1), []
    for number in range(options.times):
        if number % 50 == 0:
            analysis.clear()
        analysis.start(Limits())
        time.sleep(random.uniform(0.005, 0.05))
        begin = time.perf_counter()
        analysis.stop()
        seconds.append(time.perf_counter() - begin)
    middle, p99, longest = (round(1000 * float(np.quantile(seconds, q)), 2) for q in (0.5, 0.99, 1.0))
    measured = {"times": options.times, "median_ms": middle, "p99_ms": p99, "longest_ms": longest}
    print(json.dumps(measured))
    if options.record:
        record("analysis.jsonl", "python -m benchmarks.analysis.stop --record", name="stop", runs=[measured])


if __name__ == "__main__":
    main()
