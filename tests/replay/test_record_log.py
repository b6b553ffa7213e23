"""The record log against cuts, flipped bits, full disks and restarts."""

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shusaku.common.codec import MAX_RECORD_BYTES
from shusaku.replay.record_log import LogPosition, RecordLog

GAMES = [bytes([n]) * (n + 1) for n in range(5)]


def filled(directory: Path, segment_bytes: int = 1 << 20) -> LogPosition:
    log = RecordLog(directory, segment_bytes)
    log.append(GAMES)
    position = log.sync()
    log.close()
    return position


def test_records_come_back_in_order(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "records")
    assert log.position() == LogPosition(0, 0)
    assert list(log.iterate()) == []
    log.append(GAMES[:2])
    log.append([])
    log.append(GAMES[2:])
    assert list(log.iterate()) == GAMES
    assert log.damage == []
    assert log.sync() == log.position() == LogPosition(1, 12 + 5 * 8 + 15)
    log.close()
    again = RecordLog(tmp_path / "records")
    assert again.position() == LogPosition(1, 67)
    assert list(again.iterate()) == GAMES


def test_a_resumed_log_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    log = RecordLog(tmp_path)
    log.append(GAMES[:3])
    position = log.sync()
    log.append(GAMES[3:])
    log.close()
    log = RecordLog(tmp_path)
    log.truncate_to(position)
    assert list(log.iterate()) == GAMES[:3]
    log.append([b"new"])
    assert log.position().segment == 2  # never behind what another process wrote
    assert list(log.iterate()) == [*GAMES[:3], b"new"]
    log.truncate_to(LogPosition(0, 0))
    assert list(log.iterate()) == []
    assert list(tmp_path.iterdir()) == []
    log.append([b"first"])
    assert list(log.iterate()) == [b"first"]


def test_segments_are_bounded_and_trimmed(tmp_path: Path) -> None:
    log = RecordLog(tmp_path, segment_bytes=100)
    games = [bytes([n]) * 30 for n in range(20)]
    log.append(games[:7])  # one call may fill several
    for game in games[7:]:
        log.append([game])
    assert all(path.stat().st_size <= 100 + 12 for path in tmp_path.iterdir())
    assert list(log.iterate()) == games
    assert log.segment_holding(0) == log.segment_holding(1) == log.position().segment
    keep = log.segment_holding(5)
    assert log.trim(keep) > 0
    left = list(log.iterate())
    assert left == games[-len(left) :]
    assert 5 <= len(left) <= 7
    assert log.damage == []
    log.trim(10**6)
    assert log.position().segment in {int(path.stem) for path in tmp_path.iterdir()}
    again = RecordLog(tmp_path, segment_bytes=100)
    first = min(int(path.stem) for path in tmp_path.iterdir())
    assert again.segment_holding(1) == first  # nothing is known, so nothing may go
    held = len(list(again.iterate()))
    assert again.segment_holding(held) == first


