"""Finished games in record logs that are learned from as they are, without actors: found, counted and split.

A game belongs to one part for ever: a hash of its moves says which.  So the same game is never learned from and
measured with, in whatever order or how often the logs hold it, and a dataset that grows moves no game.
"""

import glob
import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.codec import CodecError, decode_record
from shusaku.common.errors import UsageError
from shusaku.common.messages import GameRecord
from shusaku.replay.record_log import NAME, Damage, Frame, read_frame, read_frames
from shusaku.replay.validation import InvalidRecordError, Quarantine, Validation

PARTS = ("training", "validation", "test")
SHARES = (0.9, 0.05, 0.05)  # of the games, in the order of PARTS
_ENDS = list(accumulate(SHARES[:-1]))


def part_of(record: GameRecord) -> str:
    """The part that a game belongs to."""
    digest = hashlib.blake2b(record.actions.astype("<u2").tobytes(), digest_size=8).digest()
    share = int.from_bytes(digest, "little") / 2**64
    return PARTS[bisect_right(_ENDS, share)]


@dataclass(frozen=True)
class DatasetPart:
    """The games of one part, in the order of the logs; they stay on the disk."""

    game: Game
    files: tuple[Path, ...]
    frames: NDArray[np.int64]  # [G, 3] number of the file, first byte, bytes
    rows: NDArray[np.int64]  # [G] of weight > 0

    def __len__(self) -> int:
        """Games."""
        return len(self.rows)

    def read(self, game: int) -> GameRecord:
        """The game of this number; OSError if the file is gone, CodecError if it has changed."""
        file, begin, length = self.frames[game].tolist()
        return _with_planes_of(self.game, decode_record(read_frame(self.files[file], Frame(begin, length))))


class Dataset:
    """All games that `dataset.records` names."""

    def __init__(self, pattern: str, game: Game) -> None:
        """Reads every game once.

        UsageError if there is none, if they are of another game than `game`, or if a part would be empty.
        """
        self.pattern = pattern
        self.quarantine = Quarantine()
        files = _find_files(pattern)
        found: dict[str, list[tuple[int, int, int, int]]] = {part: [] for part in PARTS}
        validation = Validation(game)
        for number, file in enumerate(files):
            for frame, data in self._read(file):
                try:
                    record = _with_planes_of(game, decode_record(data))
                    validation.check_game(record)
                except CodecError as error:
                    self.quarantine.add(f"format: {error}", data)
                except InvalidRecordError as error:
                    raise UsageError(f"dataset.records={pattern}: {file} holds another game ({str(error)[6:]}); name "
                                     "logs of one game, and that game with game=") from None
                else:
                    rows = int(np.count_nonzero(record.row_weight > 0))
                    if rows:
                        found[part_of(record)].append((number, *frame, rows))
        games = sum(map(len, found.values()))
        if not games:
            damaged = f", {sum(self.quarantine.counts.values()):,} damaged" if self.quarantine.counts else ""
            raise UsageError(f"dataset.records={pattern}: no game can be read{damaged}; make a log of games with "
                             "shusaku records import records.out=DIR")
        for part, entries in found.items():
            if not entries:
                raise UsageError(f"dataset.records={pattern}: of {games:,} games none falls into the part for {part}, "
                                 f"which gets {SHARES[PARTS.index(part)]:.0%}; name more games")
        self._parts = {part: _part(game, tuple(files), entries) for part, entries in found.items()}

    def __getitem__(self, part: str) -> DatasetPart:
        """One of PARTS."""
        return self._parts[part]

    def _read(self, file: Path) -> Iterator[tuple[Frame, bytes]]:
        for item in read_frames(file):
            if isinstance(item, Damage):
                self.quarantine.add(f"damage: {item.path}, byte {item.offset}: {item.reason}", b"")
            else:
                yield item


def _part(game: Game, files: tuple[Path, ...], entries: list[tuple[int, int, int, int]]) -> DatasetPart:
    table = np.array(entries, np.int64)  # [G, 4]
    return DatasetPart(game, files, table[:, :3], table[:, 3])


def _with_planes_of(game: Game, record: GameRecord) -> GameRecord:
    """The record as of this game, whose planes may be others: they are no rule, and a record holds none."""
    if "planes" not in record.params or "planes" not in game.params:
        return record
    return replace(record, params={**record.params, "planes": game.params["planes"]})


def _find_files(pattern: str) -> list[Path]:
    """The segments of all logs that the pattern names, in the order of their names; UsageError if there is none."""
    files: list[Path] = []
    for path in map(Path, sorted(glob.glob(pattern, recursive=True)) or [pattern]):
        if path.is_dir():
            files += sorted(file for file in path.iterdir() if NAME.fullmatch(file.name))
        elif NAME.fullmatch(path.name) and path.is_file():
            files.append(path)
    if not files:
        raise UsageError(f"dataset.records={pattern}: there is no record log; name a directory that holds "
                         "00000001.records, which shusaku records import records.out=DIR makes")
    return files
