"""The processes below another one, and whether they are gone."""

import time

import psutil

GONE_S = 30.0  # after a kill -9 of the driver


def all_below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it went between the two questions
        return False


def alive(processes: list[psutil.Process]) -> list[str]:
    return [repr(p) for p in processes if is_alive(p)]


def wait_until_gone(processes: list[psutil.Process], seconds: float = GONE_S) -> float:
    """Seconds until none of them is left."""
    began = time.monotonic()
    while alive(processes):
        assert time.monotonic() - began < seconds, alive(processes)
        time.sleep(0.05)
    return time.monotonic() - began