def test_a_cut_at_every_byte_of_the_last_frame(tmp_path: Path) -> None:
    position = filled(tmp_path)
    path = tmp_path / "00000001.records"
    whole = path.read_bytes()
    last = position.length - (8 + len(GAMES[-1]))
    for length in range(last, position.length):
        path.write_bytes(whole[:length])
        log = RecordLog(tmp_path)
        log.truncate_to(position)
        assert list(log.iterate()) == GAMES[:-1]
        assert [(d.path, d.offset) for d in log.damage] == [(path, last)], length
        log.append([b"next"])  # is read although a damaged place lies before it
        assert list(log.iterate()) == [*GAMES[:-1], b"next"]
        log.truncate_to(LogPosition(1, last))
        assert list(log.iterate()) == GAMES[:-1]
        assert log.damage == []
        log.close()


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    position = filled(tmp_path)
    path = tmp_path / "00000001.records"
    whole = bytearray(path.read_bytes())
    log = RecordLog(tmp_path)
    log.append([b"next"])  # in a segment of its own
    for bit in range(8 * position.length):
        whole[bit // 8] ^= 1 << bit % 8
        path.write_bytes(whole)
        found = list(log.iterate())
        assert found[-1] == b"next"
        assert found[:-1] == GAMES[: len(found) - 1]
        assert len(found) < len(GAMES) + 1
        assert len(log.damage) == 1
        assert log.damage[0].path == path
        assert log.damage[0].offset <= bit // 8
        whole[bit // 8] ^= 1 << bit % 8


def test_missing_segments_are_reported(tmp_path: Path) -> None:
    log = RecordLog(tmp_path, segment_bytes=40)
    log.append(GAMES)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 3
    (tmp_path / names[1]).unlink()
    assert len(list(log.iterate())) < len(GAMES)
    assert [d.path.name for d in log.damage] == [names[1]]
    (tmp_path / names[-1]).unlink()
    list(log.iterate())
    assert {d.path.name for d in log.damage} == {names[1], names[-1]}


@given(junk=st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_arbitrary_files_never_crash(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    directory = tmp_path_factory.mktemp("log")
    (directory / "00000001.records").write_bytes(b"SHUSAKUR\x01\0\0\0" + junk)
    (directory / "00000002.records").write_bytes(junk)
    (directory / "notes.txt").write_bytes(junk)
    log = RecordLog(directory)
    list(log.iterate())
    assert len(log.damage) >= 1
    log.append([b"new"])
    assert list(log.iterate())[-1] == b"new"


@pytest.mark.parametrize("wrong", [b"", b"\0" * (MAX_RECORD_BYTES + 1)], ids=["empty", "too long"])
def test_sizes_are_bounded(tmp_path: Path, wrong: bytes) -> None:
    log = RecordLog(tmp_path)
    with pytest.raises(ValueError, match="it must have 1 to 8,388,608"):
        log.append([b"good", wrong])
    assert list(log.iterate()) == []


@pytest.mark.parametrize("room", range(0, 70, 3))
@pytest.mark.parametrize("segment_bytes", [30, 1 << 20])
def test_a_full_disk_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, segment_bytes: int
) -> None:
    log = RecordLog(tmp_path, segment_bytes)
    log.append(GAMES[:2])
    before = log.position()
    write = os.write
    left = room

    def write_until_full(descriptor: int, data: memoryview) -> int:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, bytes(data[:left]))
        left -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_until_full)
        with pytest.raises(OSError, match="No space left"):
            log.append([*GAMES[2:], b"much" * 10])
    assert log.position() == before
    assert list(log.iterate()) == GAMES[:2]
    assert log.damage == []
    log.append(GAMES[2:])
    assert list(log.iterate()) == GAMES
    assert log.damage == []
    log.close()
    assert list(RecordLog(tmp_path).iterate()) == GAMES


def test_a_failed_clean_up_is_made_good_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RecordLog(tmp_path)
    log.append(GAMES[:2])
    write = os.write

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def write_half(descriptor: int, data: memoryview) -> int:
        write(descriptor, bytes(data[:5]))
        return fail()

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_half)
        patch.setattr(os, "truncate", fail)
        with pytest.raises(OSError, match="Input/output error"):
            log.append(GAMES[2:])
    assert list(log.iterate()) == GAMES[:2]  # the half frame lies beyond the position
    log.append(GAMES[2:])
    assert list(log.iterate()) == GAMES
    assert log.damage == []


class LogMachine(RuleBasedStateMachine):
    """The log against a list: appends, checkpoints, kills, resumes and trims in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.log = RecordLog(Path(self.scratch.name), segment_bytes=64)
        self.games: list[bytes] = []  # all ever appended and not dropped
        self.trimmed = 0  # so many of the oldest are gone
        self.checkpoints: list[tuple[LogPosition, int]] = []  # and the games before each, never fewer than `trimmed`

    @rule(games=st.lists(st.binary(min_size=1, max_size=40), max_size=4))
    def append(self, games: list[bytes]) -> None:
        self.log.append(games)
        self.games += games

    @rule()
    def checkpoint(self) -> None:
        self.checkpoints.append((self.log.sync(), len(self.games)))

    @precondition(lambda self: self.checkpoints)
    @rule(data=st.data(), is_clean=st.booleans())
    def resume(self, data: st.DataObject, is_clean: bool) -> None:
        """From any checkpoint, as after the newer ones were found damaged."""
        index = data.draw(st.integers(0, len(self.checkpoints) - 1))
        position, games = self.checkpoints[index]
        if is_clean:
            self.log.close()
        self.log = RecordLog(Path(self.scratch.name), segment_bytes=64)
        self.log.truncate_to(position)
        self.games = self.games[:games]
        self.checkpoints = self.checkpoints[: index + 1]

    @rule(newest=st.integers(0, 10))
    def trim(self, newest: int) -> None:
        self.read()  # so that the log knows what each segment holds
        self.log.trim(self.log.segment_holding(newest))
        left = self.read()
        assert len(left) >= min(newest, len(self.games) - self.trimmed)
        self.trimmed = len(self.games) - len(left)
        self.checkpoints = [(position, games) for position, games in self.checkpoints if games > self.trimmed]

    def read(self) -> list[bytes]:
        found = list(self.log.iterate())
        assert self.log.damage == []
        return found

    @invariant()
    def holds_what_was_appended(self) -> None:
        assert self.read() == self.games[self.trimmed :]

    def teardown(self) -> None:
        self.log.close()
        self.scratch.cleanup()


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
