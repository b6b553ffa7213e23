"""What it is worth to learn from one position a game: losses on games learned from and on others, one row against all.

    python -m benchmarks.strength.value_rows value.supervised=RUN value.reinforced=RUN [--minutes 60] [--rows all]
        [OVERRIDE ...]

Trains experiment=alphago_9x9_value twice, with value.rows=one and as the control with value.rows=all, equally long, and
records (z - v)^2 on games that were never learned from beside that on the others.  A run that was stopped goes on.
"""

import argparse
import shlex
import sys

from benchmarks.lib import record, run_shusaku

FILE = "value_rows.jsonl"
ROWS = ["one", "all"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="+", metavar="OVERRIDE", help="value.supervised=, value.reinforced=, others")
    parser.add_argument("--minutes", type=float, default=60, help="of each run")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, help="which of the two runs")
    parser.add_argument("--wiring", choices=("train", "local"), default="train")
    parser.add_argument("--runs", default="runs/value_rows", help="directory of the two runs, which go on there")
    options = parser.parse_intermixed_args()
    command = shlex.join(["python", "-m", "benchmarks.strength.value_rows", *sys.argv[1:]])
    for rows in options.rows:
        answer = run_shusaku([
            options.wiring, "experiment=alphago_9x9_value", f"value.rows={rows}", f"run.minutes={options.minutes:g}",
            f"run.dir={options.runs}/{rows}", *options.overrides])
        losses = answer["losses"]["value"]
        print(f"value.rows={rows}: {answer['games']:,} games, {answer['steps']:,} steps, unseen {losses['test']:.4f}, "
              f"learned from {losses['train']:.4f}, difference {losses['difference']:+.4f}")
        record(FILE, command, rows=rows, games=answer["games"], steps=answer["steps"], minutes=options.minutes,
               **losses)


if __name__ == "__main__":
    main()
