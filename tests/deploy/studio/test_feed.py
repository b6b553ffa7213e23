"""Games of a run as they end: from its log while it is written, and from its replay server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from labelled_games import random_game

from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.deploy.studio import feed as feeds
from shusaku.deploy.studio.feed import Filters, GameFeed
from shusaku.replay.record_log import RecordLog, RecordTail
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import EmbeddedServer

GAME = Game("tic_tac_toe")
RECORDS = [random_game(GAME, seed, stop_early=seed % 3 == 0) for seed in range(1, 25)]
DATA = [encode_record(record) for record in RECORDS]


def test_games_come_as_they_are_written(tmp_path: Path) -> None:
    feed = GameFeed(tmp_path)
    assert (feed.poll(), feed.games(Filters(), 10)) == (0, [])
    log = RecordLog(tmp_path / "records")
    log.append(DATA[:3])
    assert feed.poll() == 3
    assert feed.poll() == 0
    log.append(DATA[3:5])
    assert feed.poll() == 2
    listed = feed.games(Filters(), 10)
    assert [game["number"] for game in listed] == [5, 4, 3, 2, 1]
    assert [game["plies"] for game in listed] == [len(record) for record in reversed(RECORDS[:5])]
    assert len(feed.games(Filters(), 2)) == 2


def test_the_log_is_followed_over_segments_torn_frames_and_cuts(tmp_path: Path) -> None:
    log = RecordLog(tmp_path, segment_bytes=2 * len(DATA[0]) + 200)
    log.append(DATA[:4])
    begin = log.position()
    tail = RecordTail(tmp_path)
    assert set(tail.read()) <= set(DATA[:4])
    log.append(DATA[4:9])
    assert list(tail.read()) == DATA[4:9]
    newest = max(tmp_path.glob("*.records"))
    with newest.open("ab") as file:  # another process is in the middle of a record
        file.write(b"\xff\x00\x00\x00\x12")
    assert list(tail.read()) == []
    log.truncate_to(begin)  # a run that went back to a checkpoint
    log.append(DATA[9:11])
    assert list(tail.read()) == DATA[9:11]
    log.append(DATA[11:12])
    assert list(tail.read()) == DATA[11:12]


def test_damaged_records_are_passed_over(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "records")
    log.append([DATA[0], b"no record", DATA[1]])
    feed = GameFeed(tmp_path)
    assert feed.poll() == 2


@pytest.mark.parametrize(("filters", "holds"), [
    (Filters(winner="first"), lambda record: record.outcome == 1),
    (Filters(winner="draw"), lambda record: record.outcome == 0),
    (Filters(ended_by="resignation"), lambda record: str(record.ended_by) == "resignation"),
    (Filters(least_plies=7, most_plies=8), lambda record: 7 <= len(record) <= 8),
    (Filters(least_version=60), lambda record: int(record.versions.max()) >= 60),
])
def test_filters(filters: Filters, holds, tmp_path: Path) -> None:
    RecordLog(tmp_path / "records").append(DATA)
    feed = GameFeed(tmp_path)
    feed.poll()
    expected = [number for number, record in enumerate(RECORDS, start=1) if holds(record)]
    assert [game["number"] for game in feed.games(filters, 100)] == expected[::-1]
    assert expected


def test_a_game_is_told_step_by_step(tmp_path: Path) -> None:
    RecordLog(tmp_path / "records").append(DATA)
    feed = GameFeed(tmp_path)
    feed.poll()
    record, told = RECORDS[4], feed.describe(5)
    assert told["versions"] == record.versions.tolist()
    assert len(told["moves"]) == len(record)
    assert len(told["values"]) == len(record) + 1
    for ply in range(len(record)):
        sign = 1 if ply % 2 == 0 else -1
        assert told["values"][ply] == pytest.approx(sign * record.root_values[ply], abs=1e-3)
        step = feed.describe_ply(5, ply)
        begin, end = record.policy_offsets[ply], record.policy_offsets[ply + 1]
        assert [one["action"] for one in step["policy"]] == record.policy_actions[begin:end].tolist()
        assert sum(one["share"] for one in step["policy"]) == pytest.approx(1 if end > begin else 0, abs=1e-3)
        assert step["played"] == record.actions[ply]
        assert step["board"]["ply"] == ply
    assert feed.describe_ply(5, 999)["ply"] == len(record)
    with pytest.raises(KeyError, match="not kept"):
        feed.describe(99)


def test_only_the_newest_games_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "KEPT_GAMES", 5)
    monkeypatch.setattr(feeds, "KEPT_PLIES", 1)
    RecordLog(tmp_path / "records").append(DATA)
    feed = GameFeed(tmp_path)
    assert feed.poll() == 24
    assert [game["number"] for game in feed.games(Filters(), 100)] == [24, 23, 22, 21, 20]
    opened = feed.describe_ply(20, 1)
    RecordLog(tmp_path / "records").append(DATA)
    assert feed.poll() == 24
    assert feed.describe_ply(20, 1) == opened
    with pytest.raises(KeyError, match="not kept"):
        feed.describe(21)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "redis", max_megabytes=32)
    server.start()
    yield server
    server.stop()


def test_games_of_a_run_on_redis_and_its_end(tmp_path: Path, server: EmbeddedServer) -> None:
    identity = RunIdentity.of(tmp_path)
    identity.next_epoch(0)
    control = RedisControl(server.url, identity.run_id)
    control.begin(identity.epoch, capacity=10_000, max_bytes=1 << 24, actors=1, limit=-1)
    appender = Appender(server.url, identity.run_id, epoch=identity.epoch, actor=0, incarnation=0)
    appender.append([EncodedGame(seq, record.num_rows, data) for seq, (record, data) in
                     enumerate(zip(RECORDS[:4], DATA[:4], strict=True))])
    feed = GameFeed(tmp_path)
    assert feed.poll() == 4
    assert feed.poll() == 0
    appender.append([EncodedGame(4, RECORDS[4].num_rows, DATA[4])])
    assert feed.poll() == 1
    assert [game["plies"] for game in feed.games(Filters(), 9)] == [len(record) for record in reversed(RECORDS[:5])]
    server.stop()  # the run ends while it is watched
    feed.poll()
    assert len(feed.games(Filters(), 9)) == 5
