"""How many cores other programs of this machine use beside a process and its children (Linux)."""

import os
import threading
import time
from pathlib import Path

import psutil

MOST = 0.2  # cores of others beside which a measurement counts
SECONDS = 2.0  # between two looks


def busy_seconds() -> float:
    """Of processor time of this machine since its start, all cores together; what waits for a disk is not busy.

    On a virtual machine, time that its host gave to others meanwhile ("steal") is gone as well.
    """
    user, nice, system, _, _, irq, softirq, steal = map(float, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class ForeignLoad:
    """A thread that looks at the machine while a process of ours runs."""

    def __init__(self, pid: int | None = None, seconds: float = SECONDS) -> None:
        """`pid`: of the process whose time, with that of all below it, is ours; None: nothing is."""
        self._pid, self._seconds = pid, seconds
        self._began = time.monotonic()
        self._busy = busy_seconds()
        self._own: dict[psutil.Process, float] = {}  # processor seconds of each at the last look
        self._own_total = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foreign-load", daemon=True)
        self._thread.start()

    def finish(self) -> float:
        """The mean number of cores that others have used since the start."""
        self._ended.set()
        self._thread.join()
        self._look()
        seconds, foreign = self.so_far()
        return foreign / seconds

    def so_far(self) -> tuple[float, float]:
        """Seconds since the start, and processor seconds that others have used in them, or we since the last look."""
        return time.monotonic() - self._began, max(0.0, busy_seconds() - self._busy - self._own_total)

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._look()

    def _look(self) -> None:
        if self._pid is None:
            return
        try:
            root = psutil.Process(self._pid)
            family = [root, *root.children(recursive=True)]
        except psutil.Error:
            return
        for process in family:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            used = times.user + times.system  # of children that have ended, too: they were counted while they lived
            self._own_total += used - self._own.get(process, 0.0)
            self._own[process] = used
