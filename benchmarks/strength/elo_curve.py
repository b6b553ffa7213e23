"""Keeps the Elo curve that the rater of a run has measured, and its picture, for docs/results/strength.md.

    python -m benchmarks.strength.elo_curve 'go_9x9 60 minutes seed 1' runs/strength/go_9x9-60-1

Elo is about the ladder of that run, whose random mover has 0: it says how a run went on, not which game is played best.
"""

import argparse
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np

from benchmarks.lib import ROOT, record
from benchmarks.strength_results import CURVE, RUN, TABLE_FILE, elo_picture
from shusaku.deploy.diagnosis.metric_series import slope_of
from shusaku.deploy.run.elo_files import ELO_PNG, read_curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="game, minutes and seed, as in strength_table.jsonl")
    parser.add_argument("run", type=Path)
    options = parser.parse_args()
    keep(options.name, options.run, f"python -m benchmarks.strength.elo_curve {shlex.join(sys.argv[1:])}")


def keep(name: str, run: Path, command: str) -> None:
    """One line of results, and the picture; SystemExit where the run has no rating or the name no game."""
    curve, named = read_curve(run), RUN.fullmatch(name)
    if named is None:
        sys.exit(f"{name!r}: must name game, minutes and seed, such as 'go_9x9 60 minutes seed 1'")
    if curve is None:
        sys.exit(f"{run}: no version of this run has a rating; rater.enabled=true rates them in runs of some minutes")
    half = 30 * float(named["minutes"])  # seconds
    late = [(point.seconds, point.elo) for point in curve.points if point.seconds >= half]
    slope = slope_of(np.array(late).reshape(-1, 2))
    record(TABLE_FILE, command, name=f"{name}{CURVE}",
           points=[[round(value, 1) for value in (point.seconds / 60, point.elo, point.elo_low, point.elo_high)]
                   for point in curve.points],
           others={other: round(elo) for other, elo in curve.others.items()},
           slope=None if slope is None else [round(slope.per_hour), round(slope.error)])
    picture = ROOT / "docs" / "images" / elo_picture(named["game"], named["minutes"])
    picture.parent.mkdir(exist_ok=True)
    shutil.copyfile(run / ELO_PNG, picture)


if __name__ == "__main__":
    main()
