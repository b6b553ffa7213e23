"""From one process to a cluster and back: the games of the window move between the record log and Redis.

The checkpoints name where the games of their window lie.  A change copies the games, and then rewrites the checkpoints,
the newest one last; a change that was interrupted is made again from the beginning.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgpack

from shusaku.common._core import Game
from shusaku.common.codec import decode_record
from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.run.open_games_copy import open_game_keys
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.learner.checkpoints import Checkpoint, load_latest, whole_checkpoints, write_checkpoint
from shusaku.replay.record_log import LogPosition, RecordLog
from shusaku.replay.row_window import STATE
from shusaku.replay.stream.append import MAX_GAMES, Appender, AppendStatus, EncodedGame
from shusaku.replay.stream.buffer import RedisBuffer
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer

COUNTERS = ("inserted", "sampled", "deleted", "version", "games")  # of a window, in a checkpoint of either wiring
SETTINGS = ("shift", "samples_per_position", "minimum", "test_share")  # that it was kept by; not of earlier programs
PAGE = 256  # entries of the stream that are read at once


def is_of_one_process(directory: Path) -> bool | None:
    """Whether the newest good checkpoint was written by `shusaku local`; None if there is none.

    ResumeError if there are checkpoints and none of them is good.
    """
    found = load_latest(directory / "checkpoints")
    return None if found is None else found.checkpoint.facts["local"] is not None


def move_to_stream(
    directory: Path, config: Config, url: str, identity: RunIdentity, log_line: Callable[[str], None]
) -> None:
    """Lets a cluster go on with a run of one process: its games are in Redis at `url` then.

    It is a driver term of its own.  Games that are open begin anew.
    """
    if not is_of_one_process(directory):
        return
    if config.dataset.records:
        _without_games(directory, {"local": None, "steps_left": 0}, {})
        return
    checkpoints = _checkpoints(directory, is_local=True)
    newest = checkpoints[-1]
    log = RecordLog(directory / "records")
    log.truncate_to(LogPosition(*newest.facts["local"]["records"]))
    sizes = [decode_record(data).num_rows for data in log.iterate()]
    control = RedisControl(url, identity.run_id)
    client: Any = connect(url)
    keys = RunKeys.of(identity.run_id)
    epoch = identity.next_epoch(control.newest_epoch())
    # What an earlier term left there is in the record log, too, and its open games were never gone on with.
    client.delete(*keys, *open_game_keys(client, keys))
    control.begin(epoch, capacity=config.replay.capacity, max_bytes=config.replay.megabytes << 20, actors=0)
    before = newest.facts["replay"]["inserted"] - sum(sizes)  # rows of games that the log has dropped
    dropped = newest.facts["local"]["games"] - len(sizes)
    client.hset(keys.counters, mapping={"inserted": before, "deleted": before, "games": dropped})
    control.record_version(newest.facts["replay"]["version"])
    appender = Appender(url, identity.run_id, actor=0, epoch=epoch, incarnation=0)
    records = enumerate(zip(sizes, log.iterate(), strict=True))
    _append(appender, (EncodedGame(sequence, rows, data) for sequence, (rows, data) in records))
    boot = client.hget(keys.control, "boot").decode()
    for checkpoint in checkpoints:
        facts = checkpoint.facts
        number = len(sizes) - (newest.facts["local"]["games"] - facts["local"]["games"])
        replay = {name: facts["replay"].get(name, 0) for name in COUNTERS}
        replay |= {name: facts["replay"][name] for name in SETTINGS if name in facts["replay"]}
        replay |= {"state": STATE, "boot": boot, "number": max(0, number), "counted": replay["inserted"]}
        if checkpoint is newest:
            # Finished games of a turn that was not completed are new ones for the learner.
            turn = [decode_record(data) for records in msgpack.unpackb(checkpoint.extra["turn"]) for data in records]
            _append(appender, (EncodedGame.of(record)._replace(sequence=len(sizes) + index)
                               for index, record in enumerate(turn)))
        _rewrite(directory, checkpoint, {"replay": replay, "local": None, "steps_left": 0}, {})
    log.close()
    appender.close()
    control.close()
    log_line(f"{len(sizes):,} games of `shusaku local` were copied into Redis; its open games begin anew")


def move_to_log(directory: Path, config: Config, game: Game, log_line: Callable[[str], None]) -> None:
    """Lets one process go on with a run of a cluster: its games are in the record log then.

    UsageError if the games lie in a Redis that cannot be reached.
    """
    if is_of_one_process(directory) is not False:
        return
    if config.dataset.records:
        local = {"epoch": 0, "records": [0, 0], "games": 0, "rows_left": [], "sequences": []}
        _without_games(directory, {"local": local}, {"turn": msgpack.packb([])})
        return
    with ExitStack() as stack:
        url = config.replay.url
        if not url:
            if not (directory / "redis").is_dir():
                raise UsageError(f"run.dir={directory}: its games lie in a Redis of yours; give the replay.url of that,"
                                 " or choose another run.dir")
            server = EmbeddedServer(directory / "redis", max_megabytes=config.replay.megabytes)
            server.start()
            stack.callback(server.stop)
            url = server.url
        games = _copy_to_log(directory, config, game, url)
        log_line(f"{games:,} games were copied from Redis into the record log")


def _without_games(directory: Path, facts: dict[str, Any], files: dict[str, bytes]) -> None:
    """A run that learns from finished games has none of its own to copy: its checkpoints get the other form alone."""
    for checkpoint in _checkpoints(directory, is_local="turn" not in files):
        _rewrite(directory, checkpoint, facts, files)


def _copy_to_log(directory: Path, config: Config, game: Game, url: str) -> int:
    """The number of games that were copied."""
    identity = RunIdentity.of(directory)
    checkpoints = _checkpoints(directory, is_local=False)
    newest = checkpoints[-1]
    # The buffer of the learner counts the games that came after the checkpoint, and puts invalid ones aside.
    buffer = RedisBuffer(game, config.replay, url=url, run_id=identity.run_id, batch_size=config.learner.batch_size,
                         limited=config.learner.enabled, background=False)
    buffer.restore(newest.facts["replay"])
    state = {name: buffer.state()[name] for name in (*COUNTERS, *SETTINGS)}
    buffer.close()
    control = RedisControl(url, identity.run_id)
    epoch = identity.next_epoch(control.newest_epoch())
    counters = control.counters()
    control.close()
    log = RecordLog(directory / "records")
    log.truncate_to(LogPosition(0, 0))
    marks = {checkpoint.facts["replay"]["number"] for checkpoint in checkpoints}
    positions: dict[int, LogPosition] = {}
    copied = 0
    for number, data in _entries(url, identity.run_id):
        copied += 1
        positions |= {mark: log.position() for mark in marks if mark < number and mark not in positions}
        log.append([data])
    end = log.sync()
    log.close()
    for checkpoint in checkpoints:
        own = checkpoint.facts["replay"]
        is_newest = checkpoint is newest
        games = counters.get("games", 0) - (0 if is_newest else counters.get("number", 0) - own["number"])
        position = end if is_newest else positions.get(own["number"], end)
        replay = state if is_newest else {name: own.get(name, 0) for name in state}
        _rewrite(directory, checkpoint, {
            "replay": {**replay, "state": STATE, "seen": []},
            "local": {"epoch": epoch, "records": list(position), "games": games, "rows_left": [], "sequences": []},
        }, {"turn": msgpack.packb([])})
    return copied


def _checkpoints(directory: Path, *, is_local: bool) -> list[Checkpoint]:
    """The whole ones of this wiring, oldest first."""
    found = [found.checkpoint for found in whole_checkpoints(directory / "checkpoints")]
    return [checkpoint for checkpoint in reversed(found) if (checkpoint.facts["local"] is not None) == is_local]


def _append(appender: Appender, games: Iterator[EncodedGame]) -> None:
    """RunError if the server does not take them: the checkpoints still name the record log then."""
    while chunk := list(islice(games, MAX_GAMES)):
        status = appender.append(chunk).status
        if status is not AppendStatus.DONE:
            raise RunError(f"the games of the record log were not taken by Redis ({status.name}): another driver of "
                           "this run has begun there, or Redis has lost its data; stop the other one, and start again")


def _entries(url: str, run_id: str) -> Iterator[tuple[int, bytes]]:
    """Number and encoded record of each game of the stream, oldest first."""
    client: Any = connect(url)
    start = "-"
    while page := client.xrange(RunKeys.of(run_id).games, start, "+", count=PAGE):
        for name, fields in page:
            yield int(name.partition(b"-")[0]), fields[b"d"]
        start = f"({page[-1][0].decode()}"


def _rewrite(directory: Path, checkpoint: Checkpoint, facts: dict[str, Any], files: dict[str, bytes]) -> None:
    changed = replace(checkpoint, facts={**checkpoint.facts, **facts}, extra=files)
    write_checkpoint(directory / "checkpoints", changed)
