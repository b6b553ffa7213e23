"""What the network sees of a position, with the meaning of every plane, and what it answers."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from shusaku.common._core import Game, Position, SearchBatch
from shusaku.common.config.search import make_search
from shusaku.common.messages import Leaves
from shusaku.common.search import Evaluate, search_options
from shusaku.deploy.studio.boards import describe_position, players

_CHESS = ("pawns", "knights", "bishops", "rooks", "queens", "king")
_SHOGI = ("pawns", "lances", "knights", "silvers", "golds", "bishops", "rooks", "king", "promoted pawns",
          "promoted lances", "promoted knights", "promoted silvers", "horses", "dragons")
_MINISHOGI = tuple(name for name in _SHOGI if "lance" not in name and "knight" not in name)
_RIGHTS = ("own short castling", "own long castling", "opponent's short castling", "opponent's long castling")


def describe_input(game: Game, text: str, evaluate: Evaluate) -> dict[str, Any]:
    """Board, planes, policy and value of the position that the text says; ValueError if it says none."""
    position = game.arrange(text) if text else game.start()
    planes = position.observation()
    answer = evaluate_position(game, position, evaluate)
    return {
        "board": describe_position(game, position), **answer, "shape": planes.shape,
        "planes": [describe_plane(name, plane)
                   for name, plane in zip(plane_names(game), planes, strict=True)],
    }


def describe_plane(name: str, plane: "np.ndarray[Any, np.dtype[np.float32]]") -> dict[str, Any]:
    """A plane of [H, W]: `value` if it is the same number everywhere, else `values`, row by row."""
    numbers = [round(float(number), 4) for number in plane.ravel()]
    return {"name": name, "value": numbers[0]} if len(set(numbers)) == 1 else {"name": name, "values": numbers}


def evaluate_position(game: Game, position: Position, evaluate: Evaluate) -> dict[str, Any]:
    """The network alone: `policy` of the legal moves, in their order, and `value` for the player to move."""
    if position.is_terminal:
        return {"policy": [], "value": None}
    options = search_options(make_search("puct", simulations=1, cache=0), symmetries=False)
    batch = SearchBatch(game, options, 1, 0)
    batch.begin(0, position, 0)
    evaluation = evaluate(Leaves(*batch.select(max(0, evaluate.version))))
    logits = evaluation.logits[: len(position.legal_actions)].astype(float)
    shares = np.exp(logits - logits.max())
    return {"policy": [round(float(share), 5) for share in shares / shares.sum()],
            "value": round(float(evaluation.values[0]), 4)}


def plane_names(game: Game) -> list[str]:
    """What each plane holds, as docs/games.md says; "plane 7" in games from outside the core."""
    names = list(_names(game))
    count = game.observation_shape[0]
    return names if len(names) == count else [f"plane {index}" for index in range(count)]


def _names(game: Game) -> Iterator[str]:
    first, second = players(game.name)
    if game.name == "tic_tac_toe":
        yield from ("X's stones", "O's stones", "whose turn (1: X, 0: O)")
    elif game.name in ("connect_four", "othello", "hex"):
        yield from ("stones of the player to move", "stones of the opponent")
        if game.params.get("planes") == "threats":
            yield from ("cells that make a four of the player to move", "cells that make a four of the opponent")
        yield f"whose turn (0: {first}, 1: {second})"
    elif game.name == "go":
        yield from _go_names(str(game.params["planes"]))
    elif game.name == "chess":
        yield from _chess_names(game.params["planes"] == "small")
    elif game.name in ("shogi", "minishogi"):
        yield from _shogi_names(_SHOGI if game.name == "shogi" else _MINISHOGI, game.params["planes"] == "small")


def _ago(plies: int) -> str:
    return "now" if plies == 0 else "1 ply ago" if plies == 1 else f"{plies} plies ago"


def _go_names(planes: str) -> Iterator[str]:
    if planes.startswith("alphago"):
        yield from _alphago_names()
        if planes == "alphago":
            return
    elif planes == "tutorial":
        yield from ("own stones", "opponent's stones", "empty points", "last move", "the move before", "legal plays")
    elif planes == "liberties":
        yield from ("own stones", "opponent's stones", "chains with 1 liberty", "chains with 2 liberties",
                    "chains with 3 liberties", "forbidden plays", "last move", "the move before",
                    "the last move was a pass")
    else:
        yield from (f"{owner} stones, {_ago(plies)}" for owner in ("own", "opponent's") for plies in range(8))
    if planes != "liberties":
        yield "whose turn (1: Black, 0: White)"
    if planes in ("komi", "liberties"):
        yield "komi for the player to move, over 20"


def _alphago_names() -> Iterator[str]:
    eight = [*(str(number) for number in range(1, 8)), "8 or more"]
    yield from ("own stones", "opponent's stones", "empty points", "ones")
    for what in ("plies since this stone was played", "liberties of this chain", "stones that a play here captures",
                 "own stones that a play here leaves in atari", "liberties after a play here"):
        yield from (f"{what}: {number}" for number in eight)
    yield from ("captures in a ladder", "escapes from a ladder", "sensible plays", "zeros")


def _chess_names(is_small: bool) -> Iterator[str]:
    for plies in range(1 if is_small else 8):
        yield from (f"{owner} {kind}, {_ago(plies)}" for owner in ("own", "opponent's") for kind in _CHESS)
        yield f"position occurred before, {_ago(plies)}"
        yield "en passant" if is_small else f"position occurred twice before, {_ago(plies)}"
    if not is_small:
        yield from ("whose turn (1: Black, 0: White)", "plies since move 1, over 100")
    yield from _RIGHTS
    if not is_small:
        yield "plies without progress, over 100"


def _shogi_names(kinds: tuple[str, ...], is_small: bool) -> Iterator[str]:
    ages = range(1 if is_small else 8)
    held = kinds[: kinds.index("king")]
    for plies in ages:
        yield from (f"{owner} {kind}, {_ago(plies)}" for owner in ("own", "opponent's") for kind in kinds)
        yield from (f"{times} or more earlier occurrences, {_ago(plies)}" for times in (1, 2, 3))
    for plies in ages:
        yield from (f"{owner} {kind} in hand, {_ago(plies)}" for owner in ("own", "opponent's") for kind in held)
    yield "whose turn (1: second player)"
    if not is_small:
        yield "ply, over the limit on the plies"
