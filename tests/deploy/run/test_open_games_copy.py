"""Open games of a run, copied with its window: each goes on in the copy, and none is there twice."""

import threading
from pathlib import Path
from typing import Any

import msgpack
import pytest
from window_copies import RUN, Servers, begin, copy, entries, two_servers

from shusaku.common.errors import UsageError
from shusaku.deploy.run.archive import unpack
from shusaku.deploy.run.open_games_copy import OPEN_GAMES, stored_open_games
from shusaku.deploy.run.window_copy import load_window
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.open_games import SaveCall, SaveStatus, take_open_games

__all__ = ["two_servers"]  # a fixture


def name_of(number: int) -> str:
    return f"3.0.0.{number}"


def save(appender: Appender, number: int, sequence: int, games: dict[str, bytes]) -> None:
    assert appender.save_open_games(SaveCall(number, sequence, games, tuple(games))) is SaveStatus.DONE


def test_open_games_go_on_in_the_copy(servers: Servers, tmp_path: Path) -> None:
    one, two = (server.url for server in servers)
    begin(one)
    saved = {0: {name_of(1): b"first", name_of(2): bytes(1000)}, 11: {"3.0.5.7": b"of actor 11"}}
    for actor, games in saved.items():
        save(Appender(one, RUN, actor=actor, epoch=3, incarnation=0), 0, 0, games)
    Appender(one, RUN, actor=0, epoch=3, incarnation=0).append([EncodedGame(0, 1, b"the end of the first", name_of(1))])
    copy(one, tmp_path / "to")
    unpack(tmp_path / "to", tmp_path / "back")
    load_window(two, RUN, tmp_path / "back")
    del saved[0][name_of(1)]
    assert connect(two).hget(RunKeys.of(RUN).open, "bytes") == b"1011"
    RedisControl(two, RUN).begin(4, capacity=1000, max_bytes=1 << 20, actors=12)
    for actor, games in saved.items():
        assert take_open_games(two, RUN, (4, actor, 0)).games == games
    assert take_open_games(two, RUN, (4, 1, 0)).games == {}


def test_no_game_is_open_and_ended_in_a_copy_beside_an_actor_that_ends_games(servers: Servers, tmp_path: Path) -> None:
    one, two = (server.url for server in servers)
    begin(one, capacity=1_000_000)
    games = {name_of(number): b"%04d" % number for number in range(2000)}
    appender = Appender(one, RUN, actor=0, epoch=3, incarnation=0)
    save(appender, 0, 0, games)

    def end_all() -> None:
        for number, (name, data) in enumerate(games.items()):
            appender.append([EncodedGame(number, 1, data, name)])

    ending = threading.Thread(target=end_all)
    ending.start()
    copies = 0
    while ending.is_alive() and copies < 12:
        copy(one, tmp_path / f"to{copies}")
        copies += 1
    ending.join()
    partly = 0
    for number in range(copies):
        folder = tmp_path / f"back{number}"
        unpack(tmp_path / f"to{number}", folder)
        connect(two).flushall()
        load_window(two, RUN, folder)
        still_open = {data for _, _, data in stored_open_games(folder)}
        ended = {fields[b"d"] for _, fields in entries(two)}
        assert not still_open & ended
        partly += bool(still_open and ended)
    assert partly, "games ended between two copies"


GOOD = [3, b"3.0.0.1", b"game"]


@pytest.mark.parametrize("game", [
    "text", [1], [3, b"name", b"game"], [-1, *GOOD[1:]], [1 << 60, *GOOD[1:]], [True, *GOOD[1:]], [b"3", *GOOD[1:]],
    [3, b"\xff", b"game"], [3, b"3.0.0.1", 5], [3, 5, b"game"], [*GOOD, b"more"], {},
])
def test_open_games_of_another_form_are_refused_and_leave_nothing(
    servers: Servers, tmp_path: Path, game: Any
) -> None:
    one, two = (server.url for server in servers)
    begin(one)
    copy(one, tmp_path / "to")
    unpack(tmp_path / "to", tmp_path / "back")
    (tmp_path / "back" / OPEN_GAMES).write_bytes(msgpack.packb(GOOD) + msgpack.packb(game))
    with pytest.raises(UsageError, match="no open game"):
        load_window(two, RUN, tmp_path / "back")
    assert connect(two).keys("*") == []


def test_a_copy_of_an_earlier_version_has_no_open_games(servers: Servers, tmp_path: Path) -> None:
    one, two = (server.url for server in servers)
    begin(one)
    copy(one, tmp_path / "to")
    unpack(tmp_path / "to", tmp_path / "back")
    (tmp_path / "back" / OPEN_GAMES).unlink()
    load_window(two, RUN, tmp_path / "back")
    assert connect(two).hget(RunKeys.of(RUN).control, "version") == b"17"
