"""Several learner processes read one stream: each game is checked and held by one of them, and counted by all."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from stream_run import StreamRun

from shusaku.common._core import Game
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import GameId, GameRecord
from shusaku.replay.share import Share
from shusaku.replay.stream.append import EncodedGame
from shusaku.replay.stream.buffer import RedisBuffer
from shusaku.replay.stream.server import EmbeddedServer

MakeRecord = Callable[..., GameRecord]
CONFIG = ReplayConfig(window="fixed", capacity=800, minimum=100, samples_per_position=2.0)
GAME = Game("connect_four")


class Run(StreamRun):
    """A run in the server, whose game number k, from 1, was played by weights k modulo 3."""

    def __init__(self, url: str, run_id: str, make_record: MakeRecord) -> None:
        super().__init__(url, run_id, GAME, CONFIG, batch_size=30, capacity=5000)
        self.control.record_version(2)
        self.make_record, self.number = make_record, 0

    def play(self, games: int) -> list[GameRecord]:
        records = []
        for _ in range(games):
            self.number += 1
            record = replace(self.make_record(GAME, self.number), game_id=GameId(0, 0, 0, self.number))
            records.append(replace(record, versions=np.full(len(record), self.number % 3, np.uint32)))
            self.send(records[-1])
        return records

    def send(self, record: GameRecord) -> None:
        self.actor.append([EncodedGame.of(record)])

    def buffer(self, rank: int = 0, of: int = 1, **options: Any) -> RedisBuffer:
        return self.open_buffer(**{"limited": rank == 0, "share": Share(rank, of)} | options)


@pytest.fixture
def run(redis_server: EmbeddedServer, make_run: Callable[[], str], make_record: MakeRecord) -> Iterator[Run]:
    run = Run(redis_server.url, make_run(), make_record)
    yield run
    run.close()


@pytest.mark.parametrize("games", [30, 200])
def test_each_game_is_held_once_and_counted_by_all(run: Run, games: int) -> None:
    """200 games are many times the window."""
    shares, whole = [run.buffer(rank, 3) for rank in range(3)], run.buffer()
    run.play(games)
    stats = [buffer.stats() for buffer in (*shares, whole)]
    for name in ("inserted", "deleted", "rows", "games", "window"):
        assert len({getattr(one, name) for one in stats}) == 1, name
    own = [sum(number % 3 == rank for number in range(1, games + 1)) for rank in range(3)]
    assert [one.accepted for one in stats] == [*own, games]
    for rank, buffer in enumerate(shares):
        batch: Any = buffer.sample(30, 1)
        assert len(batch) == 10
        assert set(batch.versions.tolist()) == {rank}


def test_the_shares_sample_evenly_from_the_window_of_all(run: Run) -> None:
    buffer = run.buffer(1, 3)
    records = run.play(60)
    held = buffer.stats().games
    own = [record for number, record in enumerate(records, 1) if number % 3 == 1 and number > 60 - held]
    positions = sum(record.num_rows for record in own)
    batch: Any = buffer.sample(3 * 40 * positions, 5)
    counts = np.unique(batch.rows, return_counts=True)[1]
    assert len(counts) == positions, "each row of these games, and no other"
    assert counts.min() > 10


def test_the_first_share_has_the_limiter_of_all(run: Run) -> None:
    first, other = run.buffer(0, 2), run.buffer(1, 2)
    run.play(30)
    inserted = first.stats().inserted
    assert inserted == other.stats().inserted
    while first.sample(30, 0) is not None:
        pass
    state = first.stats()
    assert state.sampled % 30 == 0, "a mini-batch of all ranks counts"
    assert not first.control().throttle
    limit = run.raw.hget(run.keys.control, "limit")
    for _ in range(3):
        other.sample(30, 0)
        other.stats()
    assert run.raw.hget(run.keys.control, "limit") == limit, "the others report nothing"
    while not first.control().throttle:
        run.play(1)
        first.stats()
    behind = first.stats().inserted * CONFIG.samples_per_position - state.sampled
    assert behind > CONFIG.minimum * CONFIG.samples_per_position


def test_a_bad_game_is_refused_by_its_own_share_alone(run: Run) -> None:
    shares = [run.buffer(rank, 2) for rank in range(2)]
    run.play(3)
    bad = replace(run.make_record(GAME, 4), game_id=GameId(0, 0, 0, 4))
    bad = replace(bad, versions=np.full(len(bad), 9, np.uint32))
    run.send(bad)  # number 4, of share 0
    run.number = 4
    run.play(3)
    stats = [buffer.stats() for buffer in shares]
    assert [one.quarantined for one in stats] == [{"version": 1}, {}]
    assert [one.accepted for one in stats] == [2, 4]
    run.raw.xadd(run.keys.games, {b"x": b"no game"}, id="8-5")
    run.number = 7
    run.play(2)
    assert [sum(buffer.stats().quarantined.values()) for buffer in shares] == [2, 0], "strangers are for the first"


def test_a_share_that_begins_later_counts_what_was_before(run: Run) -> None:
    run.play(20)
    first = run.buffer(0, 2)
    first.stats()
    later = run.buffer(1, 2)
    run.play(5)
    assert later.stats().inserted == first.stats().inserted


def test_the_first_share_goes_on_from_its_state(run: Run) -> None:
    first, whole = run.buffer(0, 2), run.buffer()
    run.play(20)
    first.stats(), whole.stats()
    states = first.state(), whole.state()
    assert states[0]["inserted"] == states[1]["inserted"]
    run.play(6)
    again = run.buffer(0, 2), run.buffer()
    for buffer, state in zip(again, states, strict=True):
        assert buffer.restore(state) == 0
    for name in ("inserted", "rows", "games"):
        assert getattr(again[0].stats(), name) == getattr(again[1].stats(), name)
    assert again[0].stats().accepted == 3, "those since the state was made"
    batch: Any = again[0].sample(30, 1)
    assert len(batch) == 15
