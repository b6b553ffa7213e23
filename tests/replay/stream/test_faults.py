"""Writers, server and learner together, and one of them dies or hangs."""

import contextlib
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shusaku.common._core import Game
from shusaku.common.codec import CodecError, decode_record
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import GameId, GameRecord
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.buffer import RedisBuffer
from shusaku.replay.stream.client import ReplayUnavailable, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer
from shusaku.replay.stream.writer import AsyncWriter

MakeRecord = Callable[..., GameRecord]
CONFIG = ReplayConfig(window="fixed", capacity=100_000, minimum=500, samples_per_position=2.0)
RUN = "run"


@pytest.fixture(scope="module")
def records(make_record: MakeRecord) -> list[GameRecord]:
    game = Game("connect_four")
    return [make_record(game, sequence) for sequence in range(200)]


class Player:
    """Puts games into a writer as fast as it accepts them, and counts those that it accepted."""

    def __init__(self, url: str, actor: int, records: list[GameRecord], pause: float = 0.001,
                 keep_seconds: float = 1.0) -> None:
        appender = Appender(url, RUN, actor=actor, epoch=0, incarnation=0, deadline=0.5)
        self.writer = AsyncWriter(appender, max_games=64, keep_seconds=keep_seconds)
        self.put = self.full = 0
        self._is_over = threading.Event()
        self.slowest = 0.0

        def play() -> None:
            while not self._is_over.wait(pause):
                begin = time.monotonic()
                record = records[self.put % len(records)]
                if self.writer.put(replace(record, game_id=GameId(0, actor, 0, self.put))):
                    self.put += 1
                else:
                    self.full += 1
                self.slowest = max(self.slowest, time.monotonic() - begin)

        self._thread = threading.Thread(target=play, daemon=True)
        self._thread.start()

    def end(self, timeout: float = 10.0) -> None:
        """No more games; all of them are sent."""
        self._is_over.set()
        self._thread.join()
        assert self.writer.close(timeout), self.writer.stats()


def begin(url: str, epoch: int = 0) -> RedisControl:
    control = RedisControl(url, RUN)
    control.begin(epoch, capacity=CONFIG.capacity, max_bytes=1 << 28, actors=0)
    return control


def learner(url: str, **options: Any) -> RedisBuffer:
    options = {"batch_size": 32, "deadline": 0.5, "limited": False} | options
    return RedisBuffer(Game("connect_four"), CONFIG, url=url, run_id=RUN, **options)


def wait_for(condition: Callable[[], Any], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def in_stream(url: str) -> list[tuple[int, int]]:
    """Actor and sequence of the games that the server has."""
    entries: Any = connect(url).xrange(RunKeys.of(RUN).games)
    return [decode_record(fields[b"d"]).game_id[1::2] for _, fields in entries]


def unwritten(url: str) -> int:
    """Bytes that the server has acknowledged and not written yet."""
    persistence: Any = connect(url).info("persistence")
    return int(persistence["aof_buffer_length"])


def test_a_killed_server_loses_and_doubles_nothing(server: EmbeddedServer, records: list[GameRecord]) -> None:
    begin(server.url)
    buffer = learner(server.url)
    buffer.stats()
    players = [Player(server.url, actor, records) for actor in range(2)]
    for _ in range(3):
        wait_for(lambda: all(player.writer.stats().queued < 10 for player in players))
        time.sleep(0.5)
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: not server.is_alive())
        assert buffer.stats() is not None
        server.start()
    time.sleep(0.5)
    for player in players:
        player.end()
    games = in_stream(server.url)
    assert sorted(games) == [(actor, k) for actor, player in enumerate(players) for k in range(player.put)]
    wait_for(lambda: buffer.stats().accepted == len(games))
    stats = buffer.stats()
    assert (stats.losses, stats.skipped, stats.quarantined) == (0, 0, {})
    assert stats.inserted == sum(records[sequence % len(records)].num_rows for _, sequence in games)
    assert RedisControl(server.url, RUN).counters()["inserted"] == stats.inserted
    assert sum(player.writer.stats().failures for player in players) >= 2
    assert stats.duplicates == sum(player.writer.stats().duplicates for player in players)
    buffer.close()


