"""What only the buffer over Redis does: strangers' records, gaps, restarts, two sides that run at their own pace."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stream_run import STALL_SECONDS, StreamRun

from shusaku.common._core import Game
from shusaku.common.codec import encode_record
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import GameId, GameRecord
from shusaku.replay.stream.append import Appender, AppendStatus, EncodedGame
from shusaku.replay.stream.server import EmbeddedServer
from shusaku.replay.stream.writer import AsyncWriter, heartbeat_seconds

MakeRecord = Callable[..., GameRecord]
CONFIG = ReplayConfig(window="fixed", capacity=2000, minimum=100, samples_per_position=2.0)
GAME = Game("connect_four")


class Run(StreamRun):
    """A run whose games have the numbers from 0."""

    def __init__(self, url: str, run_id: str, make_record: MakeRecord, capacity: int = 2000) -> None:
        super().__init__(url, run_id, GAME, CONFIG, batch_size=32, capacity=capacity)
        self.make_record, self.sequence = make_record, 0

    def play(self, games: int, **header: Any) -> list[GameRecord]:
        records = [
            replace(self.make_record(GAME, k, **header), game_id=GameId(0, 0, 0, k))
            for k in range(self.sequence, self.sequence + games)
        ]
        for record in records:
            self.actor.append([EncodedGame.of(record)])
        self.sequence += games
        return records


@pytest.fixture
def run(redis_server: EmbeddedServer, make_run: Callable[[], str], make_record: MakeRecord) -> Iterator[Run]:
    run = Run(redis_server.url, make_run(), make_record)
    yield run
    run.close()


def wait_for(condition: Callable[[], Any], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def test_poisoned_records_are_quarantined_and_stop_nobody(run: Run) -> None:
    buffer = run.open_buffer(config_hash="c0ffee", limited=True)
    good = run.play(5)
    bad = good[0]
    data = encode_record(bad)
    poison: list[tuple[str, dict[str, bytes], str]] = [
        ("*", {"d": data, "r": b"10", "n": b"50"}, "source"),
        ("*", {"hello": b"world"}, "source"),
        ("*", {"d": b"\xff" * 1000, "r": b"-1", "n": b"9" * 40}, "source"),
    ]
    for id, fields, _ in poison:
        run.raw.xadd(run.keys.games, fields, id=id)
    wrong = [  # through the script, by an actor that is out of its mind
        (data[: len(data) // 2], "format"),
        (b"", "format"),
        (random.Random(1).randbytes(5000), "format"),
        (encode_record(replace(bad, game="chess")), "game"),
        (encode_record(replace(bad, config_hash="beef")), "config"),
        (encode_record(replace(bad, versions=np.full(len(bad), 9, np.uint32))), "version"),
        (encode_record(replace(bad, outcome=-bad.outcome or 1)), "outcome"),
        (encode_record(replace(bad, root_values=np.full(len(bad), np.nan, np.float32))), "number"),
        (encode_record(replace(bad, actions=np.full(len(bad), bad.actions[0], np.uint16))), "action"),
        (encode_record(replace(bad, policy_shares=bad.policy_shares[::-1].copy() * 0)), "policy"),
    ]
    claimed = 0  # rows of these games as the actor states them
    for data, kind in wrong:
        rows = min(40, len(data) // 4) if kind in ("format", "game") else bad.num_rows
        run.actor.append([EncodedGame(run.sequence, rows, data)])
        run.sequence += 1
        claimed += rows
    good += run.play(5)
    stats = buffer.stats()
    expected: dict[str, int] = {}
    for kind in [kind for _, _, kind in poison] + [kind for _, kind in wrong]:
        expected[kind] = expected.get(kind, 0) + 1
    assert stats.quarantined == run.control.quarantined() == expected
    rows = sum(record.num_rows for record in good)
    assert (stats.accepted, stats.inserted, stats.rows, stats.skipped) == (10, rows, rows, 0)
    counters = run.control.counters()
    assert counters["invalid"] == 13
    assert counters["inserted"] == rows + claimed  # as the server counted,
    assert counters["inserted"] - counters["deleted"] == rows  # and what it has
    assert counters["bytes"] == sum(len(encode_record(record)) for record in good)
    assert run.raw.xlen(run.keys.games) == 10  # the bad ones are out of it
    entries = run.raw.xrange(run.keys.quarantine)
    assert [fields[b"reason"].partition(b":")[0].decode() for _, fields in entries].count("source") == 3
    # The rows of the bad games are out of the limiter: the credit is that of a buffer that never saw them.
    limit = int(run.raw.hget(run.keys.control, "limit"))
    clean = Run(run.url, run.id + "-clean", run.make_record)
    clean_buffer = clean.open_buffer()
    clean.sequence = 0
    for record in good:
        clean.actor.append([EncodedGame(record.game_id.sequence, record.num_rows, encode_record(record))])
    assert clean_buffer.stats().inserted == rows
    assert limit - claimed == int(clean.raw.hget(clean.keys.control, "limit"))
    again = run.open_buffer()  # the next learner meets none of them
    assert again.stats().quarantined == {}
    assert again.stats().inserted == rows
    clean_buffer.close()


def test_bombs_are_quarantined_with_a_reason(run: Run) -> None:
    """Deep, wide, large and heavy ones, through the script where it takes them, else written by hand."""
    buffer = run.open_buffer()
    good = run.play(1)[0]

    def heavy(weight: float) -> bytes:
        record = replace(good, row_weight=np.full(len(good), weight, np.float32))
        return encode_record(replace(record, game_id=GameId(0, 0, 0, run.sequence)))

    bombs: list[tuple[bytes, int, str]] = [
        (b"\x91" * 100_000 + b"\xc0", 9, "format"), (b"\x81\xa1a" * 50_000 + b"\xc0", 9, "format"),  # nesting
        (b"\xc9\xff\xff\xff\xff\x01" + bytes(99), 9, "format"), (b"\xd8\x05" + bytes(16), 2, "format"),  # extensions
        (b"\xdd\xff\xff\xff\xff" + bytes(99), 9, "format"),
        (b"\xc6\x7f\xff\xff\xff" + bytes(99), 9, "format"),
        (msgpack.packb({f"field{k}": k for k in range(500)}), 9, "format"), (bytes(8 << 20), 9, "format"),
        (heavy(1e30), len(good), "number"), (heavy(np.inf), len(good), "number"),
    ]
    for data, rows, kind in bombs:
        before = buffer.stats().quarantined.get(kind, 0)
        run.actor.append([EncodedGame(run.sequence, rows, data)])
        run.sequence += 1
        assert buffer.stats().quarantined.get(kind, 0) == before + 1, data[:20]
    wide: dict[str, bytes] = {f"field{k}": b"x" for k in range(500)}
    for fields in ({"d": b"x" * (20 << 20), "r": b"1", "n": b"1"}, wide):
        run.raw.xadd(run.keys.games, fields)
    assert buffer.stats().quarantined["source"] == 2
    reasons = [fields[b"reason"] for _, fields in run.raw.xrange(run.keys.quarantine)]
    assert len(reasons) == len(bombs) + 2
    assert all(reason.decode().isprintable() for reason in reasons)
    assert max(len(fields[b"d"]) for _, fields in run.raw.xrange(run.keys.quarantine)) <= 1 << 20
    run.play(1)
    assert (buffer.stats().accepted, buffer.stats().trouble) == (2, "")
    assert run.raw.xlen(run.keys.games) == 2


@pytest.mark.parametrize("stated", [0, 1, 100])
def test_an_actor_that_states_other_rows_than_it_sends_is_refused(run: Run, stated: int) -> None:
    buffer = run.open_buffer()
    good = run.play(3)
    run.actor.append([EncodedGame(3, stated, encode_record(replace(good[0], game_id=GameId(0, 0, 0, 3))))])
    run.actor.append([EncodedGame(4, good[0].num_rows, encode_record(replace(good[0], game_id=GameId(0, 7, 0, 4))))])
    stats = buffer.stats()
    assert (stats.quarantined, stats.accepted) == ({"rows": 1, "game_id": 1}, 3)
    counters = run.control.counters()
    assert counters["inserted"] - counters["deleted"] == sum(record.num_rows for record in good)
    assert stats.inserted == sum(record.num_rows for record in good)


def test_an_actor_of_bad_games_is_fenced_and_named_and_its_successor_is_heard(run: Run) -> None:
    buffer = run.open_buffer()

    def send(actor: int, incarnation: int, numbers: range, is_bad: bool) -> list[AppendStatus]:
        appender = Appender(run.url, run.id, actor=actor, epoch=0, incarnation=incarnation)
        found = []
        for k in numbers:
            record = replace(run.make_record(GAME, k), game_id=GameId(0, actor, incarnation, k))
            game = EncodedGame.of(record)
            found.append(appender.append([game._replace(data=game.data[:-9]) if is_bad else game]).status)
            buffer.stats()
        appender.close()
        return found

    done, fenced = AppendStatus.DONE, AppendStatus.FENCED
    assert send(2, 0, range(10), is_bad=True) == [done] * 10  # half of a block
    assert send(2, 0, range(10, 20), is_bad=False) == [done] * 10
    assert buffer.stats().fenced_actors == {}
    assert send(2, 0, range(20, 33), is_bad=True) == [done] * 11 + [fenced] * 2
    assert send(1, 0, range(30), is_bad=False) == [done] * 30, "others play on"
    [(actor, reason)] = buffer.stats().fenced_actors.items()
    assert actor == 2
    assert reason.startswith("11 of its newest 11 games were refused, the last: format: ")
    assert send(2, 0, range(33, 34), is_bad=False) == [fenced]
    assert send(2, 1, range(19), is_bad=False) == [done] * 19
    assert list(buffer.stats().fenced_actors) == [2]
    assert send(2, 1, range(19, 20), is_bad=False) == [done]
    assert buffer.stats().fenced_actors == {}
    assert buffer.stats().quarantined == {"format": 21}


@pytest.mark.parametrize(("is_throttled", "actors", "seconds"), [
    (False, 1, 1.0), (False, 500, 1.0), (True, 1, 0.05), (True, 10, 0.05), (True, 64, 0.32), (True, 1000, 1.0),
])
def test_many_actors_that_wait_ask_less_often(is_throttled: bool, actors: int, seconds: float) -> None:
    """Together no more than 200 times a second, and each as often as one that plays."""
    assert heartbeat_seconds(is_throttled=is_throttled, actors=actors) == pytest.approx(seconds)


def test_a_stranger_who_uses_up_all_ids_is_cleared_away(run: Run) -> None:
    buffer = run.open_buffer(background=True)
    run.play(10)
    wait_for(lambda: buffer.stats().games == 10)
    run.raw.xadd(run.keys.games, {"d": b"?"}, id="18446744073709551615-18446744073709551615")
    writer = AsyncWriter(Appender(run.url, run.id, actor=1, epoch=0, incarnation=0))
    for k in range(5):
        assert writer.put(replace(run.make_record(GAME, k), game_id=GameId(0, 1, 0, k)))
    assert writer.flush(10)  # when the learner has cleared it
    wait_for(lambda: buffer.stats().games == 15)
    wait_for(lambda: run.raw.xlen(run.keys.games) == 15)
    cleared = sum(buffer.stats().quarantined.values()) + run.control.counters().get("malformed", 0)
    assert (buffer.stats().losses, buffer.stats().skipped, cleared) == (0, 0, 1)  # by the learner or by the script
    assert run.control.counters()["deleted"] == 0, "the window stays"
    assert writer.close(1)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    fields=st.dictionaries(st.sampled_from([b"d", b"r", b"n", b"x"]), st.binary(max_size=60), min_size=1),
    id=st.one_of(
        st.just("*"), st.tuples(st.integers(1, 2**64 - 1), st.integers(0, 2**64 - 1)).map("{0[0]}-{0[1]}".format)
    ),
    data=st.binary(max_size=200),
)
def test_no_bytes_stop_it(run: Run, fields: dict[bytes, bytes], id: str, data: bytes) -> None:
    if not run.buffers:
        run.open_buffer()
    (buffer,) = run.buffers
    before = buffer.stats()
    try:
        run.raw.xadd(run.keys.games, fields, id=id)
        strange = 1
    except redis.ResponseError:  # an id that has been
        strange = 0
    buffer.stats()
    run.actor.append([EncodedGame(run.sequence, min(7, len(data) // 4), data)])
    run.sequence += 1
    (record,) = run.play(1)
    after = buffer.stats()
    assert after.trouble == ""
    assert after.accepted == before.accepted + 1
    assert after.inserted == before.inserted + record.num_rows
    assert sum(after.quarantined.values()) == sum(before.quarantined.values()) + strange + 1
    assert (after.losses, after.skipped) == (0, 0)


def test_trimming_that_overtakes_the_learner_is_counted(run: Run) -> None:
    run.control.begin(0, capacity=300, max_bytes=1 << 28, actors=0)
    buffer = run.open_buffer()
    seen = sum(record.num_rows for record in run.play(10))
    assert buffer.stats().skipped == 0
    played = sum(record.num_rows for record in run.play(60))
    stats = buffer.stats()
    assert stats.skipped > 0
    assert stats.inserted + stats.skipped == seen + played
    run.raw.xtrim(run.keys.games, maxlen=0, approximate=False)
    run.play(3)
    run.raw.xtrim(run.keys.games, maxlen=0, approximate=False)  # nothing to read, and more was counted than read
    for _ in range(2):
        stats = buffer.stats()
    assert stats.inserted + stats.skipped == run.control.counters()["inserted"]


@pytest.mark.parametrize("capacity", [150, 20_000])
def test_redis_may_keep_less_or_more_than_the_ring(run: Run, capacity: int) -> None:
    config = replace(CONFIG, capacity=500)
    run.control.begin(0, capacity=capacity, max_bytes=1 << 28, actors=0)
    buffer = run.open_buffer(config=config)
    lengths: list[int] = []
    for _ in range(40):
        lengths += [record.num_rows for record in run.play(3)]
        stats = buffer.stats()
        assert stats.rows == sum(lengths[len(lengths) - stats.games :])
    assert (stats.skipped, stats.inserted) == (0, sum(lengths))
    assert 400 < stats.rows <= 500
    state = buffer.state()
    lengths += [record.num_rows for record in run.play(2)]
    again = run.open_buffer(config=config)
    assert again.restore(state) == 0
    restored = again.stats()
    assert restored.inserted == sum(lengths)
    assert restored.rows == sum(lengths[len(lengths) - restored.games :])
    assert restored.rows <= 150 if capacity == 150 else restored.rows > 400
    assert again.sample(32, 1) is not None


@pytest.mark.parametrize("background", [False, True])
def test_the_learner_restarts(run: Run, background: bool) -> None:
    """Its checkpoint is older than its death; games went on coming in between."""
    first = run.open_buffer(background=background)
    run.play(40)
    wait_for(lambda: first.stats().accepted == 40)
    while first.sample(32, 0) is not None:
        pass
    state = first.state()
    more = run.play(5)
    wait_for(lambda: first.stats().accepted == 45)
    first.sample(32, 0)  # after the checkpoint: forgotten
    first.close()
    more += run.play(5)
    second = run.open_buffer(background=background)
    assert second.restore(state) == 0
    wait_for(lambda: second.stats().accepted == 10)
    stats = second.stats()
    assert stats.inserted == state["inserted"] + sum(record.num_rows for record in more)
    assert stats.sampled == state["sampled"]
    assert stats.games == 50
    batch = second.sample(32, 7)
    assert batch is not None
    assert batch.rows.max() < stats.inserted
    third = run.open_buffer(background=background)  # without any checkpoint: a fresh start with what is there
    wait_for(lambda: third.stats().accepted == 50)


def test_a_restart_finds_the_data_lost(run: Run) -> None:
    first = run.open_buffer()
    run.play(40)
    state = first.state() if first.stats().accepted else {}
    run.raw.delete(*run.keys)
    second = run.open_buffer()
    assert second.restore(state) == 0
    stats = second.stats()
    assert (stats.rows, stats.losses, stats.inserted) == (0, 1, state["inserted"])
    assert second.sample(32, 0) is None
    run.control.begin(1, capacity=2000, max_bytes=1 << 28, actors=0)
    run.actor = Appender(run.url, run.id, actor=0, epoch=1, incarnation=0, deadline=STALL_SECONDS)
    run.play(10)
    assert second.stats().games == 10
    assert second.sample(32, 0) is not None
    # The same with keys made anew before the learner looked.
    run.raw.delete(*run.keys)
    run.control.begin(2, capacity=2000, max_bytes=1 << 28, actors=0)
    run.actor = Appender(run.url, run.id, actor=0, epoch=2, incarnation=0, deadline=STALL_SECONDS)
    run.play(3)
    stats = second.stats()
    assert (stats.games, stats.losses, stats.trouble) == (3, 2, "")


def test_an_actor_waits_and_goes_on_when_told(run: Run) -> None:
    buffer = run.open_buffer(background=True, limited=True)
    writer = AsyncWriter(Appender(run.url, run.id, actor=0, epoch=0, incarnation=0))
    played = 0
    stop = threading.Event()

    def play() -> None:
        nonlocal played
        while not stop.is_set():
            if writer.control.throttle or writer.stats().queued >= 8:  # so few games wait for a reply
                stop.wait(0.002)
            elif writer.put(replace(run.make_record(GAME, played % 50), game_id=GameId(0, 0, 0, played))):
                played += 1
            stop.wait(0.001)

    player = threading.Thread(target=play, daemon=True)
    player.start()
    assert buffer.stats().rows == 0
    wait_for(lambda: writer.control.throttle)
    time.sleep(0.5)
    assert buffer.stats().throttled
    held = played
    time.sleep(0.5)
    assert played == held  # it waits
    samples = 0
    for seed in range(100):
        wait_for(lambda seed=seed: buffer.sample(32, seed) is not None)  # type: ignore[misc]
        samples += 32
    stop.set()
    player.join()
    assert writer.close(5)
    stats = buffer.stats()
    assert stats.sampled == samples
    assert samples - 500 < (stats.inserted - CONFIG.minimum) * 2.0 < samples + 32 + 20 * 84
    wait_for(lambda: run.control.counters()["sampled"] == samples)


def test_without_a_limit_nobody_waits(run: Run) -> None:
    buffer = run.open_buffer(limited=False)
    run.play(60)
    assert buffer.stats().waits_for == ""
    assert run.raw.hget(run.keys.control, "limit") == b"-1"
    assert not run.actor.append([]).control.throttle


def test_it_waits_for_the_driver(run: Run) -> None:
    run.raw.delete(*run.keys)
    buffer = run.open_buffer(background=True)
    wait_for(lambda: "waits for the driver" in buffer.stats().waits_for)
    assert buffer.stats().losses == 0
    run.control.begin(0, capacity=2000, max_bytes=1 << 28, actors=0)
    run.play(3)
    wait_for(lambda: buffer.stats().games == 3)
    assert buffer.stats().trouble == ""


def test_a_failing_listener_does_not_end_the_thread(run: Run) -> None:
    accepted: list[bytes] = []

    def listen(data: bytes) -> None:
        accepted.append(data)
        if len(accepted) == 2:
            raise OSError("No space left on device")

    buffer = run.open_buffer(background=True, on_accept=listen)
    run.play(5)
    wait_for(lambda: buffer.stats().accepted == 5)
    assert len(accepted) == 5


def test_games_of_an_earlier_configuration_stay(run: Run) -> None:
    run.play(3)
    run.control.begin(1, capacity=2000, max_bytes=1 << 28, actors=0)
    buffer = run.open_buffer(config_hash="changed", epoch=1)
    assert buffer.stats().games == 3
