"""`shusaku records export|import|check`: games of a run as files of SGF, PGN, KIF, CSA or JSON lines, and back.

Exit codes: 0 every game was taken, 1 some were rejected (the others were taken), 2 nothing could be read or written.
"""

import glob
import hashlib
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from shusaku.common._core import Game, RowRing
from shusaku.common.codec import CodecError, decode_record, encode_record
from shusaku.common.config.schema import Config, GameConfig, RecordsConfig
from shusaku.common.errors import RunError, UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import GameRecord as TrainingRecord
from shusaku.deploy.records.files import RecordWriter, iterate_records, notation_of
from shusaku.deploy.records.game_record import GameRecord, RecordError, Reject
from shusaku.deploy.records.imported_games import FOLDER
from shusaku.deploy.records.training_records import from_training, to_training
from shusaku.deploy.run.change_over import is_of_one_process
from shusaku.deploy.run.composed_config import asked_keys
from shusaku.deploy.run.run_directory import is_running
from shusaku.deploy.run.run_games import games_of_run
from shusaku.deploy.run.saved_config import holds_run, read_config
from shusaku.replay.record_log import RecordLog
from shusaku.replay.validation import InvalidRecordError, Validation

SHOWN = 20  # rejects that are printed
KEPT = 1000  # rejects in the result
BATCH = 256  # games that are stored at once


def run(what: str, config: Config, as_json: bool) -> dict[str, Any]:
    """Prints counts and rejects, and returns them; RunError with the same if a game was rejected."""
    file = config.records.file
    if not file:
        raise UsageError(f"records {what}: records.file= is missing; for example: records.file=games.sgf")
    counts = _Counts()
    {"export": _export, "import": _import, "check": _check}[what](config, counts)
    result = {"what": what, "file": file, **counts.to_json()}
    if not as_json:
        print(f"{file}: {counts.line(what)}")
        for reject in counts.rejects[:SHOWN]:
            print(f"  {reject}")
        if counts.rejected > SHOWN:
            print(f"  and {counts.rejected - SHOWN:,} more; --json lists {KEPT:,}")
    if counts.rejected:
        games = counts.games + counts.duplicates + counts.rejected
        raise RunError(f"{counts.rejected:,} of {games:,} games rejected, first: "
                       f"{counts.rejects[0]}", result)
    return result


class _Item(NamedTuple):
    """A game of a file or of a run."""

    file: str
    number: int  # from 1
    game: GameRecord | Reject

    def reject(self, error: Exception) -> Reject:
        """The game was read, but cannot be taken."""
        return Reject(self.file, self.number, error.ply if isinstance(error, RecordError) else 0, str(error))


class _Counts:
    """What was taken, and what was not."""

    def __init__(self) -> None:
        self.games = self.plies = self.variations = self.cut = self.duplicates = self.rejected = 0
        self.rejects: list[Reject] = []

    def add(self, record: GameRecord) -> None:
        self.games += 1
        self.plies += len(record)
        self.variations += record.variations
        self.cut += record.cut

    def reject(self, reject: Reject) -> None:
        self.rejected += 1
        if len(self.rejects) < KEPT:
            self.rejects.append(reject)

    def to_json(self) -> dict[str, Any]:
        rejects = [{"file": one.file, "game": one.game, "move": one.ply, "reason": one.reason} for one in self.rejects]
        return {"games": self.games, "plies": self.plies, "variations": self.variations, "cut_moves": self.cut,
                "duplicates": self.duplicates, "rejected": self.rejected, "rejects": rejects}

    def line(self, what: str) -> str:
        done = {"export": "written", "import": "imported", "check": "read"}[what]
        left_out = [f"{number:,} {name}" for number, name in
                    ((self.variations, "variations"), (self.cut, "moves behind the end"),
                     (self.duplicates, "games that were there before")) if number]
        return (f"{self.games:,} games of {self.plies:,} plies {done}"
                + (f"; left out: {', '.join(left_out)}" if left_out else "")
                + (f"; {self.rejected:,} games rejected:" if self.rejected else ""))


def _export(config: Config, counts: _Counts) -> None:
    """Writes the games of the run, or of records.source, into records.file."""
    records = config.records
    notation_of(records.file)
    with ExitStack() as stack:
        if records.source:
            items: Iterable[_Item] = _read_files(records.source, "records.source")
            items = deque(items, maxlen=records.games) if records.games else items
        else:
            items = _games_of_run(config, stack)
        writer: RecordWriter | None = None
        for item in items:
            if isinstance(item.game, Reject):
                counts.reject(item.game)
                continue
            if writer is None:
                writer = stack.enter_context(RecordWriter(
                    Path(records.file), item.game.game, comments=records.comments, top=records.moves))
            try:
                writer.write(item.game)
                counts.add(item.game)
            except RecordError as error:
                counts.reject(item.reject(error))
    if writer is None and not counts.rejected:
        place = f"records.source={records.source}" if records.source else f"run.dir={config.run.dir}"
        raise UsageError(f"{place}: holds no game yet; name another one, or play first")


def _games_of_run(config: Config, stack: ExitStack) -> Iterator[_Item]:
    """Those of its window; the server of a cluster's run is reached until the stack closes."""
    directory = Path(config.run.dir)
    if not holds_run(directory):
        raise UsageError(f"run.dir={directory}: holds no run; name a run directory, or files with records.source=")
    data = stack.enter_context(games_of_run(config, config.records.games))
    return (_Item(str(directory), number, _decode(str(directory), number, one))
            for number, one in enumerate(data, start=1))