def test_lost_data_is_noticed_and_made_up_for(server: EmbeddedServer, records: list[GameRecord]) -> None:
    begin(server.url)
    buffer = learner(server.url, limited=True)
    player = Player(server.url, 0, records)
    wait_for(lambda: buffer.stats().rows > 2 * CONFIG.minimum)
    while buffer.sample(32, 0) is not None:
        pass
    before = buffer.stats()
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not server.is_alive())
    shutil.rmtree(server.directory / "appendonlydir")  # as a server without one would come back
    server.start()
    wait_for(lambda: buffer.stats().losses == 1)
    wait_for(lambda: "was lost" in player.writer.stats().trouble)
    stats = buffer.stats()
    assert (stats.rows, stats.games) == (0, 0)
    assert stats.inserted == stats.deleted >= before.inserted
    assert buffer.sample(32, 0) is None
    assert "lost; it waits for the driver" in stats.waits_for
    acknowledged = player.writer.stats().acknowledged
    assert RedisControl(server.url, RUN).counters() == {}  # nothing is written without a run
    control = RedisControl(server.url, RUN)
    assert control.is_lost()
    control.begin(0, capacity=CONFIG.capacity, max_bytes=1 << 28, actors=0, fences={0: 0})
    wait_for(lambda: buffer.stats().rows > 0)
    wait_for(lambda: buffer.sample(32, 0) is not None)  # by itself, with the minimum
    assert buffer.stats().inserted - stats.inserted >= CONFIG.minimum
    player.end()
    games = in_stream(server.url)
    first = games[0][1]
    assert first < acknowledged  # what was acknowledged in the last second is there as well
    assert games == [(0, k) for k in range(first, player.put)]  # all, once
    assert buffer.stats().losses == 1
    assert buffer.stats().trouble == ""
    buffer.close()


