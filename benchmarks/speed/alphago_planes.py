"""Positions/s of one core that AlphaGo's planes of Go cost, ladders included, beside the 17 planes of AlphaGo Zero.

    taskset -c 0 python -m benchmarks.speed.alphago_planes [--games FOLDER]

Every position of uniformly random games on 9x9 and 19x19, and of the games in a folder of SGF, by `observation()`,
so that the planes leave as numbers: the rate is a lower bound of what the core does.  By processor time, not the clock.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.lib import record
from shusaku.common._core import Game, Position
from shusaku.deploy.records.game_record import RecordError
from shusaku.deploy.records.sgf import read_games

BOARDS = {9: 60, 19: 8}  # lines: random games
PLANES = ("zero", "alphago")
COMMAND = "taskset -c 0 python -m benchmarks.speed.alphago_planes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=Path, help="a folder of SGF files")
    folder = parser.parse_args().games
    for size, count in BOARDS.items():
        sources = {"random": random_games(size, count)} | ({"played": played_games(size, folder)} if folder else {})
        for source, games in sources.items():
            if not games:
                continue
            line = {"size": size, "games": source, "positions": sum(map(len, games)),
                    **{planes: round(rate(size, planes, games)) for planes in PLANES}}
            print(json.dumps(line), flush=True)
            record("alphago_planes.jsonl", COMMAND + (" --games FOLDER" if folder else ""), **line)


def rate(size: int, planes: str, games: Sequence[Sequence[int]]) -> float:
    """Positions a second of processor time."""
    game, seconds, count = Game("go", {"size": size, "planes": planes, "superko": "simple"}), 0.0, 0
    for actions in games:
        positions = list(positions_of(game, actions))
        begin = time.process_time()
        for position in positions:
            position.observation()
        seconds += time.process_time() - begin
        count += len(positions)
    return count / seconds


def positions_of(game: Game, actions: Sequence[int]) -> Iterator[Position]:
    """Before each move, as far as the game goes by our rules."""
    position = game.start()
    for action in actions:
        if action not in position.legal_actions:
            return
        yield position.copy()
        position.play(action)


def random_games(size: int, count: int) -> list[list[int]]:
    """The actions of uniformly random games."""
    game, dice, games = Game("go", {"size": size, "superko": "simple"}), random.Random(1), []
    for _ in range(count):
        position, actions = game.start(), []
        while not position.is_terminal:
            actions.append(dice.choice(position.legal_actions))
            position.play(actions[-1])
        games.append(actions)
    return games


def played_games(size: int, folder: Path) -> list[list[int]]:
    """The actions of each game of this board in the folder that begins without stones."""
    found = []
    for file in sorted(folder.rglob("*.sgf")):
        for game in read_games(file.read_text("latin-1")):
            if not isinstance(game, RecordError) and game.params.get("size") == size and not game.start:
                found.append(list(game.actions))
    return found


if __name__ == "__main__":
    main()
