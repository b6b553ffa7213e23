"""How long our UCI engine takes from `stop` to `bestmove`, in milliseconds: the median and the 99th percentile.

    python -m benchmarks.engines.stop_latency checkpoint=runs/chess engine.threads=1 [--stops 1000] [--record]

Each search runs for a random time of up to a tenth of a second first.  One call of the network is the least that can be
expected, so `engine.leaves` and the size of the network decide.
"""

import argparse
import random
import shlex
import statistics
import subprocess
import sys
import time

from benchmarks.lib import record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="+")
    parser.add_argument("--stops", type=int, default=1000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    command = [sys.executable, "-m", "shusaku", "uci", *options.settings]
    chance, taken = random.Random(1), []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None

        def ask(line: str, word: str) -> float:
            """Seconds until a line begins with `word`."""
            began = time.perf_counter()
            engine.stdin.write(f"{line}\n")
            while not engine.stdout.readline().startswith(word):
                if engine.poll() is not None:
                    sys.exit(f"the engine has ended with {engine.returncode}")
            return time.perf_counter() - began

        ask("isready", "readyok")
        for _ in range(options.stops):
            engine.stdin.write("ucinewgame\nposition startpos\ngo infinite\n")
            time.sleep(chance.uniform(0, 0.1))
            taken.append(1000 * ask("stop", "bestmove"))
        engine.stdin.write("quit\n")
    values = {"stops": len(taken), "median_ms": round(statistics.median(taken), 2),
              "p99_ms": round(sorted(taken)[int(0.99 * len(taken))], 2), "worst_ms": round(max(taken), 2)}
    print(values)
    if options.record:
        record("engines.jsonl", shlex.join(["python", "-m", "benchmarks.engines.stop_latency", *sys.argv[1:]]),
               name="stop to bestmove", **values)


if __name__ == "__main__":
    main()
