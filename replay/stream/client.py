"""Connections to Redis that never hang and never retry; their errors are one line without secrets.

redis-py retries three times by default, which doubles a write whose reply was lost and blocks for 14 s.  Here nothing
is retried: a wait for the server ends after `deadline` seconds, and the connection is closed, so that a late reply is
never read as the answer to another call.  The caller decides what to send again: see `replay.stream.append`.
"""

import re
import secrets
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from shusaku.common.errors import RunError, UsageError
from shusaku.common.masking import mask_text
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.scripts import APPEND, BEGIN, FENCE, QUARANTINE, REPORT, SAVE_OPEN_GAMES, TAKE_OPEN_GAMES

SCHEMES = ("redis", "rediss", "unix")
# Errors that a healthy server returns too, now and then: the set-up is right.
_TEMPORARY = ("LOADING", "READONLY", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "UNBLOCKED")


class ReplayUnavailable(RunError):
    """The server did not answer in time, or refused; try again later.  It is unknown whether it executed the call."""


class ReplayRefused(ReplayUnavailable):
    """The server refuses because of its password, rights, memory or disk; the user has to act."""


def connect(url: str, deadline: float = 5.0) -> redis.Redis:
    """Makes a client of `url`, which connects at its first use; any thread may use it.

    No wait for the server (connection, handshake, reply) is longer than `deadline` seconds.  UsageError unless `url`
    is redis://[user:password@]host:port/db, rediss://…?ssl_ca_certs=FILE or unix://[user:password@]/path;
    `ssl_ca_data` is the authority itself, PEM.
    """
    if urlsplit(url).scheme not in SCHEMES:
        raise UsageError(f"replay.url={mask_text(url)}: must begin with redis://, rediss:// or unix://")
    try:
        pool = redis.ConnectionPool.from_url(url)
    except (ValueError, TypeError) as error:
        raise UsageError(f"replay.url={mask_text(url)}: {mask_text(str(error))}") from None
    if urlsplit(url).scheme == "rediss":
        pool.connection_kwargs.setdefault("ssl_check_hostname", True)  # which not every version of redis-py does
    pool.connection_kwargs |= {  # after the URL, whose options must not undo them
        "protocol": 2,  # plain replies, and AUTH instead of HELLO: one right less to grant
        "socket_timeout": deadline,
        "socket_connect_timeout": deadline,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_timeout": False,
        "health_check_interval": 0,
        "driver_info": None,  # no CLIENT SETINFO
    }
    return redis.Redis(connection_pool=pool)


def check_server(url: str, deadline: float = 8.0, run_id: str = "check") -> None:
    """Checks that the server can hold a run; UsageError of one line if not.

    Reasons: no answer within `deadline` seconds, a wrong password, missing rights, an eviction policy, no memory,
    an old version, a replica.  The check uses keys of `run_id` (a user may have rights on those only) and removes them.
    """
    failures: list[str] = []

    def check() -> None:
        client = connect(url, deadline / 2)
        try:
            _check_info(client.info())
            _try_out(client, run_id)
        except (redis.RedisError, OSError) as error:
            failures.append(explain(error)[0])
        except UsageError as error:
            failures.append(str(error))
        finally:
            client.connection_pool.disconnect()

    connect(url)  # refuses a malformed URL
    # In a thread, because looking up a host name has no deadline.
    thread = threading.Thread(target=check, name="replay-check", daemon=True)
    thread.start()
    thread.join(deadline)
    if thread.is_alive():
        failures.append(f"no answer within {deadline:g} s")
    if failures:
        raise UsageError(f"replay.url={mask_text(url)}: {failures[0]}")


def _check_info(info: dict[str, Any]) -> None:
    """Checks what the server replies to INFO."""
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < (6, 2):
        raise UsageError(f"it is Redis {version}; 6.2 or newer is needed")
    if info.get("role") == "slave":
        raise UsageError("it is a replica, which takes no writes; name its primary")
    policy = info.get("maxmemory_policy", "")
    if policy.startswith("allkeys"):
        raise UsageError(f"its maxmemory-policy is {policy}, which deletes games unseen; set it to noeviction")
    limit, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    if 0 < limit <= used:
        raise UsageError(f"its memory is full, {used:,} of {limit:,} bytes; raise `maxmemory` or make room")


