"""Whether processes that a test started are gone."""

import time
from collections.abc import Sequence

import psutil


def that_stay(pids: Sequence[int], seconds: float = 5.0) -> list[int]:
    """Those that still run after so long."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def is_running(pid: int) -> bool:
    """A child that was adopted may stay a zombie where nobody reaps; it runs no more."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
