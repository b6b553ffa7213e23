"""What every buffer of the table must do."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import redis

from shusaku.common._core import Game
from shusaku.common.codec import decode_record, encode_record
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.errors import UsageError
from shusaku.common.messages import Control, GameId, GameRecord, RowKind
from shusaku.common.network.row_labels import RowLabels
from shusaku.replay.backends import BUFFERS, make_buffer
from shusaku.replay.buffer import Batch, PackedPlanes, ReplayBuffer
from shusaku.replay.row_window import is_test_game
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys

MakeRecord = Callable[..., GameRecord]
MakeBuffer = Callable[..., Any]

CONFIG = ReplayConfig(window="fixed", capacity=500, minimum=100, samples_per_position=2.0)


@pytest.fixture(params=sorted(BUFFERS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def begin(kind: str, request: pytest.FixtureRequest, make_run: Callable[[], str]) -> Callable[..., dict[str, Any]]:
    """Where a buffer has to be begun: its options then."""
    if kind == "memory":
        return lambda config, epoch: {}
    url = request.getfixturevalue("redis_server").url

    def begin_one(config: ReplayConfig, epoch: int) -> dict[str, Any]:
        run_id = make_run()
        RedisControl(url, run_id).begin(epoch, capacity=config.capacity, max_bytes=1 << 30, actors=0)
        return {"url": url, "run_id": run_id, "background": False}

    return begin_one


@pytest.fixture
def make(kind: str, game: Game, begin: Callable[..., dict[str, Any]]) -> MakeBuffer:
    def make_one(config: ReplayConfig = CONFIG, **options: Any) -> ReplayBuffer:
        begun = {} if "run_id" in options else begin(config, options.get("epoch", 0))
        return make_buffer(kind, game, config, **({"batch_size": 32} | begun | options))

    return make_one


@pytest.fixture
def resume(kind: str, make: MakeBuffer, request: pytest.FixtureRequest, make_run: Callable[[], str]) -> MakeBuffer:
    """A buffer that continues from the state of another and from the records that are left of its games.

    The buffer, and how many of the records were bad.
    """
    if kind == "memory":

        def from_memory(former: ReplayBuffer, log: list[bytes], *arguments: Any) -> tuple[ReplayBuffer, int]:
            buffer = make(*arguments)
            return buffer, buffer.restore(former.state(), log)

        return from_memory
    url = request.getfixturevalue("redis_server").url
    client = redis.Redis.from_url(url)

    def from_redis(former: Any, log: list[bytes], *arguments: Any) -> tuple[ReplayBuffer, int]:
        """A copy of the run as it is, but for its stream, which holds the records and no others."""
        state, keys = former.state(), former._keys
        options = {"url": url, "run_id": make_run(), "background": False}
        copy = RunKeys.of(options["run_id"])
        for name in ("control", "counters", "seen"):
            client.copy(getattr(keys, name), getattr(copy, name))
        entries = client.xrevrange(keys.games)  # fewer than the log has: Redis evicts
        for (number, fields), data in reversed(list(zip(entries, reversed(log), strict=False))):
            client.xadd(copy.games, fields | {b"d": data}, id=number)
        buffer = make(*arguments, **options)
        return buffer, buffer.restore(state)

    return from_redis


def fill(buffer: ReplayBuffer, game: Game, make_record: MakeRecord, games: int, first: int = 0) -> list[GameRecord]:
    records = [make_record(game, sequence) for sequence in range(first, first + games)]
    for record in records:
        buffer.append(record)
    return records


def equal(one: Batch, other: Batch) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in Batch.__slots__)


def test_the_table_names_its_buffers() -> None:
    with pytest.raises(UsageError, match="unknown replay buffer 'redis_': expected one of memory"):
        make_buffer("redis_", Game("tic_tac_toe"), CONFIG)


def test_sizes_are_checked(make: MakeBuffer, game: Game) -> None:
    too_small = 100 + game.max_plies - 1
    with pytest.raises(UsageError, match=f"set replay.capacity={too_small + 1} or more"):
        make(replace(CONFIG, capacity=too_small))
    make(replace(CONFIG, capacity=too_small + 1))


def test_rows_come_back_as_they_were_played(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    buffer = make(symmetries=False)
    assert buffer.sample(32, seed=0) is None
    records = fill(buffer, game, make_record, 30)
    facts = []  # of each row in the order of appending
    for record in records:
        position = game.start()
        for ply, action in enumerate(record.actions):
            policy = np.zeros(game.num_actions, np.float32)  # [A]
            entries = slice(record.policy_offsets[ply], record.policy_offsets[ply + 1])
            policy[record.policy_actions[entries]] = record.policy_shares[entries] / np.float32(65_535)
            outcome = record.outcome if position.to_play == 0 else -record.outcome
            facts.append((position.observation(), policy, outcome, record.root_values[ply], len(record) - ply))
            position.play(int(action))
    batch = buffer.sample(32, seed=5)
    assert batch is not None
    assert len(batch) == 32
    assert batch.observations.shape == (32, *game.observation_shape)
    assert batch.policy.shape == (32, game.num_actions)
    for b, row in enumerate(batch.rows):
        observation, policy, outcome, root_value, plies_left = facts[row]
        np.testing.assert_array_equal(batch.observations[b], observation)
        np.testing.assert_allclose(batch.policy[b], policy, atol=1e-6)
        assert batch.outcome[b] == outcome
        assert batch.root_values[b] == root_value
        assert batch.plies_left[b] == plies_left
        assert batch.weight[b] == 1
        assert batch.versions[b] == 0
    for name in ("observations", "policy", "outcome", "root_values", "weight", "plies_left"):
        assert getattr(batch, name).dtype == np.float32


def test_samples_depend_on_the_seed_alone(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    one, other = make(threads=1), make(threads=2)
    for buffer in (one, other):
        fill(buffer, game, make_record, 40)
    first, same, different = one.sample(32, 7), other.sample(32, 7), other.sample(32, 8)
    assert first is not None
    assert same is not None
    assert different is not None
    assert equal(first, same)
    assert not equal(first, different)


@pytest.mark.parametrize("keep", ["planes", "moves"])
@pytest.mark.parametrize("symmetries", [True, False])
def test_packed_mini_batches_are_the_others(
    make: MakeBuffer, game: Game, make_record: MakeRecord, keep: str, symmetries: bool
) -> None:
    """For a learner on a GPU: the same rows under the same symmetries, whose planes it expands itself."""
    config = replace(CONFIG, keep=keep, test_share=0.2)
    plain, packed = (make(config, symmetries=symmetries, packed=value) for value in (False, True))
    for i in range(60):
        record = make_record(game, i)
        plain.append(record)
        packed.append(record)
    for sample in (lambda buffer: buffer.sample(64, 7), lambda buffer: buffer.peek(16, 3, of_tests=True)):
        expected, found = sample(plain), sample(packed)
        assert isinstance(found.observations, PackedPlanes)
        assert found.observations.packed.nbytes < expected.observations.nbytes / 8
        np.testing.assert_array_equal(found.observations.expand(game), expected.observations)
        for name in ("policy", "outcome", "root_values", "weight", "plies_left", "versions", "rows"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_the_limiter_holds_both_ways(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    buffer = make()
    sequence = 0
    for _ in range(300):
        if not buffer.control().throttle:
            reply = buffer.append(make_record(game, sequence))
            assert reply == buffer.control()
            sequence += 1
        while buffer.sample(32, sequence) is not None:
            assert not (buffer.control().throttle and buffer.stats().rows < CONFIG.minimum)
    stats = buffer.stats()
    assert stats.inserted > 1000
    learned = (stats.inserted - CONFIG.minimum) * CONFIG.samples_per_position
    assert learned <= stats.sampled <= learned + 2 * max(2 * game.max_plies, 32)
    assert stats.samples_per_position == stats.sampled / stats.inserted
    buffer = make()
    while not buffer.control().throttle:
        buffer.append(make_record(game, sequence := sequence + 1))
    before = buffer.stats().inserted
    assert buffer.append(make_record(game, sequence + 1)).throttle  # soft: finished games are kept
    assert buffer.stats().inserted > before
    assert buffer.stats().waits_for.endswith("playing pauses")


def test_what_it_waits_for(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    buffer = make()
    assert buffer.stats().waits_for == "0 of 100 rows before the first step"
    record = make_record(game)
    buffer.append(record)
    assert buffer.stats().waits_for == f"{len(record)} of 100 rows before the first step"


def test_without_a_learner_nobody_is_throttled(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    buffer = make(limited=False)
    fill(buffer, game, make_record, 100)
    assert not buffer.control().throttle
    assert buffer.stats().waits_for == ""


@pytest.mark.parametrize("window", ["fixed", "power"])
def test_the_window_holds_whole_newest_games(
    make: MakeBuffer, game: Game, make_record: MakeRecord, window: str
) -> None:
    config = replace(CONFIG, window=window, samples_per_position=1000.0)
    buffer = make(config)
    lengths: list[int] = []
    for sequence in range(150):
        record = make_record(game, sequence)
        lengths.append(len(record))
        buffer.append(record)
        stats = buffer.stats()
        assert stats.rows == sum(lengths[len(lengths) - stats.games :]) == stats.inserted - stats.deleted
        assert stats.inserted == sum(lengths)
        assert stats.rows <= config.capacity
        assert stats.rows >= min(stats.inserted, stats.window, config.capacity - game.max_plies)
        if stats.window < config.capacity - game.max_plies:
            assert stats.rows < stats.window + game.max_plies
        if stats.inserted >= config.minimum:
            batch = buffer.sample(32, sequence)
            assert batch is not None
            assert stats.deleted <= batch.rows.min() <= batch.rows.max() < stats.inserted
    assert buffer.stats().deleted > 0


def test_rows_without_weight_do_not_count(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    buffer = make()
    fill(buffer, game, make_record, 20)
    before = buffer.stats()
    record = make_record(game, 20)
    weights = np.zeros(len(record), np.float32)
    weights[2] = 0.5
    buffer.append(replace(record, row_weight=weights, kind=np.full(len(record), RowKind.CHEAP, np.uint8)))
    assert buffer.stats().inserted == before.inserted + 1
    buffer.append(make_record(game, 21, weight=0.0))
    after = buffer.stats()
    assert after.inserted == before.inserted + 1
    assert after.accepted == before.accepted + 2
    assert after.quarantined == {}


def test_a_game_is_counted_once(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    buffer = make(epoch=3)

    def append(epoch: int, actor: int, incarnation: int, sequence: int) -> tuple[int, int, int, int]:
        buffer.append(replace(make_record(game, 0), game_id=GameId(epoch, actor, incarnation, sequence)))
        stats = buffer.stats()
        return stats.accepted, stats.duplicates, stats.fenced, stats.other_epoch

    assert append(3, 0, 0, 0) == (1, 0, 0, 0)
    assert append(3, 0, 0, 0) == (1, 1, 0, 0)  # sent again
    assert append(3, 1, 0, 0) == (2, 1, 0, 0)  # another actor
    assert append(3, 0, 0, 1) == (3, 1, 0, 0)
    assert append(3, 0, 0, 0) == (3, 2, 0, 0)
    assert append(3, 0, 1, 0) == (4, 2, 0, 0)  # the actor's next incarnation
    assert append(3, 0, 0, 2) == (4, 2, 1, 0)  # the former one is fenced
    assert append(2, 0, 0, 9) == (4, 2, 1, 1)  # a former driver's
    assert append(4, 0, 0, 0) == (4, 2, 1, 2)  # of another epoch
    buffer.fence(1, 2)
    assert append(3, 1, 1, 0) == (4, 2, 2, 2)
    assert append(3, 1, 2, 0) == (5, 2, 2, 2)
    buffer.fence(1, 1)  # fencing an earlier incarnation changes nothing
    assert append(3, 1, 2, 1) == (6, 2, 2, 2)
    assert buffer.stats().quarantined == {}
    assert buffer.control().epoch == 3


def test_control_tells_version_and_stop(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    buffer = make()
    assert buffer.control() == Control()
    buffer.record_version(4)
    buffer.record_version(3)
    buffer.stop()
    assert buffer.append(make_record(game)) == Control(stop=True, version=4)


def test_accepted_games_are_handed_on_in_order(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    accepted: list[bytes] = []
    buffer = make(on_accept=accepted.append)
    records = fill(buffer, game, make_record, 3)
    buffer.append(records[0])  # a duplicate
    buffer.append(replace(records[0], game_id=GameId(0, 0, 0, 9), outcome=2))
    assert [decode_record(data).game_id.sequence for data in accepted] == [0, 1, 2]

    def fail(data: bytes) -> None:
        raise OSError("No space left on device")

    buffer = make(on_accept=fail)
    with pytest.raises(OSError, match="No space left"):
        buffer.append(records[0])
    assert buffer.stats().accepted == 1


@pytest.mark.parametrize("window", ["fixed", "power"])
def test_a_restored_buffer_goes_on_as_if_nothing_had_happened(
    make: MakeBuffer, resume: MakeBuffer, game: Game, make_record: MakeRecord, window: str
) -> None:
    log: list[bytes] = []
    config = replace(CONFIG, window=window)
    straight = make(config, on_accept=log.append)
    fill(straight, game, make_record, 150)
    straight.append(make_record(game, 150, weight=0.0))
    straight.record_version(6)
    for seed in range(20):
        straight.sample(32, seed)
    resumed, bad = resume(straight, log, config)
    assert bad == 0
    assert resumed.state() == straight.state()
    for sequence in range(151, 190):
        record = make_record(game, sequence)
        assert resumed.append(record) == straight.append(record)
        one, other = straight.sample(32, sequence), resumed.sample(32, sequence)
        assert (one is None) == (other is None)
        assert one is None or other is None or equal(one, other)
    ours, theirs = resumed.stats(), straight.stats()
    assert (ours.rows, ours.inserted, ours.sampled, ours.deleted) == (
        theirs.rows,
        theirs.inserted,
        theirs.sampled,
        theirs.deleted,
    )
    assert resumed.append(make_record(game, 7)).version == 6
    assert resumed.stats().duplicates == 1
    with pytest.raises(ValueError, match="holds games"):
        resumed.restore(straight.state(), log)


def play_and_learn(buffer: ReplayBuffer, game: Game, make_record: MakeRecord, rows: int) -> int:
    """Until so many rows were inserted, each sampled from as often as the limiter allows; the number of games."""
    games = 0
    while buffer.stats().inserted < rows:
        buffer.append(make_record(game, games))
        games += 1
        while buffer.sample(32, games) is not None:
            pass
    return games


@pytest.mark.parametrize("change", [
    {"samples_per_position": 1.0}, {"samples_per_position": 9.0}, {"minimum": 50}, {"minimum": 300},
], ids=str)
def test_changed_settings_of_the_limiter_count_from_the_restart_on(
    make: MakeBuffer, resume: MakeBuffer, game: Game, make_record: MakeRecord, change: dict[str, Any]
) -> None:
    """Neither side waits for what all rows of before would be owed; what was counted stays true."""
    log: list[bytes] = []
    former = make(on_accept=log.append)
    sequence = play_and_learn(former, game, make_record, 1000)
    before = former.stats()
    config = replace(CONFIG, **change)
    buffer, _ = resume(former, log, config)
    after = buffer.stats()
    assert (after.inserted, after.sampled, after.rows) == (before.inserted, before.sampled, before.rows)
    for _ in range(40):
        assert not buffer.control().throttle
        (record,) = fill(buffer, game, make_record, 1, first=sequence)
        log.append(encode_record(record))
        sequence += 1
        while buffer.sample(32, sequence) is not None:
            pass
    now = buffer.stats()
    new_rows, longest = now.inserted - before.inserted, config.samples_per_position * game.max_plies
    assert abs(now.sampled - before.sampled - new_rows * config.samples_per_position) <= 64 + 2 * longest
    again, _ = resume(buffer, log, config)
    assert again.state() == buffer.state()


@pytest.mark.parametrize("left", [0, 3, 60])
def test_a_lost_window_is_made_up_for(
    make: MakeBuffer, resume: MakeBuffer, game: Game, make_record: MakeRecord, left: int
) -> None:
    log: list[bytes] = []
    first = make(on_accept=log.append)
    sequence = play_and_learn(first, game, make_record, 2000)
    resumed, _ = resume(first, log[len(log) - left :])
    stats = resumed.stats()
    assert stats.inserted == first.stats().inserted
    assert stats.rows == sum(decode_record(data).num_rows for data in log[len(log) - stats.games :])
    samples = 0
    for _ in range(200):  # neither side waits forever
        is_throttled = resumed.control().throttle
        if not is_throttled:
            resumed.append(make_record(game, sequence))
            sequence += 1
        batch = resumed.sample(32, sequence)
        samples += batch is not None
        assert batch is not None or not is_throttled
    assert samples > 10


def test_bad_records_of_the_log_are_left_out(
    make: MakeBuffer, resume: MakeBuffer, game: Game, make_record: MakeRecord
) -> None:
    log: list[bytes] = []
    first = make(on_accept=log.append)
    fill(first, game, make_record, 20)
    log[3] = log[3][:50]
    resumed, bad = resume(first, log)
    assert bad == 1
    stats = resumed.stats()
    assert stats.quarantined == {"format": 1}
    assert stats.games == 19
    assert stats.inserted - stats.deleted == stats.rows


@pytest.mark.parametrize(
    "change",
    [
        {"state": 2}, {"inserted": -1}, {"deleted": 10**9}, {"seen": [[1, 2]], "number": -1},
        {"seen": 5, "boot": 5}, {"version": None}, {"sampled": "many"},
    ],
    ids=str,
)
def test_a_state_that_is_none_of_ours(make: MakeBuffer, change: dict[str, Any]) -> None:
    buffer = make()
    state = buffer.state()
    with pytest.raises(ValueError, match=r"replay state|impossible counters"):
        buffer.restore(state | change, [])
    with pytest.raises(ValueError, match="replay state is broken"):
        buffer.restore({"state": state["state"]}, [])
    buffer.restore(state, [])


def test_many_threads(make: MakeBuffer, game: Game, make_record: MakeRecord) -> None:
    accepted: list[bytes] = []
    buffer = make(on_accept=accepted.append)
    records = [[make_record(game, s, game_id=GameId(0, actor, 0, s)) for s in range(60)] for actor in range(3)]
    is_done = threading.Event()
    batches: list[Batch] = []

    def learn() -> None:
        seed = 0
        while not is_done.is_set():
            batch = buffer.sample(32, seed)
            if batch is not None:
                batches.append(batch)
            seed += 1

    def play(actor: int) -> None:
        for record in records[actor]:
            buffer.append(record)

    learner = threading.Thread(target=learn)
    actors = [threading.Thread(target=play, args=(actor,)) for actor in range(3)]
    for thread in (learner, *actors):
        thread.start()
    for thread in actors:
        thread.join()
    is_done.set()
    learner.join()
    stats = buffer.stats()
    assert stats.accepted == len(accepted) == 180
    assert stats.inserted == sum(len(record) for games in records for record in games)
    assert stats.sampled == 32 * len(batches)
    for batch in batches:
        np.testing.assert_allclose(batch.policy.sum(axis=1), 1, atol=1e-4)


def test_labels_and_surprise_reach_the_mini_batches(game: Game, make: MakeBuffer, make_record: MakeRecord) -> None:
    buffer = make(replace(CONFIG, surprise_weight=1.0), labels=RowLabels(horizons=(4.0,), reply=True))
    surprising, end = set(), 0
    for number in range(30):
        record = make_record(game, number)
        record.surprise[len(record) // 2] = 0.5
        buffer.append(record)
        surprising.add(end + len(record) // 2)
        end += len(record)
    batch = buffer.sample(32, 1)
    assert set(batch.rows.tolist()) <= surprising
    assert buffer.stats().sampled == 32
    assert batch.short_term.shape == (32, 1)
    assert batch.reply.shape == (32, game.num_actions)
    np.testing.assert_allclose(batch.reply.sum(1), 1, atol=1e-5)
    assert (batch.ownership, batch.score) == (None, None)


TESTED = replace(CONFIG, capacity=300, test_share=0.3)


def contents(batch: Batch) -> set[bytes]:
    """Planes and root value of every row."""
    return {row.tobytes() + value.tobytes()
            for row, value in zip(batch.observations, batch.root_values, strict=True)}


def rows_of(game: Game, records: list[GameRecord]) -> set[bytes]:
    """Planes and root value of every row."""
    found = set()
    for record in records:
        position = game.start()
        for ply, action in enumerate(record.actions):
            found.add(position.observation().astype(np.float32).tobytes() + record.root_values[ply].tobytes())
            position.play(int(action))
    return found


def test_test_games_are_never_sampled_but_peeked_at(
    make: MakeBuffer, resume: MakeBuffer, game: Game, make_record: MakeRecord
) -> None:
    """The same ones after a restart; their rows count for window and limiter, and peeking counts nothing."""
    log: list[bytes] = []
    buffer = make(TESTED, symmetries=False, on_accept=log.append)
    records = fill(buffer, game, make_record, 60)
    resumed, bad = resume(buffer, log, TESTED)
    assert bad == 0
    for one in (buffer, resumed):
        stats = one.stats()
        newest, rows = [], 0
        for record in reversed(records):
            if rows < stats.rows:
                newest.append(record)
                rows += record.num_rows
        assert rows == stats.rows > 200
        tests = [record for record in newest if is_test_game(record.game_id, 0.3)]
        others = [record for record in newest if not is_test_game(record.game_id, 0.3)]
        assert stats.test_rows == sum(record.num_rows for record in tests)
        assert tests
        assert others
        sampled = one.stats().sampled
        peeked = {of_tests: one.peek(3000, 1, of_tests=of_tests) for of_tests in (True, False)}
        assert contents(peeked[True]) == rows_of(game, tests)
        assert contents(peeked[False]) == rows_of(game, others)
        assert one.stats().sampled == sampled
    for seed in range(6):
        batch = buffer.sample(32, seed)
        assert batch is not None
        assert contents(batch) <= rows_of(game, records) - rows_of(
            game, [record for record in records if is_test_game(record.game_id, 0.3)])


def rows_of_tests(buffer: ReplayBuffer, records: list[GameRecord], shares: list[float]) -> int:
    """Rows of the games in the window that are tests if each game falls under its share."""
    newest = list(zip(records, shares, strict=True))[len(records) - buffer.stats().games :]
    return sum(record.num_rows for record, share in newest if is_test_game(record.game_id, share))


@pytest.mark.parametrize("former_share", [0.0, 0.1])
def test_a_larger_share_is_one_of_new_games(
    make: MakeBuffer, resume: MakeBuffer, game: Game, make_record: MakeRecord, former_share: float
) -> None:
    """Those of before may have been learned from; after each restart, until they have left the window."""
    log: list[bytes] = []
    former, larger = make(replace(TESTED, test_share=former_share), on_accept=log.append), replace(TESTED, capacity=600)
    records = fill(former, game, make_record, 60)
    buffer, _ = resume(former, log, larger)
    shares = [former_share] * 60
    assert buffer.stats().test_rows == rows_of_tests(buffer, records, shares)
    records += fill(buffer, game, make_record, 10, first=60)
    log += [encode_record(record) for record in records[60:]]
    shares += [0.3] * 10
    assert buffer.stats().test_rows == rows_of_tests(buffer, records, shares)
    if not former_share:
        assert contents(buffer.peek(3000, 1, of_tests=True)) <= rows_of(game, records[60:])
    buffer, _ = resume(buffer, log, larger)
    shares = [former_share] * 70
    assert buffer.stats().test_rows == rows_of_tests(buffer, records, shares)
    records += fill(buffer, game, make_record, 200, first=70)
    log += [encode_record(record) for record in records[70:]]
    shares += [0.3] * 200
    assert buffer.stats().test_rows == rows_of_tests(buffer, records, shares)
    buffer, _ = resume(buffer, log, larger)
    assert buffer.stats().test_rows == rows_of_tests(buffer, records, shares) > 0


def test_a_state_that_names_no_share_has_the_one_of_now(
    make: MakeBuffer, resume: MakeBuffer, game: Game, make_record: MakeRecord
) -> None:
    """Those of earlier programs."""
    log: list[bytes] = []
    former = make(TESTED, on_accept=log.append)
    records = fill(former, game, make_record, 60)
    state = former.state()
    later = ("test_share", "samples_per_position", "minimum", "shift")
    former.state = lambda: {name: value for name, value in state.items() if name not in later}
    buffer, _ = resume(former, log, TESTED)
    assert buffer.state() == state
    assert buffer.stats().test_rows == rows_of_tests(buffer, records, [0.3] * 60) > 0


def test_a_share_of_all_games_are_tests() -> None:
    games = [GameId(epoch, actor, 0, sequence) for epoch in range(2) for actor in range(5) for sequence in range(1000)]
    assert abs(np.mean([is_test_game(game, 0.3) for game in games]) - 0.3) < 0.02
    assert {is_test_game(game, 0.0) for game in games} == {False}


def test_without_test_games_there_is_nothing_to_peek_at(
    make: MakeBuffer, game: Game, make_record: MakeRecord
) -> None:
    buffer = make()
    assert buffer.peek(8, 1, of_tests=False) is None, "it holds no row"
    fill(buffer, game, make_record, 30)
    assert buffer.peek(8, 1, of_tests=True) is None
    assert len(buffer.peek(8, 1, of_tests=False)) == 8
    assert buffer.stats().test_rows == 0
