"""A learner on another machine than the run directory: what it writes goes there, and it goes on from what is there.

    learner's machine                                driver's machine
    a directory of its own  ── RunMirror ──►  RunFiles  ──►  the run directory
       (training loop)        each version, each checkpoint       (checked, then written whole)

No file system is shared.  A checkpoint counts once the run directory has it, so a machine that is lost costs what was
learned since, as a killed process does.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from shusaku.common.durable_files import write_atomically
from shusaku.common.errors import ResumeError
from shusaku.common.json_lines import append_line
from shusaku.learner.checkpoints import (
    FIRST_WEIGHTS,
    WEIGHTS,
    load_latest,
    prune,
    read_files,
    set_damaged_aside,
    write_files,
)
from shusaku.learner.version_index import FILE as VERSIONS
from shusaku.learner.version_index import VersionIndex

CHECKPOINTS = "checkpoints"
SMALL = (VERSIONS, FIRST_WEIGHTS)  # that a learner reads beside the newest checkpoint


class Snapshot(NamedTuple):
    """What a learner goes on from."""

    files: dict[str, bytes]  # path in the run directory -> bytes
    notes: list[str]  # lines for the user: what was damaged


class Files(Protocol):
    """What the machine of the run directory offers; OSError if it does not take something, or does not answer."""

    def read(self) -> Snapshot:
        """Heals the run directory, as a learner there would; ResumeError if all of its checkpoints are damaged."""

    def append_version(self, line: str) -> None:
        """Adds a line to versions.jsonl, unless it is the last one there."""

    def write_checkpoint(self, step: int, files: Mapping[str, bytes]) -> None:
        """Writes the files of a checkpoint, as `read_files` returns them."""

    def write_small(self, name: str, data: bytes) -> None:
        """Writes one of the files beside the checkpoints."""


class RunFiles:
    """`Files` of a run directory on this machine."""

    def __init__(self, directory: Path, keep: int, history_seconds: float) -> None:
        """`keep`, `history_seconds`: which checkpoints stay, see `prune`."""
        self._directory, self._keep, self._history_seconds = directory, keep, history_seconds
        self._damaged_lines = VersionIndex(directory).damaged  # a torn last line is put aside before one is added
        self._last = self._last_line()

    def read(self) -> Snapshot:
        """See `Files`."""
        found = load_latest(self._directory / CHECKPOINTS)
        notes = [f"versions.jsonl: {self._damaged_lines:,} damaged lines were moved to versions.jsonl.damaged"
                 ] if self._damaged_lines else []
        self._damaged_lines = 0
        files = {name: (self._directory / name).read_bytes() for name in SMALL if (self._directory / name).exists()}
        if found is not None:
            notes += [f"damaged and passed over: {line}" for line in found.damaged]
            set_damaged_aside(self._directory / CHECKPOINTS, found)
            files |= {f"{CHECKPOINTS}/{found.path.name}/{name}": data
                      for name, data in read_files(found.path).items()}
        return Snapshot(files, notes)

    def append_version(self, line: str) -> None:
        """See `Files`."""
        if line == self._last:  # the answer to the first call was lost
            return
        append_line(self._directory / VERSIONS, line)
        self._last = line

    def write_checkpoint(self, step: int, files: Mapping[str, bytes]) -> None:
        """See `Files`."""
        directory = self._directory / CHECKPOINTS
        write_files(directory, step, dict(files))
        prune(directory, self._keep, self._history_seconds)

    def write_small(self, name: str, data: bytes) -> None:
        """See `Files`."""
        assert name in (*SMALL, WEIGHTS), name
        write_atomically(self._directory / name, data)
        if name == VERSIONS:
            self._last = self._last_line()

    def _last_line(self) -> str:
        path = self._directory / VERSIONS
        lines = path.read_bytes().splitlines() if path.exists() else []
        return lines[-1].decode("utf-8", errors="replace") if lines else ""


class RunMirror:
    """The learner's side, with a directory of its own that begins as a copy."""

    def __init__(self, files: Files, directory: Path) -> None:
        """Fills the directory, which is empty; OSError if the run directory does not answer."""
        self._files, self._directory = files, directory
        found = files.read()
        self.notes = found.notes  # lines for the user
        for name, data in found.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self._has_first_weights = FIRST_WEIGHTS in found.files

    def append_version(self, line: str) -> None:
        """Before a version is used anywhere."""
        self._files.append_version(line)

    def send_versions(self) -> None:
        """After versions.jsonl was made again."""
        self._files.write_small(VERSIONS, (self._directory / VERSIONS).read_bytes())

    def send_checkpoint(self, path: Path) -> None:
        """Of those of this directory, which keeps no other; the first weights go before the first one."""
        prune(path.parent, 1)
        first = self._directory / FIRST_WEIGHTS
        if not self._has_first_weights and first.exists():
            self._files.write_small(FIRST_WEIGHTS, first.read_bytes())
            self._has_first_weights = True
        try:
            files = read_files(path)
        except ResumeError as error:  # this machine's disk: the run directory is as it was
            raise OSError(str(error)) from None
        self._files.write_checkpoint(int(path.name), files)

    def send_weights(self) -> None:
        """What was published last when the checkpoint was written."""
        self._files.write_small(WEIGHTS, (self._directory / WEIGHTS).read_bytes())
