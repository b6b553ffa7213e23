"""Engines over UCI and USI: what they are told, everything that they may do wrong, and that nothing of them stays."""

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fake_uci_engine
import pytest
from processes import that_stay

from shusaku.actors.arena.arena import Arena, MatchResult
from shusaku.actors.arena.players import OpenGame, RandomPlayer
from shusaku.actors.arena.strength import StoppedError
from shusaku.actors.opponents import uci_games
from shusaku.actors.opponents.player import EnginePlayer
from shusaku.actors.opponents.process import EngineError
from shusaku.actors.opponents.session import EngineSettings
from shusaku.actors.opponents.uci import UciEngine
from shusaku.actors.opponents.uci_games import KnownGame
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

FAKE = Path(fake_uci_engine.__file__)
TIC_TAC_TOE = Game("tic_tac_toe")
VARIANTS = "option name UCI_Variant type combo default chess var chess var minishogi var tic_tac_toe"


@pytest.fixture(autouse=True)
def tic_tac_toe_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for games in uci_games.KNOWN.values():
        monkeypatch.setitem(games, "tic_tac_toe", KnownGame("", TIC_TAC_TOE.start().text, "fen"))


def fake(*arguments: str) -> tuple[str, ...]:
    return sys.executable, str(FAKE), *arguments


def player(
    *arguments: str, protocol: str = "uci", seconds: float = 20.0, start: float = 20.0,
    options: Mapping[str, Any] | None = None, limit: tuple[str, int] = ("nodes", 100), threads: int = 2,
) -> EnginePlayer:
    settings = EngineSettings(fake(*arguments), options or {}, start, seconds, protocol, limit)
    return EnginePlayer("second", TIC_TAC_TOE, settings, threads=threads)


def meet(engine: EnginePlayer, games: int = 8) -> MatchResult:
    arena = Arena(TIC_TAC_TOE, (RandomPlayer(seed=1), engine), games=games, opening_plies=1, seed=1, games_at_once=4)
    try:
        return arena.play()
    finally:
        engine.close()


@pytest.mark.parametrize("protocol", ["uci", "usi"])
def test_an_engine_plays_whole_games(protocol: str) -> None:
    engine = player(protocol=protocol)
    result = meet(engine)
    assert len(result.games) == 8
    assert {game.ended_by for game in result.games} == {"rules"}
    assert engine.name == "Fake 1.0"


def told(file: Path) -> list[str]:
    return file.read_text(encoding="ascii").splitlines()


def test_what_is_told_over_uci(tmp_path: Path) -> None:
    file = tmp_path / "log"
    engine = player("--log", str(file), threads=1, options={"skill level": 3, "Ponder": True, "Clear Hash": None})
    for number in range(2):
        game = OpenGame(number, TIC_TAC_TOE.start())
        for text in ("b2", "a1") if number else ():
            game.play(game.position.from_move(text))
        choice = engine.choose([game])[0]
        assert isinstance(choice, int)
        game.play(choice)
        engine.end(game)
    engine.close()
    assert told(file) == [
        "uci", "setoption name Skill Level value 3", "setoption name Ponder value true", "setoption name Clear Hash",
        "ucinewgame", "isready", "position startpos", "go nodes 100",
        "ucinewgame", "isready", "position startpos moves b2 a1", "go nodes 100", "quit",
    ]


@pytest.mark.parametrize(("moves", "result"), [
    ("a1 a2 b1 b2", "gameover win"),  # the engine completes c1
    ("a1 b1 b2 a3 c3", "gameover lose"),
    ("b2 b1 a2 c2 a1 a3 c1", "gameover win"),
])
def test_what_is_told_over_usi(moves: str, result: str, tmp_path: Path) -> None:
    """How the game ended is told from the engine's side."""
    file = tmp_path / "log"
    engine = player("--log", str(file), "--moves", "c1", protocol="usi", limit=("movetime_ms", 50))
    game = OpenGame(0, TIC_TAC_TOE.start())
    last = ""
    if result == "gameover lose":  # it has moved once, before the other one wins
        *before, last = moves.split()
    else:
        before = moves.split()
    if "c1" in before:
        before.remove("c1")
    for text in before:
        game.play(game.position.from_move(text))
    choice = engine.choose([game])[0]
    assert choice == game.position.from_move("c1")
    assert isinstance(choice, int)
    if not last:
        game.play(choice)
    engine.end(game)
    engine.close()
    assert told(file)[:6] == [
        "usi", "isready", "usinewgame", f"position startpos moves {' '.join(before)}",
        "go btime 0 wtime 0 byoyomi 50", told(file)[5],
    ]
    assert told(file)[5].startswith("gameover")
    assert told(file)[6:] == ["quit"]


