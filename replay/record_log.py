"""The finished games of a run on disk; they refill the window after a restart.

A directory of segments, each at most about 64 MB, so that old games can be dropped by deleting files:

    00000001.records   magic "SHUSAKUR" | format version uint32 | frame | frame | ...
    frame              length uint32 | crc32 uint32 of length and data | data          (little endian)

Only the process that made a segment appends to it: after a restart a new one is begun, so that no new record can lie
behind a damaged frame.
"""

import contextlib
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from shusaku.common.codec import MAX_RECORD_BYTES
from shusaku.common.durable_files import sync_directory

SEGMENT_BYTES = 64 << 20
_HEADER = b"SHUSAKUR" + struct.pack("<I", 1)
_FRAME = struct.Struct("<II")  # length, crc32
_LENGTH = struct.Struct("<I")
NAME = re.compile(r"(\d{8})\.records")  # of a segment


class LogPosition(NamedTuple):
    """An end of the log: all segments before `segment`, and `length` bytes of it.  (0, 0) is the beginning."""

    segment: int
    length: int


class Frame(NamedTuple):
    """Where a record lies in its segment."""

    begin: int  # first byte of the record
    length: int  # bytes


class Damage(NamedTuple):
    """A place that could not be read."""

    path: Path
    offset: int  # bytes from the beginning of the file
    reason: str