def test_newest_games_lost_with_the_power(server: EmbeddedServer, records: list[GameRecord]) -> None:
    """The server comes back a second younger than the learner knows it."""
    begin(server.url)
    appender = Appender(server.url, RUN, actor=0, epoch=0, incarnation=0)
    writer = AsyncWriter(appender, keep_seconds=0)
    for sequence in range(100):
        assert writer.put(replace(records[sequence], game_id=GameId(0, 0, 0, sequence)))
    assert writer.flush(5)
    buffer = learner(server.url)
    wait_for(lambda: buffer.stats().accepted == 100)
    (file,) = (server.directory / "appendonlydir").glob("*.incr.aof")
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not server.is_alive())
    os.truncate(file, file.stat().st_size * 3 // 4)
    server.start()
    left = len(in_stream(server.url))
    assert 20 < left < 100
    wait_for(lambda: buffer.stats().losses == 1)
    wait_for(lambda: buffer.stats().games == left)
    stats = buffer.stats()
    assert stats.rows == sum(records[k].num_rows for k in range(left))
    for sequence in range(100, 110):
        assert writer.put(replace(records[sequence], game_id=GameId(0, 0, 0, sequence)))
    assert writer.close(5)
    wait_for(lambda: buffer.stats().games == left + 10)
    assert buffer.stats().accepted == 110
    assert buffer.sample(32, 0) is not None
    assert (buffer.stats().losses, buffer.stats().skipped) == (1, 0)
    buffer.close()


def test_games_lost_with_the_power_are_not_noticed_before_others_have_their_numbers(
    server: EmbeddedServer, records: list[GameRecord]
) -> None:
    """When the learner looks again the server has more games than before, but fewer rows: none of them is refused."""
    begin(server.url)
    writer = AsyncWriter(Appender(server.url, RUN, actor=0, epoch=0, incarnation=0), keep_seconds=0)
    by_length = sorted(records, key=lambda record: record.num_rows)
    for sequence, record in enumerate(reversed(by_length[50:150])):  # long ones first: totals will be behind
        assert writer.put(replace(record, game_id=GameId(0, 0, 0, sequence)))
    assert writer.flush(5)
    buffer = learner(server.url, background=False)
    assert buffer.stats().accepted == 100
    (file,) = (server.directory / "appendonlydir").glob("*.incr.aof")
    wait_for(lambda: unwritten(server.url) == 0)  # while a slow disk takes one write the next ones wait
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not server.is_alive())
    os.truncate(file, file.stat().st_size * 3 // 4)
    state = buffer.state()
    assert buffer.stats().trouble
    server.start()
    left = len(in_stream(server.url))
    assert 20 < left < 100
    for sequence in range(100, 220 - left):
        assert writer.put(replace(by_length[sequence % 50], game_id=GameId(0, 0, 0, sequence)))
    assert writer.close(5)
    games = in_stream(server.url)
    assert len(games) == 120
    again = learner(server.url, background=False)  # the same by a learner that was away as well
    again.restore(state)
    for one in (buffer, again):
        assert one.stats().games == 120
        assert (one.stats().quarantined, one.stats().trouble) == ({}, "")
        assert one.sample(32, 0) is not None
    assert (buffer.stats().losses, again.stats().losses) == (1, 0)
    assert in_stream(server.url) == games
    buffer.close()
    again.close()


def test_games_lost_with_the_power_are_sent_again(server: EmbeddedServer, records: list[GameRecord]) -> None:
    """Two actors that live keep what was acknowledged last: nothing is missing, and nothing there twice."""
    begin(server.url)
    writers = [AsyncWriter(Appender(server.url, RUN, actor=actor, epoch=0, incarnation=0), keep_seconds=60)
               for actor in range(2)]

    def put(sequences: range) -> None:
        for sequence in sequences:
            for actor, writer in enumerate(writers):
                assert writer.put(replace(records[sequence], game_id=GameId(0, actor, 0, sequence)))
        assert all(writer.flush(5) for writer in writers)

    put(range(60))
    buffer = learner(server.url)
    wait_for(lambda: buffer.stats().accepted == 120)
    (file,) = (server.directory / "appendonlydir").glob("*.incr.aof")
    os.kill(server.pid, signal.SIGKILL)
    wait_for(lambda: not server.is_alive())
    wait_for(lambda: all(writer.stats().trouble for writer in writers))
    os.truncate(file, file.stat().st_size * 3 // 4)
    server.start()
    wait_for(lambda: len(in_stream(server.url)) == 120)
    put(range(60, 70))
    assert sorted(in_stream(server.url)) == [(actor, k) for actor in range(2) for k in range(70)]
    for actor in range(2):
        assert [k for sender, k in in_stream(server.url) if sender == actor] == list(range(70))
    wait_for(lambda: buffer.stats().games == 140)
    assert (buffer.stats().quarantined, buffer.stats().trouble) == ({}, "")
    assert buffer.stats().duplicates == sum(writer.stats().duplicates for writer in writers) > 0
    assert [writer.stats().acknowledged for writer in writers] == [70, 70]
    for writer in writers:
        writer.close(5)
    buffer.close()


def test_a_hanging_server_doubles_nothing(server: EmbeddedServer, records: list[GameRecord]) -> None:
    begin(server.url)
    buffer = learner(server.url)
    player = Player(server.url, 0, records, pause=0.005)
    control = RedisControl(server.url, RUN, deadline=0.5)
    wait_for(lambda: buffer.stats().rows > CONFIG.minimum)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: player.full > 10)  # the queue is bounded, and `put` does not wait
        calls: list[Callable[[], Any]] = [control.is_lost, control.actor_metrics, control.stop_actors, buffer.stop]
        for call in calls:
            started = time.monotonic()
            with pytest.raises(ReplayUnavailable, match="no answer in time"):
                call()
            assert time.monotonic() - started < 1
        assert player.slowest < 0.5
        assert buffer.sample(32, 0) is not None  # continues with the rows in memory
        wait_for(lambda: buffer.stats().unreachable_s > 1)
        assert "no answer in time" in buffer.stats().trouble
        stats = player.writer.stats()
        assert stats.queued == 64
        assert stats.unreachable_s > 1
        assert "no answer in time" in stats.trouble
    finally:
        os.kill(server.pid, signal.SIGCONT)
    wait_for(lambda: player.writer.stats().trouble == "")
    time.sleep(0.3)
    player.end()
    games = in_stream(server.url)
    assert games == [(0, k) for k in range(player.put)]
    assert player.writer.stats().duplicates > 0  # what it had not answered, it did when it woke up
    wait_for(lambda: buffer.stats().accepted == len(games))
    assert buffer.stats().unreachable_s == 0
    buffer.close()


def test_a_full_queue_takes_the_first_games_and_leaves_the_others(
    server: EmbeddedServer, records: list[GameRecord]
) -> None:
    """By number and by bytes, which one game may pass; what it took is one call, in its order."""
    begin(server.url)
    games, others = ([replace(record, game_id=GameId(0, actor, 0, k)) for k, record in enumerate(records[:40])]
                     for actor in range(2))
    sizes = [len(EncodedGame.of(game).data) for game in others]
    os.kill(server.pid, signal.SIGSTOP)
    appenders = [Appender(server.url, RUN, actor=actor, epoch=0, incarnation=0, deadline=60.0) for actor in range(2)]
    few = AsyncWriter(appenders[0], max_games=25)
    small = AsyncWriter(appenders[1], max_bytes=sum(sizes[:10]) - 1)
    assert few.put_all([]) == 0
    assert [few.put_all(games[:20]), few.put_all(games[20:]), few.put_all(games[25:])] == [20, 5, 0]
    assert not few.put(games[25])
    assert [small.put_all(others), small.put_all(others[10:])] == [10, 0]
    assert (small.stats().queued, small.stats().queued_bytes) == (10, sum(sizes[:10]))
    os.kill(server.pid, signal.SIGCONT)
    assert few.close(10)
    assert small.close(10)
    sent = in_stream(server.url)
    assert [k for actor, k in sent if actor == 0] == list(range(25))
    assert [k for actor, k in sent if actor == 1] == list(range(10))
    assert few.stats().calls <= 3


def test_games_before_one_that_cannot_be_written_are_sent(server: EmbeddedServer, records: list[GameRecord]) -> None:
    begin(server.url)
    writer = AsyncWriter(Appender(server.url, RUN, actor=0, epoch=0, incarnation=0))
    games = [replace(record, game_id=GameId(0, 0, 0, k)) for k, record in enumerate(records[:5])]
    games[3] = replace(games[3], outcome=7)
    with pytest.raises(CodecError, match="outcome"):
        writer.put_all(games)
    assert writer.close(5)
    assert in_stream(server.url) == [(0, 0), (0, 1), (0, 2)]


def test_late_and_lost_replies(server: EmbeddedServer, records: list[GameRecord]) -> None:
    """Between them a wire that holds replies back, or cuts them in the middle."""
    begin(server.url)
    wire = Wire(server.url)
    appender = Appender(wire.url, RUN, actor=0, epoch=0, incarnation=0, deadline=0.3)
    games = [EncodedGame.of(replace(records[k], game_id=GameId(0, 0, 0, k))) for k in range(40)]
    assert appender.append(games[:4]).appended == 4
    wire.delay = 0.6
    with pytest.raises(ReplayUnavailable, match="no answer in time"):
        appender.append(games[4:8])
    time.sleep(0.5)  # the reply has arrived by now, and must not be read as the answer to another call
    wire.delay = 0
    reply = appender.append(games[4:9])
    assert (reply.appended, reply.duplicates) == (1, 4)
    wire.cut = 5
    with pytest.raises(ReplayUnavailable):
        appender.append(games[9:12])
    wire.cut = -1
    reply = appender.append(games[9:12])
    assert (reply.appended, reply.duplicates) == (0, 3)
    assert in_stream(server.url) == [(0, k) for k in range(12)]
    wire.close()


class Wire:
    """Carries bytes between clients and a server's unix socket."""

    def __init__(self, url: str) -> None:
        self.delay = 0.0  # of replies, seconds
        self.cut = -1  # bytes of the next reply that arrive before the line breaks
        path = url.partition("@")[2].partition("?")[0]
        self.url = url.replace(path, path + "wire")
        self._target = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path + "wire")
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            threading.Thread(target=self._carry, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, True), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, is_reply: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if is_reply and self.delay:
                    time.sleep(self.delay)
                if is_reply and self.cut >= 0:
                    sink.sendall(data[: self.cut])
                    sink.shutdown(socket.SHUT_RDWR)
                    return
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_a_fenced_writer_stops_and_its_successor_goes_on(server: EmbeddedServer, records: list[GameRecord]) -> None:
    control = begin(server.url)
    old = AsyncWriter(Appender(server.url, RUN, actor=3, epoch=0, incarnation=0))
    assert old.put(replace(records[0], game_id=GameId(0, 3, 0, 0)))
    assert old.flush(5)
    control.fence(3, 1)
    assert old.put(replace(records[1], game_id=GameId(0, 3, 0, 1)))
    wait_for(lambda: old.control.stop)
    assert old.put(replace(records[2], game_id=GameId(0, 3, 0, 2)))  # taken and dropped: it never blocks the actor
    assert old.stats().refused == 2
    new = AsyncWriter(Appender(server.url, RUN, actor=3, epoch=0, incarnation=1))
    new.metrics = b"mine"
    assert new.put(replace(records[1], game_id=GameId(0, 3, 1, 0)))
    assert new.flush(5)
    assert not new.control.stop
    wait_for(lambda: 3 in control.actor_metrics() and control.actor_metrics()[3].metrics == b"mine")
    assert control.actor_metrics()[3].incarnation == 1
    control.begin(1, capacity=1000, max_bytes=1 << 20, actors=0)  # another driver
    wait_for(lambda: new.control.stop, 3)  # its heartbeat tells it
    assert control.counters()["fenced"] == 1
    for writer in (old, new):
        writer.close(1)


def test_heartbeats(server: EmbeddedServer) -> None:
    control = begin(server.url)
    writer = AsyncWriter(Appender(server.url, RUN, actor=1, epoch=0, incarnation=4))
    wait_for(lambda: 1 in control.actor_metrics())
    control.record_version(7)
    control.set_actors(5)
    ages = []
    begun = time.monotonic()
    while time.monotonic() - begun < 2.5:
        ages.append(control.actor_metrics()[1].age_s)
        time.sleep(0.05)
    assert max(ages) < 1.5
    assert (writer.control.version, writer.control.actors) == (7, 5)
    assert writer.close(1)
    time.sleep(1.5)
    assert control.actor_metrics()[1].age_s > 1.2
