"""Files that are on the disk when the call returns, whole or not at all."""

import errno
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil

# What a disk answers that is full, beyond its quota, read-only or broken.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)


def write_atomically(path: Path, data: bytes) -> None:
    """Either the whole new file under `path`, on the disk, or the old state; OSError with the temporary removed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write_durably(temporary, data)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # a failed write knows no name
        raise
    sync_directory(path.parent)


def write_privately(path: Path, data: bytes) -> None:
    """As `write_atomically`; the file has mode 0600 from its first byte on."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def remove_leftovers(directory: Path) -> None:
    """Removes what `write_atomically` and `write_privately` had begun in processes that were killed."""
    for part in directory.glob(".*.part"):
        pid = part.name.split(".")[-2]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            part.unlink(missing_ok=True)


def write_durably(path: Path, data: bytes) -> None:
    """Writes a file and waits until the disk has it."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_folder_durably(directory: Path, files: Mapping[str, bytes]) -> None:
    """Writes these files into a directory that is empty, and waits until the disk has all of it.

    The disk is asked for all files at once: one that takes seconds for each takes no longer for many.
    """
    with ExitStack() as stack:
        descriptors = [os.open(directory, os.O_RDONLY)]
        stack.callback(os.close, descriptors[0])
        for name, data in files.items():
            file = stack.enter_context(open(directory / name, "wb"))
            file.write(data)
            file.flush()
            descriptors.append(file.fileno())
        pool = stack.enter_context(ThreadPoolExecutor(len(descriptors), thread_name_prefix="fsync"))
        list(pool.map(os.fsync, descriptors))


def sync_directory(directory: Path) -> None:
    """Waits until the disk has the directory's entries: a rename is durable only after this (fsync(2))."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
