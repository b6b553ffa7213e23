"""Games as JSON lines: what is wrong is said with the number of the move, and does not stop the file."""

import json
from typing import Any

import pytest
from external_fixtures import TicTacToe, entry_of

from shusaku.deploy.records.files import read_records


def line(moves: list[Any], name: str = "tic_tac_toe", **known: Any) -> str:
    return json.dumps({"name": name, "moves": moves, **known}) + "\n"


@pytest.mark.parametrize(("move", "reason"), [
    ({"move": "a3", "policy": {"b2": 1.0}}, "policy: 'b2' is no legal move"),
    ({"move": "a3", "policy": [1]}, "policy must be a map"),
    ({"move": "b2"}, "illegal move 'b2'"),
])
def test_an_error_has_the_number_of_the_move(move: dict[str, Any], reason: str) -> None:
    [reject] = read_records(line(["b2", move]), "x.jsonl").rejects
    assert reject.ply == 2
    assert reason in reject.reason


def test_moves_behind_the_end_are_counted_whatever_is_said_of_them() -> None:
    won = ["a1", "a2", "b1", "b2", "c1"]
    [record] = read_records(line([*won, {"move": "x", "policy": {"y": 1.0}}], outcome=1), "x.jsonl").records
    assert (len(record), record.cut, record.outcome) == (5, 1, 1)


class Broken(TicTacToe):
    """Breaks its contract at the third ply, or at the start."""

    def __init__(self, ply: int = 3) -> None:
        self.ply = ply

    def is_terminal(self, state: Any) -> bool:
        if state.ply == self.ply:
            raise RuntimeError("worn out")
        return bool(super().is_terminal(state))


@pytest.mark.parametrize("ply", [3, 0])
def test_a_broken_external_game_is_a_reject(ply: int) -> None:
    broken = line(["b2", "a1", "a2", "a3"], "python", params={"entry": entry_of(Broken), "ply": ply})
    good = line(["b2", "a1"])
    games = read_records(good + broken + good, "x.jsonl")
    assert len(games.records) == 2
    [reject] = games.rejects
    assert (reject.game, reject.ply) == (2, ply)
    assert "is_terminal(state) raised RuntimeError: worn out" in reject.reason
