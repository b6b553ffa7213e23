"""A game against the network: words in, text out, on real searches."""

import random
from pathlib import Path

import pytest

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.config.search import PuctConfig
from shusaku.deploy.protocols.play.session import COLOURS, COMMANDS, PlayError, Session, Strength, parse_side
from shusaku.deploy.records.files import read_records

GAMES = ("tic_tac_toe", "connect_four", "othello", "hex", "go", "chess", "shogi", "minishogi")
SMALL = {"othello": {"size": 6}, "hex": {"size": 4}, "go": {"size": 5}}


def session(name: str = "tic_tac_toe", side: str = "first", simulations: int = 8, temperature: float = 0.0) -> Session:
    game = Game(name, SMALL.get(name, {}))
    analysis = Analysis(game, [PseudoRandomEvaluator(game, 16)], PuctConfig(simulations=simulations), seed=1)
    return Session(game, analysis, Strength(simulations, temperature), parse_side(side, game))


def answer(game: Session) -> None:
    while game.is_computers_turn:
        game.think()


@pytest.mark.parametrize("name", GAMES)
def test_a_game_on_each_board(name: str) -> None:
    chance, game = random.Random(2), session(name, simulations=4)
    for _ in range(10):
        if game.is_over:
            break
        position = game.position
        text = game.receive(position.to_move(chance.choice(position.legal_actions)))
        assert f"({game.name})" in text or game.is_over
        answer(game)
        assert game.is_over or game.position.to_play == 0
    assert len(game.record().moves) == len(game.record().actions) > 0
    assert str(game.record().last_position()) == str(game.position)


def test_a_won_game() -> None:
    game = session(side="both")
    for move in ("a1", "B2", "a2", "c3"):
        assert "(you)" in game.receive(move)
    assert game.receive("a3").endswith("X wins")
    assert game.record().outcome == 1
    with pytest.raises(PlayError, match="the game is over"):
        game.receive("b1")
    assert "move 1: X (you)" in game.receive("new")


def test_undo_goes_back_to_the_users_turn() -> None:
    game = session()
    before = game.board()
    with pytest.raises(PlayError, match="no move of yours"):
        game.receive("undo")
    game.receive("b2")
    game.think()
    assert game.receive("undo") == before
    game.receive("b2")
    assert game.receive("undo") == before  # before the answer
    game.receive("resign")
    assert not game.receive("undo").endswith("resigned")


def test_the_user_may_change_sides() -> None:
    game = session(side="second")
    assert game.is_computers_turn
    game.think()
    assert not game.is_computers_turn
    game.receive("side X")
    assert game.is_computers_turn
    game.receive("side none")
    answer(game)
    assert game.is_over


def test_a_hint_names_legal_moves_and_changes_nothing() -> None:
    game = session("go", simulations=40)
    before = game.board()
    lines = game.receive("hint").splitlines()
    assert 1 <= len(lines) <= 3
    for line in lines:
        game.position.copy().play(game.position.from_move(line.split()[0]))
        assert "%" in line
    assert game.board() == before


def test_resigning() -> None:
    game = session("chess")
    assert game.receive("resign") == "black wins, white resigned"
    record = game.record()
    assert (record.outcome, record.ended_by) == (-1, "resignation")
    with pytest.raises(PlayError, match="over already"):
        game.receive("resign")
    with pytest.raises(PlayError, match="no move to hint at"):
        game.receive("hint")


@pytest.mark.parametrize(("line", "reason"), [
    ("e5", "'e5' is no move of this game: legal are"), ("hnit", "nearest: hint"), ("hint me now", ""),
    ("go there", "go is no command"), ("pass", "'pass' is no move of this game"),
    ("simulations 0", "whole number from 1"), ("simulations x", "whole number"), ("temperature -1", "from 0 to 10"),
    ("temperature nan", "from 0 to 10"), ("side left", "must be one of"), ("save", "needs a file name"),
    ("save game.xyz", "no notation"), ("save /no/such/folder/g.pgn", "No such file"),
    ("\x00", "is no move of this game"), ("🙂", "is no move of this game"), ("e2e5", "illegal move 'e2e5'"),
])
def test_what_cannot_be_taken(line: str, reason: str) -> None:
    game = session("chess")
    before = game.board()
    if reason:
        with pytest.raises(PlayError, match=reason) as error:
            game.receive(line)
        assert "\n" not in str(error.value)
    else:
        game.receive(line)
    assert game.board() == before


def test_strength_can_be_changed() -> None:
    game = session()
    assert game.receive("simulations 12") == "12 simulations a move"
    assert game.receive("temperature 0.5") == "temperature 0.5"
    game.receive("b2")
    assert "after 12 simulations" in game.think()


def test_temperature_plays_other_moves_too() -> None:
    sharp, soft = session(simulations=30), session(simulations=30, temperature=2.0)
    replies: dict[str, set[str]] = {"sharp": set(), "soft": set()}
    for _ in range(12):
        for name, game in (("sharp", sharp), ("soft", soft)):
            game.receive("new")
            game.receive("b2")
            game.think()
            replies[name].add(game.record().moves[-1].text)
    assert len(replies["sharp"]) == 1
    assert len(replies["soft"]) > 2


@pytest.mark.parametrize(("name", "ending"), [("go", "sgf"), ("chess", "pgn"), ("shogi", "kif"), ("hex", "jsonl")])
def test_saving(name: str, ending: str, tmp_path: Path) -> None:
    game, chance = session(name), random.Random(4)
    for _ in range(4):
        game.receive(game.position.to_move(chance.choice(game.position.legal_actions)))
        answer(game)
    file = tmp_path / f"game.{ending}"
    assert game.receive(f"save {file}") == f"saved 8 moves in {file}"
    [record] = read_records(file).records
    assert record.actions == game.record().actions
    assert record.game == name


def test_every_command_is_in_the_help() -> None:
    game = session("go")
    text = game.receive("help")
    for name in COMMANDS:
        if name != "help":
            assert f"  {name}" in text
    game.receive("quit")
    assert game.has_ended
    assert set(COLOURS) == set(GAMES)
