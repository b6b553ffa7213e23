"""The keys of one run in Redis; the braces are a cluster's hash tag, so that all of them lie in one slot.

    :games        stream, an entry a game, ids `<number>-0`: d the encoded record, r its rows, n rows so far with it
    :control      hash: boot epoch stop version actors limit capacity max_bytes
    :counters     hash: number games inserted deleted bytes evicted squeezed duplicates fenced other_epoch, and the
                  learner's sampled invalid skipped losses
    :seen         hash, a field an actor: epoch:incarnation:sequence of its newest game
    :actors       hash, a field an actor: the newest metrics of its heartbeat, msgpack
    :heard        hash, a field an actor: milliseconds of the server's clock : incarnation
    :quarantine   stream of the newest refused records: reason, d
    :quarantined  hash, a field a kind of reason: how many
    :status       string, JSON of the driver

`boot` is random text that is written when the keys are made: where it is missing, the data was lost.
"""

import re
from typing import NamedTuple

from shusaku.common.errors import UsageError

_RUN_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class RunKeys(NamedTuple):
    """Names of the keys of a run."""

    games: str
    control: str
    counters: str
    seen: str
    actors: str
    heard: str
    quarantine: str
    quarantined: str
    status: str

    @classmethod
    def of(cls, run_id: str, part: str = "") -> "RunKeys":
        """Of run `run_id`; UsageError unless it is made of a-z, 0-9 and `-`, 64 at most.

        `part` sets names of a probe apart, which must not touch the run.
        """
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(f"run id {run_id!r}: must be 1 to 64 of a-z, 0-9 and -, and not begin with -")
        return cls(*(f"shusaku:{{{run_id}}}:{part}{name}" for name in cls._fields))
