"""What a page draws agrees with the rules of the core, in every game."""

import random

import pytest

from shusaku.common._core import Game
from shusaku.deploy.studio.boards import BoardShape, describe_game, describe_move, describe_position

GAMES = [
    ("tic_tac_toe", {}), ("connect_four", {}), ("othello", {"size": 6}), ("othello", {}), ("hex", {"size": 5}),
    ("hex", {"size": 13}), ("go", {"size": 5}), ("go", {"size": 19}), ("chess", {}), ("shogi", {}), ("minishogi", {}),
]


@pytest.mark.parametrize(("name", "params"), GAMES)
def test_moves_change_the_cells_that_they_name(name: str, params: dict[str, int]) -> None:
    game, drawn = Game(name, params), random.Random(1)
    shape = BoardShape.of(game)
    for _ in range(3):
        position = game.start()
        for _ in range(60):
            if position.is_terminal:
                break
            before = describe_position(game, position)
            assert len(before["cells"]) == shape.rows * shape.columns
            assert [move["action"] for move in before["legal"]] == position.legal_actions
            places = [tuple(move.get(key) for key in ("from", "drops", "to", "makes")) for move in before["legal"]]
            assert len(set(places)) == len(places), "two moves could not be told apart"
            move = drawn.choice(before["legal"])
            assert move["move"] == position.to_move(move["action"])
            position.play(move["action"])
            after = describe_position(game, position)
            if move["to"] is None:
                assert move["move"] == "pass"
                continue
            assert after["cells"][move["to"]] != before["cells"][move["to"]]
            if move.get("from") is not None:
                assert after["cells"][move["from"]] == ""
            if "from" not in move:
                assert before["cells"][move["to"]] == ""
            if move.get("drops"):
                held = before["hands"][before["to_play"]][move["drops"]]
                assert after["hands"][before["to_play"]].get(move["drops"], 0) == held - 1


def test_the_end_is_said_for_people() -> None:
    game = Game("tic_tac_toe")
    assert describe_position(game, game.position("XXX/OO./..."))["result"] == "X wins"
    assert describe_position(game, game.position("XOX/XOO/OXX"))["result"] == "Drawn"
    go = Game("go", {"size": 2, "komi": 1.5})
    position = go.start()
    position.play(4)
    position.play(4)
    assert describe_position(go, position)["result"] == "White wins by 1.5"


def test_cells_have_the_names_of_the_notation() -> None:
    chess = Game("chess")
    assert chess.start().text.split("/")[0] == "rnbqkbnr"
    shape = BoardShape.of(chess)
    assert (shape.cell("a8"), shape.cell("h1"), shape.cell("e4")) == (0, 63, 36)
    start = chess.start()
    castled = chess.position("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1")
    cells = describe_position(chess, castled)["cells"]
    assert describe_move(shape, cells, castled, castled.from_move("e1g1")) | {"action": 0} == {
        "action": 0, "move": "e1g1", "from": 60, "to": 62, "makes": ""}
    assert start.to_play == 0
    assert BoardShape.of(Game("go", {"size": 9})).cell("J1") == 80
    assert BoardShape.of(Game("shogi")).cell("9i") == 72


def test_a_game_from_outside_the_core_is_a_drawing_and_a_list_of_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    import shusaku.deploy.studio.boards as boards

    monkeypatch.delitem(boards.KINDS, "othello")
    game = Game("othello")
    described = describe_position(game, game.start())
    assert (described["cells"], described["drawing"]) == ([], str(game.start()))
    assert [move["move"] for move in described["legal"]] == ["d3", "c4", "f5", "e6"]
    assert describe_game(game)["kind"] == "text"
