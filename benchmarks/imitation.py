"""Expert games: how long their import takes and which share is taken, and what is learned from them.

    python -m benchmarks.imitation import [--out DIR]
    python -m benchmarks.imitation learn chess|go [--games LOG] [--minutes 60] [--run-dir DIR] [OVERRIDE ...]

`import` takes the 145,716 chess games that `make oracles` fetches; bounds: 10 minutes, 99.5 % of the games (games that
were there before count as taken: each is learned from once).  `learn` trains `chess_imitation` or
`alphago_9x9_imitation` from a record log, and says top-1, top-5 and -log p on games of the test part; bounds after 60
minutes: top-1 of 32 % in chess and of 40 % on 9x9.  Each adds a line to benchmarks/results/imitation.jsonl and exits
with 1 if a bound is missed.
"""

import argparse
import json
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.lib import ROOT, record, run_shusaku

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
from oracles import find

RESULTS = "imitation.jsonl"
IMPORT_SECONDS, IMPORT_SHARE = 600.0, 0.995
LEARNED = {"chess": ("chess_imitation", 0.32), "go": ("alphago_9x9_imitation", 0.40)}  # preset, least top-1
BOUND_MINUTES = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    importing = kinds.add_parser("import")
    importing.add_argument("--out", type=Path, help="where the record log is to stay; a folder that goes, if left out")
    learning = kinds.add_parser("learn")
    learning.add_argument("game", choices=list(LEARNED))
    learning.add_argument("--games", required=True, help="a record log, or a pattern of several")
    learning.add_argument("--minutes", type=float, default=BOUND_MINUTES)
    learning.add_argument("--run-dir", default="", help="a new run, or one that goes on")
    learning.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    name, line, is_good = import_chess(options.out) if options.kind == "import" else learn(options)
    print(name, line)
    record(RESULTS, shlex.join(["python", "-m", "benchmarks.imitation", *sys.argv[1:]]), name=name, **line)
    sys.exit(0 if is_good else 1)


def import_chess(out: Path | None) -> tuple[str, dict[str, Any], bool]:
    """Wall-clock and processor seconds, and the counts of the command; a loaded machine shows in their difference."""
    folder = find("chess-games")
    if folder is None:
        sys.exit("the chess games are not here: `make oracles` fetches them")
    work = Path(tempfile.mkdtemp(prefix="shusaku-import-"))
    try:
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "shusaku", "records", "import", f"records.file={folder}/*.pgn",
             f"records.out={out or work / 'log'}", "records.unknown=draw", "game=chess", "--json"],
            stdout=subprocess.PIPE, text=True, check=False)
        seconds = time.monotonic() - begin
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if not done.stdout.strip():  # it has said why
        sys.exit(done.returncode)
    counts = read_counts(done.stdout)
    taken = counts["games"] + counts["duplicates"]
    share = taken / (taken + counts["rejected"])
    line = {"seconds": round(seconds, 1), "cpu_s": round(used.ru_utime + used.ru_stime, 1),
            "share_taken": round(share, 5), **counts}
    return "chess_import", line, seconds <= IMPORT_SECONDS and share >= IMPORT_SHARE


def read_counts(output: str) -> dict[str, Any]:
    """Of the last line of the command, without the single rejects but for the first three."""
    answer = json.loads(output.splitlines()[-1])
    kept = ("games", "plies", "duplicates", "rejected", "variations", "cut_moves")
    return {**{key: answer[key] for key in kept}, "first_rejects": [one["reason"] for one in answer["rejects"][:3]]}


def learn(options: argparse.Namespace) -> tuple[str, dict[str, Any], bool]:
    """What a run in one process has learned after so many minutes."""
    preset, bound = LEARNED[options.game]
    run_dir = options.run_dir or tempfile.mkdtemp(prefix="shusaku-imitation-")
    report = run_shusaku([
        "local", f"experiment={preset}", f"dataset.records={options.games}", f"run.dir={run_dir}",
        f"run.minutes={options.minutes:g}", *options.overrides])
    measured = {part: {name: round(value, 4) for name, value in result.items()}
                for part, result in report["unseen"].items()}
    line = {"minutes": options.minutes, "games": report["games"], "rows": report["rows"], "steps": report["steps"],
            **measured}
    is_good = options.minutes < BOUND_MINUTES or measured["test"]["top_1"] >= bound
    return f"{options.game}_imitation", line, is_good


if __name__ == "__main__":
    main()
