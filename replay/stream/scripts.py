"""The scripts that run inside the server: one Lua file beside this one for each.

They use nothing newer than Redis 6.2, and name their keys in KEYS, but for one: the scripts of
the actors read the control hash without naming it, because a server lets no user call a script with a key that the
user may not write, and the actors' user may only read that one.  Lua counts in doubles: all numbers stay below 2^53 and
are written as whole numbers, never in scientific notation.

A full server refuses a script's first write unless it deletes something.  `HDEL key ''` deletes nothing and opens the
way for the few bytes that follow; only games have to make room first.
"""

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Protocol

import redis

Argument = str | bytes | int


class Caller(Protocol):
    """A `redis.Redis` or a `replay.stream.client.Link`."""

    def execute_command(self, *arguments: Any) -> Any:
        """Sends one command and returns the reply."""


class Script:
    """A script that is sent once to each server and called by its SHA-1 from then on."""

    def __init__(self, name: str) -> None:
        """`name` is that of the file, without `.lua`."""
        self.text = files(__package__).joinpath(f"{name}.lua").read_text(encoding="utf-8")
        self.sha1 = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def load(self, client: Caller) -> None:
        """Sends the script, so that users who may load none can call it."""
        client.execute_command("SCRIPT", "LOAD", self.text)

    def __call__(self, client: Caller, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """Calls the script and returns its reply; loads it first if the server lacks it."""
        call = ("EVALSHA", self.sha1, len(keys), *keys, *arguments)
        try:
            return client.execute_command(*call)
        except redis.exceptions.NoScriptError:  # a new server, or one that was restarted; nothing was done
            self.load(client)
            return client.execute_command(*call)


APPEND = Script("append")
BEGIN = Script("begin")
FENCE = Script("fence")
QUARANTINE = Script("quarantine")
RECORD_VERSION = Script("record_version")
REPAIR = Script("repair")
REPORT = Script("report")
SAVE_OPEN_GAMES = Script("save_open_games")
SET_CONTROL = Script("set_control")
TAKE_OPEN_GAMES = Script("take_open_games")
