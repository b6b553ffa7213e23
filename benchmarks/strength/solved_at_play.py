"""What solving endings is worth at play: the same networks with and without it, on positions with known results.

    python -m benchmarks.strength.solved_at_play NAME CHECKPOINT... [--empties 0 16 20 22 24] [--record]

The networks are those of one way of training, which NAME says, of several seeds.
"""

import argparse
import json
import shlex
import sys
from typing import Any

from benchmarks.lib import record, run_shusaku

FILE = "solved_at_play.jsonl"
PLAYERS = ("policy", "search_16", "search_64", "search_400")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--empties", type=int, nargs="+", default=[0, 16, 20, 22, 24])
    parser.add_argument("--record", action="store_true", help=f"append the results to benchmarks/results/{FILE}")
    options = parser.parse_intermixed_args()
    command = shlex.join(["python", "-m", "benchmarks.strength.solved_at_play", *sys.argv[1:]])
    for empties in options.empties:
        line = {"name": options.name, "solved_empties": empties,
                "networks": [optimal(checkpoint, empties) for checkpoint in options.checkpoints]}
        print(json.dumps(line), flush=True)
        if options.record:
            record(FILE, command, **line)


def optimal(checkpoint: str, empties: int) -> dict[str, Any]:
    """The share of optimal moves of the network alone and of each search, over all buckets."""
    answer = run_shusaku(["evaluate", f"checkpoint={checkpoint}", f"search.solved_empties={empties}"])
    return {player: answer[player]["optimal"] for player in PLAYERS}


if __name__ == "__main__":
    main()
