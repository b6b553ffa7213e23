"""Engines over GTP: what they are told, everything that they may do wrong, and that nothing of them stays."""

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fake_gtp_engine
import psutil
import pytest
from processes import that_stay

from shusaku.actors.arena.arena import Arena, MatchResult
from shusaku.actors.arena.players import OpenGame, RandomPlayer
from shusaku.actors.arena.strength import StoppedError
from shusaku.actors.opponents.gtp import GtpEngine, RejectedError
from shusaku.actors.opponents.player import EnginePlayer
from shusaku.actors.opponents.process import EngineError
from shusaku.actors.opponents.session import EngineSettings
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

FAKE = Path(fake_gtp_engine.__file__)
TIC_TAC_TOE, CONNECT_FOUR = Game("tic_tac_toe"), Game("connect_four")


def fake(*arguments: str) -> tuple[str, ...]:
    return sys.executable, str(FAKE), *arguments


def player(
    *arguments: str, game: Game = TIC_TAC_TOE, threads: int = 2, seconds: float = 10.0, start: float = 10.0,
    options: Mapping[str, Any] | None = None,
) -> EnginePlayer:
    settings = EngineSettings(fake(*arguments), options or {}, start, seconds)
    return EnginePlayer("second", game, settings, threads=threads)


def meet(engine: EnginePlayer, game: Game = TIC_TAC_TOE, games: int = 8) -> MatchResult:
    arena = Arena(game, (RandomPlayer(seed=1), engine), games=games, opening_plies=1, seed=1, games_at_once=4)
    try:
        return arena.play()
    finally:
        engine.close()


def test_an_engine_plays_whole_games() -> None:
    result = meet(player(options={"level": 1}))
    assert len(result.games) == 8
    assert {game.ended_by for game in result.games} == {"rules"}
    columns = player("--moves", "1 2 3 4 5 6 7", "--each", "6", game=CONNECT_FOUR)
    result = meet(columns, CONNECT_FOUR, 6)
    assert len(result.games) == 6
    assert result.forfeits(1) == {}
    assert columns.name == "Fake 1.0"


def test_moves_are_understood_in_capitals() -> None:
    assert meet(player("--upper"), games=2).forfeits(1) == {}


FAULTS = [
    ("crash", "crash", "ended with exit code 3 when asked to genmove [bw]; its last words: the engine has had enough"),
    ("abort", "crash", "was killed by SIGABRT"),
    ("close", "crash", "closed its output"),
    ("illegal_move", "illegal_move", "at ply .*'z9' is no move of this game"),
    ("taken", "illegal_move", "illegal move"),
    ("garbage", "garbage", "answered 'I would rather talk about the weather' to genmove"),
    ("sentence", "garbage", "'not a move' .* is no move"),
    ("refused", "garbage", "would not make a move: I do not know"),
    ("flood", "garbage", "more than 65,536 bytes"),
    ("chatter", "garbage", r"said '= ..' before it was asked to"),
    ("timeout", "timeout", "no answer to genmove . within 0.7 s; its last words: thinking"),
    ("half", "timeout", "only '= ..' without the empty line that ends an answer"),
]


