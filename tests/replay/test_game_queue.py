"""Every buffer as a queue of whole games: each is handed out once and in order, also by a process that goes on."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import GameId, GameRecord
from shusaku.replay.backends import BUFFERS, make_buffer
from shusaku.replay.buffer import Games, QueueOptions, ReplayBuffer
from shusaku.replay.game_queue import MOST_TIMES
from shusaku.replay.stream.control import RedisControl

CONFIG = ReplayConfig(window="fixed", capacity=2000, minimum=100)
QUEUE = QueueOptions(games=4, max_lag=2, ahead=8)
MakeRecord = Callable[..., GameRecord]


@pytest.fixture(scope="module")
def game() -> Game:
    return Game("tic_tac_toe")


@pytest.fixture(params=sorted(BUFFERS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(
    kind: str, game: Game, request: pytest.FixtureRequest, make_run: Callable[[], str]
) -> Callable[..., ReplayBuffer]:
    """Buffers of one run: the second one goes on with the games of the first."""
    if kind == "memory":
        return lambda: make_buffer(kind, game, CONFIG, batch_size=32, queue=QUEUE)
    url, run_id = request.getfixturevalue("redis_server").url, make_run()
    RedisControl(url, run_id).begin(0, capacity=CONFIG.capacity, max_bytes=1 << 30, actors=0)
    return lambda: make_buffer(kind, game, CONFIG, batch_size=32, queue=QUEUE, url=url, run_id=run_id,
                               background=False)


@pytest.fixture
def paired(game: Game, make_record: MakeRecord) -> Callable[..., GameRecord]:
    def make_one(sequence: int, version: int = 0, opponent: int = 0) -> GameRecord:
        """A game whose policy that learns, of this version, moves first in the even ones."""
        record = make_record(game, sequence)
        learns = np.arange(len(record)) % 2 == sequence % 2
        return replace(record, row_weight=learns.astype(np.float32), game_id=GameId(0, 0, 0, sequence),
                       versions=np.where(learns, version, opponent).astype(np.uint32))

    return make_one


def sequences(sample: Any) -> list[int]:
    assert isinstance(sample, Games)
    return [record.game_id.sequence for record in sample.records]


def test_games_are_handed_out_once_in_the_order_in_which_they_ended(
    make: Callable[..., ReplayBuffer], paired: Callable[..., GameRecord]
) -> None:
    buffer = make()
    for sequence in range(10):
        buffer.append(paired(sequence))
    first, second = buffer.sample(32, 1), buffer.sample(32, 2)
    assert sequences(first) == [0, 1, 2, 3]
    assert sequences(second) == [4, 5, 6, 7]
    assert buffer.sample(32, 3) is None
    assert "2 of 4 games before the next update" in buffer.stats().waits_for
    for sequence in (10, 11):
        buffer.append(paired(sequence))
    assert sequences(buffer.sample(32, 3)) == [8, 9, 10, 11]
    stats = buffer.stats()
    assert stats.games == stats.rows == stats.too_old == 0
    assert stats.sampled == stats.inserted > 0


def test_the_records_are_those_that_were_appended(
    make: Callable[..., ReplayBuffer], paired: Callable[..., GameRecord]
) -> None:
    buffer = make()
    buffer.record_version(3)
    games = [paired(sequence, version=3, opponent=1) for sequence in range(4)]
    for record in games:
        buffer.append(record)
    sample = buffer.sample(32, 1)
    assert isinstance(sample, Games)
    assert sample.versions.tolist() == [3] * 4
    assert [encode_record(record) for record in sample.records] == [encode_record(record) for record in games]


def test_games_that_are_too_old_are_dropped_and_counted(
    make: Callable[..., ReplayBuffer], paired: Callable[..., GameRecord]
) -> None:
    """An opponent's version may be as old as it likes."""
    buffer = make()
    buffer.record_version(5)
    for sequence, version in enumerate([5, 2, 3, 5, 5, 3]):
        buffer.append(paired(sequence, version=version, opponent=1))
    assert sequences(buffer.sample(32, 1)) == [0, 2, 3, 4]
    assert buffer.stats().too_old == 1
    buffer.record_version(6)  # what is left is of version 3 now
    for sequence in range(6, 10):
        buffer.append(paired(sequence, version=6))
    assert sequences(buffer.sample(32, 2)) == [6, 7, 8, 9]
    assert buffer.stats().too_old == 2


def test_actors_pause_while_too_many_games_wait(
    make: Callable[..., ReplayBuffer], paired: Callable[..., GameRecord]
) -> None:
    buffer = make()
    throttled = []
    for sequence in range(10):
        throttled.append(buffer.append(paired(sequence)).throttle)
    assert throttled[-1]
    assert not any(throttled[:4])
    assert buffer.sample(32, 1) is not None
    assert buffer.sample(32, 2) is not None
    buffer.stats()
    assert not buffer.control().throttle


def test_games_that_became_too_old_make_nobody_wait_for_ever(
    make: Callable[..., ReplayBuffer], paired: Callable[..., GameRecord]
) -> None:
    buffer = make()
    for sequence in range(8):
        buffer.append(paired(sequence))
    buffer.record_version(7)
    assert buffer.sample(32, 1) is None
    assert not buffer.control().throttle, "none of the games that wait can be learned from"
    for sequence in range(8, 12):
        buffer.append(paired(sequence, version=7))
    assert sequences(buffer.sample(32, 1)) == [8, 9, 10, 11]
    assert buffer.stats().too_old == 8


def test_actors_that_never_pause_do_not_fill_the_memory(
    game: Game, paired: Callable[..., GameRecord]
) -> None:
    buffer = make_buffer("memory", game, CONFIG, batch_size=32, queue=QUEUE)
    most = MOST_TIMES * QUEUE.ahead
    for sequence in range(most + 5):
        buffer.append(paired(sequence))
    assert buffer.stats().games == most
    assert buffer.stats().too_old == 5
    assert sequences(buffer.sample(32, 1)) == [5, 6, 7, 8]


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_who_goes_on_from_a_checkpoint_gets_the_other_games_once(
    make: Callable[..., ReplayBuffer], paired: Callable[..., GameRecord], taken: int
) -> None:
    """Also what came after the checkpoint, and what was handed out after it, because that was not saved."""
    former = make()
    former.record_version(4)
    versions = [4, 4, 1, 4, 4, 4, 4, 4, 4, 4]  # one is too old, and stands between the others
    log = [paired(sequence, version=version) for sequence, version in enumerate(versions)]
    for record in log:
        former.append(record)
    for seed in range(taken):
        assert former.sample(32, seed) is not None
    state = former.state()
    former.sample(32, 9)  # is lost with the process
    buffer = make()
    buffer.restore(state, [encode_record(record) for record in log])
    for sequence in range(10, 14):
        buffer.append(paired(sequence, version=4))
    got = []
    while (sample := buffer.sample(32, 0)) is not None:
        got += sequences(sample)
    fresh = [sequence for sequence in range(14) if sequence != 2]
    assert got == fresh[4 * taken : 4 * taken + len(got)]
    assert len(got) == (13 - 4 * taken) // 4 * 4
    assert buffer.stats().lost_games == 0
    assert buffer.stats().too_old == 1
