"""A learner on another machine than the run directory: what it writes goes there, and it goes on from what is there.

    learner's machine                                driver's machine
    a directory of its own  ── RunMirror ──►  RunFiles  ──►  the run directory
       (training loop)        each version, each checkpoint       (checked, then written whole)

No file system is shared.  A checkpoint counts once the run directory has it, so a machine that is lost costs what was
learned since, as a killed process does.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from shusaku.common.durable_files import write_atomically
from shusaku.learner.checkpoints import (
    FIRST_WEIGHTS,
    WEIGHTS,
    checkpoint_paths,
    load_latest,
    prune,
    read_files,
    write_files,
)
from shusaku.learner.version_index import FILE as VERSIONS

CHECKPOINTS = "checkpoints"
SMALL = (VERSIONS, FIRST_WEIGHTS)  # that a learner reads beside the newest checkpoint


class Files(Protocol):
    """What the machine of the run directory offers; OSError if it does not take something, or does not answer."""

    def read(self) -> dict[str, bytes]:
        """What a learner goes on from: path in the run directory -> bytes."""

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
        versions = directory / VERSIONS
        self._last = versions.read_text(encoding="utf-8").rpartition("\n")[0].rpartition("\n")[2] if versions.exists(
            ) else ""  # line of that file

    def read(self) -> dict[str, bytes]:
        """See `Files`; ResumeError if there are checkpoints, and none is whole."""
        files = {name: (self._directory / name).read_bytes() for name in SMALL if (self._directory / name).exists()}
        found = load_latest(self._directory / CHECKPOINTS)
        if found is not None:
            files |= {f"{CHECKPOINTS}/{found.path.name}/{name}": data
                      for name, data in read_files(found.path).items()}
        return files

    def append_version(self, line: str) -> None:
        """See `Files`."""
        if line.rstrip("\n") == self._last:  # the answer to the first call was lost
            return
        with (self._directory / VERSIONS).open("a", encoding="utf-8") as file:
            file.write(line)
        self._last = line.rstrip("\n")

    def write_checkpoint(self, step: int, files: Mapping[str, bytes]) -> None:
        """See `Files`."""
        directory = self._directory / CHECKPOINTS
        write_files(directory, step, dict(files))
        prune(directory, self._keep, self._history_seconds)

    def write_small(self, name: str, data: bytes) -> None:
        """See `Files`."""
        assert name in (*SMALL, WEIGHTS), name
        write_atomically(self._directory / name, data)


class RunMirror:
    """The learner's side, with a directory of its own that begins as a copy."""

    def __init__(self, files: Files, directory: Path) -> None:
        """Fills the directory, which is empty; OSError if the run directory does not answer."""
        self._files, self._directory = files, directory
        for name, data in files.read().items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def append_version(self, line: str) -> None:
        """Before a version is used anywhere."""
        self._files.append_version(line)

    def send_versions(self) -> None:
        """After versions.jsonl was made again."""
        self._files.write_small(VERSIONS, (self._directory / VERSIONS).read_bytes())

    def send_checkpoint(self, path: Path) -> None:
        """Of those of this directory; with the first one go the first weights."""
        first = self._directory / FIRST_WEIGHTS
        if len(checkpoint_paths(path.parent)) == 1 and first.exists():
            self._files.write_small(FIRST_WEIGHTS, first.read_bytes())
        self._files.write_checkpoint(int(path.name), read_files(path))

    def send_weights(self) -> None:
        """What was published last when the checkpoint was written."""
        self._files.write_small(WEIGHTS, (self._directory / WEIGHTS).read_bytes())