@pytest.mark.parametrize(("fault", "kind", "message"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_a_fault_is_its_loss_and_the_match_goes_on(fault: str, kind: str, message: str) -> None:
    """The second genmove of every process fails, so every process loses the game that it is in."""
    seconds = 0.7 if kind == "timeout" else 10.0
    result = meet(player("--fault", f"{fault}:2", seconds=seconds), games=4)
    assert len(result.games) == 4
    lost = [game for game in result.games if game.loser == 1]
    assert lost
    assert {game.ended_by for game in lost} == {kind}
    assert all(game.points == 1 for game in lost)
    assert result.forfeits(1) == {kind: len(lost)}
    for game in lost:
        assert re.search(message, game.message), game.message


def test_resigning_is_no_fault() -> None:
    result = meet(player("--fault", "resign:1"), games=4)
    assert result.forfeits(1) == {"resignation": 4}
    assert {game.message for game in result.games} == {""}


def test_an_engine_may_be_loud() -> None:
    assert meet(player("--fault", "loud:1"), games=2).forfeits(1) == {}


@pytest.mark.parametrize(("fault", "kind", "message"), [
    ("start", "crash", "exit code 4 when asked to name; its last words: no book"),
    ("silent_start", "timeout", "no answer to name within 0.3 s"),
])
def test_an_engine_that_does_not_start_loses(fault: str, kind: str, message: str) -> None:
    result = meet(player("--fault", fault, start=0.3 if kind == "timeout" else 10.0), games=4)
    assert result.forfeits(1) == {kind: 4}
    assert all(message in game.message for game in result.games)


def test_what_it_refuses_before_the_game_ends_the_match() -> None:
    with pytest.raises(UsageError, match=r"second.command=.*`\? no such thing here` to `clear_board`.*tic_tac_toe"):
        meet(player("--refuse", "clear_board"))
    with pytest.raises(UsageError, match=r"`\? unknown command` to `depth 3`"):
        meet(player(options={"depth": 3}))


def test_a_legal_move_that_it_refuses_is_its_fault() -> None:
    result = meet(player("--refuse", "play"), games=2)
    assert result.forfeits(1) == {"refusal": 2}
    assert "would not take the legal move" in result.games[0].message


def test_a_pass_that_it_refuses_is_passed_over() -> None:
    engine = player("--refuse", "play", "--moves", "d3 c4", game=Game("othello"))
    game = OpenGame(0, Game("othello").start(), moves=[(1, "pass")])
    assert engine.choose([game]) == [game.position.from_move("d3")]
    engine.close()


def test_a_program_that_is_not_there_is_named() -> None:
    settings = EngineSettings(("no-such-engine", "--mode", "gtp"), {}, 1, 1)
    with pytest.raises(UsageError, match=r"second\.command=no-such-engine --mode gtp: there is no program"):
        EnginePlayer("second", TIC_TAC_TOE, settings, threads=1)
    with pytest.raises(UsageError, match="cannot be started"):
        GtpEngine([str(FAKE.parent)])


@pytest.mark.parametrize("fault", ["", "crash:2", "timeout:2", "flood:2", "silent_start"])
def test_no_process_stays(fault: str, tmp_path: Path) -> None:
    """Every engine here has a child of its own that would sleep for ten minutes."""
    file = tmp_path / "pids"
    arguments = ["--pid-file", str(file), *(["--fault", fault] if fault else [])]
    slow = "timeout" in fault or "silent" in fault
    meet(player(*arguments, seconds=0.5 if slow else 10, start=0.5 if "silent" in fault else 10), games=4)
    started = [int(number) for number in file.read_text(encoding="ascii").split()]
    assert len(started) >= 2
    assert that_stay(started) == []


def test_a_healthy_process_plays_game_after_game(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    meet(player("--pid-file", str(file)), games=20)
    assert len(file.read_text(encoding="ascii").splitlines()) <= 4, "one for each game at once"


def test_stopping_does_not_wait_for_the_move() -> None:
    stop: list[bool] = []
    engine = GtpEngine(fake("--fault", "timeout:1"), lambda: bool(stop))
    assert engine.ask("name", 10) == "Fake"
    with pytest.raises(RejectedError, match="unknown command"):
        engine.ask("boardsize 3", 10)
    stop.append(True)
    begin = time.monotonic()
    with pytest.raises(StoppedError):
        engine.ask("genmove b", 60)
    engine.close(at_once=True)
    assert time.monotonic() - begin < 2


def test_an_engine_that_died_between_two_questions_is_a_crash() -> None:
    engine = GtpEngine(fake())
    assert engine.ask("version", 10) == "1.0"
    psutil.Process(engine._process.pid).kill()
    with pytest.raises(EngineError, match="was killed by SIGKILL when asked to name") as error:
        engine.ask("name", 10)
    assert error.value.kind == "crash"
    engine.close()


def test_an_engine_that_died_between_two_games_loses_none() -> None:
    engine = player(threads=1)
    first, second = OpenGame(0, TIC_TAC_TOE.start()), OpenGame(1, TIC_TAC_TOE.start())
    assert isinstance(engine.choose([first])[0], int)
    engine.end(first)
    psutil.Process(engine._idle[0].engine._process.pid).kill()
    assert isinstance(engine.choose([second])[0], int)
    engine.close()
