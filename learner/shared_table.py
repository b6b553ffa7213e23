"""How the ranks of one host find the memory that they share: rank 0 makes it, the others open it through /proc.

The memory is a Linux memfd without a name, so nothing is left behind.  Ranks on different hosts, in containers that see
different processes, or of different users do not find it; they talk over sockets (`learner.collectives`).
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from shusaku.common import _core

ROW_BYTES = 1 << 20  # of one rank; larger tensors go in parts
_KEY = "shared table"
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # of the kernel: one number for each host and start


def open_table(store: Any, rank: int, size: int, agree: Callable[[int], int]) -> "_core.SharedTable | None":
    """The table of this group; None, at all ranks, if one of them cannot reach it.

    `agree`: the least of the numbers of all ranks.
    """
    if rank == 0:
        descriptor = _make(size)
        store.set(_KEY, "" if descriptor is None else json.dumps(_place(descriptor)))
    else:
        descriptor = _find(store.get(_KEY).decode())
    table = None
    if descriptor is not None:
        with suppress(OSError, RuntimeError):
            table = _core.SharedTable(descriptor, rank, size, ROW_BYTES)
    # All wait here until each has the table, and holds the lock by which the others see it end.
    return table if agree(int(table is not None)) else None


def _make(size: int) -> int | None:
    if not hasattr(_core, "SharedTable"):
        return None
    with suppress(OSError):
        descriptor = os.memfd_create("shusaku-ranks", os.MFD_CLOEXEC)
        try:
            # All of it now: too little memory is an error here, and not a fault later.
            os.posix_fallocate(descriptor, 0, _core.SharedTable.file_bytes(size, ROW_BYTES))
            return descriptor
        except OSError:
            os.close(descriptor)
    return None


def _place(descriptor: int) -> dict[str, Any]:
    facts = os.fstat(descriptor)
    return {"boot": _BOOT.read_text(), "process": os.getpid(), "descriptor": descriptor, "device": facts.st_dev,
            "inode": facts.st_ino, "bytes": facts.st_size}


def _find(text: str) -> int | None:
    """Opens what `_place` describes; None if it is not there, or is another file."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        place = json.loads(text)
        if place["boot"] != _BOOT.read_text():
            return None
        # Without waiting: in another container this may be anything.
        descriptor = os.open(f"/proc/{place['process']}/fd/{place['descriptor']}",
                             os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        facts = os.fstat(descriptor)
        if (facts.st_dev, facts.st_ino, facts.st_size) == (place["device"], place["inode"], place["bytes"]):
            return descriptor
        os.close(descriptor)
    return None
