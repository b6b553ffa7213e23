"""Several learner processes read one stream: each game is read and held by one of them, and counted by all."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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


def rank_of(number: int, ranks: int) -> int:
    """Four games in a row are of one rank; numbers begin with 1."""
    return (number - 1) // 4 % ranks


class Run(StreamRun):
    """A run in the server, each of whose games was played by weights whose version is its rank of three."""

    def __init__(self, url: str, run_id: str, make_record: MakeRecord, capacity: int = 5000) -> None:
        super().__init__(url, run_id, GAME, CONFIG, batch_size=30, capacity=capacity)
        self.control.record_version(2)
        self.make_record, self.number = make_record, 0

    def play(self, games: int) -> list[GameRecord]:
        records = []
        for _ in range(games):
            self.number += 1
            record = replace(self.make_record(GAME, self.number), game_id=GameId(0, 0, 0, self.number))
            records.append(replace(record, versions=np.full(len(record), rank_of(self.number, 3), np.uint32)))
            self.send(records[-1])
        return records

    def send(self, record: GameRecord) -> None:
        self.actor.append([EncodedGame.of(record)])

    def buffer(self, rank: int = 0, of: int = 1, **options: Any) -> RedisBuffer:
        return self.open_buffer(**{"limited": rank == 0, "share": Share(rank, of, block=4)} | options)


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
    assert len({one.inserted for one in stats}) == 1
    longest = 42
    for one in stats[:3]:
        assert abs(stats[3].rows - one.rows) < longest, "games of others leave row by row"
        assert abs(stats[3].games - one.games) <= 2
    own = [sum(rank_of(number, 3) == rank for number in range(1, games + 1)) for rank in range(3)]
    assert [one.accepted for one in stats] == [*own, games]
    for rank, buffer in enumerate(shares):
        batch: Any = buffer.sample(30, 1)
        assert len(batch) == 10
        assert set(batch.versions.tolist()) == {rank}


def test_the_shares_sample_evenly_from_the_window_of_all(run: Run) -> None:
    buffer = run.buffer(1, 3)
    records = run.play(60)
    held = buffer.stats().games
    own = [record for number, record in enumerate(records, 1) if rank_of(number, 3) == 1 and number > 60 - held]
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
    assert [one.accepted for one in stats] == [3, 3]
    run.raw.xadd(run.keys.games, {b"x": b"no game"}, id="8-5")
    run.number = 7
    run.play(2)  # 9 and 10, of share 0
    stats = [buffer.stats() for buffer in shares]
    assert [sum(one.quarantined.values()) for one in stats] == [1, 1], "where it would have stood"
    assert [one.accepted for one in stats] == [5, 3]


@pytest.mark.parametrize("id", ["8-5", "90000-0", "9000000000000000-0"])
def test_what_another_program_wrote_behind_the_games_is_for_the_first_share(run: Run, id: str) -> None:
    """Behind the last one the games could get no number."""
    shares = [run.buffer(rank, 2) for rank in range(2)]
    run.play(7)
    run.raw.xadd(run.keys.games, {b"x": b"no game"}, id=id)
    for _ in range(2):
        assert [sum(buffer.stats().quarantined.values()) for buffer in reversed(shares)] == [0, 1]
    run.play(30)
    stats = [buffer.stats() for buffer in (*shares, run.buffer())]
    assert [sum(one.quarantined.values()) for one in stats] == [1, 0, 0]
    assert sum(one.accepted for one in stats[:2]) == 37
    assert len({one.inserted for one in stats}) == 1


def test_games_behind_a_leap_of_the_numbers_are_found(run: Run) -> None:
    run.play(5)
    run.raw.xadd(run.keys.games, {b"x": b"no game"}, id="90000000000-0")
    run.play(20)  # before anybody reads
    shares = [run.buffer(rank, 2) for rank in range(2)]
    stats = [buffer.stats() for buffer in shares]
    assert sum(one.accepted for one in stats) == 25
    whole = run.buffer().stats()
    assert {one.inserted for one in stats} == {whole.inserted}
    assert all(abs(one.games - whole.games) <= 2 for one in stats)


def test_the_games_of_others_do_not_travel(run: Run) -> None:
    run.play(150)

    def megabytes(of: int) -> float:
        before = run.raw.info("stats")["total_net_output_bytes"]
        run.buffer(0, of).stats()
        return (run.raw.info("stats")["total_net_output_bytes"] - before) / 1e6

    whole = megabytes(1)
    assert megabytes(2) < 0.75 * whole
    assert megabytes(8) < 0.45 * whole


@given(st.integers(1, 9), st.integers(1, 17), st.integers(1, 60), st.integers(1, 60))
def test_the_ranges_of_all_ranks_are_all_numbers(of: int, block: int, first: int, length: int) -> None:
    last = first + length - 1
    found = []
    for rank in range(of):
        share = Share(rank, of, block)
        for begin, end in share.ranges(first, last):
            assert begin <= end
            found += range(begin, end + 1)
            assert {(number - 1) // block % of for number in range(begin, end + 1)} == {rank}
    assert sorted(found) == list(range(first, last + 1))


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
    assert again[0].stats().accepted == 2, "since the state was made; 21 to 24 are of the other share"
    batch: Any = again[0].sample(30, 1)
    assert len(batch) == 15


@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 3), (3, 1), (1, 2)])
def test_a_full_window_is_whole_again_after_a_restart(run: Run, before: int, after: int) -> None:
    """With another number of ranks, too; the games that came in between count as new."""
    first = run.buffer(0, before)
    for games in (31, 40, 33):
        run.play(games)
        first.stats()
    then, state = first.stats(), first.state()
    run.play(7)
    whole = run.buffer()
    again = run.buffer(0, after)
    assert again.restore(state) == 0
    now = again.stats()
    assert now.inserted == whole.stats().inserted
    assert now.deleted >= then.deleted
    assert now.skipped == 0
    # A window of whole games has up to a game more rows than one of a share.
    assert now.lost_rows <= (0 if before == after else 42)
    assert 0 <= CONFIG.capacity - now.rows < 42


@pytest.mark.parametrize(("ranks", "minimum", "longest"), [(2, 8000, 42), (8, 8000, 722), (64, 8000, 100), (3, 1, 9)])
def test_every_rank_has_games_before_the_window_is_large_enough(ranks: int, minimum: int, longest: int) -> None:
    """Or it would wait for games, and the actors, which are told to pause then, for it."""
    games = max(ranks, minimum // longest)
    for rank in range(ranks):
        share = Share.sized(rank, ranks, minimum, longest)
        assert list(share.ranges(1, games))
        assert share.block == Share.sized(0, ranks, minimum, longest).block


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("capacity", [5000, 900])
def test_whatever_happens_all_shares_count_the_same_and_hold_each_game_once(
    redis_server: EmbeddedServer, make_run: Callable[[], str], make_record: MakeRecord, capacity: int, seed: int
) -> None:
    """Games, strangers and rank 0 that begins anew, in any order; with little room games leave before they are read."""
    run = Run(redis_server.url, make_run(), make_record, capacity)
    random = np.random.default_rng(seed)
    ranks = int(random.integers(2, 5))
    shares, accepted, skipped, strangers = [run.buffer(rank, ranks) for rank in range(ranks)], 0, 0, 0
    for buffer in shares:
        buffer.stats()  # begins with the first game
    for _ in range(40):
        action = random.choice(["play", "read", "stranger", "restart"], p=[0.5, 0.35, 0.1, 0.05])
        rank = int(random.integers(ranks))
        if action == "play":
            run.play(int(random.integers(1, 9)))
        elif action == "read":
            shares[rank].stats()
        elif action == "stranger":
            exists = run.raw.exists(run.keys.games)
            last = run.raw.xinfo_stream(run.keys.games)["last-generated-id"] if exists else b"0-0"
            id = int(last.partition(b"-")[0]) + int(random.integers(0, 20))
            run.raw.xadd(run.keys.games, {b"x": b"no game"}, id=f"{id}-{strangers + 7}")
            strangers += 1
        else:
            before = shares[0].stats()
            accepted, skipped = accepted + before.accepted, skipped + before.skipped
            state = shares[0].state()
            shares[0] = run.buffer(0, ranks)
            assert shares[0].restore(state) <= strangers
    run.play(1)
    stats = [buffer.stats() for buffer in shares]
    inserted = int(run.raw.hget(run.keys.counters, "inserted"))
    assert [one.inserted + one.skipped for one in stats] == [inserted - skipped, *[inserted] * (ranks - 1)]
    accepted += sum(one.accepted for one in stats)
    if capacity == 5000:
        assert not skipped + sum(one.skipped for one in stats)
        assert accepted == run.number
        assert max(one.rows for one in stats) - min(one.rows for one in stats) < 42
    assert accepted <= run.number
    assert sum(sum(one.quarantined.values()) for one in stats) <= strangers
    run.close()
