"""What it costs to solve an ending: microseconds of one core for all moves of a position, by its empty cells.

    taskset -c 0 python -m benchmarks.speed.solved_endings [--record]

The positions come from games of searches without a network, one a game.  By processor time, not the clock; what the
same search costs without the solver is taken off.
"""

import argparse
import json
import time
from collections.abc import Iterator

from benchmarks.lib import record
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, GameBatch, Position
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import make_search
from shusaku.common.messages import Leaves
from shusaku.common.search import search_options, search_positions, self_play_options

GAMES = (("connect_four", {}, (20, 22, 24)), ("othello", {"size": 6}, (8, 10, 12, 14, 16)),
         ("othello", {"size": 8}, (8, 10, 12, 14, 16)), ("hex", {"size": 7}, (8, 10, 12, 14, 16)))
GAMES_PLAYED = 300
COMMAND = "taskset -c 0 python -m benchmarks.speed.solved_endings --record"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="among the results")
    records = parser.parse_args().record
    for name, params, numbers in GAMES:
        game = Game(name, params)
        games = list(played_games(game, GAMES_PLAYED))
        for empty in numbers:
            positions = [found for actions in games if (found := with_empty_cells(game, actions, empty))]
            line = {"game": name, **params, "empty": empty, "positions": len(positions),
                    "microseconds": round(1e6 * seconds_to_solve(game, positions, empty) / len(positions), 1)}
            print(json.dumps(line), flush=True)
            if records:
                record("solved_endings.jsonl", COMMAND, **line)


def seconds_to_solve(game: Game, positions: list[Position], empty: int) -> float:
    """What the solver adds to one simulation of each position, after which every move of it is solved."""
    spent = []
    for solved in (0, empty):
        config = make_search("gumbel", simulations=1, proven_results=True, solved_empties=solved, cache=0)
        evaluator = PseudoRandomEvaluator(game, 1)
        begin = time.process_time()
        results = search_positions(game, positions, config, evaluator, batch=1)
        spent.append(time.process_time() - begin)
        assert len(results) == len(positions)
    return spent[1] - spent[0]


def with_empty_cells(game: Game, actions: list[int], empty: int) -> Position | None:
    """The position of the game with so many empty cells; None if it ended before."""
    position = game.start()
    for action in actions:
        if num_empty(position) == empty:
            return position
        position.play(action)
    return None


def num_empty(position: Position) -> int:
    """Empty cells, as the text of a grid shows them."""
    return position.text.split()[0].count(".")


def played_games(game: Game, count: int) -> Iterator[list[int]]:
    """The actions of games of small searches with values that mean nothing, but see the end."""
    evaluator = PseudoRandomEvaluator(game, 64)
    search = make_search("gumbel", simulations=64, proven_results=True, cache=0)
    batch = GameBatch(game, search_options(search, symmetries=False), 64, 1,
                      self_play_options(SelfPlayConfig(random_plies=8)))
    found = 0
    while found < count:
        leaves = Leaves(*batch.select(0))
        if len(leaves):
            answer = evaluator(leaves)
            batch.expand_and_backup(answer.logits, answer.values, answer.version)
        for columns in batch.take_finished():
            found += 1
            yield [int(action) for action in columns["actions"]]


if __name__ == "__main__":
    main()
