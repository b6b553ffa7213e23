"""The keys of one run in Redis; the braces are the hash tag of a Redis cluster: one node holds all of them.

    :games        stream, an entry per game, ids `<number>-0`: d the encoded record, r its rows, n rows so far with it,
                  a its sender (epoch:actor:incarnation; entries of earlier versions have no a)
    :control      hash: boot epoch stop wish version actors asked limit capacity max_bytes; `stop` tells the actors to
                  end, `wish` asks the driver to end the run, `asked` says that the user has set `actors`
    :counters     hash: number games inserted deleted bytes evicted squeezed duplicates fenced other_epoch, and the
                  learner's sampled invalid skipped losses; malformed (games that the append script refused, and entries
                  of other programs that `repair` dropped)
    :seen         hash, a field per actor: epoch:incarnation:sequence of its newest game
    :actors       hash, a field per actor: the newest metrics of its heartbeat, msgpack
    :heard        hash, a field per actor, its last heartbeat: milliseconds of the server's clock : incarnation
    :quarantine   stream of the newest refused records: reason, d
    :quarantined  hash, a field per kind of reason: how many
    :status       string, JSON of the driver
    :open         hash: bytes, of all open games, and a field per actor: of its open games
    :open:ACTOR   hash, a field per open game of the actor: see `replay.stream.open_games`; save: of the newest save,
                  epoch:incarnation:number; takes: how often the games were handed to a new incarnation since

`boot` is random text that is written when the keys are made: if it is missing, the data was lost.  The stored names
stay as they are: runs of earlier versions are continued.
"""

import re
from typing import NamedTuple

from shusaku.common.errors import UsageError

_NAMES = ("games", "control", "counters", "seen", "actors", "heard", "quarantine", "quarantined", "status",
          "open")  # in order
_RUN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class RunKeys(NamedTuple):
    """The names of the keys of a run."""

    games: str
    control: str
    counters: str
    seen: str
    actors: str
    heartbeats: str
    quarantine: str
    quarantined: str
    status: str
    open: str

    @classmethod
    def of(cls, run_id: str, part: str = "") -> "RunKeys":
        """The keys of run `run_id`; UsageError unless that is 1 to 64 characters of a-z, 0-9 and `-`.

        `part` goes into the names that a check uses, so that it does not touch the run.
        """
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(f"run id {run_id!r}: must be 1 to 64 of a-z, 0-9 and -, and not begin with -")
        return cls(*(f"shusaku:{{{run_id}}}:{part}{name}" for name in _NAMES))

    def open_games(self, actor: int | str) -> str:
        """The key of the open games of one actor."""
        return f"{self.open}:{actor}"

    def of_append(self, actor: int | str) -> list[str]:
        """The keys that the append script uses, in its order."""
        return [self.games, self.counters, self.seen, self.actors, self.heartbeats, self.open, self.open_games(actor)]

    def of_open_games(self, actor: int) -> list[str]:
        """The keys that the scripts of open games use, in their order."""
        return [self.seen, self.open, self.open_games(actor)]


def repair_keys(keys: RunKeys) -> list[str]:
    """The keys of the script `repair`."""
    return [keys.games, keys.counters, f"{keys.games}-copy"]
