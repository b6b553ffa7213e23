"""A folder or tar file of files with a manifest that holds the SHA-256 of each; refused if a single bit differs."""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from shusaku.common.durable_files import sync_directory, write_durably
from shusaku.common.errors import UsageError

FORMAT = 1
MANIFEST = "manifest.json"
CHUNK = 1 << 20


class ArchiveWriter:
    """Collects files under a temporary name; `finish` gives them their own."""

    def __init__(self, target: Path) -> None:
        """`target` is a folder, or a file if it ends in .tar; UsageError if it exists or cannot be made."""
        self.target = target
        self.folder = target.with_name(f".{target.name}.{os.getpid()}.part")
        self._files: dict[str, dict[str, Any]] = {}
        if target.exists():
            raise UsageError(f"to={target}: exists; choose another name")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700)
        except OSError as error:
            raise UsageError(f"to={target}: {error.strerror}; choose a place that can be written") from None

    def copy(self, name: str, source: Path, length: int | None = None) -> str:
        """Adds the first `length` bytes of a file, None: all; returns their SHA-256.  OSError if it has fewer."""
        path = self._path(name)
        digest, left = hashlib.sha256(), length
        with source.open("rb") as reading, path.open("wb") as writing:
            while data := reading.read(CHUNK if left is None else min(CHUNK, left)):
                digest.update(data)
                writing.write(data)
                left = None if left is None else left - len(data)
            writing.flush()
            os.fsync(writing.fileno())
        if left:
            raise OSError(f"{source} has {left:,} bytes less than {length:,}")
        return self._note(name, path.stat().st_size, digest.hexdigest())

    def add(self, name: str, data: bytes) -> None:
        """Adds a file with this content."""
        write_durably(self._path(name), data)
        self._note(name, len(data), hashlib.sha256(data).hexdigest())

    @contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """A binary file to write piece by piece, by `write`."""
        path, digest = self._path(name), hashlib.sha256()
        with path.open("wb") as file:
            yield _Hashing(file, digest)
            file.flush()
            os.fsync(file.fileno())
        self._note(name, path.stat().st_size, digest.hexdigest())

    def drop(self, folder: str) -> None:
        """Removes what was added below this name."""
        shutil.rmtree(self.folder / folder, ignore_errors=True)
        self._files = {name: entry for name, entry in self._files.items() if not name.startswith(f"{folder}/")}

    def finish(self, facts: dict[str, Any]) -> int:
        """Writes the manifest with these facts, and gives the archive its name; returns its bytes."""
        content = {"format": FORMAT, **facts, "files": dict(sorted(self._files.items()))}
        write_durably(self.folder / MANIFEST, json.dumps(content | {"sha256": _digest(content)}, indent=1).encode())
        sync_directory(self.folder)
        if self.target.suffix == ".tar":
            packed = self.folder.with_suffix(".tar.part")
            with packed.open("wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
                os.fchmod(file.fileno(), 0o600)
                tar.add(self.folder, arcname=".")
                file.flush()
                os.fsync(file.fileno())
            packed.rename(self.target)
            shutil.rmtree(self.folder)
        else:
            self.folder.rename(self.target)
        sync_directory(self.target.parent)
        return sum(int(entry["bytes"]) for entry in self._files.values())

    def abandon(self) -> None:
        """Removes what was written so far."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.with_suffix(".tar.part").unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _note(self, name: str, size: int, digest: str) -> str:
        self._files[name] = {"bytes": size, "sha256": digest}
        return digest


class _Hashing:
    """Writes, and hashes what it writes."""

    def __init__(self, file: Any, digest: Any) -> None:
        self._file, self._digest = file, digest

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)


def unpack(source: Path, folder: Path) -> dict[str, Any]:
    """Copies the files of an archive into `folder`, which must not exist; returns the facts of its manifest.

    UsageError if the archive is missing, of another format, or if a file is missing, added or damaged.
    """
    if not source.exists():
        raise UsageError(f"from={source}: there is no such file or folder")
    folder.mkdir(parents=True, mode=0o700)
    try:
        if source.is_dir():
            shutil.copytree(source, folder, dirs_exist_ok=True, symlinks=True)
        else:
            with tarfile.open(source) as tar:
                tar.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise UsageError(f"from={source}: cannot be read ({error}); use another copy") from None
    facts = _verified(source, folder)
    (folder / MANIFEST).unlink()
    return facts


def _verified(source: Path, folder: Path) -> dict[str, Any]:
    damaged = f"from={source}: it is damaged"
    try:
        content: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        digest, files = content.pop("sha256"), content["files"]
        if content["format"] != FORMAT or digest != _digest(content):
            raise ValueError("it is not what was written")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{damaged}: {MANIFEST}: {error or type(error).__name__}; use another copy") from None
    entries = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    found = {path.relative_to(folder).as_posix() for path in entries}
    for name in sorted(found - {MANIFEST} | set(files)):
        parts = PurePosixPath(name).parts
        path = folder / name
        if ".." in parts or name.startswith("/") or path.is_symlink() or name not in files:
            raise UsageError(f"{damaged}: {name} does not belong there; use another copy")
        if name not in found:
            raise UsageError(f"{damaged}: {name} is missing; use another copy")
        if path.stat().st_size != files[name]["bytes"] or _sha256(path) != files[name]["sha256"]:
            raise UsageError(f"{damaged}: {name} differs from what was written; use another copy")
    return content


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
