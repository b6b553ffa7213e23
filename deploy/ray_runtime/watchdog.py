"""Ends what is left of a Ray that we started after its driver has ended, in whatever way.

Ray's daemons die with the driver by themselves, but its two agents outlive it for most of a minute, and a worker that
hangs in native code never ends.  So a small process in a session of its own, which no Ctrl-C reaches, holds the read
end of a pipe whose other end only the driver has: when the pipe closes, the driver has ended.

    python -I -S ray_watchdog.py DRIVER_PID GRACE_SECONDS     stdin: the pipe

While Ray starts, the watchdog records Ray's processes.  The driver then writes the session's directory, and from then
on nothing is done until the end.  Imports nothing but the standard library: it starts in 20 ms.
"""

import contextlib
import os
import re
import select
import signal
import sys
import time
from typing import NamedTuple

PATIENCE = 20.0  # seconds after which processes that are left cannot be ended by us
# In the command of Ray's own daemons: they run from its package.  Python itself may lie in a folder `ray`, as in Ray's
# images.
DAEMON = re.compile(r"/(?:site|dist)-packages/ray/")


class Process(NamedTuple):
    """A process, told from a later one with the same number by its start."""

    pid: int
    began: int  # clock ticks after boot


def main(driver: int, grace: float) -> None:
    """Waits for the end of the driver and then ends the processes that it left."""
    recorded: set[Process] = set()
    session = b""
    while True:
        started = session.endswith(b"\n")
        ready, _, _ = select.select([0], [], [], None if started else 0.3)
        if not started:
            recorded |= ray_processes(driver)
        if ready:
            read = os.read(0, 4096)
            if not read:
                break
            session += read
            recorded |= ray_processes(driver)
    end(recorded, session.decode().strip(), grace)


def end(recorded: set[Process], session: str, grace: float) -> None:
    """Gives the processes `grace` seconds to end by themselves and kills those that stay."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        left = (recorded & set(running_processes())) | workers(session)
        if not left:
            return
        if time.monotonic() - began >= grace:
            for process in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.1)


def ray_processes(driver: int) -> set[Process]:
    """Ray's daemons among the driver's children, and all that descend from them."""
    parents = running_processes()
    family = {process for process, parent in parents.items() if parent == driver
              and any(DAEMON.search(word) for word in command_of(process.pid))}
    while True:
        pids = {process.pid for process in family}
        more = {process for process, parent in parents.items() if parent in pids} - family
        if not more:
            return family
        family |= more


def workers(session: str) -> set[Process]:
    """Processes whose output goes into a file of the session, as that of every worker does and of no other process.

    Neither name nor environment identifies them: Ray overwrites both with its titles, and a worker's parent has ended.
    """
    if not session:
        return set()
    return {process for process in running_processes()
            if any(_writes_into(process.pid, number, session) for number in (1, 2))}


def running_processes() -> dict[Process, int]:
    """Every process that has not ended, and its parent's number."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            found.update(_look_up(int(entry.name)))
    return found


def command_of(pid: int) -> list[str]:
    """The words of its command; empty if it ended."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().split("\0")
    except OSError:
        return []


def _look_up(pid: int) -> dict[Process, int]:
    """The process with its parent's number; empty if it ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, parent, *rest = file.read().rpartition(")")[2].split()
    except OSError:
        return {}
    return {} if state in "ZX" else {Process(pid, int(rest[17])): int(parent)}  # proc(5): fields 3, 4 and 22


def _writes_into(pid: int, number: int, session: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{number}").startswith(session + os.sep)
    except OSError:  # it ended, or is another user's
        return False


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
