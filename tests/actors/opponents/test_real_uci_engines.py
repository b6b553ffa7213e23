"""Chess and shogi engines of other people as opponents: their words are understood, their rules and ours agree."""

import re
import subprocess
from typing import Any

import pytest
from oracles import engine

from shusaku.actors.arena.arena import Arena
from shusaku.actors.arena.players import RandomPlayer
from shusaku.actors.opponents.player import EnginePlayer
from shusaku.actors.opponents.session import EngineSettings
from shusaku.actors.opponents.uci import UciEngine
from shusaku.actors.opponents.uci_games import KNOWN, from_engine, start_words, to_engine
from shusaku.actors.opponents.uci_options import option_commands
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

QUICK_GPS = {"LimitDepth": 4, "Thread": 1}


@pytest.mark.parametrize(("program", "protocol", "name", "options", "go", "move"), [
    ("stockfish", "uci", "Stockfish", {"Skill Level": 0, "UCI_LimitStrength": False, "Clear Hash": None, "Hash": 1},
     "go nodes 100", "[a-h][12][a-h][34]"),
    ("fairy-stockfish", "uci", "Fairy-Stockfish", {"UCI_Variant": "chess", "Analysis Contempt": "Off"},
     "go depth 2", "[a-h][12][a-h][34]"),
    ("fairy-stockfish", "usi", "Fairy-Stockfish", {"UCI_Variant": "shogi"}, "go btime 0 wtime 0 byoyomi 50",
     "[1-9][a-i][1-9][a-i]"),
    ("gpsusi", "usi", "gpsshogi", QUICK_GPS, "go btime 0 wtime 0 byoyomi 50", "[1-9][a-i][1-9][a-i]"),
], ids=["stockfish", "fairy-stockfish uci", "fairy-stockfish usi", "gpsshogi"])
def test_it_is_introduced_and_moves(
    program: str, protocol: str, name: str, options: dict[str, Any], go: str, move: str
) -> None:
    process = UciEngine([engine(program)])
    try:
        said, announced = process.introduce(protocol, 60)
        assert name in said
        for command in option_commands("second.options", announced, options):
            process.send(command)
        process.wait_until_ready(60)
        process.send(f"{protocol}newgame" if protocol == "usi" else "ucinewgame")
        assert re.fullmatch(move, process.best_move("position startpos", go, 60))
        assert process.best_move("position startpos moves " + ("e2e4" if protocol == "uci" else "7g7f"), go, 60)
    finally:
        process.close()


def test_what_stockfish_does_not_announce_is_refused() -> None:
    process = UciEngine([engine("stockfish")])
    announced = process.introduce("uci", 60)[1]
    process.close()
    with pytest.raises(UsageError, match=r"announces no option UCI_ELO2; nearest: UCI_Elo; it has Debug Log File, Thr"):
        option_commands("second.options", announced, {"UCI_ELO2": 1500})
    with pytest.raises(UsageError, match=r"\{Skill Level: 30\}: must lie between 0 and 20"):
        option_commands("second.options", announced, {"Skill Level": 30})


def moves_of(protocol: str, variant: str, position: str) -> set[str]:
    """What Fairy-Stockfish says is legal, in the words of the protocol."""
    script = f"{protocol}\nsetoption name UCI_Variant value {variant}\nposition {position}\ngo perft 1\nquit\n"
    done = subprocess.run([engine("fairy-stockfish")], input=script, capture_output=True, text=True, timeout=60,
                          check=True)
    return set(re.findall(r"^(\S+): 1$", done.stdout, re.MULTILINE))