FAULTS = [
    ("crash", "crash", "ended with exit code 3 when asked to go nodes 100; its last words: the engine has had enough"),
    ("abort", "crash", "was killed by SIGABRT"),
    ("close", "crash", "closed its output"),
    ("illegal_move", "illegal_move", "at ply .*'z9' is no move of this game"),
    ("taken", "illegal_move", "illegal move"),
    ("none", "illegal_move", r"at ply \d: says \(none\) for no move, where \d are legal"),
    ("zeros", "illegal_move", "says 0000 for no move"),
    ("resign", "illegal_move", "'resign' is no move of this game"),
    ("empty", "garbage", "answered 'bestmove' without a move to go nodes 100"),
    ("twice", "garbage", "said 'bestmove .*' before it was asked to go nodes 100"),
    ("long_line", "garbage", "with a line of more than 65,536 bytes: 'xxx"),
    ("flood", "garbage", "said more than 33,554,432 bytes and no bestmove to go nodes 100"),
    ("timeout", "timeout", "no answer to go nodes 100 within 0.7 s; its last words: thinking"),
    ("late", "timeout", "no answer to go nodes 100 within 0.7 s"),
    ("half", "timeout", "only 'bestmove ..' without the end of its line"),
]


@pytest.mark.parametrize(("fault", "kind", "message"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_a_fault_is_its_loss_and_the_match_goes_on(fault: str, kind: str, message: str) -> None:
    """The second go of every process fails, so every process loses the game that it is in."""
    result = meet(player("--fault", f"{fault}:2", seconds=0.7 if kind == "timeout" else 20.0), games=4)
    assert len(result.games) == 4
    lost = [game for game in result.games if game.loser == 1]
    assert lost
    assert {game.ended_by for game in lost} == {kind}
    assert all(game.points == 1 for game in lost)
    assert result.forfeits(1) == {kind: len(lost)}
    for game in lost:
        assert re.search(message, game.message), game.message


def test_resigning_over_usi_is_no_fault() -> None:
    result = meet(player("--fault", "resign:1", protocol="usi"), games=4)
    assert result.forfeits(1) == {"resignation": 4}
    assert {game.message for game in result.games} == {""}


def test_a_win_that_the_rules_do_not_give_is_a_loss() -> None:
    result = meet(player("--fault", "win:1", protocol="usi"), games=4)
    assert result.forfeits(1)["illegal_move"] >= 1
    assert all("declares a win that our rules do not give it" in game.message for game in result.games if game.message)


def test_an_engine_may_be_loud() -> None:
    assert meet(player("--fault", "chatter:1"), games=2).forfeits(1) == {}


@pytest.mark.parametrize(("fault", "kind", "message"), [
    ("start", "crash", "exit code 4 when asked to uci; its last words: no network file"),
    ("silent_start", "timeout", "no answer to uci within 0.3 s"),
])
def test_an_engine_that_does_not_start_loses(fault: str, kind: str, message: str) -> None:
    result = meet(player("--fault", fault, start=0.3 if kind == "timeout" else 20.0), games=4)
    assert result.forfeits(1) == {kind: 4}
    assert all(message in game.message for game in result.games)


def test_an_engine_of_another_protocol_is_silent() -> None:
    """GTP answers `uci` with `? unknown command`, which is nothing that UCI knows."""
    settings = EngineSettings((sys.executable, str(FAKE.parent / "fake_gtp_engine.py")), {}, 0.5, 1, "uci")
    result = meet(EnginePlayer("second", TIC_TAC_TOE, settings, threads=2), games=2)
    assert result.forfeits(1) == {"timeout": 2}
    assert "no answer to uci within 0.5 s" in result.games[0].message


@pytest.mark.parametrize(("options", "message"), [
    ({"Skil Level": 3}, "second.options={Skil Level: 3}: the engine announces no option Skil Level; nearest: Skill L"),
    ({"Skill Level": 21}, "second.options={Skill Level: 21}: must lie between 0 and 20"),
    ({"Style": "Risky"}, "second.options={Style: Risky}: there is no such value; nearest: Very Risky; there are Sol"),
])
def test_an_option_that_does_not_fit_ends_the_match(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        meet(player(options=options))


@pytest.mark.parametrize(("variant", "options", "protocol", "message"), [
    ("tic_tac_toe", {}, "uci", r"with UCI_Variant=chess the engine does not play tic_tac_toe; give "
                               r"'second\.options=\{UCI_Variant: tic_tac_toe\}'"),
    ("tic_tac_toe", {"UCI_Variant": "minishogi"}, "usi", "with UCI_Variant=minishogi the engine does not play"),
    ("tic_tac_toe", {"UCI_Variant": "tic_tac_toe"}, "uci", ""),
    ("chess", {}, "uci", ""),
])
def test_the_variant_has_to_be_the_game(
    variant: str, options: dict[str, Any], protocol: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(uci_games.KNOWN[protocol], "tic_tac_toe", KnownGame(variant, TIC_TAC_TOE.start().text, "fen"))
    engine = player("--option", VARIANTS, options=options, protocol=protocol)
    if message:
        with pytest.raises(UsageError, match=message):
            meet(engine)
    else:
        assert meet(engine, games=2).forfeits(1) == {}


def test_uci_without_variants_is_chess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(uci_games.KNOWN["uci"], "tic_tac_toe", KnownGame("minishogi", TIC_TAC_TOE.start().text, "fen"))
    with pytest.raises(UsageError, match=r"announces no option UCI_Variant, so it plays chess over UCI, not minishogi"):
        meet(player())


@pytest.mark.parametrize("fault", ["", "crash:2", "timeout:2", "long_line:2", "silent_start", "stubborn"])
def test_no_process_stays(fault: str, tmp_path: Path) -> None:
    """Every engine here has a child of its own that would sleep for ten minutes; a stubborn one does not quit."""
    file = tmp_path / "pids"
    extra = ["--stubborn"] if fault == "stubborn" else ["--fault", fault] if fault else []
    slow = "timeout" in fault or "silent" in fault
    start = 0.5 if "silent" in fault else 20
    meet(player("--pid-file", str(file), *extra, seconds=0.5 if slow else 20, start=start), games=4)
    started = [int(number) for number in file.read_text(encoding="ascii").split()]
    assert len(started) >= 2
    assert that_stay(started) == []


def test_a_healthy_process_plays_game_after_game(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    meet(player("--pid-file", str(file), protocol="usi"), games=20)
    assert len(file.read_text(encoding="ascii").splitlines()) <= 4, "one for each game at once"


def test_stopping_does_not_wait_for_the_move() -> None:
    stop: list[bool] = []
    engine = UciEngine(fake("--fault", "timeout:1"), lambda: bool(stop))
    name, options = engine.introduce("uci", 20)
    assert name == "Fake 1.0"
    assert len(options) == 5, "what is not understood is no option"
    stop.append(True)
    begin = time.monotonic()
    with pytest.raises(StoppedError):
        engine.best_move("position startpos moves a1", "go infinite", 60)
    engine.close(at_once=True)
    assert time.monotonic() - begin < 2


def test_an_engine_that_does_not_read_is_not_waited_for() -> None:
    engine = UciEngine(fake("--fault", "silent_start"))
    begin = time.monotonic()
    with pytest.raises(EngineError, match="does not read what it is told") as error:
        engine.send("x" * 2_000_000)
    assert error.value.kind == "timeout"
    engine.close(at_once=True)
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(("protocol", "game", "message"), [
    ("uci", "go", "second.engine=uci: has no words for go, only for chess, shogi, minishogi, tic_tac_toe; use "
                  "second.engine=gtp and a program that plays it"),
    ("usi", "connect_four", "second.engine=usi: has no words for connect_four"),
])
def test_games_that_a_protocol_does_not_know_are_refused(protocol: str, game: str, message: str) -> None:
    settings = EngineSettings(fake(), {}, 1, 1, protocol)
    with pytest.raises(UsageError, match=re.escape(message)):
        EnginePlayer("second", Game(game), settings, threads=1)


def test_the_other_protocol_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(uci_games.KNOWN["usi"], "tic_tac_toe")
    with pytest.raises(UsageError, match=r"second\.engine=usi: has no words for tic_tac_toe.*use second\.engine=uci$"):
        player(protocol="usi")
