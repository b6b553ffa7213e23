"""What `score_share` does to a player of Go: the network that ships against itself, and both against GNU Go.

    python -m benchmarks.strength.score_share [--shares 0.1 0.2] [--games 400] [--record]

For each match: the points of the one with the share (a draw half), and by how many points it won its won games and lost
its lost ones, on the average.  GNU Go plays at level 1, where it is on the PATH.
"""

import argparse
import json
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.lib import record, run_shusaku

GNUGO = "gnugo --mode gtp --chinese-rules --capture-all-dead --positional-superko --level 1"


def margins(lines: Iterable[str]) -> tuple[list[float], list[float]]:
    """Points by which the first player won and lost in these lines of `match.file`; other ends have none."""
    won, lost = [], []
    for game in map(json.loads, lines):
        if game["score"] is None or game["ended_by"] not in ("rules", "ply_limit"):
            continue
        points = game["score"] if game["first_moves_first"] else -game["score"]
        (won if points > 0 else lost).append(abs(points))
    return won, lost


def play(share: float, opponent: list[str], games: int) -> dict[str, Any]:
    """One match of the network that ships."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "games.jsonl"
        words = ["match", "game=go", "game.size=9", "first.checkpoint=shipped", f"first.search.score_share={share:g}",
                 "first.search.simulations=64", *opponent, f"games={games}", f"match.file={file}"]
        report = run_shusaku(words)
        won, lost = margins(file.read_text().splitlines())
    names = ("score", "wins", "draws", "losses", "elo", "elo_low", "elo_high")
    return {"share": share, "opponent": shlex.join(opponent), "games": games, **{name: report[name] for name in names},
            "won_by": statistics.mean(won) if won else None, "lost_by": statistics.mean(lost) if lost else None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.2])
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    itself = ["second.checkpoint=shipped", "second.search.simulations=64"]
    matches = [(share, itself) for share in options.shares]
    if shutil.which("gnugo"):
        gnugo = ["second.engine=gtp", f'second.command="{GNUGO}"']
        matches += [(share, gnugo) for share in (0.0, *options.shares)]
    rows = []
    for share, opponent in matches:
        row = play(share, opponent, options.games)
        rows.append(row)
        print(json.dumps(row), flush=True)
    if options.record:
        record("score_share.jsonl", shlex.join(["python", "-m", "benchmarks.strength.score_share", *sys.argv[1:]]),
               matches=rows)


if __name__ == "__main__":
    main()