class RecordLog:
    """Appends encoded records and reads them back; any thread may call any method.

    Opening reads only the names and sizes of the files.  A call that meets a failure of the disk raises OSError and
    leaves the log as it was before the call.
    """

    def __init__(self, directory: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.directory = directory
        self.damage: list[Damage] = []  # of the last complete `iterate`
        self._segment_bytes = segment_bytes
        self._lock = threading.RLock()
        self._file: int | None = None  # descriptor of the segment that is being written
        self._file_segment = 0  # its number
        self._is_dirty = False  # the file may extend beyond `_end`
        self._games: dict[int, int] = {}  # segment -> number of records known to be in it
        directory.mkdir(parents=True, exist_ok=True)
        last = max(self._segments(), default=0)
        self._end = LogPosition(last, self._path(last).stat().st_size if last else 0)

    def append(self, records: Sequence[bytes]) -> None:
        """Appends all of them or, if OSError is raised, none."""
        for data in records:
            if not 0 < len(data) <= MAX_RECORD_BYTES:
                raise ValueError(f"a record of {len(data):,} bytes; it must have 1 to {MAX_RECORD_BYTES:,}")
        with self._lock:
            before, games_before = self._end, dict(self._games)
            if self._is_dirty:
                self._cut(before)
            try:
                for chunk in self._chunks(records):
                    self._write(chunk)
            except OSError:
                self._games = games_before
                with contextlib.suppress(OSError):  # tried again before the next append
                    self._cut(before)
                raise

    def position(self) -> LogPosition:
        """The end of what was appended; only what the last `sync` returned is surely on the disk."""
        with self._lock:
            return self._end

    def sync(self) -> LogPosition:
        """Forces everything to the disk; returns the position that a checkpoint may name."""
        with self._lock:
            if self._file is not None:
                os.fsync(self._file)
            sync_directory(self.directory)
            return self._end

    def truncate_to(self, position: LogPosition) -> None:
        """Drops what was appended after `position`, such as games that the checkpoint does not contain."""
        with self._lock:
            self._close_file()
            self._games = {segment: n for segment, n in self._games.items() if segment < position.segment}
            self._cut(position)

    def iterate(self) -> Iterator[bytes]:
        """Yields the records, oldest first, up to the end that the log had when the iteration began.

        At the first damaged place of a segment, reading continues with the next segment; afterwards `damage` lists
        those places.  A missing end is damage too.
        """
        with self._lock:
            end = self._end
            segments = [segment for segment in self._segments() if segment <= end.segment]
        numbers = range(min(segments, default=end.segment), end.segment + 1 if end.length else 0)
        gaps = set(numbers) - set(segments)
        damage = [Damage(self._path(segment), 0, "the file is missing") for segment in sorted(gaps)]
        for segment in segments:
            games = 0
            for item in _read_segment(self._path(segment), end.length if segment == end.segment else None):
                if isinstance(item, Damage):
                    damage.append(item)
                else:
                    games += 1
                    yield item
            with self._lock:
                self._games[segment] = max(games, self._games.get(segment, 0))
        self.damage = damage

    def segment_holding(self, newest: int) -> int:
        """The oldest segment that is needed to keep the `newest` records.

        Only records that this process has written or read with `iterate` are counted.
        """
        with self._lock:
            segments = sorted(self._segments(), reverse=True)
            for segment in segments:
                newest -= self._games.get(segment, 0)
                if newest <= 0:
                    return segment
            return min(segments, default=0)

    def trim(self, keep_from_segment: int) -> int:
        """Deletes the segments before that one, but never the one being written; returns how many were deleted."""
        with self._lock:
            old = [segment for segment in self._segments() if segment < min(keep_from_segment, self._end.segment)]
            for segment in sorted(old):
                self._path(segment).unlink()
                self._games.pop(segment, None)
            return len(old)

    def close(self) -> None:
        """Forces what was written to the disk and closes the file."""
        with self._lock:
            if self._file is not None:
                os.fsync(self._file)
            self._close_file()

    def _chunks(self, records: Sequence[bytes]) -> Iterator[list[bytes]]:
        """Groups the records so that each group fits into a segment and is written at once."""
        chunk: list[bytes] = []
        size = 0
        for data in records:
            if chunk and len(_HEADER) + size + _FRAME.size + len(data) > self._segment_bytes:
                yield chunk
                chunk, size = [], 0
            chunk.append(data)
            size += _FRAME.size + len(data)
        if chunk:
            yield chunk

    def _write(self, records: list[bytes]) -> None:
        block = b"".join(_frame(data) + data for data in records)
        if self._file is None or self._end.length + len(block) > self._segment_bytes:
            self._begin_segment()
        assert self._file is not None
        self._is_dirty = True
        _write_all(self._file, block)
        self._is_dirty = False
        segment, length = self._end
        self._end = LogPosition(segment, length + len(block))
        self._games[segment] = self._games.get(segment, 0) + len(records)

    def _begin_segment(self) -> None:
        if self._file is not None:
            os.fsync(self._file)  # so that `sync` has to force only the newest one
            self._close_file()
        segment = self._end.segment + 1
        self._is_dirty = True
        self._file_segment = segment
        self._file = os.open(self._path(segment), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        _write_all(self._file, _HEADER)
        self._end = LogPosition(segment, len(_HEADER))

    def _cut(self, position: LogPosition) -> None:
        """Makes the files end at `position`."""
        self._is_dirty = True
        if self._file_segment != position.segment:
            self._close_file()
        for segment in sorted(self._segments(), reverse=True):
            if segment > position.segment:
                self._path(segment).unlink()
        path = self._path(position.segment)
        if path.exists() and path.stat().st_size > position.length:
            os.truncate(path, position.length)
        self._end = position
        self._is_dirty = False

    def _segments(self) -> list[int]:
        return sorted(int(m[1]) for name in os.listdir(self.directory) if (m := NAME.fullmatch(name)))

    def _path(self, segment: int) -> Path:
        return self.directory / f"{segment:08d}.records"

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class RecordTail:
    """Reads what another process appends to a log, without a lock; begins with the newest FIRST_SEGMENTS segments."""

    FIRST_SEGMENTS = 2

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # Segment -> its first frame's head, end of what was read.
        self._ends: dict[int, tuple[bytes, int]] | None = None

    def read(self) -> Iterator[bytes]:
        """Yields the whole records since the last call; what is being written now comes with a later one."""
        segments = self._segments()
        if self._ends is None:
            self._ends = {number: segments[number] for number in list(segments)[: -self.FIRST_SEGMENTS]}
        self._ends = {number: end for number, end in self._ends.items() if number in segments}
        for number, (head, size) in segments.items():
            known, offset = self._ends.get(number, (head, 0))
            offset = min(offset, size) if known == head else 0  # a resumed run cuts the log, and uses numbers again
            if offset >= size:
                continue
            for item in _read_segment(self._directory / f"{number:08d}.records", None, offset):
                if isinstance(item, Damage):
                    break
                offset = max(offset, len(_HEADER)) + _FRAME.size + len(item)
                self._ends[number] = head, offset
                yield item

    def _segments(self) -> dict[int, tuple[bytes, int]]:
        """Number -> head of the first frame, and size; ascending."""
        found = {}
        with contextlib.suppress(FileNotFoundError):  # no log yet, or a segment that is trimmed just now
            for name in sorted(os.listdir(self._directory)):
                if match := NAME.fullmatch(name):
                    with (self._directory / name).open("rb") as file:
                        file.seek(len(_HEADER))
                        found[int(match[1])] = file.read(_FRAME.size), os.fstat(file.fileno()).st_size
        return found


def read_frames(path: Path) -> Iterator[tuple[Frame, bytes] | Damage]:
    """Yields the records of a segment with their places, and last the damage that ended them."""
    end = len(_HEADER)
    for item in _read_segment(path, None):
        if isinstance(item, Damage):
            yield item
        else:
            begin, end = end + _FRAME.size, end + _FRAME.size + len(item)
            yield Frame(begin, len(item)), item


def read_frame(path: Path, frame: Frame) -> bytes:
    """The record at this place of a segment, as it was when `read_frames` found it; OSError if it is gone."""
    with path.open("rb") as file:
        file.seek(frame.begin)
        return file.read(frame.length)


def _frame(data: bytes) -> bytes:
    return _FRAME.pack(len(data), zlib.crc32(data, zlib.crc32(_LENGTH.pack(len(data)))))


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_segment(path: Path, length: int | None, begin: int = 0) -> Iterator[bytes | Damage]:
    """Yields the records, and last the damage that ended them; `length`: where the file should end, None: anywhere.

    `begin`: where a frame begins, in bytes; 0: the first one.
    """
    try:
        with path.open("rb", buffering=1 << 20) as file:
            size = os.fstat(file.fileno()).st_size
            end = size if length is None else length
            if file.read(len(_HEADER)) != _HEADER:
                yield Damage(path, 0, "no record log of this version")
                return
            offset = max(begin, len(_HEADER))
            file.seek(offset)
            while offset < end:
                head = file.read(_FRAME.size) if offset + _FRAME.size <= min(end, size) else b""
                if len(head) < _FRAME.size:
                    yield Damage(path, offset, f"cut: the file has {size:,} bytes and should have {max(end, size):,}")
                    return
                count, checksum = _FRAME.unpack(head)
                if count > MAX_RECORD_BYTES or offset + _FRAME.size + count > end:
                    yield Damage(path, offset, f"a frame of {count:,} bytes does not fit")
                    return
                data = file.read(count)
                if len(data) < count or zlib.crc32(data, zlib.crc32(head[:4])) != checksum:
                    yield Damage(path, offset, "cut" if len(data) < count else "the checksum differs")
                    return
                yield data
                offset += _FRAME.size + count
    except OSError as error:
        yield Damage(path, 0, f"cannot be read: {error.strerror}")
