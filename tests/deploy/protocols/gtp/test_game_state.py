"""Moves in any order of colours, set-ups and komi; Othello, where passes are forced, and hex, which has none."""

import random
from pathlib import Path

import pytest
from gtp_client import GtpClient

from shusaku.common._core import Game
from shusaku.deploy.protocols.gtp.engine import Settings
from shusaku.deploy.protocols.gtp.game_state import GameState, playable_komi
from shusaku.deploy.protocols.gtp.text import BLACK, WHITE, CommandError


@pytest.mark.parametrize("name", ["go", "othello", "hex"])
def test_whole_games_are_those_of_the_core(name: str) -> None:
    """Every move of a random game, told with its colour alone: Othello's forced passes are left out."""
    chance = random.Random(3)
    game = Game(name, {"size": {"go": 5, "othello": 6, "hex": 5}[name]})
    for _ in range(10):
        state, position = GameState(game), game.start()
        while not position.is_terminal:
            action = chance.choice(position.legal_actions)
            colour, move = position.to_play, position.to_move(action)
            position.play(action)
            if name == "othello" and move == "pass":
                continue
            state.play(colour, move.upper())
        assert str(state.position) == str(position)
        assert state.position.is_terminal
        while state.moves:
            state.undo()
        assert str(state.position) == str(game.start())


def test_the_cells_are_those_of_the_drawing() -> None:
    state = GameState(Game("go", {"size": 5}))
    state.play(BLACK, "A5")
    state.play(WHITE, "e1")
    assert [(cell, colour) for cell, colour in enumerate(state.cells) if colour is not None] == [(0, 0), (24, 1)]


def test_othello_refuses_a_pass_that_is_not_forced() -> None:
    client = GtpClient("othello")
    assert client.refuse("play b pass") == "illegal move"
    assert client.refuse("play w pass") == "illegal move"
    assert client.refuse("play b A1") == "illegal move"


def test_othello_takes_the_passes_that_end_a_finished_game() -> None:
    client = GtpClient("othello", settings=Settings(simulations=2))
    while not over(client):
        client.ask(f"genmove {client.ask('gogui-rules_side_to_move')}")
    board = client.ask("showboard")
    assert client.ask("genmove b") == "pass"
    client.ask("play w pass")
    assert client.ask("is_legal b pass") == "1"
    assert client.refuse("play b A1") == "illegal move"
    assert client.ask("showboard") == board
    assert client.ask("move_history").splitlines()[:2] == ["white pass", "black pass"]
    client.ask("undo")
    client.ask("undo")
    assert over(client)
    client.ask("undo")
    assert not over(client)


def test_hex_alternates() -> None:
    client = GtpClient("hex")
    client.ask("play b C3")
    assert client.refuse("play b C2") == "illegal move"
    assert "turn" in client.refuse("genmove b")
    assert client.refuse("play w pass") == "illegal move"


def test_results_of_othello_and_hex() -> None:
    client = GtpClient("hex", size=2)
    assert client.refuse("final_score") == "cannot score"
    for line in ("b A1", "w B1", "b A2"):
        client.ask(f"play {line}")
    assert client.ask("final_score") == "B+"
    assert client.ask("gogui-rules_final_result") == "B+"
    othello = GtpClient("othello")
    while (move := othello.ask(f"genmove {othello.ask('gogui-rules_side_to_move')}")) != "pass" or not over(othello):
        assert len(move) in (2, 4)
    discs = othello.ask("gogui-rules_board")
    lead = discs.count("X") - discs.count("O")
    assert othello.ask("final_score") == ("0" if lead == 0 else f"{'B' if lead > 0 else 'W'}+{abs(lead)}")


def over(client: GtpClient) -> bool:
    return client.engine.state.position.is_terminal


def test_a_set_up_of_stones_without_liberties_is_refused() -> None:
    state = GameState(Game("go", {"size": 2}))
    with pytest.raises(ValueError, match="no liberty"):
        state.place_handicap([0, 1, 2, 3])


