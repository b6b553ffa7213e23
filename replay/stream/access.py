"""Rights in Redis: a user for the actors, who may call their scripts and what these need; and TLS.

`shusaku train` makes the actors' user itself (`ActorUser`), in its own server and in one of yours if the user of
`replay.url` may call ACL SETUSER.  Where it may not, make both users by hand; `run.name` fixes NAME:

    python -m shusaku.replay.stream.access NAME    # prints ACL SETUSER shusaku-actor …, ACL SETUSER shusaku-learner …

`replay.actor_url` then names the first, `replay.url` the second.

TLS: `replay.url=rediss://user:password@host:port/0?ssl_ca_certs=FILE`.  The server's certificate is always checked
against that authority (without the option: the system's) and against the name of the host.

Scripts run with the rights of their caller, so the user of the actors may also send each command of these scripts
by hand: it could write wrong counters or delete games, but not read another run, delete a key, load a script, change a
setting, or tell other actors and the driver what to do (the control hash is read-only for it from Redis 7 on).
"""

import hashlib
import secrets
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import redis

from shusaku.replay.stream.client import connect, translate_redis_errors
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.scripts import APPEND, SAVE_OPEN_GAMES, TAKE_OPEN_GAMES

_CONNECTION = ("auth", "hello", "ping", "select", "evalsha")
_ACTOR = ("hmget", "hget", "hset", "hdel", "hincrby", "hkeys", "hstrlen",
          "xadd", "xtrim", "xdel", "xrange", "xinfo|stream", "time")
_LEARNER = ("script|load", "hgetall", "hexists", "xread", "get", "set", "del", "exists", "info", "xlen", "rename")


class ActorUser:
    """The actors' user in the server at `url`; its password is new with each driver term."""

    def __init__(self, url: str, run_id: str, deadline: float) -> None:
        """Makes nothing yet.  `url` is of a user that may call ACL SETUSER."""
        self.name = f"shusaku-{run_id}-actor"
        self._password = secrets.token_hex(32)
        self._run_id, self._url = run_id, url
        self._client: Any = connect(url, deadline)

    def url_from(self, url: str) -> str:
        """The same server, by this user."""
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        options = [(key, value) for key, value in parse_qsl(parts.query) if key not in ("username", "password")]
        return urlunsplit(parts._replace(netloc=f"{self.name}:{self._password}@{place}", query=urlencode(options)))

    def grant(self) -> None:
        """Makes the user, or does nothing new; loads the scripts, which it may not.  ReplayUnavailable if refused."""
        digest = hashlib.sha256(self._password.encode()).hexdigest()
        with translate_redis_errors(self._url):
            for script in (APPEND, SAVE_OPEN_GAMES, TAKE_OPEN_GAMES):
                script.load(self._client)
            for has_read_only_keys in (True, False):  # Redis 6 has none
                rules = acl_rules(self._run_id, has_read_only_keys)["actor"].split()
                try:
                    self._client.execute_command("ACL", "SETUSER", self.name, "reset", "on", f"#{digest}", *rules)
                    return
                except redis.exceptions.NoPermissionError:
                    raise
                except redis.ResponseError:
                    if not has_read_only_keys:
                        raise

    def revoke(self) -> None:
        """Deletes the user.  ReplayUnavailable if refused."""
        with translate_redis_errors(self._url):
            self._client.execute_command("ACL", "DELUSER", self.name)
        self._client.connection_pool.disconnect()


def acl_rules(run_id: str, has_read_only_keys: bool = True) -> dict[str, str]:
    """What ACL SETUSER takes after the password, by role: `actor`, and `learner` for the learner and the driver.

    `has_read_only_keys`: the server is Redis 7 or newer.
    """
    keys = RunKeys.of(run_id)
    actor = (*_CONNECTION, *_ACTOR)
    control = f"{'%R' if has_read_only_keys else ''}~{keys.control}"
    return {
        "actor": _rules((*(f"~{key}" for key in keys.of_append("*")), control), actor),
        "learner": _rules((f"~{RunKeys.of(run_id, '*').games.removesuffix('games')}",), (*actor, *_LEARNER)),
    }


def _rules(patterns: tuple[str, ...], commands: tuple[str, ...]) -> str:
    return " ".join(["resetkeys", "resetchannels", "-@all", *patterns, *(f"+{command}" for command in commands)])


if __name__ == "__main__":
    import sys

    for role, rules in acl_rules(sys.argv[1]).items():
        print(f"ACL SETUSER shusaku-{role} on >PASSWORD {rules}")
