"""Positions/s of one core that AlphaGo's planes of Go cost, ladders included, beside the 17 planes of AlphaGo Zero.

    taskset -c 0 python -m benchmarks.speed.alphago_planes [--games FOLDER]

Packed bits in C++, over every position of uniformly random games on 9x9 and 19x19 (`common._core.timings`); and with a
folder of SGF, over every position of these games as Python gets them, numbers and not bits, which costs more.
"""

import argparse
import json
import time
from pathlib import Path

from benchmarks.lib import record
from shusaku.common._core import Game, timings
from shusaku.deploy.records.sgf import read_games

BOARDS = {9: 200, 19: 20}  # lines: random games
PLANES = ("zero", "alphago")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=Path, help="a folder of SGF files")
    folder = parser.parse_args().games
    lines = [{"size": size, "positions": "of random games, packed", **random_rates(size)} for size in BOARDS]
    if folder:
        lines += [{"size": size, "positions": "of games of others, as floats", **played_rates(size, folder)}
                  for size in BOARDS]
    for line in lines:
        print(json.dumps(line))
    record("alphago_planes.jsonl", "taskset -c 0 python -m benchmarks.speed.alphago_planes", runs=[{"boards": lines}])


def random_rates(size: int) -> dict[str, float]:
    """Positions/s of each kind of planes."""
    return {planes: round(1e9 / timings(Game("go", {"size": size, "planes": planes}), BOARDS[size], 1)["observe_ns"])
            for planes in PLANES}


def played_rates(size: int, folder: Path) -> dict[str, float]:
    """The same over the positions of the games in the folder that have this size and no set-up."""
    rates: dict[str, float] = {}
    for planes in PLANES:
        game, positions, seconds = Game("go", {"size": size, "planes": planes, "superko": "simple"}), 0, 0.0
        for moves in played_games(size, folder):
            position = game.start()
            for action in moves:
                if action not in position.legal_actions:
                    break
                position.play(action)
                begin = time.perf_counter()
                position.observation()
                seconds += time.perf_counter() - begin
                positions += 1
        rates |= {planes: round(positions / seconds)} if positions else {}
    return rates


def played_games(size: int, folder: Path) -> list[list[int]]:
    """The moves of each game that can be read."""
    found: list[list[int]] = []
    for file in sorted(folder.rglob("*.sgf"))[:300]:
        for read in read_games(file.read_text("latin-1")):
            if not isinstance(read, Exception) and read.params.get("size") == size and not read.start:
                found.append([move.action for move in read.moves])
    return found


if __name__ == "__main__":
    main()
