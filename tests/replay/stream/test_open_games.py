"""Open games survive: each ends once, whatever actors, their ghosts and the line do, on a real server."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgpack
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from shusaku.replay.stream.append import Appender, EncodedGame, Reply
from shusaku.replay.stream.client import ReplayUnavailable, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.open_games import (
    MAX_TAKES,
    SaveCall,
    SaveStatus,
    take_open_games,
)
from shusaku.replay.stream.server import EmbeddedServer
from shusaku.replay.stream.writer import AsyncWriter

ACTOR, GAMES = 4, 3


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
        self.ghosts: list[Playing] = []
        self.remembered: dict[str, Any] | None = None
        self.begin_term(self.world.epoch)
        self.actor: Playing | None = self.follow()

    def teardown(self) -> None:
        for playing in [*self.ghosts, *([self.actor] if self.actor else [])]:
            playing.writer.close(0)
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
            assert not taken.games
            self.world.saved.clear()
        self.world.is_certain = True
        names = [f"{epoch}.{incarnation}.{index}.1" for index in range(GAMES)]
        games: list[list[int]] = [[] for _ in names]
        for index, (name, data) in enumerate(taken.games.items()):
            names[index], games[index] = name, msgpack.unpackb(data)
        return Playing(line, AsyncWriter(line, background=False), names, games)

    def end(self) -> None:
        assert self.actor is not None
        self.ghosts.append(self.actor)
        self.actor = None

    @precondition(lambda self: self.actor)
    @rule(index=st.integers(0, GAMES - 1), plies=st.integers(1, 3))
    def play(self, index: int, plies: int) -> None:
        assert self.actor is not None
        self.actor.games[index] += range(self.world.plies, self.world.plies + plies)
        self.world.plies += plies

    @precondition(lambda self: self.actor)
    @rule(index=st.integers(0, GAMES - 1))
    def finish(self, index: int) -> None:
        actor = self.actor
        assert actor is not None
        if not actor.games[index]:
            return
        game = EncodedGame(actor.sequence, 0, msgpack.packb(actor.games[index]), actor.names[index])
        actor.writer._enqueue([game])
        actor.sequence += 1
        actor.begun += 1
        actor.names[index] = f"{self.world.epoch}.{self.world.incarnation}.{index}.{actor.begun}"
        actor.games[index] = []

    @precondition(lambda self: self.actor)
    @rule()
    def save(self) -> None:
        actor = self.actor
        assert actor is not None
        games = {name: msgpack.packb(plies) for name, plies in zip(actor.names, actor.games, strict=True) if plies}
        actor.writer.put_open_games(actor.sequence, games)

    @precondition(lambda self: self.actor)
    @rule(fate=st.sampled_from(("arrives", "arrives", "is lost", "comes late", "loses its reply")))
    def send(self, fate: str) -> None:
        assert self.actor is not None
        self.actor.line.fate = fate
        self.actor.writer.send_next()

    @precondition(lambda self: self.ghosts)
    @rule(which=st.integers(0, 9))
    def a_ghost_sends(self, which: int) -> None:
        self.ghosts[which % len(self.ghosts)].writer.send_next()

    @precondition(lambda self: self.late)
    @rule(which=st.integers(0, 9))
    def arrive_late(self, which: int) -> None:
        self.late.pop(which % len(self.late))()

    @precondition(lambda self: self.actor)
    @rule()
    def crash(self) -> None:
        self.end()
        self.actor = self.follow()

    @precondition(lambda self: self.actor)
    @rule(is_followed=st.booleans())
    def stop(self, is_followed: bool) -> None:
        """In order, by a stop or a scale-down: nothing at all is lost."""
        actor = self.actor
        assert actor is not None
        self.save()
        for _ in range(12):
            actor.writer.send_next()
        assert actor.writer.flush(0)
        if self.world.is_certain:
            self.world.saved |= {ply for game in actor.games for ply in game}
        self.end()
        if is_followed:
            self.actor = self.follow()

    @precondition(lambda self: not self.actor)
    @rule()
    def scale_up(self) -> None:
        self.actor = self.follow()

    @rule()
    def another_term(self) -> None:
        """The driver was killed, and its actors live on for a while."""
        if self.actor:
            self.end()
        self.world.epoch, self.world.incarnation = self.world.epoch + 1, -1
        self.begin_term(self.world.epoch)
        self.actor = self.follow()

    @rule()
    def reach_the_disk(self) -> None:
        self.remembered = {key: self.client.dump(key) for key in (*self.keys, self.keys.open_games(ACTOR))}
        self.remembered["epoch"] = self.world.epoch

    @precondition(lambda self: self.remembered and self.actor and self.remembered["epoch"] == self.world.epoch)
    @rule()
    def lose_what_is_newer(self) -> None:
        """The power fails: the server restarts without its last second, and every connection breaks."""
        assert self.remembered is not None
        assert self.actor is not None
        keys = (*self.keys, self.keys.open_games(ACTOR))
        self.client.delete(*keys)
        for key in keys:
            if self.remembered[key] is not None:
                self.client.restore(key, 0, self.remembered[key])
        self.late.clear()
        for ghost in self.ghosts:
            ghost.writer.close(0)
        self.ghosts.clear()  # they have ended; else one that was fenced in that second could go on
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
            max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
