"""What one learner process of several reads from the stream: the games of its share and no others.

What the others hold is known from the totals that stand in each entry, so that their games need not travel.
"""

import itertools
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import redis

from shusaku.replay.share import Share
from shusaku.replay.stream.client import translate_redis_errors
from shusaku.replay.stream.tail import Entry, Reading, StreamTail, parse_entries, raise_errors

LOOK_SECONDS = 1.0  # between two looks, each of which costs two entries


class ShareTail(StreamTail):
    """Reads the entries of a share in order, by their ids.  One round trip per call if nothing is new, else three.

    An entry of another program is met where a game of the share could stand, and by the first process as the newest of
    all: there it does harm, for the games to come cannot get smaller ids.
    """

    def __init__(self, url: str, run_id: str, deadline: float, share: Share) -> None:
        super().__init__(url, run_id, deadline)
        self._share = share
        self._look_at = 0.0  # time of the next look at the ends of the stream, if nothing is new
        self._total = 0  # rows that the server had counted with the newest game that was read, whose id is in `_read`

    def read(self, after: str, boot: str, version: int, limit: int | None, counters: Mapping[str, int]) -> Reading:
        """See `StreamTail.read`; reads on behind the number that is the first half of id `after`."""
        key, place = self._keys.games, int(after.partition("-")[0])
        with translate_redis_errors(self._url):
            breaks = self._link.breaks
            is_due = breaks != self._checked and after == self._read[0]
            reading, there = self._report(boot, version, limit, counters,
                                          *([("XRANGE", key, after, after)] if is_due else []))
            raise_errors(there)
            self._checked = breaks
            if not there and reading.number == place > 0 and time.monotonic() < self._look_at:
                return replace(reading, read_to=place, oldest=place + 1)
            reading, (info,) = self._report(boot, version, limit, counters, ("XINFO", "STREAM", key))
            oldest, newest = _edges(info, reading)
            self._look_at = time.monotonic() + LOOK_SECONDS
            strange = [newest] if newest and not newest.is_ours and self._share.is_first else []
            if oldest and not oldest.is_ours:  # how many rows went before is known once the first process moved it
                strange = [oldest] if self._share.is_first else []
                return replace(reading, entries=strange, read_to=place, oldest=place + 1)
            first, gone = (oldest.number, oldest.total - oldest.rows) if oldest else (reading.number + 1,
                                                                                      reading.inserted)
            read_to, entries = self._games(max(place + 1, first), reading)
        is_rewritten = any(entry.total != self._total for reply in there for entry in _parse(reply, reading))
        ours = [entry for entry in entries if entry.is_ours]
        if not is_rewritten and read_to == reading.number:
            self._read, self._total = (f"{read_to}-0", b""), reading.inserted
        elif not is_rewritten and ours and ours[-1].number == read_to:
            self._read, self._total = (f"{read_to}-0", b""), ours[-1].total
        if ours:
            self._count = self._next_count(ours)
        return replace(reading, entries=[*entries, *strange], is_rewritten=is_rewritten, read_to=read_to, oldest=first,
                       gone=gone)

    def _games(self, begin: int, reading: Reading) -> tuple[int, list[Entry]]:
        """The next entries of the share from this number on, and the number up to which they were read."""
        key, number = self._keys.games, reading.number
        ranges = self._share.ranges(begin, number)
        asked = list(itertools.islice(ranges, -(-self._count // self._share.block)))
        if not asked:
            return number, []
        replies = self._link.execute_many(*(("XRANGE", key, first, last) for first, last in asked))
        raise_errors(replies)
        entries = [entry for reply in replies for entry in _parse(reply, reading)]
        if next(ranges, None) is None:
            return number, entries
        if entries:
            return asked[-1][1], entries
        # The numbers jumped over an id of another program: go on where there is an entry again.
        after = self._link.execute_command("XRANGE", key, asked[-1][1] + 1, "+", "COUNT", 1)
        return min(number, int(after[0][0].partition(b"-")[0]) - 1) if after else number, []


def _parse(raw: Any, reading: Reading) -> list[Entry]:
    return parse_entries(raw, reading.number, reading.inserted)


def _edges(info: Any, reading: Reading) -> tuple[Entry | None, Entry | None]:
    """The first and the last entry of the stream, from the reply to XINFO STREAM."""
    if isinstance(info, redis.ResponseError) and "no such key" in str(info):
        return None, None
    raise_errors([info])
    known = dict(zip(info[::2], info[1::2], strict=True))
    oldest, newest = (_parse([entry], reading)[0] if entry else None
                      for entry in (known[b"first-entry"], known[b"last-entry"]))
    return oldest, newest
