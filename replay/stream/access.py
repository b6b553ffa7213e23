"""Who may do what in a Redis server that is not ours: ACL users (Redis 6.2 and newer) and TLS.

Make two users a run and give `replay.actor_url` the first one, `replay.url` the second; `run.name` fixes the name:

    python -m replay.stream.access NAME        # prints ACL SETUSER shusaku-actor …, ACL SETUSER shusaku-learner …

TLS: `replay.url=rediss://user:password@host:port/0?ssl_ca_certs=FILE`.  The server's certificate is always checked
against that authority (without the option: the system's) and against the host's name.

Scripts run with the rights of their caller, so an actor's user can also call by hand what the append script calls: it
could write wrong counters, but read no other run, delete no key and change no setting.
"""

from shusaku.replay.stream.keys import RunKeys

_CONNECTION = ("auth", "hello", "ping", "select", "evalsha", "script|load")
_ACTOR = ("hmget", "hget", "hset", "hdel", "hincrby", "xadd", "xtrim", "xdel", "xrange", "xinfo|stream", "time")
_LEARNER = ("hgetall", "hexists", "xread", "get", "set", "del", "exists", "info")


def acl_rules(run_id: str) -> dict[str, str]:
    """By role, `actor` and `learner` (which is the driver's too), what ACL SETUSER takes after the password."""
    keys = RunKeys.of(run_id)
    actor = (*_CONNECTION, *_ACTOR)
    return {
        "actor": _rules(keys[:6], actor),
        "learner": _rules((RunKeys.of(run_id, "*").games.removesuffix("games"),), (*actor, *_LEARNER)),
    }


def _rules(patterns: tuple[str, ...], commands: tuple[str, ...]) -> str:
    allowed = [f"~{pattern}" for pattern in patterns] + [f"+{command}" for command in commands]
    return " ".join(["resetkeys", "resetchannels", "-@all", *allowed])


if __name__ == "__main__":
    import sys

    for role, rules in acl_rules(*sys.argv[1:2]).items():
        print(f"ACL SETUSER shusaku-{role} on >PASSWORD {rules}")
