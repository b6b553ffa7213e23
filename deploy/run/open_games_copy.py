"""The open games that a run's actors have saved in Redis, copied out, and written into another server.

They are read after the counters of the window: a game that ended meanwhile is in neither, and none is in both.  What an
archive holds is data from a stranger: here its form is checked, and each game by the actor that takes it up.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack

from shusaku.common.errors import UsageError
from shusaku.common.open_game_codec import MAX_OPEN_GAME_BYTES, OPEN_ID
from shusaku.deploy.run.archive import ArchiveWriter
from shusaku.replay.stream.client import translate_redis_errors
from shusaku.replay.stream.keys import RunKeys

OPEN_GAMES = "window/open_games.msgpack"  # [actor, name, game] one after the other
MOST_ACTORS = 1 << 20


def copy_open_games(client: Any, url: str, keys: RunKeys, archive: ArchiveWriter) -> None:
    """Adds them to the archive."""
    with translate_redis_errors(url):
        held = open_game_keys(client, keys)
    with archive.open(OPEN_GAMES) as file:
        for key in held:
            actor = int(key.rpartition(":")[2])
            with translate_redis_errors(url):
                games = client.hgetall(key)
            for name, data in games.items():
                if OPEN_ID.fullmatch(name.decode(errors="replace")):
                    file.write(msgpack.packb([actor, name, data]))


def load_open_games(client: Any, url: str, keys: RunKeys, folder: Path) -> None:
    """Writes those of an unpacked archive; one of an earlier version has none.

    UsageError if the file holds something else; what was written by then is among `open_game_keys`.
    """
    for actor, name, data in stored_open_games(folder):
        with translate_redis_errors(url):
            for field in (str(actor), "bytes"):
                client.hincrby(keys.open, field, len(data))
            client.hset(keys.open_games(actor), name, data)


def open_game_keys(client: Any, keys: RunKeys) -> list[str]:
    """The keys of all actors that have open games in this server; errors are those of redis-py."""
    return [keys.open_games(actor) for actor in sorted(int(name) for name in client.hkeys(keys.open) if name.isdigit())]


def stored_open_games(folder: Path) -> Iterator[tuple[int, str, bytes]]:
    """Actor, name and content of each game of an unpacked archive; UsageError if one has another form."""
    path = folder / OPEN_GAMES
    if not path.exists():
        return
    with path.open("rb") as file:
        unpacker = msgpack.Unpacker(file, raw=True, max_buffer_size=2 * MAX_OPEN_GAME_BYTES, max_map_len=0,
                                    max_ext_len=0, max_array_len=3, max_bin_len=MAX_OPEN_GAME_BYTES)
        try:
            for actor, name, data in unpacker:
                text = name.decode()
                if not (type(actor) is int and 0 <= actor < MOST_ACTORS and OPEN_ID.fullmatch(text)
                        and isinstance(data, bytes)):
                    raise ValueError
                yield actor, text, data
        except (ValueError, TypeError, AttributeError, msgpack.UnpackException):
            raise UsageError(f"{path.name} holds something that is no open game; use another copy") from None
