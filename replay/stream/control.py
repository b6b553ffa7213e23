"""The driver's and the commands' side of the stream: driver terms, fences, requests and metrics of a run."""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shusaku.common.errors import ResumeError
from shusaku.replay.stream.client import ReplayUnavailable, connect, translate_redis_errors
from shusaku.replay.stream.keys import RunKeys, repair_keys
from shusaku.replay.stream.scripts import BEGIN, FENCE, RECORD_VERSION, REPAIR, SET_CONTROL, Argument, Script

_COUNT = re.compile(rb"\d{1,16}")


class ActorMetrics(NamedTuple):
    """The newest metrics of an actor."""

    incarnation: int
    age_s: float  # since its last heartbeat, by the server's clock
    metrics: bytes  # msgpack, as the actor sent them; empty: none yet


class Holdings(NamedTuple):
    """What the server holds of a run."""

    boot: str = ""  # text that was written when the keys were made; empty: it holds nothing
    games: int = 0  # that it has counted
    stored: int = 0  # that it holds of these

    def lost_since(self, before: "Holdings") -> int:
        """How many of the games that it held before are not there any more, but for those that had their time."""
        return before.stored if self.boot != before.boot else max(0, before.games - self.games)


class RedisControl:
    """Short calls with a deadline; ReplayUnavailable if the server does not answer.  Any thread may call them."""

    def __init__(self, url: str, run_id: str, deadline: float = 5.0) -> None:
        self._url = url
        self._client = connect(url, deadline)
        self._keys = RunKeys.of(run_id)

    def begin(
        self, epoch: int, *, capacity: int, max_bytes: int, actors: int, limit: int | None = None,
        fences: Mapping[int, int] | None = None,
    ) -> bool:
        """Begins a driver term, or continues it after the data was lost; returns whether the keys had to be made.

        At most `capacity` rows and `max_bytes` of records are kept; `actors` is the desired number (0: as configured).
        Actors are throttled from `limit` inserted rows on until the learner reports another limit (-1: never; None: as
        before, and never in a new run).  Games of earlier incarnations than `fences` (actor -> incarnation) are
        refused.  A request to stop is dropped.  ResumeError if a newer epoch has begun.
        """
        pairs = [number for pair in (fences or {}).items() for number in pair]
        with translate_redis_errors(self._url):
            status = BEGIN(
                self._client, [self._keys.control, self._keys.counters, self._keys.seen, self._keys.games],
                [secrets.token_hex(16), epoch, capacity, max_bytes, actors, "" if limit is None else limit, *pairs],
            )
        if status == 0:
            raise ResumeError(
                f"the replay has seen a newer driver term of this run than {epoch}; another `shusaku train` drives it,"
                " or the run directory is an older copy: give the copy another replay.url"
            )
        return int(status) == 2

    def newest_epoch(self) -> int:
        """The newest driver term; -1 if no driver has begun, or the data was lost."""
        return self._get("epoch", default=-1)

    def is_lost(self) -> bool:
        """Whether the server has no data of this run, so that `begin` is due."""
        with translate_redis_errors(self._url):
            return not self._client.hexists(self._keys.control, "boot")

    def holdings(self) -> Holdings:
        """What the server holds of this run now."""
        with translate_redis_errors(self._url):
            pipeline = self._client.pipeline(transaction=False)
            pipeline.hget(self._keys.control, "boot")
            pipeline.hget(self._keys.counters, "games")
            pipeline.xlen(self._keys.games)
            boot, games, stored = pipeline.execute()
        return Holdings((boot or b"").decode(), int(games or 0), stored)

    def fence(self, actor: int, incarnation: int) -> None:
        """Refuses games of earlier incarnations of this actor from now on."""
        self._change(FENCE, [self._keys.control, self._keys.seen], actor, incarnation)

    def record_version(self, version: int) -> None:
        """Records that weights up to this publication number exist; it never goes back."""
        self._change(RECORD_VERSION, [self._keys.control], version)

    def newest_version(self) -> int:
        """The newest version that was recorded; 0: none."""
        return self._get("version")

    def set_actors(self, actors: int, *, by_user: bool = True) -> None:
        """Sets the desired number of actors; 0: as configured."""
        mark: tuple[Argument, ...] = ("asked", 1) if by_user else ()
        self._change(SET_CONTROL, [self._keys.control], "actors", actors, *mark)

    def has_user_set_actors(self) -> bool:
        """Whether a command has set the number of actors since `begin`."""
        return self._get("asked") == 1

    def desired_actors(self) -> int:
        """The desired number of actors; 0: as configured."""
        return self._get("actors")

    def stop_actors(self) -> None:
        """Tells every actor to end, in each reply from now on; only the driver calls it."""
        self._change(SET_CONTROL, [self._keys.control], "stop", 1)

    def request_run_stop(self) -> None:
        """Asks the driver to end the run in order."""
        self._change(SET_CONTROL, [self._keys.control], "wish", 1)

    def is_run_stop_requested(self) -> bool:
        """Whether a command has asked the driver to end the run."""
        return self._get("wish") == 1

    def actor_metrics(self) -> dict[int, ActorMetrics]:
        """By actor, for all that ever sent a heartbeat in this run; age and incarnation tell which ones live."""
        with translate_redis_errors(self._url):
            pipeline = self._client.pipeline(transaction=False)
            pipeline.time()
            pipeline.hgetall(self._keys.heartbeats)
            pipeline.hgetall(self._keys.actors)
            (seconds, microseconds), heartbeats, metrics = pipeline.execute()
        now = seconds * 1000 + microseconds // 1000
        found = {}
        for actor, text in heartbeats.items():
            moment, _, incarnation = text.partition(b":")
            if not all(_COUNT.fullmatch(number) for number in (actor, moment, incarnation)):
                continue  # another program wrote it
            age = max(0, now - int(moment)) / 1000  # 0 if the server's clock was set back
            found[int(actor)] = ActorMetrics(int(incarnation), age, metrics.get(actor, b""))
        return found

    def drop_actor_metrics(self) -> None:
        """Drops the metrics of all actors; living actors send theirs again within a second."""
        with translate_redis_errors(self._url):
            self._client.delete(self._keys.heartbeats, self._keys.actors)

    def counters(self) -> dict[str, int]:
        """The counters by name, see `replay.stream.keys`; a counter that never counted is absent."""
        with translate_redis_errors(self._url):
            counters: Any = self._client.hgetall(self._keys.counters)
            return {name.decode(): int(value) for name, value in counters.items()}

    def quarantined(self) -> dict[str, int]:
        """The number of refused records by kind of reason."""
        with translate_redis_errors(self._url):
            counts: Any = self._client.hgetall(self._keys.quarantined)
            return {key.decode(errors="replace"): int(n) for key, n in counts.items()}

    def repair(self) -> bool:
        """Makes room for ids if another program used them up, see repair.lua; returns whether it was needed."""
        with translate_redis_errors(self._url):
            return bool(REPAIR(self._client, repair_keys(self._keys), []))

    def server_time(self) -> float:
        """Seconds of the server's clock, which all machines of the run share."""
        with translate_redis_errors(self._url):
            seconds, microseconds = self._client.time()
        return float(seconds + microseconds / 1e6)

    def put_status(self, status: bytes) -> None:
        """Stores the driver's status for `shusaku status`."""
        with translate_redis_errors(self._url):
            self._client.set(self._keys.status, status)

    def status(self) -> bytes:
        """The newest status of the driver; empty: none yet."""
        with translate_redis_errors(self._url):
            return bytes(self._client.get(self._keys.status) or b"")  # type: ignore[arg-type]

    def close(self) -> None:
        """Closes the connections."""
        self._client.connection_pool.disconnect()

    def _get(self, field: str, default: int = 0) -> int:
        with translate_redis_errors(self._url):
            value: Any = self._client.hget(self._keys.control, field)
            return default if value is None else int(value)

    def _change(self, script: Script, keys: Sequence[str], *arguments: Argument) -> None:
        with translate_redis_errors(self._url):
            is_done = script(self._client, keys, arguments)
        if not is_done:
            raise ReplayUnavailable("the data of the run was lost; the driver has to begin anew first")
