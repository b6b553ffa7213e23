"""The process that the user starts: it has the terminal and the exit code, and a child of it runs the command.

The child may be in native code for many seconds (imports, a network that compiles), Ray may end it without asking, and
Ray's daemons would get each Ctrl-C of the terminal.  So the command runs in a session of its own.  This process does
nothing else: it answers signals at once, holds the child to its times, ends whatever is left, and gives the exit code.
It is forked before anything is imported, so it costs no time and little memory.  If it is killed, so is the child.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from shusaku.deploy.ray_runtime.watchdog import Process, running_processes
from shusaku.deploy.run.foreground_link import LINK, Ending
from shusaku.deploy.run.stop_signals import exit_code_of, termination_signals

FIRST_LINE_S = 0.6  # after which a command that still runs says that it starts
SAME_SIGNAL_S = 0.25  # `timeout` and others send one signal twice; a second Ctrl-C of a user comes later
NEEDED_S = 0.2  # for the end of a process to be seen that has ended the command
SAY_S = 0.7  # for the command to print a line that we asked it for
END_S = {Ending.AT_ONCE: 0.0, Ending.IN_ORDER: 4.0, Ending.WITH_CHECKPOINT: 23.0}  # until the child is killed
LEAVE_S = 1.0  # for processes that the command left behind
KILL_S = 5.0  # after which a killed process that is still there is in the kernel's hands
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
SHOW_CURSOR = b"\x1b[?25h"  # a block that is redrawn hides it


def run_in_child(work: Callable[[], int], first_line: str = "", to_stderr: bool = False) -> int:
    """Runs `work` in a child; both processes return the exit code from here.

    `first_line` is printed if the command takes long to start.  Must be called before any thread is started.
    """
    ours, theirs = socket.socketpair()
    waker, woken = socket.socketpair()
    for end in (waker, woken):
        end.setblocking(False)
    handled = (signal.SIGINT, *termination_signals(), signal.SIGTSTP, signal.SIGCHLD)
    before = {number: signal.signal(number, lambda *_: None) for number in handled}
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # what the command leaves behind becomes a child of this process
    parent = os.getpid()
    child = os.fork()
    if child:
        theirs.close()
        return Foreground(child, ours, woken, first_line, 2 if to_stderr else 1).wait()
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)
    for end in (ours, waker, woken):
        end.close()
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    LINK.connect(theirs)
    code = 1
    try:
        code = work()
    finally:
        LINK.finish(code)
    return code


class Foreground:
    """The parent's side: what it heard from the child, which signals came, and what follows from both."""

    def __init__(self, child: int, link: socket.socket, woken: socket.socket, first_line: str, output: int) -> None:
        """`woken` gets the number of each signal as a byte; `output` is the descriptor for `first_line`."""
        self._child, self._link, self._woken, self._output = child, link, woken, output
        self._ending = Ending.AT_ONCE  # until the command says something else
        self._prints = False  # whether the child redraws a block in the terminal
        self._unsaid: tuple[float, str] | None = None  # a line that the child should print, and until when
        self._first_line = (time.monotonic() + FIRST_LINE_S, first_line) if first_line else None
        self._last_words = ""  # why the child is about to end, if it knows
        self._how_to_go_on = ""
        self._needed: dict[int, str] = {}  # descriptor -> name of each process that the child depends on
        self._ended: list[str] = []  # names of those that have ended
        self._finished: int | None = None  # the exit code that the child announced
        self._status: int | None = None  # of waitpid
        self._signal: signal.Signals | None = None
        self._signalled = 0.0  # when it came
        self._deadline = float("inf")  # when the child is killed
        self._unread = b""

    def wait(self) -> int:
        """Returns the exit code when the child and all that it started are gone."""
        while self._status is None:
            times = [self._deadline, *(entry[0] for entry in (self._unsaid, self._first_line) if entry)]
            timeout = max(0.0, min(times) - time.monotonic())
            waited: list[Any] = [self._woken, *self._needed]
            if self._link.fileno() >= 0:
                waited.append(self._link)
            ready, _, _ = select.select(waited, [], [], min(timeout, 3600.0))
            if self._link in waited:
                self._read_link()  # first: an orderly child says in time that it no longer depends on others
            for descriptor in ready:
                if descriptor in self._needed:
                    self._ended.append(self._needed.pop(descriptor))
                    os.close(descriptor)
            if self._woken in ready:
                for number in self._woken.recv(4096):
                    self._receive(signal.Signals(number))
            self._check_times()
            self._reap()
        if self._link.fileno() >= 0:
            self._read_link()
        if self._needed and self._finished is None:  # what it depended on may have ended just before it
            for descriptor in select.select(list(self._needed), [], [], NEEDED_S)[0]:
                self._ended.append(self._needed[descriptor])
        is_killed = self._signal is not None and time.monotonic() >= self._deadline
        self._end_rest(0.0 if is_killed else LEAVE_S)
        if self._prints:  # it ended while it redrew its block
            self._write(1, SHOW_CURSOR)
        return self._exit_code()

    # --- the child ---------------------------------------------------------------------------------------------------

    def _read_link(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while read := self._link.recv(65536, socket.MSG_DONTWAIT):
                self._unread += read
            self._link.close()  # the child has ended
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._hear(json.loads(line))

    def _hear(self, message: dict[str, Any]) -> None:
        if "ending" in message:
            self._ending = Ending(message["ending"])
        elif "prints" in message:
            self._prints = message["prints"]
        elif "said" in message:
            self._unsaid = None
        elif "last_words" in message:
            self._last_words = message["last_words"]
            self._deadline = min(self._deadline, time.monotonic() + message["seconds"])
        elif "how_to_go_on" in message:
            self._how_to_go_on = message["how_to_go_on"]
        elif "depends_on" in message:
            self._depend_on(message["depends_on"])
        elif "code" in message:
            self._finished = message["code"]

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self._child:
                    self._status = status
                if pid == 0:
                    return

    def _end_rest(self, grace: float) -> None:
        """Kills what is left of the command, wherever it went, after `grace` seconds."""
        began = time.monotonic()
        while (left := descendants()) and time.monotonic() - began < grace + KILL_S:
            if time.monotonic() - began >= grace:
                send(left, signal.SIGKILL)
            time.sleep(0.02)
            self._reap()

    def _exit_code(self) -> int:
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        if self._signal is not None:
            return 0 if code == 0 else exit_code_of(self._signal)
        if self._finished is not None and not (self._last_words and code != 0):
            return code if code >= 0 else self._finished
        self._print("; ".join(text for text in (self._why_it_ended(code), self._how_to_go_on) if text))
        return 1

    def _why_it_ended(self, code: int) -> str:
        if self._last_words or (self._ended and code != -signal.SIGKILL):
            return self._last_words or f"{self._ended[-1]} has ended"
        memory = " (the kernel does this when memory runs out)" if code == -signal.SIGKILL else ""
        how = f"signal {-code} ({signal.Signals(-code).name}){memory}" if code < 0 else f"exit code {code}"
        return f"the process of the command was ended by {how}, and nothing said why"

    def _depend_on(self, needed: list[tuple[int, str]]) -> None:
        for descriptor in self._needed:
            os.close(descriptor)
        self._needed = {}
        for pid, name in needed:
            with contextlib.suppress(OSError):  # it ended just now, or this kernel has no such descriptors
                self._needed[os.pidfd_open(pid)] = name

    # --- signals -----------------------------------------------------------------------------------------------------

    def _receive(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGTSTP:
            self._suspend()
        elif self._signal is None:
            self._signal, self._signalled = number, time.monotonic()
            self._deadline = min(self._deadline, self._signalled + END_S[self._ending])
            if self._ending is Ending.AT_ONCE:
                self._say(f"{NAMES[number]}: ending")
            else:
                send([self._child], number)
                how = "saving a checkpoint and ending" if self._ending is Ending.WITH_CHECKPOINT else "ending"
                self._say(f"{NAMES[number]}: {how}; a second one ends at once")
        elif time.monotonic() - self._signalled >= SAME_SIGNAL_S and number != signal.SIGHUP:
            self._deadline = time.monotonic()
            self._say(f"{NAMES[number]} again: ending at once")

    def _check_times(self) -> None:
        now = time.monotonic()
        if self._first_line and now >= self._first_line[0]:
            line, self._first_line = self._first_line[1], None
            if self._signal is None:
                self._write(self._output, f"{line}\n".encode())
        if self._unsaid and (now >= self._unsaid[0] or now >= self._deadline):
            line, self._unsaid = self._unsaid[1], None
            self._print(line)
        if now >= self._deadline:
            send([self._child], signal.SIGKILL)  # first, so that it does not see the others go

    def _suspend(self) -> None:
        """Ctrl-Z: all processes of the command stop, and go on when this one does."""
        stopped = descendants()
        send(stopped, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        send(stopped, signal.SIGCONT)

    # --- the terminal ------------------------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        """Prints a line now; above the block that the child redraws, if it does."""
        if not self._prints:
            self._print(line)
            return
        with contextlib.suppress(OSError):
            self._link.send(json.dumps({"say": line}).encode() + b"\n", socket.MSG_DONTWAIT)
        self._unsaid = (time.monotonic() + SAY_S, line)

    def _print(self, line: str) -> None:
        start = "\n" if self._prints else ""
        self._write(2, f"{start}shusaku: {line}\n".encode())

    @staticmethod
    def _write(descriptor: int, data: bytes) -> None:
        """Drops what cannot be written at once: this process waits for no reader."""
        with contextlib.suppress(OSError, ValueError):
            if select.select([], [descriptor], [], 0)[1]:
                os.write(descriptor, data)


def descendants() -> list[int]:
    """Process ids of all that descend from this process, the child's first."""
    parents = running_processes()
    family: list[Process] = []
    pids = {os.getpid()}
    while more := [process for process, parent in parents.items() if parent in pids and process not in family]:
        family += more
        pids = {process.pid for process in more}
    return [process.pid for process in family]


def send(pids: list[int], number: signal.Signals) -> None:
    """Sends a signal to processes, of which some may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def prctl(option: int, value: int) -> None:
    """Sets an option of this process (Linux)."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
