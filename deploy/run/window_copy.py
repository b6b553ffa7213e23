"""The games of a run in Redis, copied out while it plays, and written into another server with all their counters.

What is copied is the window at one moment: the counters are read at once, and then the games up to the newest one that
they count.  Games that leave the window meanwhile are counted as left, so that rows and bytes are those of the copy.
Open games come with it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from shusaku.common.codec import MAX_RECORD_BYTES
from shusaku.common.errors import UsageError
from shusaku.deploy.run.archive import ArchiveWriter
from shusaku.deploy.run.open_games_copy import OPEN_GAMES, copy_open_games, load_open_games, open_game_keys
from shusaku.replay.stream.client import ReplayUnavailable, connect, translate_redis_errors
from shusaku.replay.stream.keys import RunKeys

GAMES, NUMBERS = "window/games.msgpack", "window/numbers.json"
PAGE = 256  # entries of the stream that are read or written at once
_OURS = ([b"d", b"r", b"n"], [b"d", b"r", b"n", b"a"])  # names of the fields of a game: `replay.stream.keys`
_ID = re.compile(rb"([1-9]\d{0,15})-0")
_HASHES = ("control", "counters", "seen", "quarantined")
_VALUE = re.compile(r"[\w:-]{1,64}")


@dataclass(frozen=True)
class WindowFacts:
    """What was copied."""

    games: int  # that Redis had acknowledged over the life of the run
    number: int  # of the newest game
    kept: int  # games of the window
    version: int  # newest published


def copy_window(url: str, run_id: str, archive: ArchiveWriter) -> WindowFacts:
    """Adds the window to the archive; ReplayUnavailable if the server does not answer or has no data of the run."""
    client: Any = connect(url, deadline=10.0)
    keys = RunKeys.of(run_id)
    try:
        with translate_redis_errors(url):
            hashes = {}
            # Actors' newest games first: the counters then count these, and maybe more.
            for name in ("seen", "quarantined", "counters", "control"):
                hashes[name] = _texts(client.hgetall(getattr(keys, name)))
            if "boot" not in hashes["control"]:
                raise ReplayUnavailable("the replay server has no data of this run yet, or has lost it; try again")
            counters = hashes["counters"]
            number = int(counters.get("number", 0))
        copy_open_games(client, url, keys, archive)
        kept = rows = size = 0
        with archive.open(GAMES) as file:
            for entry, fields in _entries(client, url, keys.games, number):
                kept, rows, size = kept + 1, rows + int(fields[3]), size + len(fields[1])
                file.write(msgpack.packb([entry, fields]))
    finally:
        client.connection_pool.disconnect()
    counters["deleted"], counters["bytes"] = str(int(counters.get("inserted", 0)) - rows), str(size)
    archive.add(NUMBERS, json.dumps(hashes, sort_keys=True).encode())
    control = hashes["control"]
    return WindowFacts(int(counters.get("games", 0)), number, kept, int(control.get("version", 0)))


def load_window(url: str, run_id: str, folder: Path) -> None:
    """Writes the window of an unpacked archive into a server that has no such run.

    UsageError if it has one, or if the files hold what no run of ours has.
    """
    client: Any = connect(url, deadline=30.0)
    keys = RunKeys.of(run_id)
    hashes = _checked_numbers(folder / NUMBERS)
    has_begun = False
    try:
        with translate_redis_errors(url):
            is_used = client.exists(*keys)
        if is_used:
            raise UsageError(f"the replay server holds the run {run_id} already; name another server with replay.url, "
                             "or another run with run.name")
        has_begun = True
        pipeline = client.pipeline(transaction=False)
        for count, (name, fields) in enumerate(_stored(folder / GAMES), start=1):
            pipeline.execute_command("XADD", keys.games, name, *fields)
            if count % PAGE == 0:
                with translate_redis_errors(url):
                    pipeline.execute()
        with translate_redis_errors(url):
            pipeline.execute()
        load_open_games(client, url, keys, folder)
        with translate_redis_errors(url):
            for part in _HASHES[::-1]:  # control, which says that the data is there, comes last
                if hashes[part]:
                    client.hset(getattr(keys, part), mapping=hashes[part])
    except BaseException:
        if has_begun:
            with translate_redis_errors(url):
                client.delete(*keys, *open_game_keys(client, keys))
        raise
    finally:
        client.connection_pool.disconnect()


def read_window(url: str, run_id: str, newest: int = 0) -> Iterator[bytes]:
    """The encoded games of the window, oldest first; of the `newest` ones only, unless that is 0.

    ReplayUnavailable if the server does not answer.
    """
    client: Any = connect(url, deadline=10.0)
    keys = RunKeys.of(run_id)
    try:
        with translate_redis_errors(url):
            number = int(client.hget(keys.counters, "number") or 0)
        for _, fields in _entries(client, url, keys.games, number, max(0, number - newest) if newest else 0):
            yield fields[1]
    finally:
        client.connection_pool.disconnect()


def window_bytes(folder: Path) -> int:
    """Of the games of an unpacked archive, open ones included."""
    open_games = folder / OPEN_GAMES
    return (folder / GAMES).stat().st_size + (open_games.stat().st_size if open_games.exists() else 0)


def _entries(
    client: Any, url: str, stream: str, newest: int, before: int = 0
) -> Iterator[tuple[bytes, list[bytes]]]:
    """Id and fields of each game behind number `before` and up to `newest`, oldest first.

    Entries of other programs are left out.
    """
    start: str | bytes = f"({before}-0" if before else "-"
    while newest:
        with translate_redis_errors(url):
            page = client.xrange(stream, start, f"{newest}-0", count=PAGE)
        if not page:
            return
        for name, fields in page:
            if list(fields) in _OURS and _ID.fullmatch(name):
                yield name, [part for pair in fields.items() for part in pair]
        start = b"(" + page[-1][0]


def _stored(path: Path) -> Iterator[tuple[bytes, list[bytes]]]:
    """What `_entries` gave, as far as it has the form of games."""
    with path.open("rb") as file:
        unpacker = msgpack.Unpacker(file, raw=True, max_buffer_size=2 * MAX_RECORD_BYTES, max_map_len=0, max_ext_len=0,
                                    max_array_len=8, max_str_len=64, max_bin_len=MAX_RECORD_BYTES)
        newest = 0
        for item in unpacker:
            if not (isinstance(item, list) and len(item) == 2 and isinstance(item[0], bytes)
                    and isinstance(item[1], list) and item[1][::2] in _OURS and len(item[1]) % 2 == 0
                    and all(isinstance(part, bytes) for part in item[1])):
                raise UsageError(f"{path.name} holds something that is no game; use another copy")
            match = _ID.fullmatch(item[0])
            if match is None or int(match[1]) <= newest:
                raise UsageError(f"{path.name}: game {item[0][:40]!r} is out of order; use another copy")
            newest = int(match[1])
            yield item[0], item[1]


def _checked_numbers(path: Path) -> dict[str, dict[str, str]]:
    try:
        hashes = json.loads(path.read_text(encoding="utf-8"))
        pairs = [pair for part in hashes.values() for pair in part.items()]
        if set(hashes) != set(_HASHES) or not all(len(key) <= 64 and _VALUE.fullmatch(value) for key, value in pairs):
            raise ValueError
    except (OSError, ValueError, AttributeError, TypeError):
        raise UsageError(f"{path.name} holds something that no run has; use another copy") from None
    checked: dict[str, dict[str, str]] = hashes
    return checked


def _texts(reply: dict[bytes, bytes]) -> dict[str, str]:
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in reply.items()}
