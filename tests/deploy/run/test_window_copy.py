"""The window of a run, copied while games come and go, and written into another server."""

import json
import threading
from pathlib import Path
from typing import Any

import msgpack
import pytest
from window_copies import RUN, begin, copy, entries, two_servers

from shusaku.common.errors import UsageError
from shusaku.deploy.run.archive import unpack
from shusaku.deploy.run.window_copy import GAMES, NUMBERS, load_window
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.client import ReplayUnavailable, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer

ROWS = 5  # of a game
__all__ = ["two_servers"]  # a fixture


def play(url: str, first: int, count: int) -> None:
    appender = Appender(url, RUN, actor=0, epoch=3, incarnation=0)
    for sequence in range(first, first + count):
        appender.append([EncodedGame(sequence, ROWS, b"game %06d " % sequence + bytes(100))])
    appender.close()


def test_every_game_and_counter_comes_back(servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path) -> None:
    one, two = (server.url for server in servers)
    control = begin(one)
    play(one, 0, 300)  # of which 200 stay
    client: Any = connect(one)
    client.xadd(RunKeys.of(RUN).games, {"x": "of another program"}, id="9007199254740993-5")
    facts = copy(one, tmp_path / "to")
    assert (facts.games, facts.number, facts.kept, facts.version) == (300, 300, 200, 17)
    unpack(tmp_path / "to", tmp_path / "back")
    load_window(two, RUN, tmp_path / "back")
    assert entries(two) == entries(one)[:-1]
    assert RedisControl(two, RUN).counters() == control.counters()
    assert client.hgetall(RunKeys.of(RUN).control) == connect(two).hgetall(RunKeys.of(RUN).control)
    again = RedisControl(two, RUN)
    assert again.newest_version() == 17
    assert not again.begin(again.newest_epoch() + 1, capacity=1000, max_bytes=1 << 20, actors=1), "the keys were there"
    appender = Appender(two, RUN, actor=0, epoch=4, incarnation=0)
    appender.append([EncodedGame(0, ROWS, b"next" + bytes(100))])
    assert entries(two)[-1][0] == b"301-0"
    with pytest.raises(UsageError, match="holds the run run-1 already"):
        load_window(two, RUN, tmp_path / "back")


def test_a_copy_beside_actors_that_go_on_is_one_moment(
    servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path
) -> None:
    """Games are added and evicted while it is made: what is counted is what is there."""
    one, two = (server.url for server in servers)
    begin(one)
    play(one, 0, 200)
    player = threading.Thread(target=play, args=(one, 200, 1500))
    player.start()
    found = []
    while player.is_alive() and len(found) < 8:
        found.append(copy(one, tmp_path / f"to{len(found)}"))
    player.join()
    assert found[-1].games > 200, "it played meanwhile"
    for number, facts in enumerate(found):
        folder = tmp_path / f"back{number}"
        unpack(tmp_path / f"to{number}", folder)
        connect(two).flushall()
        load_window(two, RUN, folder)
        numbers = [int(name.partition(b"-")[0]) for name, _ in entries(two)]
        assert numbers == list(range(facts.number - len(numbers) + 1, facts.number + 1)), "no gap, and up to now"
        counters = RedisControl(two, RUN).counters()
        assert counters["games"] == counters["number"] == facts.number
        assert counters["inserted"] - counters["deleted"] == ROWS * len(numbers)
        assert counters["bytes"] == sum(len(fields[b"d"]) for _, fields in entries(two))
        assert int(entries(two)[-1][1][b"n"]) == counters["inserted"]


def test_a_server_without_the_run(servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path) -> None:
    with pytest.raises(ReplayUnavailable, match="no data of this run"):
        copy(servers[0].url, tmp_path / "to")


@pytest.mark.parametrize("game", [
    "text", [b"1-0"], [b"1-0", [b"d", b"x", b"r"]], [b"1-0", [b"d", b"x", b"q", b"1", b"n", b"1"]],
    [b"*", [b"d", b"x", b"r", b"1", b"n", b"1"]], [b"1-0", [b"d", 5, b"r", b"1", b"n", b"1"]],
])
def test_games_of_another_form_are_refused_and_leave_nothing(
    servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path, game: Any
) -> None:
    url = servers[0].url
    (tmp_path / "window").mkdir()
    good = msgpack.packb([b"1-0", [b"d", b"x", b"r", b"1", b"n", b"1"]])
    (tmp_path / GAMES).write_bytes(good + msgpack.packb(game))
    numbers = {"control": {"boot": "ab"}, "counters": {}, "seen": {}, "quarantined": {}}
    (tmp_path / NUMBERS).write_text(json.dumps(numbers))
    with pytest.raises(UsageError):
        load_window(url, RUN, tmp_path)
    assert connect(url).keys("*") == []


@pytest.mark.parametrize("numbers", [
    [], {}, {"control": {}, "counters": {}, "seen": {}}, {"control": {"boot": "a b"}, "counters": {}, "seen": {},
                                                          "quarantined": {}},
    {"control": {"boot": 5}, "counters": {}, "seen": {}, "quarantined": {}},
])
def test_numbers_of_another_form_are_refused(tmp_path: Path, numbers: Any) -> None:
    (tmp_path / "window").mkdir()
    (tmp_path / NUMBERS).write_text(json.dumps(numbers))
    with pytest.raises(UsageError, match="no run has"):
        load_window("redis://127.0.0.1:1", RUN, tmp_path)
