"""Positions and moves as data that a page can draw: cells, pieces in hand, and the cells of each legal move.

Cells are row * columns + column from the top left corner, as the first player sees the board.  Only the notation of the
core is read (`Position.text`, `Position.to_move`): no rule is written a second time.
"""

import re
from dataclasses import dataclass
from typing import Any

from shusaku.common._core import Game, Position

PLAYERS = {  # first, second
    "tic_tac_toe": ("X", "O"), "connect_four": ("Red", "Yellow"), "hex": ("Red", "Blue"), "chess": ("White", "Black"),
}
KINDS = {
    "tic_tac_toe": "marks", "connect_four": "drops", "othello": "discs", "hex": "hex", "go": "go",
    "chess": "chess", "shogi": "shogi", "minishogi": "shogi",
}
_GO_COLUMNS = "ABCDEFGHJKLMNOPQRST"
_HAND = re.compile(r"(\d*)([A-Za-z])")


@dataclass(frozen=True)
class BoardShape:
    """What a page draws of a game whatever the position."""

    kind: str  # a value of KINDS, or text: a game from outside the core
    rows: int
    columns: int
    row_labels: tuple[str, ...]  # from the top
    column_labels: tuple[str, ...]

    @classmethod
    def of(cls, game: Game) -> "BoardShape":
        """The board of the game."""
        kind = KINDS.get(game.name, "text")
        if kind == "text":
            return cls(kind, 0, 0, (), ())
        _, rows, columns = game.observation_shape
        numbers = tuple(str(number + 1) for number in range(max(rows, columns)))
        letters = tuple("abcdefghijklmnopqrs")[:columns]
        if kind == "go":
            return cls(kind, rows, columns, numbers[:rows][::-1], tuple(_GO_COLUMNS)[:columns])
        if kind == "shogi":
            return cls(kind, rows, columns, letters, numbers[:columns][::-1])
        if kind == "drops":
            return cls(kind, rows, columns, ("",) * rows, numbers[:columns])
        is_upward = kind in ("marks", "chess")  # row 1 is the lowest
        return cls(kind, rows, columns, numbers[:rows][::-1] if is_upward else numbers[:rows], letters)

    def cell(self, name: str) -> int:
        """The cell with this name: its two labels, the column's first."""
        column = next(label for label in self.column_labels if name.startswith(label))
        row = self.row_labels.index(name[len(column):])
        return row * self.columns + self.column_labels.index(column)


def players(game: str) -> tuple[str, str]:
    """What people call the first and the second player of the game with this name."""
    return PLAYERS.get(game, ("Black", "White"))


def describe_game(game: Game) -> dict[str, Any]:
    """The part of a picture that is the same for all positions."""
    shape = BoardShape.of(game)
    return {
        "name": game.name, "params": game.params, "kind": shape.kind, "rows": shape.rows, "columns": shape.columns,
        "row_labels": shape.row_labels, "column_labels": shape.column_labels, "players": players(game.name),
        "num_actions": game.num_actions, "planes": game.observation_shape,
    }


def describe_position(game: Game, position: Position) -> dict[str, Any]:
    """The pieces on each cell ("" for none), those in hand, whose turn it is, and the legal moves with their cells."""
    shape = BoardShape.of(game)
    text = "" if shape.kind == "text" else position.text
    cells, hands = _read(shape, text)
    return {
        "cells": cells, "hands": hands, "to_play": position.to_play, "ply": position.ply, "text": text,
        "drawing": str(position) if shape.kind == "text" else "",
        "legal": [describe_move(shape, cells, position, action) for action in position.legal_actions],
        "result": describe_result(game, position) if position.is_terminal else "",
    }


def describe_move(shape: BoardShape, cells: list[str], position: Position, action: int) -> dict[str, Any]:
    """The move's text and cells: `to` (None: it has none, as a pass), `from`, the piece that is dropped or made."""
    move = position.to_move(action)
    described: dict[str, Any] = {"action": action, "move": move, "to": None}
    if shape.kind == "text" or move == "pass":
        return described
    if shape.kind == "drops":
        column = int(move) - 1
        empty = [row for row in range(shape.rows) if not cells[row * shape.columns + column]]
        return described | {"to": max(empty) * shape.columns + column}
    if shape.kind == "chess":
        described |= {"from": shape.cell(move[:2]), "to": shape.cell(move[2:4]), "makes": move[4:]}
    elif shape.kind == "shogi":
        described |= {"to": shape.cell(move[2:4]), "makes": move[4:]}
        described |= {"drops": move[0]} if move[1] == "*" else {"from": shape.cell(move[:2])}
    else:
        described["to"] = shape.cell(move)
    return described


def describe_result(game: Game, position: Position) -> str:
    """How a game that is over ended, for people."""
    outcome, score = position.outcome, position.score
    cut = " at the limit on the plies" if position.is_cut_off else ""
    if outcome == 0:
        return f"Drawn{cut}"
    winner = players(game.name)[position.to_play if outcome > 0 else 1 - position.to_play]
    margin = f" by {abs(score):g}" if score == score else ""
    return f"{winner} wins{margin}{cut}"


def _read(shape: BoardShape, text: str) -> tuple[list[str], list[dict[str, int]]]:
    if shape.kind == "text":
        return [], []
    words = text.split()
    if shape.kind not in ("chess", "shogi"):
        return ["" if mark == "." else mark for mark in words[0].replace("/", "")], []
    cells: list[str] = []
    for piece in re.findall(r"\d+|\+?[A-Za-z]", words[0]):
        cells += [""] * int(piece) if piece.isdigit() else [piece]
    if shape.kind == "chess":
        return cells, []
    hands: list[dict[str, int]] = [{}, {}]
    for count, letter in _HAND.findall(words[2]):
        hands[letter.islower()][letter.upper()] = int(count or 1)
    return cells, hands
