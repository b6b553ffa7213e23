"""What the learner reads from the stream and reports to it: one round trip per call."""

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import redis

from shusaku.replay.stream.client import Link, connect, translate_redis_errors
from shusaku.replay.stream.keys import RunKeys, repair_keys
from shusaku.replay.stream.scripts import QUARANTINE, REPAIR, REPORT

READ_BYTES = 8 << 20  # of one reply, about; the first replies may be larger if the records are large
MAX_ENTRIES = 256  # of one reply
_NAMES = [b"d", b"r", b"n", b"a"]  # of an entry's fields, see `replay.stream.keys`
_DIGITS = 16  # of a count, at most
_LONGEST_SENDER = 3 * _DIGITS + 2
_SENDER = re.compile(rb"(\d{1,16}):(\d{1,16}):(\d{1,16})")


Command = Sequence[str | bytes | int]


class Entry(NamedTuple):
    """An entry of the stream: a game of the append script, or something that another program wrote."""

    id: str
    number: int  # of the game in the run, from 1; of other entries the first half of their id
    rows: int  # as the actor counted them
    total: int  # rows that the run had, including this game
    data: bytes
    is_ours: bool
    sender: tuple[int, int, int] | None = None  # epoch, actor, incarnation; None: not ours, or of an earlier version


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest entries, and the server's counters after they were read."""

    entries: list[Entry]
    boot: str  # empty: the data was lost
    number: int  # of the newest game
    inserted: int  # rows
    version: int  # newest published
    refused: tuple[int, int, int]  # games: duplicates, fenced, of another epoch
    is_rewritten: bool = False  # the server restarted and holds another game at the id that was read last
    # For a share (see `replay.stream.share_tail`), whose entries these are:
    read_to: int = 0  # number up to which its games were read
    oldest: int = 0  # number of the first game that the server holds; if it holds none, of the next one
    gone: int = 0  # rows of the games before that


class StreamTail:
    """Reads the entries in order.  Not thread-safe; the methods raise ReplayUnavailable."""

    def __init__(self, url: str, run_id: str, deadline: float) -> None:
        self._url = url
        self._link = Link(connect(url, deadline))
        self._keys = RunKeys.of(run_id)
        self._count = 16
        self._written: list[str | int] = []  # the report that the server has
        self._read: tuple[str, bytes] = ("", b"")  # id and digest of the newest entry that was read
        self._checked = 0  # breaks of the connection after which that entry was found again

    def read(self, after: str, boot: str, version: int, limit: int | None, counters: Mapping[str, int]) -> Reading:
        """Reads the entries after id `after`; reports limit (-1: none), version and counters if they changed.

        Without a limit nothing is reported: another process does that.
        """
        with translate_redis_errors(self._url):
            breaks = self._link.breaks  # only a server that restarted can have lost what was read
            is_due = breaks != self._checked and after == self._read[0]
            reading, (entries, *there) = self._report(
                boot, version, limit, counters, ("XREAD", "COUNT", self._count, "STREAMS", self._keys.games, after),
                *([("XRANGE", self._keys.games, after, after)] if is_due else []))
            raise_errors([entries, *there])
        self._checked = breaks  # only after all replies: a server that is loading refuses
        raw = entries[0][1] if entries else []
        read = parse_entries(raw, reading.number, reading.inserted)
        # If it is missing, it was deleted, or it is newer than all that the server has, which `number` tells.
        is_rewritten = any(_digest(fields) != self._read[1] for reply in there for _, fields in reply)
        if read and not is_rewritten:
            ours = [(entry.id, fields) for entry, (_, fields) in zip(read, raw, strict=True) if entry.is_ours]
            if ours:  # the others do not move the place of reading
                self._read = (ours[-1][0], _digest(ours[-1][1]))
            self._count = self._next_count(read)
        return replace(reading, entries=read, is_rewritten=is_rewritten)

    def _report(
        self, boot: str, version: int, limit: int | None, counters: Mapping[str, int], *queries: Command
    ) -> tuple[Reading, list[Any]]:
        """A reading without entries, and the replies to the queries, which were answered before it was made."""
        report: list[str | int] = [boot, version, "" if limit is None else limit,
                                   *(part for pair in counters.items() for part in pair)]
        written, self._written = self._written, []  # unknown again if this fails
        arguments: list[str | int] = report if report != written else [boot, version, ""]
        keys = [self._keys.control, self._keys.counters]
        *replies, answer = self._link.execute_many(*queries, ("EVALSHA", REPORT.sha1, 2, *keys, *arguments))
        if isinstance(answer, redis.exceptions.NoScriptError):
            answer = REPORT(self._link, keys, arguments)
        raise_errors([answer])
        found = None if answer[0] is None else answer[0].decode()
        number, inserted, version, *refused = map(int, answer[1:])
        if found == boot:
            self._written = report
        return Reading([], found or "", number, inserted, version, (refused[0], refused[1], refused[2])), replies

    def _next_count(self, read: Sequence[Entry]) -> int:
        """How many entries to read next, by the size of these."""
        mean = sum(len(entry.data) for entry in read) // len(read)
        return max(1, min(MAX_ENTRIES, 2 * self._count, READ_BYTES // max(1, mean)))

    def quarantine(self, entry: Entry | None, reason: str, data: bytes) -> None:
        """Moves the record to the quarantine, and its entry, if there is one, out of the stream."""
        keys = [self._keys.games, self._keys.counters, self._keys.quarantine, self._keys.quarantined]
        deleted: list[str | int] = ["", 0, 0]
        if entry is not None:
            deleted = [entry.id, entry.rows if entry.is_ours else 0, len(entry.data) if entry.is_ours else 0]
        key = reason.partition(":")[0][:32]
        with translate_redis_errors(self._url):
            QUARANTINE(self._link, keys, [*deleted, key, reason[:1000], data])
            if entry is not None and not entry.is_ours:
                REPAIR(self._link, repair_keys(self._keys), [])

    def close(self) -> None:
        """Closes the connection."""
        self._link.close()


def raise_errors(replies: Sequence[Any]) -> None:
    """Raises the first error among the replies to several commands."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply


@functools.lru_cache(maxsize=256)
def _sender(text: bytes) -> tuple[int, int, int] | None:
    found = _SENDER.fullmatch(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _is_count(text: bytes) -> bool:
    return text.isdigit() and len(text) <= _DIGITS


def _digest(fields: Sequence[bytes]) -> bytes:
    return hashlib.blake2b(b"\0".join(fields), digest_size=16).digest()


def parse_entries(raw: Sequence[Any], number: int, inserted: int) -> list[Entry]:
    """Parses a reply of XREAD; `number` and `inserted` bound what the append script can have written."""
    entries = []
    named = (_NAMES, _NAMES[:3])
    for name, fields in raw:
        id = name.decode()
        first, _, second = id.partition("-")
        place = int(first)
        is_shaped = second == "0" and place <= number and fields[::2] in named
        is_counted = is_shaped and _is_count(fields[3]) and _is_count(fields[5])
        rows, total = (int(fields[3]), int(fields[5])) if is_counted else (1, 0)
        sender = _sender(fields[7]) if is_counted and len(fields) == 8 and len(fields[7]) <= _LONGEST_SENDER else None
        if rows <= total <= inserted and (sender or len(fields) == 6):
            entries.append(Entry(id, place, rows, total, fields[1], True, sender))
        else:
            data = b" ".join(fields[:16]) if fields else b""
            entries.append(Entry(id, place, 0, 0, data, False))
    return entries
