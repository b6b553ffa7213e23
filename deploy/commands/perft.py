"""`shusaku perft`: how many move sequences of a length a game has, the classic check of its rules."""

import argparse
import time
from typing import Any

from shusaku.common._core import Game, Position, perft
from shusaku.common.errors import UsageError
from shusaku.common.suggestions import nearest
from shusaku.deploy.commands.plain_options import PlainOptions
from shusaku.deploy.run.game_parameters import game_choices, make_game, parse_parameters


def run(arguments: list[str], as_json: bool) -> dict[str, Any]:
    """Prints the count; {"nodes", "seconds"} and, with --divide, {"divide": {move: nodes}}."""
    parser = PlainOptions(prog="shusaku perft", description="Count the move sequences of a game to a depth.")
    parser.add_argument("game", metavar="GAME")
    parser.add_argument("depth", metavar="DEPTH", type=_depth)
    parser.add_argument("--position", metavar="TEXT", default="",
                        help="moves from the start, with blanks between them, or a position as text")
    parser.add_argument("--param", metavar="k=v", action="append", default=[], help="a parameter of the rules")
    parser.add_argument("--divide", action="store_true", help="count behind each first move, too")
    asked = parser.parse_args(arguments)
    if asked.game not in game_choices():
        raise UsageError(f"{asked.game}: no such game; nearest: {nearest(asked.game, game_choices())}; "
                         f"there are {', '.join(game_choices())}")
    game = make_game(asked.game, parse_parameters(asked.game, asked.param), "--param")
    position = _position(game, asked.position)
    if asked.divide and position.is_terminal:
        raise UsageError("--divide: the game is over in this position, so none of its moves has a count; leave "
                         "--divide out to count what the board allows")

    began = time.perf_counter()
    counts = _divide(position, asked.depth) if asked.divide and asked.depth > 0 else {}
    nodes = sum(counts.values()) if counts else perft(position, asked.depth)
    seconds = time.perf_counter() - began
    if not as_json:
        for move, count in counts.items():
            print(f"{move}: {count:,}")
        print(f"{nodes:,} sequences of {asked.depth} plies in {seconds:.2f} s")
    return {"nodes": nodes, "seconds": seconds, **({"divide": counts} if asked.divide else {})}


def _position(game: Game, text: str) -> Position:
    """The position that the text sets up, or the one after its moves; UsageError naming what is wrong.

    A grid has several rows, with '/' or line ends between them, and SGF begins with a bracket; no move does either.
    """
    if "/" in text or "\n" in text.strip() or text.lstrip().startswith("("):
        try:
            return game.position(text)
        except ValueError as error:
            raise UsageError(f"--position: {_one_line(error)}") from None
    position = game.start()
    for move in _moves(position, text):
        try:
            position.play(position.from_move(move))
        except ValueError as error:
            raise UsageError(f"--position: move {position.ply + 1}, {move}: {_one_line(error)}") from None
    return position


def _one_line(error: ValueError) -> str:
    return " ".join(str(error).split())


def _moves(start: Position, text: str) -> list[str]:
    """Splits moves at blanks, and at commas if no move of the game has one in its name."""
    have_commas = any("," in start.to_move(action) for action in start.legal_actions)
    return (text if have_commas else text.replace(",", " ")).split()


def _depth(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: must be a number of plies, at least 0")
    return int(text)


def _divide(position: Position, depth: int) -> dict[str, int]:
    counts = {}
    for action in position.legal_actions:
        child = position.copy()
        child.play(action)
        counts[position.to_move(action)] = perft(child, depth - 1)
    return counts
