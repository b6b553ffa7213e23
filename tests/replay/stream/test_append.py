"""The append script against a model, on a real server; and what a stranger does to the stream."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from shusaku.common.errors import ResumeError, UsageError
from shusaku.replay.stream.append import Appender, AppendStatus, EncodedGame
from shusaku.replay.stream.client import ReplayRefused, ReplayUnavailable, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.scripts import APPEND
from shusaku.replay.stream.server import EmbeddedServer

CAPACITY, MAX_BYTES = 50, 1000


@dataclass
class Model:
    """What the script must do, in the simplest words."""

    epoch: int = 0
    boot: bool = False
    games: list[tuple[int, int, bytes]] = field(default_factory=list)  # number, rows, data of those kept
    number: int = 0
    seen: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, name: str, by: int = 1) -> None:
        if by:
            self.counts[name] = self.counts.get(name, 0) + by

    def append(
        self, epoch: int, actor: int, incarnation: int, games: list[EncodedGame]
    ) -> tuple[AppendStatus, int, int]:
        if not self.boot:
            return AppendStatus.LOST, 0, 0
        if epoch != self.epoch:
            self.count("other_epoch", len(games))
            return AppendStatus.OTHER_EPOCH, 0, 0
        newest = self.seen.get(actor, (epoch, incarnation, -1))
        if (epoch, incarnation) < newest[:2]:
            self.count("fenced", len(games))
            return AppendStatus.FENCED, 0, 0
        fresh = []
        for game in games:
            if (epoch, incarnation, game.sequence) > newest:
                newest = (epoch, incarnation, game.sequence)
                fresh.append(game)
        self.count("duplicates", len(games) - len(fresh))
        rows, size = sum(game.rows for game in fresh), sum(len(game.data) for game in fresh)
        while self.games and fresh and (self.rows + rows > CAPACITY or self.bytes + size > MAX_BYTES):
            self.games.pop(0)
        for game in fresh:
            self.number += 1
            self.games.append((self.number, game.rows, game.data))
            self.count("inserted", game.rows)
        if fresh:
            self.seen[actor] = newest
        return AppendStatus.DONE, len(fresh), len(games) - len(fresh)

    @property
    def rows(self) -> int:
        return sum(rows for _, rows, _ in self.games)

    @property
    def bytes(self) -> int:
        return sum(len(data) for _, _, data in self.games)


class Appending(RuleBasedStateMachine):
    """Drivers, actors and their ghosts do what they like."""

    url = ""
    make_run: Any = None

    def __init__(self) -> None:
        super().__init__()
        run_id = type(self).make_run()
        self.model = Model()
        self.control = RedisControl(self.url, run_id)
        self.keys = RunKeys.of(run_id)
        self.client = connect(self.url)
        self.run_id = run_id
        self.appenders: dict[tuple[int, int, int], Appender] = {}

    def teardown(self) -> None:
        for appender in self.appenders.values():
            appender.close()
        self.control.close()
        self.client.delete(*self.keys)
        self.client.connection_pool.disconnect()

    def appender(self, epoch: int, actor: int, incarnation: int) -> Appender:
        key = (epoch, actor, incarnation)
        if key not in self.appenders:
            self.appenders[key] = Appender(
                self.url, self.run_id, actor=actor, epoch=epoch, incarnation=incarnation
            )
        return self.appenders[key]

    @rule(epoch=st.integers(0, 3), fences=st.dictionaries(st.integers(0, 2), st.integers(0, 2), max_size=2))
    def begin(self, epoch: int, fences: dict[int, int]) -> None:
        def call() -> bool:
            return self.control.begin(epoch, capacity=CAPACITY, max_bytes=MAX_BYTES, actors=2, fences=fences)

        if self.model.boot and epoch < self.model.epoch:
            with pytest.raises(ResumeError, match="newer driver term"):
                call()
            return
        assert call() == (not self.model.boot)
        self.model.epoch, self.model.boot = epoch, True
        for actor, incarnation in fences.items():
            self.model.seen[actor] = self.fenced(actor, incarnation)

    def fenced(self, actor: int, incarnation: int) -> tuple[int, int, int]:
        first = (self.model.epoch, incarnation, -1)
        return max(self.model.seen.get(actor, first), first)

    @rule(
        epoch=st.integers(0, 3), actor=st.integers(0, 2), incarnation=st.integers(0, 2),
        first=st.integers(0, 12), sizes=st.lists(st.tuples(st.integers(0, 20), st.integers(80, 200)), max_size=16),
    )
    def append(self, epoch: int, actor: int, incarnation: int, first: int, sizes: list[tuple[int, int]]) -> None:
        games = [
            EncodedGame(first + k, rows, bytes([65 + k]) * size) for k, (rows, size) in enumerate(sizes)
        ]
        reply = self.appender(epoch, actor, incarnation).append(games)
        assert (reply.status, reply.appended, reply.duplicates) == self.model.append(epoch, actor, incarnation, games)
        assert reply.control.stop == (reply.status in (AppendStatus.OTHER_EPOCH, AppendStatus.FENCED))

    @precondition(lambda self: self.model.boot)
    @rule(actor=st.integers(0, 2), incarnation=st.integers(0, 3))
    def fence(self, actor: int, incarnation: int) -> None:
        self.control.fence(actor, incarnation)
        self.model.seen[actor] = self.fenced(actor, incarnation)

    @rule()
    def lose(self) -> None:
        self.client.delete(*self.keys)
        self.model = Model()
        with pytest.raises(ReplayUnavailable, match="was lost"):
            self.control.fence(0, 0)

    @invariant()
    def is_as_the_model_says(self) -> None:
        entries: Any = self.client.xrange(self.keys.games)
        model = self.model
        assert [(id, int(f[b"r"]), f[b"d"]) for id, f in entries] == [
            (b"%d-0" % number, rows, data) for number, rows, data in model.games
        ]
        counters = self.control.counters()
        for name in ("inserted", "duplicates", "fenced", "other_epoch"):
            assert counters.get(name, 0) == model.counts.get(name, 0), name
        assert counters.get("inserted", 0) - counters.get("deleted", 0) == model.rows
        assert counters.get("bytes", 0) == model.bytes
        assert counters.get("number", 0) == counters.get("games", 0) == model.number
        assert self.control.is_lost() == (not model.boot)
        if entries:
            assert int(entries[-1][1][b"n"]) == counters["inserted"]


def test_the_script_is_the_model(redis_server: EmbeddedServer, make_run: Callable[[], str]) -> None:
    Appending.url, Appending.make_run = redis_server.url, staticmethod(make_run)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Appending,
        settings=settings(
            max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.fixture
def run(redis_server: EmbeddedServer, make_run: Callable[[], str]) -> tuple[str, str, RedisControl]:
    run_id = make_run()
    control = RedisControl(redis_server.url, run_id)
    control.begin(1, capacity=1000, max_bytes=1 << 20, actors=3)
    return redis_server.url, run_id, control


def games(first: int, count: int, size: int = 50) -> list[EncodedGame]:
    return [EncodedGame(first + k, 10, b"x" * size) for k in range(count)]


def test_control_comes_with_every_reply(run: tuple[str, str, RedisControl]) -> None:
    url, run_id, control = run
    appender = Appender(url, run_id, actor=7, epoch=1, incarnation=2)
    first = appender.append([]).control
    assert (first.throttle, first.stop, first.version, first.epoch, first.actors) == (False, False, 0, 1, 3)
    control.record_version(5)
    control.record_version(4)
    control.set_actors(9)
    control.stop_actors()
    control.begin(1, capacity=1000, max_bytes=1 << 20, actors=8, limit=15)  # drops the request
    reply = appender.append(games(0, 1))
    assert not reply.control.stop
    assert (reply.control.version, reply.control.actors, reply.control.throttle) == (5, 8, False)
    control.stop_actors()
    reply = appender.append(games(1, 1), b"metrics")
    assert (reply.control.stop, reply.control.throttle) == (True, True)  # 20 rows of 15
    control.begin(2, capacity=1000, max_bytes=1 << 20, actors=8, limit=-1)
    assert control.newest_epoch() == 2
    (metrics,) = control.actor_metrics().items()
    assert metrics[0] == 7
    assert metrics[1].incarnation == 2
    assert metrics[1].metrics == b"metrics"
    assert 0 <= metrics[1].age_s < 5
    control.put_status(b"{}")
    assert control.status() == b"{}"


def test_a_stranger_in_the_stream_does_not_stop_it(run: tuple[str, str, RedisControl]) -> None:
    url, run_id, control = run
    appender = Appender(url, run_id, actor=0, epoch=1, incarnation=0)
    client, keys = redis.Redis.from_url(url), RunKeys.of(run_id)
    appender.append(games(0, 3))
    for id in ("4-0", "*", "*"):
        client.xadd(keys.games, {"d": b"?", "r": "many"}, id=id)
    assert appender.append(games(3, 3)).appended == 3
    ids: Any = [id for id, _ in client.xrange(keys.games)]
    assert ids == sorted(ids, key=lambda id: [int(part) for part in id.split(b"-")])
    assert control.counters()["games"] == 6
    for first in range(6, 400, 16):  # evicting meets the strange ones
        assert appender.append(games(first, 16)).appended == 16
    counters = control.counters()
    assert counters["inserted"] - counters["deleted"] == 10 * client.xlen(keys.games) == 1000
    assert counters["bytes"] == 50 * 100


@pytest.mark.parametrize("id", ["18446744073709551615-18446744073709551615", "18446744073709551615-0",
                                "4503599627370496-0", "9007199254740993-1"])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_used_up_ids_wait_for_the_repair_and_nothing_is_lost(
    run: tuple[str, str, RedisControl], id: str, is_deleted: bool
) -> None:
    """An XADD with an id near 2^64 once made the learner delete the whole window."""
    url, run_id, control = run
    appender = Appender(url, run_id, actor=0, epoch=1, incarnation=0)
    for first in range(0, 96, 16):
        appender.append(games(first, 16))
    client, keys = redis.Redis.from_url(url), RunKeys.of(run_id)
    assert not control.repair()
    for near in ("97-0", "97-1", "99-7"):
        client.xadd(keys.games, {"d": b"?"}, id=near)
    before: Any = client.xrange(keys.games)
    assert not control.repair()
    assert appender.append(games(96, 1)).appended == 1
    before.append(*client.xrange(keys.games, "100-0"))
    client.xadd(keys.games, {"d": b"?"}, id=id)
    if is_deleted:  # as the learner does
        client.xdel(keys.games, id)
    with pytest.raises(ReplayUnavailable):
        appender.append(games(97, 3))
    assert control.repair()
    assert client.xrange(keys.games) == before
    assert appender.append(games(97, 3)).appended == 3
    assert client.xrevrange(keys.games, count=1)[0][0] == b"103-0"
    counters = control.counters()
    assert (counters["games"], counters["number"], counters["malformed"]) == (100, 103, 0 if is_deleted else 1)
    assert not control.repair()
    assert client.exists(keys.games + "-copy") == 0


def test_ids_below_the_end_are_followed_and_end_nothing(run: tuple[str, str, RedisControl]) -> None:
    url, run_id, control = run
    appender = Appender(url, run_id, actor=0, epoch=1, incarnation=0)
    client, keys = redis.Redis.from_url(url), RunKeys.of(run_id)
    client.xadd(keys.games, {"d": b"?"}, id=f"{2**52 - 1}-5")
    assert appender.append(games(0, 3)).appended == 3
    assert not control.repair()
    client.xadd(keys.games, {"d": b"?"}, id=f"{2**52 + 9}-0")
    with pytest.raises(ReplayUnavailable):
        appender.append(games(3, 1))
    assert control.repair()
    assert appender.append(games(3, 1)).appended == 1
    ids = [int(id.split(b"-")[0]) - 2**52 for id, _ in client.xrange(keys.games)]  # type: ignore[union-attr]
    assert ids == [-1, 0, 1, 2, 3]


@pytest.mark.parametrize("call", [
    [b"x", 0, 0, b""], [1, b"-1", 0, b""], [1, 65536, 0, b""], [1, b"a:b", 0, b""], [1, 0, b"1e3", b""],
    [1, 0, 0, b"m" * 4097], [1, 0, 0], [1], [], [1, 0, 0, b"", *(x for k in range(65) for x in (k, 0, b"x", b""))],
])
def test_a_caller_that_is_no_actor_of_ours_is_refused(run: tuple[str, str, RedisControl], call: list[Any]) -> None:
    url, run_id, control = run
    client, keys = redis.Redis.from_url(url), RunKeys.of(run_id)
    Appender(url, run_id, actor=0, epoch=1, incarnation=0).append(games(0, 3))
    before = control.counters(), client.hgetall(keys.heartbeats), client.hgetall(keys.seen)
    with pytest.raises(redis.ResponseError, match=r"MALFORMED epoch, actor, incarnation, metrics or number of games"):
        APPEND(client, keys.of_append(0), call)
    after = control.counters()
    assert after.pop("malformed") >= 1
    assert (after, client.hgetall(keys.heartbeats), client.hgetall(keys.seen)) == before


@pytest.mark.parametrize("bad", [
    (1, b"-1000000", b"x", b""), (1, b"1e300", b"x", b""), (1, 1 << 53, b"x", b""), (1, b"", b"x", b""),
    (1, b"nan", b"x", b""), (1, b"0x10", b"x", b""), (1, 65537, b"x", b""), (1, b"7 ", b"x", b""),
    (b"-1", 10, b"x" * 99, b""), (1 << 53, 10, b"x" * 99, b""), (b"2^70", 10, b"x" * 99, b""),
    (1, 10, b"x" * 99), (1, 10), (1,), (1, 65536, b"x" * 2000, b""), (1, 4, b"x" * 15, b""),
    (1, 0, b"x" * (2**23 + 1), b""),
])
def test_what_no_actor_of_ours_sends_is_refused_and_counts_nowhere_else(
    run: tuple[str, str, RedisControl], bad: tuple[Any, ...]
) -> None:
    """Rows of -10^6 or 1e300 once made the limiter refuse every honest game for ever."""
    url, run_id, control = run
    client, keys = redis.Redis.from_url(url), RunKeys.of(run_id)
    appender = Appender(url, run_id, actor=0, epoch=1, incarnation=0)
    appender.append(games(0, 3))
    before = control.counters()
    with pytest.raises(redis.ResponseError, match=r"MALFORMED game .* of actor 5"):
        APPEND(client, keys.of_append(5), [1, 5, 0, b"", 0, 10, b"good" * 20, b"", *bad])
    after = control.counters()
    assert after.pop("malformed") >= 1
    assert after == before
    assert client.xlen(keys.games) == 3
    assert appender.append(games(3, 3)).appended == 3


def test_a_full_server_trims_its_way_out(tmp_path: Any, make_run: Callable[[], str]) -> None:
    server = EmbeddedServer(tmp_path, max_megabytes=16)
    server.start()
    try:
        client = redis.Redis.from_url(server.url)
        control = RedisControl(server.url, "full")
        control.begin(0, capacity=10**9, max_bytes=1 << 40, actors=0)  # far more than it holds
        appender = Appender(server.url, "full", actor=0, epoch=0, incarnation=0)
        kept = None
        for call in range(200):
            assert appender.append(games(16 * call, 16, size=20_000)).appended == 16
            if call == 20:
                used: Any = client.info("memory")
                client.config_set("maxmemory", int(used["used_memory"]))
                kept = client.xlen(RunKeys.of("full").games)
        counters = control.counters()
        assert counters["games"] == 3200
        assert counters["squeezed"] > 2000
        assert client.xlen(RunKeys.of("full").games) == 3200 - counters["evicted"]
        assert abs(3200 - counters["evicted"] - (kept or 0)) < 50
        assert counters["bytes"] == 20_000 * client.xlen(RunKeys.of("full").games)
        client.flushall()
        client.config_set("maxmemory", 1)
        control.begin(0, capacity=10**9, max_bytes=1 << 40, actors=0)
        control.begin(1, capacity=10**9, max_bytes=1 << 40, actors=0)
        appender = Appender(server.url, "full", actor=0, epoch=1, incarnation=0)
        with pytest.raises(ReplayRefused, match="memory is full"):
            appender.append(games(0, 1))
        assert appender.append([], b"metrics").status is AppendStatus.DONE
        assert control.actor_metrics()[0].metrics == b"metrics"
    finally:
        server.stop()


def test_run_ids_are_checked() -> None:
    for run_id in ("", "A", "a b", "a}b", "-a", "x" * 65, "ä"):
        with pytest.raises(UsageError, match="run id"):
            RunKeys.of(run_id)
    assert RunKeys.of("a-1").games == "shusaku:{a-1}:games"