def _decode(place: str, number: int, data: bytes) -> GameRecord | Reject:
    try:
        return from_training(decode_record(data))
    except (CodecError, RecordError) as error:
        return Reject(place, number, error.ply if isinstance(error, RecordError) else 0, str(error))


def _check(config: Config, counts: _Counts) -> None:
    """Reads records.file; if a game is named, as rows of that game."""
    game = configured_game(config.game) if "game" in asked_keys(config) else None
    taker = None if game is None else _Taker(game, config.records, counts)
    for item in _read_files(config.records.file, "records.file"):
        if isinstance(item.game, Reject):
            counts.reject(item.game)
        elif taker is not None:
            taker.take(item, item.game)
        else:
            counts.add(item.game)


def _import(config: Config, counts: _Counts) -> None:
    """Stores the games in RUN_DIR/imported, from where `shusaku local` takes them."""
    if config.records.out:
        _import_log(config, counts)
        return
    directory = Path(config.run.dir)
    has_run = holds_run(directory)
    if has_run and is_running(directory):
        raise UsageError(f"run.dir={directory}: the run goes on; stop it first")
    if has_run and is_of_one_process(directory) is False:
        raise UsageError(f"run.dir={directory}: a run of `shusaku train` takes no imported games; let `shusaku local` "
                         "learn from them first, in this or a new directory, and go on with train then")
    taker = _Taker(_saved_game(directory) if has_run else configured_game(config.game), config.records, counts)
    waiting: list[bytes] = []
    log: RecordLog | None = None
    for item in _read_files(config.records.file, "records.file"):
        if isinstance(item.game, Reject):
            counts.reject(item.game)
        elif rows := taker.take(item, item.game):
            waiting.append(encode_record(rows))
        if len(waiting) >= BATCH:
            log = _store(log, directory, waiting)
    log = _store(log, directory, waiting)
    if log is not None:
        log.close()


def _import_log(config: Config, counts: _Counts) -> None:
    """Writes the games as a record log, each once; the directory appears when all are in it."""
    out = Path(config.records.out)
    if out.exists():
        raise UsageError(f"records.out={out}: is there already; name a new directory")
    part = out.with_name(f"{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    taker = _Taker(configured_game(config.game), config.records, counts, are_unique=True)
    try:
        log = RecordLog(part)
    except OSError as error:
        raise UsageError(f"records.out={out}: {error.strerror}; name a directory that can be made") from None
    waiting: list[bytes] = []
    for item in _read_files(config.records.file, "records.file"):
        if isinstance(item.game, Reject):
            counts.reject(item.game)
        elif rows := taker.take(item, item.game):
            waiting.append(encode_record(rows))
        if len(waiting) >= BATCH:
            log.append(waiting)
            waiting.clear()
    log.append(waiting)
    log.close()
    if not counts.games:
        shutil.rmtree(part)
        first = f"; first: {counts.rejects[0]}" if counts.rejects else ""
        raise UsageError(f"records.file={config.records.file}: no game can be taken{first}; name other files, or the "
                         "game that they are of with game=")
    part.rename(out)


def _store(log: RecordLog | None, directory: Path, waiting: list[bytes]) -> RecordLog | None:
    """Appends the games to the log, which is made for the first of them."""
    if waiting:
        log = log or RecordLog(directory / FOLDER)
        log.append(waiting)
        waiting.clear()
    return log


class _Taker:
    """Turns games into rows that a run of the game accepts."""

    def __init__(self, game: Game, records: RecordsConfig, counts: _Counts, *, are_unique: bool = False) -> None:
        """`are_unique`: a game that comes again, move by move, is left out."""
        self._game, self._records, self._counts = game, records, counts
        self._seen: set[bytes] | None = set() if are_unique else None
        self._validation = Validation(game)
        self._ring = RowRing(game, game.max_plies)

    def take(self, item: _Item, record: GameRecord) -> TrainingRecord | None:
        """The rows; None, and it is counted, if the run would not accept them, or if they came before."""
        try:
            rows = to_training(record, self._game, number=self._counts.games, weight=self._records.weight,
                               unknown=self._records.unknown, skip=self._records.skip_plies)
            self._validation.encode(rows)
            self._validation.check_game(rows)
            self._ring.append(rows, self._validation.own_komi(rows))
        except (RecordError, InvalidRecordError, ValueError) as error:
            self._counts.reject(item.reject(error))
            return None
        if self._has_come(rows):
            self._counts.duplicates += 1
            return None
        self._counts.add(record)
        return rows

    def _has_come(self, rows: TrainingRecord) -> bool:
        if self._seen is None:
            return False
        moves = hashlib.blake2b(rows.actions.tobytes(), digest_size=16).digest()
        has_come = moves in self._seen
        self._seen.add(moves)
        return has_come


def _saved_game(directory: Path) -> Game:
    """That of the run."""
    saved = read_config(directory)["game"]
    return configured_game(GameConfig(saved["name"], dict(saved.get("params") or {})))


def _read_files(pattern: str, key: str) -> Iterator[_Item]:
    """The games of all files that the pattern names; UsageError if there is none."""
    paths = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))] or [Path(pattern)]
    for path in paths:
        notation_of(path.name)
        if not path.is_file():
            raise UsageError(f"{key}={pattern}: no such file; name a file of games, or a pattern such as '*.sgf'")
    for path in paths:
        for number, game in enumerate(iterate_records(path), start=1):
            yield _Item(str(path), number, game)
