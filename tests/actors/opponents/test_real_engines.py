"""Engines of other people as opponents: their rules and ours have to agree for whole games."""

import shutil

import pytest
from oracles import engine

from shusaku.actors.arena.arena import Arena
from shusaku.actors.arena.players import RandomPlayer
from shusaku.actors.opponents.player import EnginePlayer
from shusaku.actors.opponents.session import EngineSettings
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

OPTIONS = ("--mode", "gtp", "--level", "1", "--chinese-rules", "--positional-superko", "--capture-all-dead")


def gnu_go(game: Game, **options: object) -> EnginePlayer:
    return EnginePlayer("second", game, EngineSettings((engine("gnugo"), *OPTIONS), options, 30, 30), threads=2)


@pytest.mark.parametrize("params", [{"size": 9, "komi": 7.0}, {"size": 7, "komi": 0.5, "handicap": 2}])
def test_it_plays_whole_games_by_our_rules(params: dict[str, float]) -> None:
    """No move of either is refused by the other, and a random mover does not win."""
    game = Game("go", params)
    player = gnu_go(game, level=1)
    arena = Arena(game, (RandomPlayer(seed=1), player), games=2, opening_plies=4, seed=1, games_at_once=2)
    result = arena.play()
    player.close()
    assert player.name == "GNU Go 3.8"
    assert {finished.ended_by for finished in result.games} <= {"rules", "ply_limit"}
    assert result.tally().losses == 2
    assert all("pass" not in finished.moves[:4] for finished in result.games), "openings pass nothing up"


def test_what_it_does_not_play_is_named() -> None:
    game = Game("go", {"size": 9})
    player = gnu_go(game, boardsize=99)
    arena = Arena(game, (RandomPlayer(seed=1), player), games=2, opening_plies=0, seed=1, games_at_once=2)
    with pytest.raises(UsageError, match=r"answers `\? unacceptable size` to `boardsize 99`"):
        arena.play()
    player.close()


def test_othello_with_passes_against_grhino() -> None:
    program = shutil.which("gtp-rhino") or shutil.which("gtp-rhino", path="/usr/games")
    if program is None:  # `make oracles` cannot unpack it without root: its data lie at a fixed path in /usr/share
        pytest.skip("gtp-rhino is not here: it is in Debian's package grhino")
    game = Game("othello")
    player = EnginePlayer("second", game, EngineSettings((program, "-l", "1", "-r", "5"), {}, 30, 30), threads=2)
    arena = Arena(game, (RandomPlayer(seed=1), player), games=40, opening_plies=4, seed=1, games_at_once=8)
    result = arena.play()
    player.close()
    assert {finished.ended_by for finished in result.games} == {"rules"}
    assert any("pass" in finished.moves for finished in result.games)
    assert result.tally().score < 0.2
