"""Rights in a Redis server of the user's own: ACL users (Redis 6.2 and newer) and TLS.

Make two users per run: `replay.actor_url` names the first, `replay.url` the second; `run.name` fixes NAME:

    python -m shusaku.replay.stream.access NAME    # prints ACL SETUSER shusaku-actor …, ACL SETUSER shusaku-learner …

TLS: `replay.url=rediss://user:password@host:port/0?ssl_ca_certs=FILE`.  The server's certificate is always checked
against that authority (without the option: the system's) and against the name of the host.

Scripts run with the rights of their caller, so the user of the actors may also send each command of the append script
by hand: it could write wrong counters, but not read another run, delete a key or change a setting.
"""

from shusaku.replay.stream.keys import RunKeys

_CONNECTION = ("auth", "hello", "ping", "select", "evalsha", "script|load")
_ACTOR = ("hmget", "hget", "hset", "hdel", "hincrby", "hkeys", "hstrlen",
          "xadd", "xtrim", "xdel", "xrange", "xinfo|stream", "time")
_LEARNER = ("hgetall", "hexists", "xread", "get", "set", "del", "exists", "info", "xlen", "rename")


def acl_rules(run_id: str) -> dict[str, str]:
    """What ACL SETUSER takes after the password, by role: `actor`, and `learner` for the learner and the driver."""
    keys = RunKeys.of(run_id)
    actor = (*_CONNECTION, *_ACTOR)
    return {
        "actor": _rules((*keys[:6], keys.open, keys.open_games("*")), actor),
        "learner": _rules((RunKeys.of(run_id, "*").games.removesuffix("games"),), (*actor, *_LEARNER)),
    }


def _rules(patterns: tuple[str, ...], commands: tuple[str, ...]) -> str:
    allowed = [f"~{pattern}" for pattern in patterns] + [f"+{command}" for command in commands]
    return " ".join(["resetkeys", "resetchannels", "-@all", *allowed])


if __name__ == "__main__":
    import sys

    for role, rules in acl_rules(*sys.argv[1:2]).items():
        print(f"ACL SETUSER shusaku-{role} on >PASSWORD {rules}")
