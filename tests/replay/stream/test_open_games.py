"""Open games survive: each ends once, whatever actors, their ghosts and the line do, on a real server."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgpack
import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from shusaku.replay.stream.append import Appender, AppendStatus, EncodedGame, Reply
from shusaku.replay.stream.client import ReplayUnavailable, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.open_games import (
    MAX_CALL_BYTES,
    MAX_TAKES,
    SaveCall,
    SaveStatus,
    Upload,
    take_open_games,
)
from shusaku.replay.stream.scripts import SAVE_OPEN_GAMES
from shusaku.replay.stream.server import EmbeddedServer
from shusaku.replay.stream.writer import MAX_SAVE_FAILURES, AsyncWriter

ACTOR, GAMES = 4, 2
FATES = ("arrives", "arrives", "arrives", "is lost", "comes late", "loses its reply")  # of a call


class BadLine(Appender):
    """An appender whose next call is lost on its way, or comes late, or whose reply is lost."""

    fate = "arrives"
    late: list[Callable[[], Any]]

    def append(self, games: Any, metrics: bytes = b"") -> Reply:
        return self._carry(lambda: super(BadLine, self).append(games, metrics))  # type: ignore[no-any-return]

    def save_open_games(self, call: SaveCall) -> SaveStatus:
        return self._carry(lambda: super(BadLine, self).save_open_games(call))  # type: ignore[no-any-return]

    def _carry(self, call: Callable[[], Any]) -> Any:
        fate, self.fate = self.fate, "arrives"
        if fate == "comes late":
            self.late.append(call)
        if fate in ("is lost", "comes late"):
            raise ReplayUnavailable("no answer")
        answer = call()
        if fate == "loses its reply":
            raise ReplayUnavailable("no answer")
        return answer


@dataclass
class Playing:
    """An incarnation of the actor: each ply is a number that no other ply has."""

    line: BadLine
    writer: AsyncWriter
    names: list[str]
    games: list[list[int]]
    sequence: int = 0
    begun: int = GAMES
    waiting: list[EncodedGame] = field(default_factory=list)  # ended, but the writer had no room yet


@dataclass
class World:
    """What outlives the actors."""

    epoch: int = 0
    incarnation: int = -1
    plies: int = 0
    saved: set[int] = field(default_factory=set)  # plies that were saved once and must not be lost any more
    is_certain: bool = True  # no power cut has brought back games that the actor does not know of


class Surviving(RuleBasedStateMachine):
    """An actor plays, finishes, saves, stops, crashes, and is followed by others, over a line that loses calls."""

    url = ""
    make_run: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.run_id = type(self).make_run()
        self.control, self.client = RedisControl(self.url, self.run_id), connect(self.url)
        self.keys = RunKeys.of(self.run_id)
        self.world = World()
        self.late: list[Callable[[], Any]] = []
        self.disk: tuple[int, dict[str, Any]] | None = None  # driver term and keys
        self.begin_term(self.world.epoch)
        self.actor: Playing | None = self.follow()

    def teardown(self) -> None:
        if self.actor is not None:
            self.actor.writer.close(0)
        self.client.delete(*self.keys, self.keys.open_games(ACTOR))
        self.control.close()
        self.client.connection_pool.disconnect()

    def begin_term(self, epoch: int) -> None:
        self.control.begin(epoch, capacity=10**6, max_bytes=1 << 20, actors=1)

    def follow(self) -> Playing:
        self.world.incarnation += 1
        epoch, incarnation = self.world.epoch, self.world.incarnation
        line = BadLine(self.url, self.run_id, actor=ACTOR, epoch=epoch, incarnation=incarnation)
        line.late = self.late
        taken = take_open_games(self.url, self.run_id, (epoch, ACTOR, incarnation))
        if taken.takes > MAX_TAKES:  # they may be what ends the actors
            assert not any(taken.games.values())
            self.world.saved.clear()
        self.world.is_certain = True
        names = [f"{epoch}.{incarnation}.{index}.1" for index in range(GAMES)]
        games: list[list[int]] = [[] for _ in names]
        for index, (name, data) in enumerate(taken.games.items() if taken.takes <= MAX_TAKES else ()):
            names[index], games[index] = name, msgpack.unpackb(data)
        return Playing(line, AsyncWriter(line, background=False), names, games)

    @precondition(lambda self: self.actor)
    @rule(
        ends=st.lists(st.booleans(), min_size=GAMES, max_size=GAMES), is_saved=st.booleans(),
        has_room=st.booleans(), fates=st.lists(st.sampled_from(FATES), max_size=4), late=st.integers(0, 3),
    )
    def play(self, ends: list[bool], is_saved: bool, has_room: bool, fates: list[str], late: int) -> None:
        """A ply in every game; some games end, all are saved perhaps, and calls go out, with a late one behind them."""
        actor = self.actor
        assert actor is not None
        self.play_and_end(actor, ends)
        if has_room:
            self.put(actor)
        if is_saved:
            self.save(actor)
        for fate in fates:
            actor.line.fate = fate
            actor.writer.send_next()
        if late < len(self.late):
            self.late.pop(late)()

    def play_and_end(self, actor: Playing, ends: list[bool]) -> None:
        for index, is_over in enumerate(ends):
            actor.games[index].append(self.world.plies)
            self.world.plies += 1
            if not is_over:
                continue
            game = EncodedGame(actor.sequence, 0, msgpack.packb(actor.games[index]), actor.names[index])
            actor.waiting.append(game)
            actor.sequence += 1
            actor.begun += 1
            actor.names[index] = f"{actor.line.epoch}.{actor.line.incarnation}.{index}.{actor.begun}"
            actor.games[index] = []

    def put(self, actor: Playing) -> None:
        actor.writer._enqueue(actor.waiting)
        actor.waiting.clear()

    def save(self, actor: Playing) -> None:
        games = {name: msgpack.packb(plies) for name, plies in zip(actor.names, actor.games, strict=True) if plies}
        actor.writer.put_open_games(actor.sequence, games)

    @rule(
        how=st.sampled_from(("crash", "crash", "stop", "scale down", "end of the driver")),
        ends=st.lists(st.booleans(), min_size=GAMES, max_size=GAMES), calls=st.integers(0, 3),
    )
    def end(self, how: str, ends: list[bool], calls: int) -> None:
        """The actor ends; if it was only given up, it sends what it has while its successor begins."""
        ghost = self.actor
        if ghost is not None:
            if how in ("stop", "scale down"):
                self.end_in_order()
            else:
                self.play_and_end(ghost, ends)
                self.put(ghost)
        if how == "end of the driver":
            self.world.epoch, self.world.incarnation = self.world.epoch + 1, -1
            self.begin_term(self.world.epoch)
        self.actor = None if how == "scale down" else self.follow()
        if ghost is not None:
            for _ in range(calls):
                ghost.writer.send_next()
            ghost.writer.close(0)

    def end_in_order(self) -> None:
        """Nothing at all is lost then."""
        actor = self.actor
        assert actor is not None
        self.put(actor)
        self.save(actor)
        for _ in range(12):
            actor.writer.send_next()
        assert actor.writer.flush(0)
        if self.world.is_certain:
            self.world.saved |= {ply for game in actor.games for ply in game}

    @rule(is_later=st.booleans())
    def fail_power(self, is_later: bool) -> None:
        """The server restarts without what came after `reach the disk`, and every connection breaks."""
        keys = (*self.keys, self.keys.open_games(ACTOR))
        if not is_later or self.disk is None or self.disk[0] != self.world.epoch or self.actor is None:
            self.disk = self.world.epoch, {key: self.client.dump(key) for key in keys}
            return
        self.client.delete(*keys)
        for key, content in self.disk[1].items():
            if content is not None:
                self.client.restore(key, 0, content)
        self.late.clear()
        self.actor.line.fate = "is lost"
        self.actor.writer.send_next()
        self.world.saved.clear()
        self.world.is_certain = False

    def plies_in_stream(self) -> list[int]:
        entries: Any = self.client.xrange(self.keys.games)
        return [ply for _, fields in entries for ply in msgpack.unpackb(fields[b"d"])]

    def plies_in_hash(self) -> set[int]:
        games: Any = self.client.hgetall(self.keys.open_games(ACTOR))
        return {ply for name, data in games.items() if b"." in name for ply in msgpack.unpackb(data)}

    @invariant()
    def no_ply_is_twice_and_none_that_was_saved_is_lost(self) -> None:
        ended, is_open = self.plies_in_stream(), self.plies_in_hash()
        assert len(ended) == len(set(ended)), "a game ended twice"
        assert not is_open & set(ended), "a game is open and appended"
        lost = self.world.saved - is_open - set(ended)
        assert not lost, "a saved game was lost"
        if self.world.is_certain:
            self.world.saved |= is_open

    @invariant()
    def bytes_are_counted(self) -> None:
        games: Any = self.client.hgetall(self.keys.open_games(ACTOR))
        size = sum(len(data) for name, data in games.items() if b"." in name)
        counted: Any = self.client.hmget(self.keys.open, "bytes", str(ACTOR))
        assert [int(count or 0) for count in counted] == [size, size]


def test_no_game_ends_twice_and_none_is_lost(redis_server: EmbeddedServer, make_run: Callable[[], str]) -> None:
    Surviving.url, Surviving.make_run = redis_server.url, staticmethod(make_run)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Surviving,
        settings=settings(
            max_examples=100, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck),
        ),
    )


Run = tuple[str, str, Any, RunKeys]


@pytest.fixture
def run(redis_server: EmbeddedServer, make_run: Callable[[], str]) -> Run:
    """URL, id, client and keys of a run whose games may take 8 MB, the open ones of them 1 MB."""
    run_id = make_run()
    control = RedisControl(redis_server.url, run_id)
    control.begin(1, capacity=1000, max_bytes=8 << 20, actors=3)
    control.close()
    return redis_server.url, run_id, connect(redis_server.url), RunKeys.of(run_id)


def appender(run: Run, actor: int = 0, incarnation: int = 0, epoch: int = 1) -> Appender:
    return Appender(run[0], run[1], actor=actor, epoch=epoch, incarnation=incarnation)


def save(to: Appender, number: int, sequence: int, games: dict[str, bytes]) -> SaveStatus:
    upload, status = Upload(number, sequence, games), SaveStatus.DONE
    while status is SaveStatus.DONE:
        status = to.save_open_games(upload.next_call())
        if upload.advance():
            break
    return status


def take(run: Run, actor: int = 0, incarnation: int = 1, epoch: int = 1) -> dict[str, bytes]:
    return take_open_games(run[0], run[1], (epoch, actor, incarnation)).games


def test_a_large_save_goes_in_pieces_and_replaces_what_was_there(run: Run) -> None:
    one = appender(run)
    assert save(one, 1, 0, {"1.0.0.1": b"a" * 90_000, "1.0.1.1": b"b"}) is SaveStatus.DONE
    upload = Upload(2, 0, {f"1.0.{k}.2": bytes(300_000) for k in range(10)})
    calls = 0
    while True:
        call = upload.next_call()
        assert sum(map(len, call.games.values())) <= MAX_CALL_BYTES
        assert (call.stay is None) == (calls < 3)
        calls += 1
        if upload.advance():
            break
    assert calls == 4
    games = {f"1.0.{k}.2": bytes([k]) * 90_000 for k in range(10)}
    assert save(one, 3, 0, games) is SaveStatus.DONE
    assert take(run) == games
    assert save(appender(run, incarnation=1), 1, 0, {}) is SaveStatus.DONE
    assert take(run, incarnation=2) == {}
    assert run[2].hmget(run[3].open, "bytes", "0") == [b"0", b"0"]


def test_open_games_have_an_eighth_of_the_bytes_and_the_window_the_rest(run: Run) -> None:
    _, _, client, keys = run
    assert save(appender(run), 1, 0, {"1.0.0.1": bytes(600_000)}) is SaveStatus.DONE
    other = appender(run, actor=1)
    assert save(other, 1, 0, {"1.0.0.1": bytes(600_000)}) is SaveStatus.NO_ROOM
    assert "raise replay.megabytes" in SaveStatus.NO_ROOM.trouble
    assert save(other, 2, 0, {"1.0.0.1": bytes(400_000)}) is SaveStatus.DONE
    for number in range(12):
        assert other.append([EncodedGame(number, 1, bytes(1_000_000))]).appended == 1
    counters = {name: int(value) for name, value in client.hgetall(keys.counters).items()}
    assert counters[b"bytes"] == 7_000_000, "with the open games it is 8 MB, and no byte more"
    assert counters[b"squeezed"] == 0
    client.hset(keys.open, "bytes", "1e300")  # a stranger with the actors' password
    assert other.append([EncodedGame(12, 1, bytes(1_000_000))]).appended == 1
    assert client.xlen(keys.games) == 7, "it costs the eighth at most"
    assert take(run, actor=2) == {}
    assert client.hget(keys.open, "bytes") == b"1000000", "counted anew"
    client.set(keys.open, "no hash")
    client.set(keys.open_games(1), "no hash")
    assert other.append([EncodedGame(13, 1, bytes(1_000_000), "1.0.0.1")]).appended == 1
    assert take(run, actor=1) == {}
    with pytest.raises(ReplayUnavailable):
        save(appender(run, actor=1, incarnation=1), 1, 0, {"1.0.0.1": b"x"})


def test_a_full_server_keeps_the_window_and_refuses_open_games(server: EmbeddedServer) -> None:
    client: Any = connect(server.url)
    control = RedisControl(server.url, "full")
    control.begin(1, capacity=10**6, max_bytes=8 << 20, actors=1)
    run = server.url, "full", client, RunKeys.of("full")
    one = appender(run)
    one.append([EncodedGame(0, 1, bytes(100_000))])
    save(one, 1, 1, {"1.0.0.1": bytes(1000)})
    client.config_set("maxmemory", client.info("memory")["used_memory"] - 1000)
    assert save(one, 2, 1, {"1.0.0.1": bytes(200_000)}) is SaveStatus.NO_ROOM
    assert client.xlen(run[3].games) == 1
    assert take(run) == {"1.0.0.1": bytes(1000)}, "those of before stay, and can be taken"


def test_fenced_late_and_unknown_callers_change_nothing(run: Run) -> None:
    one, two = appender(run), appender(run, incarnation=1)
    game = {"1.0.0.1": b"first"}
    assert save(one, 1, 3, game) is SaveStatus.DONE
    assert save(one, 1, 3, game) is SaveStatus.DONE, "the same call again"
    one.append([EncodedGame(3, 0, b"ended", "1.0.0.2")])
    assert save(one, 2, 3, {"1.0.0.2": b"as it was before it ended"}) is SaveStatus.LATE
    assert save(one, 2, 4, game) is SaveStatus.DONE
    assert save(one, 1, 4, {"1.0.0.1": b"older"}) is SaveStatus.LATE
    assert take(run) == game
    assert save(one, 3, 4, {"1.0.0.1": b"of a ghost"}) is SaveStatus.FENCED
    assert one.append([EncodedGame(4, 0, b"of a ghost", "1.0.0.1")]).status is AppendStatus.FENCED
    assert take(run, incarnation=0) == {}, "its successor has them"
    assert take(run) == game
    assert save(appender(run, epoch=0), 1, 0, game) is SaveStatus.OTHER_EPOCH
    assert take(run, epoch=2) == {}
    run[2].delete(run[3].control)
    assert save(two, 1, 0, game) is SaveStatus.LOST
    assert take(run) == {}


@pytest.mark.parametrize("bad", [
    [b"", b"x"], [b"takes", b"5"], [b"1.0.0", b"x"], [b"1.0.0.1.1", b"x"], [b"1" * 80 + b".0.0.1", b"x"],
    [b"1.0.0.1", b"x" * (2**23 + 65)], [b"1.0.0.1"],
])
def test_what_no_actor_of_ours_saves_is_refused(run: Run, bad: list[bytes]) -> None:
    _, _, client, keys = run
    names = keys.of_open_games(0)
    with pytest.raises(redis.ResponseError, match="MALFORMED open game"):
        SAVE_OPEN_GAMES(client, names, [1, 0, 0, 1, 0, "1.0.0.2", "1.0.0.2", b"good", *bad])
    assert client.exists(keys.open, keys.open_games(0)) == 0


def test_the_writer_saves_after_the_games_before_and_gives_up_what_cannot_be_saved(run: Run) -> None:
    line = BadLine(run[0], run[1], actor=0, epoch=1, incarnation=0)
    line.late = []
    writer = AsyncWriter(line, background=False)
    writer.send_next()
    for number in range(3):
        writer._enqueue([EncodedGame(number, 0, b"x", f"1.0.0.{number + 1}")])
    writer.put_open_games(2, {"1.0.0.3": b"open"})
    writer.send_next()
    assert (writer.stats().acknowledged, take(run, incarnation=0)) == (2, {})
    writer.send_next()
    assert (writer.stats().acknowledged, take(run, incarnation=0)) == (2, {"1.0.0.3": b"open"})
    writer.send_next()
    assert (writer.stats().acknowledged, take(run, incarnation=0)) == (3, {})
    writer.put_open_games(3, {"1.0.0.4": bytes(2 << 20)})
    assert writer.send_next()
    assert "no room" in writer.stats().save_trouble
    writer.put_open_games(3, {"1.0.0.4": b"smaller"})
    for _ in range(MAX_SAVE_FAILURES):  # the games go on their way between the tries
        line.fate = "is lost"
        assert not writer.send_next()
        assert writer.send_next()
    assert writer.flush(0)
    assert writer.stats().save_trouble == "no answer"
    take(run, incarnation=1)  # a successor
    writer.send_next()
    writer.put_open_games(3, {"1.0.0.4": b"of a ghost"})
    writer.send_next()
    assert writer.flush(0)
    assert take(run) == {}
    writer.close(0)
