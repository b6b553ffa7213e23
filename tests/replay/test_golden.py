"""Redis streams and record logs that version 1e2d214 stored are read: see tests/fixtures/golden/README.md."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from shusaku.common._core import Game
from shusaku.common.codec import decode_record, encode_record
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.errors import ResumeError
from shusaku.common.messages import GameId
from shusaku.replay.memory_buffer import MemoryBuffer
from shusaku.replay.record_log import RecordLog
from shusaku.replay.stream.append import Appender, AppendStatus, EncodedGame
from shusaku.replay.stream.buffer import RedisBuffer
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden"
RUN = "golden"
GAME = Game("tic_tac_toe")
CONFIG = ReplayConfig(window="fixed", capacity=120, minimum=60)
# Of its newest checkpoint: the learner had read the newest 120 of 50,596 rows.
STATE = {
    "boot": "e2bed26dba35aee91a737cc8c032c844", "counted": 50596, "deleted": 21326, "inserted": 21446,
    "number": 13655, "sampled": 42256, "state": 1, "version": 53,
}


def commands(data: bytes) -> list[list[bytes]]:
    """The commands of an append-only file: `*<arguments>`, then `$<length>` and the bytes of each."""
    found, at = [], 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        count, at = int(data[at + 1 : end]), end + 2
        arguments = []
        for _ in range(count):
            end = data.index(b"\r\n", at)
            length = int(data[at + 1 : end])
            arguments.append(data[end + 2 : end + 2 + length])
            at = end + 4 + length
        found.append(arguments)
    return found


@pytest.fixture
def url(server: EmbeddedServer) -> str:
    client = connect(server.url)
    for command in commands((GOLDEN / "stream.resp").read_bytes()):
        client.execute_command(*command)
    return server.url


def buffer_of(url: str) -> RedisBuffer:
    return RedisBuffer(GAME, CONFIG, url=url, run_id=RUN, batch_size=16, epoch=2, background=False)


def test_the_control_reads_what_was_stored(url: str) -> None:
    control = RedisControl(url, RUN)
    assert (control.newest_epoch(), control.newest_version(), control.desired_actors()) == (1, 53, 1)
    assert control.is_run_stop_requested()
    buffer = buffer_of(url)
    assert buffer.control().stop
    buffer.close()
    assert control.quarantined() == {"format": 1}
    counters = control.counters()
    assert (counters["number"], counters["inserted"], counters["deleted"], counters["sampled"]) == (
        13655, 50596, 50477, 42288)
    (actor, metrics), = control.actor_metrics().items()
    assert (actor, metrics.incarnation) == (0, 0)
    assert msgpack.unpackb(metrics.metrics)["games"] == 12996


def test_the_window_is_refilled_from_the_stream(url: str) -> None:
    buffer = buffer_of(url)
    assert buffer.restore(STATE) == 0
    stats = buffer.stats()
    assert (stats.games, stats.rows, stats.inserted, stats.losses, stats.skipped) == (30, 119, 21446, 0, 0)
    assert stats.quarantined == {}
    batch = buffer.sample(16, seed=1)
    assert batch is not None
    assert set(batch.versions.tolist()) <= set(range(54))
    buffer.close()


def test_the_run_goes_on_in_a_new_driver_term(url: str) -> None:
    control, buffer = RedisControl(url, RUN), buffer_of(url)
    buffer.restore(STATE)
    with pytest.raises(ResumeError):
        control.begin(0, capacity=120, max_bytes=1 << 20, actors=1)
    assert not control.begin(2, capacity=120, max_bytes=1 << 20, actors=1, limit=-1), "the data is there"
    assert not control.is_run_stop_requested()
    assert not buffer.control().stop
    record = replace(decode_record(stored(url)[-1]), game_id=GameId(2, 0, 0, 0))
    game = EncodedGame(0, record.num_rows, encode_record(record))
    old = Appender(url, RUN, actor=0, epoch=1, incarnation=0)
    assert old.append([game]).status is AppendStatus.OTHER_EPOCH
    new = Appender(url, RUN, actor=0, epoch=2, incarnation=0)
    assert (new.append([game]).appended, new.append([game]).duplicates) == (1, 1)
    assert control.counters()["number"] == 13656
    assert buffer.stats().accepted == 1
    for appender in (old, new):
        appender.close()
    buffer.close()


def test_the_server_itself_reads_an_append_only_file_of_that_version(tmp_path: Path) -> None:
    files = tmp_path / "redis" / "appendonlydir"
    files.mkdir(parents=True)
    shutil.copy(GOLDEN / "stream.resp", files / "appendonly.aof.1.incr.aof")
    (files / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
    server = EmbeddedServer(tmp_path / "redis", max_megabytes=32)
    server.start()
    try:
        assert RedisControl(server.url, RUN).newest_version() == 53
        assert len(stored(server.url)) == 30
    finally:
        server.stop()


def test_a_record_log_refills_the_window(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "records", tmp_path / "records")
    log = RecordLog(tmp_path / "records")
    records = list(log.iterate())
    assert (len(records), log.damage) == (12, [])
    assert [encode_record(decode_record(data)) for data in records] == records, "and would be written the same today"
    games = [decode_record(data) for data in records]
    assert games[0].actions.tolist() == [8, 7, 4, 1, 5, 3, 2]
    assert [game.outcome for game in games] == [1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1]
    assert [game.num_rows for game in games] == [1, 1, 2, 3, 2, 4, 4, 1, 5, 1, 2, 5]
    buffer = MemoryBuffer(GAME, CONFIG, batch_size=16)
    rows = sum(game.num_rows for game in games)
    state = {"state": 1, "inserted": rows, "sampled": 0, "deleted": 0, "version": 9, "seen": [[0, 0, 0, 11]]}
    assert buffer.restore(state, records) == 0
    assert (buffer.stats().games, buffer.stats().rows) == (12, rows)
    log.append(records[:1])
    assert sum(1 for _ in log.iterate()) == 13


def stored(url: str) -> list[bytes]:
    entries: Any = connect(url).xrange(RunKeys.of(RUN).games)
    return [fields[b"d"] for _, fields in entries]
