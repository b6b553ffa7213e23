"""Games of our GTP engine against GNU Go and gtp-rhino: protocol errors and illegal moves, of which there may be none.

    python -m benchmarks.engines.gtp_games --games 100 [--opponents gnugo_1,gnugo_10,rhino] [--go CHECKPOINT]
        [--othello CHECKPOINT] [--simulations 32]

`shusaku match` runs both programs and is the referee: its rules are the core's, and the opponent is told every move and
may refuse it.  Without a checkpoint the network is untrained, which plays odder games.  Each opponent's line goes to
benchmarks/results/gtp_games.jsonl.
"""

import argparse
import json
import shlex
import subprocess
import sys
from typing import Any

from benchmarks.lib import ROOT, forget_machine, record

GNUGO = "gnugo --mode gtp --chinese-rules --positional-superko --capture-all-dead --level"
OPPONENTS = {  # name -> game, its settings, command
    "gnugo_1": ("go", ["game=go", "game.size=9", "game.komi=7"], f"{GNUGO} 1"),
    "gnugo_10": ("go", ["game=go", "game.size=9", "game.komi=7"], f"{GNUGO} 10"),
    "rhino": ("othello", ["game=othello"], "gtp-rhino -l 1"),
}
RESULTS = "gtp_games.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--opponents", default=",".join(OPPONENTS))
    parser.add_argument("--go", default="", help="a run directory or a file of weights, 9x9")
    parser.add_argument("--othello", default="")
    parser.add_argument("--simulations", type=int, default=32)
    parser.add_argument("--dry", action="store_true", help="print only")
    options = parser.parse_args()
    if not options.dry and options.opponents == ",".join(OPPONENTS):  # a run of some opponents adds its lines
        forget_machine(RESULTS)
    failures = 0
    for name in options.opponents.split(","):
        game, settings, theirs = OPPONENTS[name]
        ours = engine_of(settings, vars(options)[game], options.simulations)
        report = play(settings, ours, theirs, options.games)
        line = summary(report)
        failures += line["our_faults"] + line["our_moves_refused"]
        print(name, json.dumps(line), flush=True)
        if not options.dry:
            command = shlex.join(["python", "-m", "benchmarks.engines.gtp_games", *sys.argv[1:]])
            record(RESULTS, command, name=name, **line)
    sys.exit(1 if failures else 0)


def engine_of(settings: list[str], checkpoint: str, simulations: int) -> str:
    """The command of our engine."""
    network = [f"checkpoint={checkpoint}"] if checkpoint else ["checkpoint=random", *settings, "network=tiny"]
    return shlex.join([sys.executable, "-m", "shusaku", "gtp", *network, f"engine.simulations={simulations}",
                       "engine.threads=1"])


def play(settings: list[str], ours: str, theirs: str, games: int) -> dict[str, Any]:
    """The JSON of the match."""
    command = [
        sys.executable, "-m", "shusaku", "match", *settings, "first.engine=gtp", f'first.command="{ours}"',
        "second.engine=gtp", f'second.command="{theirs}"', f"games={games}", "match.opening_plies=2", "--json",
    ]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """What the issue asks: faults of ours, and moves of ours that the other program would not take."""
    return {
        "games": report["games"], "our_faults": sum(report["first"]["faults"].values()),
        "our_moves_refused": report["second"]["faults"].get("refusal", 0), "faults": report["faults"],
        "messages": report["fault_messages"][:5],
        **{key: report[key] for key in ("wins", "draws", "losses", "score", "elo", "elo_low", "elo_high")},
        "resignations": [report[side]["resignations"] for side in ("first", "second")],
        "mean_plies": round(report["mean_plies"], 1), "seconds": report["seconds"],
    }


if __name__ == "__main__":
    main()
