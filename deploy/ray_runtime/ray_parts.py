"""Notices within a second that a process of Ray on this machine has ended, or that the cluster's head answers no more.

Ray itself takes a minute to notice some of these, and then ends the driver with a line of its own, without an exception
that the driver could handle.  So a thread watches the processes, which Ray's own tables do not show.
"""

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from shusaku.deploy.ray_runtime.probe import host_and_port
from shusaku.deploy.ray_runtime.watchdog import Process, command_of, running_processes
from shusaku.deploy.run.foreground_link import LINK

ASK_S = 2.0  # between two connections to the head of a cluster of others, and the longest wait for one
HEAD_PATIENCE_S = 15.0  # without an answer of that head, after which the run ends; Ray ends the driver after 60
RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"  # of a cluster whose head may be away for longer
RECONNECT_MARGIN_S = 15.0  # of that time, for an orderly end

FIND_S = 2.0  # between two searches for parts,
FOUND_S = 60.0  # after which all have started

VITAL = {  # end of a word of the command -> name; without one of these Ray does not go on
    "/gcs/gcs_server": "GCS server", "/raylet/raylet": "raylet",
    # Children of the raylet, which ends with them; they change their commands when they have started.
    "/dashboard/agent.py": "dashboard agent", "ray::DashboardAgent": "dashboard agent",
    "/runtime_env/agent/main.py": "runtime environment agent", "ray::RuntimeEnvAgent": "runtime environment agent",
}
OTHERS = {
    "/dashboard/dashboard.py": "dashboard", "/_private/log_monitor.py": "log monitor",
    "/_private/monitor.py": "autoscaler's monitor",
}


@dataclass(frozen=True)
class RayPart:
    """A process of Ray on this machine."""

    name: str
    process: Process
    is_vital: bool  # Ray ends without it

    def __str__(self) -> str:
        return f"Ray's {self.name} (process {self.process.pid})"


def find_parts(raylet_socket: str, driver: int) -> list[RayPart]:
    """Ray's processes: children of the driver, the raylet with this socket, and the agents of that raylet."""
    parents = running_processes()
    commands = {process: command_of(process.pid) for process in parents}
    # The oldest: a worker that the raylet has just forked has the raylet's command until it starts its own program.
    alike = (process for process, command in commands.items() if f"--raylet_socket_name={raylet_socket}" in command)
    raylets = {process.pid for process in sorted(alike, key=lambda process: process.began)[:1]}
    found = []
    for process, parent in parents.items():
        if process.pid in raylets or parent in raylets or parent == driver:
            program = [word.rstrip() for word in takewhile(lambda word: word[:2] != "--", commands[process])]
            ends = [end for end in (*VITAL, *OTHERS) if any(word.endswith(end) for word in program)]
            if ends:
                found.append(RayPart({**VITAL, **OTHERS}[ends[0]], process, ends[0] in VITAL))
    return found


class PartsWatch:
    """A thread that waits for the end of a part, and asks the head if that is not one of them."""

    def __init__(
        self, find: Callable[[], list[RayPart]], head: str, on_end: Callable[[str], None],
        notify: Callable[[str], None],
    ) -> None:
        """`find` returns the parts that run; `head`: HOST:PORT of a cluster that others started, else empty.

        `on_end` is called once, with the reason, when Ray has ended; `notify` gets a line for each part that ended and
        was not vital.  Both by the thread.
        """
        self._find, self._head, self._on_end, self._notify = find, head, on_end, notify
        self._parts: dict[int, RayPart] = {}  # by a descriptor of the process
        self._patience = max(HEAD_PATIENCE_S, float(os.environ.get(RECONNECT, "0")) - RECONNECT_MARGIN_S)
        self._began = time.monotonic()
        self._found = float("-inf")  # when parts were searched last
        self._answered = self._asked = self._began  # when the head did so last, and was asked last
        self._closing, self._closed = os.pipe()
        self._thread = threading.Thread(target=self._run, name="ray-parts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; harmless a second time."""
        LINK.depend_on({})
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            os.write(self._closed, b"x")
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._find_more()
            timeout = ASK_S if self._head or time.monotonic() - self._began <= FOUND_S else None
            ready, _, _ = select.select([self._closing, *self._parts], [], [], timeout)
            if self._closing in ready:
                return
            reason = self._take_ended(ready) or self._ask_head()
            if reason:
                self._on_end(reason)
                return

    def _take_ended(self, ready: list[int]) -> str:
        """Why Ray has ended; empty if it goes on."""
        ended = [self._parts.pop(descriptor) for descriptor in ready]
        for descriptor in ready:
            os.close(descriptor)
        vital = [part for part in ended if part.is_vital]
        if vital:
            return f"{vital[-1]} has ended"  # an agent of the raylet, which ends at the same moment
        for part in ended:
            self._notify(f"{part} has ended; the run goes on without it")
        return ""

    def _find_more(self) -> None:
        now = time.monotonic()
        if now - self._found < FIND_S or now - self._began > FOUND_S:
            return
        self._found = now
        known = {part.process for part in self._parts.values()}
        for part in self._find():
            if part.process not in known:
                with contextlib.suppress(OSError):  # it ended just now, or this kernel has no such descriptors
                    self._parts[os.pidfd_open(part.process.pid)] = part
        LINK.depend_on({part.process.pid: str(part) for part in self._parts.values() if part.is_vital})

    def _ask_head(self) -> str:
        """Why the head is given up; empty if there is none to ask, or it answers, or did lately."""
        if not self._head or time.monotonic() - self._asked < ASK_S:
            return ""
        self._asked = time.monotonic()
        try:
            socket.create_connection(host_and_port(self._head), ASK_S).close()
        except OSError as error:
            silent = time.monotonic() - self._answered
            if silent >= self._patience:
                reason = error.strerror or str(error)
                return f"the head of the Ray cluster at {self._head} has not answered for {silent:.0f} s ({reason})"
        else:
            self._answered = time.monotonic()
        return ""