def test_a_komi_that_no_board_has_is_the_largest_one() -> None:
    client = GtpClient(size=5)
    client.ask("komi 1e308")
    client.ask("clear_board")
    assert client.engine.state.game.params["komi"] == 361
    client.ask("komi -1e308")
    assert client.engine.state.game.params["komi"] == -361


@pytest.mark.parametrize(("komi", "played"), [
    (7.5, 7.5), (7, 7), (6.7, 6.5), (6.2, 6.5), (-0.3, -0.5), (0, 0), (1e9, 361), (-1e9, -361),
])
def test_every_result_is_that_of_the_komi(komi: float, played: float) -> None:
    assert playable_komi(komi) == played
    if abs(komi) < 361:
        for lead in range(-25, 26):
            assert (lead > komi) == (lead > played)
            assert (lead < komi) == (lead < played)


def test_a_failed_move_changes_nothing() -> None:
    state = GameState(Game("go", {"size": 5}))
    state.play(BLACK, "C3")
    before = str(state.position), state.position.to_play, state.moves
    for colour, vertex in ((WHITE, "C3"), (BLACK, "C3"), (BLACK, "Z9"), (WHITE, "")):
        with pytest.raises(CommandError, match="illegal move"):
            state.play(colour, vertex)
    assert (str(state.position), state.position.to_play, state.moves) == before


def test_a_file_that_cannot_be_played_leaves_the_komi(tmp_path: Path) -> None:
    file = tmp_path / "game.sgf"
    file.write_text("(;FF[4]GM[1]SZ[5]KM[0.5];B[aa];W[aa])", encoding="utf-8")
    client = GtpClient(size=5)
    client.ask("komi 6.5")
    assert client.refuse(f"loadsgf {file}") == "cannot load file"
    assert client.ask("get_komi") == "6.5"


SGF = "(;FF[4]GM[1]SZ[9]KM[0.5]AB[cc][gg];W[ee];B[dd];W[])"


def test_loadsgf(tmp_path: Path) -> None:
    file = tmp_path / "game.sgf"
    file.write_text(SGF, encoding="utf-8")
    client = GtpClient()
    client.ask("play b A1")
    client.ask(f"loadsgf {file}")
    assert client.ask("move_history").splitlines() == ["white pass", "black D6", "white E5"]
    assert client.ask("gogui-rules_board").count("X") == 3
    assert client.ask("get_komi") == "0.5"
    client.ask(f"loadsgf {file} 2")
    assert client.ask("move_history") == "white E5"
    client.ask("genmove b")
    before = client.ask("showboard")
    file.write_text(SGF.replace("SZ[9]", "SZ[13]"), encoding="utf-8")
    for name in (file, tmp_path / "missing.sgf", tmp_path):
        assert client.refuse(f"loadsgf {name}") == "cannot load file"
    assert client.ask("showboard") == before


@pytest.mark.parametrize(("stones", "move", "bonus"), [
    ("AB[gc][cg]", "W[ee]", 2), ("AB[gc]", "W[ee]", 0), ("AB[gc][cg]AW[aa]", "W[ee]", 0), ("AB[gc][cg]", "B[ee]", 0),
])
def test_loadsgf_counts_the_handicap(tmp_path: Path, stones: str, move: str, bonus: int) -> None:
    file = tmp_path / "game.sgf"
    file.write_text(f"(;GM[1]SZ[9]KM[0.5]{stones};{move})", encoding="utf-8")
    client = GtpClient()
    client.ask("kata-set-rules chinese-ogs")
    client.ask(f"loadsgf {file}")
    assert client.engine.state.handicap == bonus
    assert client.engine.state.game.params["komi"] == 0.5 + bonus
    assert client.ask("move_history").endswith("E5")
    client.ask("clear_board")
    assert client.engine.state.game.params["komi"] == 0.5


def test_loadsgf_keeps_the_komi_where_the_file_says_none(tmp_path: Path) -> None:
    file = tmp_path / "game.sgf"
    file.write_text("(;GM[1]SZ[9];B[ee])", encoding="utf-8")
    client = GtpClient()
    client.ask("komi 5.5")
    client.ask(f"loadsgf {file}")
    assert client.ask("get_komi") == "5.5"