def _try_out(client: redis.Redis, run_id: str) -> None:
    """Executes every command that a run needs, on keys of its own."""
    keys = RunKeys.of(run_id, f"probe-{secrets.token_hex(4)}-")
    try:
        BEGIN(client, [keys.control, keys.counters, keys.seen, keys.games], ["probe", 0, 1, 1, 0, ""])
        APPEND(client, keys.of_append(0), [0, 0, 0, "metrics", 0, 1, "game", "", 1, 1, "next game", ""])
        open_keys = keys.of_open_games(0)
        SAVE_OPEN_GAMES(client, open_keys, [0, 0, 0, 1, 2, "0.0.0.1", "0.0.0.1", ""])
        TAKE_OPEN_GAMES(client, open_keys, [0, 0, 0, 1])
        client.xread({keys.games: "0-0"}, count=1)
        REPORT(client, [keys.control, keys.counters], ["probe", 0, 0, "sampled", 0])
        FENCE(client, [keys.control, keys.seen], [0, 1])
        QUARANTINE(client, [keys.games, keys.counters, keys.quarantine, keys.quarantined], ["", 0, 0, "k", "k: r", "d"])
        client.set(keys.status, "")
        client.get(keys.status)
        client.time()
        client.hgetall(keys.heartbeats)
    finally:
        client.delete(*keys, keys.open_games(0))


class Link:
    """One connection, for one thread at a time: a third of the cost of a call of `redis.Redis`."""

    def __init__(self, client: redis.Redis) -> None:
        self._connection: Any = client.connection_pool.make_connection()
        self.breaks = 0  # of the connection; after each the server may have restarted

    def execute_command(self, *arguments: str | bytes | int) -> Any:
        """Sends a command and returns the reply; connects first if needed.  Errors are those of redis-py."""
        try:
            self._connection.send_packed_command([pack(arguments)])
            return self._connection.read_response()
        except redis.ResponseError:  # a complete reply
            raise
        except BaseException:  # an interrupt too: a late reply must not answer the next call
            self.close()
            raise

    def execute_many(self, *commands: Sequence[str | bytes | int]) -> list[Any]:
        """Sends commands at once and returns their replies; that of a refused command is its ResponseError."""
        try:
            self._connection.send_packed_command([b"".join(map(pack, commands))])
            return [self._reply() for _ in commands]
        except BaseException:
            self.close()
            raise

    def _reply(self) -> Any:
        try:
            return self._connection.read_response()
        except redis.ResponseError as error:
            return error

    def close(self) -> None:
        """Closes the connection; the next command opens another."""
        self.breaks += 1
        self._connection.disconnect()


def pack(arguments: Sequence[str | bytes | int]) -> bytes:
    """Encodes a command (RESP) in one piece, which is one system call; redis-py needs one for each 6 KB."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if type(argument) is bytes else str(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


@contextmanager
def translate_redis_errors(url: str) -> Iterator[None]:
    """Turns errors of redis-py into ReplayUnavailable or ReplayRefused of one line.

    So too those of reading a reply, which another program may have written.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ReplayUnavailable(f"{mask_text(url)}: holds what no run of ours wrote: {explain(error)[0]}") from None
    except (redis.RedisError, OSError) as error:
        reason, is_final = explain(error)
        kind = ReplayRefused if is_final else ReplayUnavailable
        raise kind(f"{mask_text(url)}: {reason}") from None


def explain(error: Exception) -> tuple[str, bool]:
    """Returns what went wrong in plain words, and whether it stays so until the user acts."""
    text = mask_text(" ".join(str(error).split()))[:300] or type(error).__name__
    low = text.lower()
    if isinstance(error, redis.AuthenticationError) or "noauth" in low or "wrongpass" in low:
        if "without any password" in low:
            return "the server has no password but the URL names one; remove it from the URL", True
        return "the password or the user name is wrong, or missing in the URL", True
    if isinstance(error, redis.exceptions.NoPermissionError) or "noperm" in low:
        return f"the user of the URL lacks a right: {text}; see `replay.stream.access.acl_rules`", True
    if isinstance(error, redis.exceptions.OutOfMemoryError) or "oom command" in low:
        return "its memory is full; raise `maxmemory` or lower replay.megabytes", True
    if "misconf" in low:
        return f"it refuses writes, its disk may be full: {text}", True
    if "certificate" in low or isinstance(error.__cause__, ssl.SSLError):
        return f"TLS failed: {text}; name the authority with ?ssl_ca_certs=FILE", True
    if isinstance(error, redis.exceptions.AskError | redis.exceptions.ClusterCrossSlotError):
        return f"it is a node of a cluster and not the one that holds this run: {text}", True
    if isinstance(error, redis.exceptions.InvalidResponse):
        return "something answers there that is no Redis server", True
    if isinstance(error, redis.TimeoutError | TimeoutError):
        return "no answer in time", False
    if isinstance(error, redis.exceptions.MaxConnectionsError) or "max number of clients" in low:
        return "too many clients; raise `maxclients`", True
    if isinstance(error, redis.ConnectionError | OSError):
        return f"does not answer: {text}", False
    return text, not (isinstance(error, redis.exceptions.BusyLoadingError) or text.startswith(_TEMPORARY))