@pytest.mark.parametrize(("game", "position"), [
    ("shogi", "startpos"),
    ("shogi", "sfen 4k4/1R7/9/9/9/9/1P7/1B7/LNSGK4 b RBGSNLP 1"),
    ("shogi", "sfen lnsgk4/9/9/9/9/9/9/7r1/4K4 w rbgsnlp 2"),
    ("minishogi", "startpos"),
    ("minishogi", "sfen 4k/R4/5/5/K4 b RBGSP 1"),
])
def test_shogi_over_uci_is_shogi_over_usi(game: str, position: str) -> None:
    """Two languages of one engine: every legal move, drops and promotions among them."""
    known = KNOWN["uci"][game]
    over_uci, over_usi = (moves_of(protocol, game, position) for protocol in ("uci", "usi"))
    assert len(over_usi) > 10
    assert {from_engine(known, move) for move in over_uci} == over_usi
    assert {to_engine(known, move) for move in over_usi} == over_uci


@pytest.mark.parametrize(("protocol", "name"), [
    (protocol, name) for protocol, games in KNOWN.items() for name in ("chess", "shogi", "minishogi") if name in games
])
def test_our_games_begin_where_theirs_do(protocol: str, name: str) -> None:
    game = Game(name)
    assert start_words(KNOWN[protocol][name], game) == "startpos"
    script = f"uci\nsetoption name UCI_Variant value {name}\nposition startpos\nd\nquit\n"
    said = subprocess.run([engine("fairy-stockfish")], input=script, capture_output=True, text=True, timeout=60,
                          check=True).stdout
    found = re.search(r"^Fen: (.*)$" if name == "chess" else r"^Sfen: (.*)$", said, re.MULTILINE)
    assert found
    assert found[1] == game.start().text


@pytest.mark.parametrize(("program", "protocol", "name", "options", "limit"), [
    ("stockfish", "uci", "chess", {"Skill Level": 3}, ("nodes", 200)),
    ("fairy-stockfish", "uci", "chess", {}, ("depth", 3)),
    ("fairy-stockfish", "usi", "shogi", {}, ("nodes", 400)),
    ("fairy-stockfish", "uci", "shogi", {"UCI_Variant": "shogi"}, ("nodes", 400)),
    ("fairy-stockfish", "usi", "minishogi", {"UCI_Variant": "minishogi"}, ("nodes", 400)),
    ("fairy-stockfish", "uci", "minishogi", {"UCI_Variant": "minishogi"}, ("movetime_ms", 10)),
    ("gpsusi", "usi", "shogi", QUICK_GPS, ("movetime_ms", 50)),
])
def test_it_plays_whole_games_by_our_rules(
    program: str, protocol: str, name: str, options: dict[str, Any], limit: tuple[str, int]
) -> None:
    """No move of either is refused by the other, and a random mover does not win."""
    game = Game(name)
    settings = EngineSettings((engine(program),), options, 60, 60, protocol, limit)
    player = EnginePlayer("second", game, settings, threads=2)
    try:
        arena = Arena(game, (RandomPlayer(seed=1), player), games=4, opening_plies=4, seed=1, games_at_once=2)
        result = arena.play()
    finally:
        player.close()
    assert {finished.ended_by for finished in result.games} <= {"rules", "ply_limit"}, [
        finished.message for finished in result.games
    ]
    assert result.tally().wins == 0
    assert result.tally().losses >= 2


@pytest.mark.parametrize(("program", "protocol", "name", "options", "message"), [
    ("stockfish", "uci", "minishogi", {}, "announces no option UCI_Variant"),
    ("fairy-stockfish", "usi", "minishogi", {}, "with UCI_Variant=shogi the engine does not play minishogi; give"),
    ("fairy-stockfish", "uci", "shogi", {}, "with UCI_Variant=chess the engine does not play shogi; give"),
])
def test_an_engine_that_would_play_another_game_is_refused(
    program: str, protocol: str, name: str, options: dict[str, Any], message: str
) -> None:
    game = Game(name)
    player = EnginePlayer("second", game, EngineSettings((engine(program),), options, 60, 60, protocol), threads=1)
    arena = Arena(game, (RandomPlayer(seed=1), player), games=2, opening_plies=0, seed=1, games_at_once=1)
    with pytest.raises(UsageError, match=message):
        arena.play()
    player.close()
