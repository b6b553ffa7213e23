"""The process of an engine: sends a line, reads the answer within a time limit, and reports every fault.

There are no threads: during a wait stdout and stderr are both read, so that neither fills up, and the wait ends with
the answer, the time limit, the engine's death, or too much output.  The engine leads a process group of its own, which
is ended as a whole.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from shusaku.actors.arena.strength import StoppedError
from shusaku.common.errors import UsageError

FAULTS = ("crash", "timeout", "garbage", "illegal_move", "refusal")  # kinds; refusal: the engine rejects a legal move
CHUNK = 1 << 16  # bytes that are read at once
KEPT_STDERR = 4096  # last bytes that a message may quote
SHOWN = 200  # characters that a message quotes
SLICE_SECONDS = 0.1  # between two checks of `should_stop`
QUIT_SECONDS = 1.0  # for an engine to end by itself
TERMINATE_SECONDS = 0.5  # for an engine to end after a SIGTERM

T = TypeVar("T")


class EngineError(Exception):
    """The engine cannot continue and loses its game."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind  # one of FAULTS


class EngineProcess:
    """An engine's process, for every protocol.  One thread at a time uses it."""

    def __init__(self, command: Sequence[str], should_stop: Callable[[], bool] = lambda: False) -> None:
        """UsageError if the program cannot be started."""
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(f"engine {command[0]}: cannot be started ({error.strerror}); name a program that "
                             "can be") from None
        self._should_stop = should_stop
        pipes = self._process.stdin, self._process.stdout, self._process.stderr
        self._stdin, self._stdout, self._stderr = (pipe for pipe in pipes if pipe is not None)
        self._open = {self._stdout.fileno(), self._stderr.fileno()}  # not at their end yet
        for descriptor in (*self._open, self._stdin.fileno()):
            os.set_blocking(descriptor, False)
        self._unread = b""  # bytes of stdout that are not consumed yet
        self._errors = b""  # the last bytes of stderr

    def unread(self) -> bytes:
        """Output that no command has asked for, at most one chunk."""
        self._read(0.0)
        return self._unread

    def send(self, line: str) -> None:
        """Sends a line; EngineError if the engine has ended, or the line does not fit into its full pipe."""
        data = line.encode() + b"\n"
        try:
            written = self._stdin.write(data)
        except OSError:
            raise self._crash(line) from None
        if written != len(data):
            raise EngineError("timeout", f"does not read what it is told, at last {quote(data)}{self._last_words()}")

    def receive(self, command: str, seconds: float, take: Callable[[bytes], tuple[T | None, bytes]], end: str) -> T:
        """Reads until `take` returns an answer.

        `take` gets the output that is not consumed yet and returns an answer (None: not complete yet) and the rest
        that stays unconsumed; it keeps the rest short or raises EngineError.  `command` and `end`, how an answer ends,
        are for messages.  EngineError if the engine dies or takes longer; StoppedError if the match is stopped.
        """
        deadline = time.monotonic() + seconds
        while True:
            answer, self._unread = take(self._unread)
            if answer is not None:
                return answer
            if self._stdout.fileno() not in self._open:
                raise self._crash(command)
            left = deadline - time.monotonic()
            if left <= 0:
                said = f", only {quote(self._unread)} without {end}" if self._unread.strip() else ""
                raise EngineError("timeout", f"no answer to {command} within {seconds:g} s{said}{self._last_words()}")
            if self._should_stop():
                raise StoppedError(f"the match was stopped while an engine was asked to {command}")
            if not self._read(min(left, SLICE_SECONDS)) and self._exit_status():
                raise self._crash(command)  # although a child process holds its output open

    def close(self, at_once: bool = False) -> None:
        """Sends `quit`, then SIGTERM, unless `at_once`; then kills its process group and waits for it."""
        if not at_once:
            with contextlib.suppress(OSError):
                self._stdin.write(b"quit\n")  # in GTP, UCI and USI alike
        self._stdin.close()
        if not at_once and self._await_exit(QUIT_SECONDS) == "":
            self._signal(signal.SIGTERM)
            self._await_exit(TERMINATE_SECONDS)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._stdout.close()
        self._stderr.close()

    def _signal(self, number: signal.Signals) -> None:
        """Signals its process group.  It is not reaped yet, so the number cannot belong to another process."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _read(self, seconds: float) -> bool:
        """Reads what is there or arrives within the time; whether anything did."""
        poll = select.poll()  # select.select knows no descriptor above 1,023
        for descriptor in self._open:
            poll.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(1000 * seconds)] if self._open else []
        for descriptor in ready:
            try:
                data = os.read(descriptor, CHUNK)
            except BlockingIOError:
                continue
            if not data:
                self._open.discard(descriptor)
            elif descriptor == self._stdout.fileno():
                self._unread += data
            else:
                self._errors = (self._errors + data)[-KEPT_STDERR:]
        return bool(ready)

    def _crash(self, command: str) -> EngineError:
        """The fault of an engine that has ended, or has closed its output."""
        status = self._await_exit(SLICE_SECONDS) or "closed its output"
        for _ in range(64):  # its last output; a child process may write for ever
            if not self._open or not self._read(0.0):
                break
        return EngineError("crash", f"{status} when asked to {command}{self._last_words()}")

    def _await_exit(self, seconds: float) -> str:
        """How it ended within the time, as text; empty if it still runs."""
        deadline = time.monotonic() + seconds
        while not (status := self._exit_status()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return status

    def _exit_status(self) -> str:
        """How it ended; empty while it runs.  It stays a zombie, so that its number is not reused."""
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return ""
        if found.si_code == os.CLD_EXITED:
            return f"ended with exit code {found.si_status}"
        names = {int(number): number.name for number in signal.Signals}
        return f"was killed by {names.get(found.si_status, f'signal {found.si_status}')}"

    def _last_words(self) -> str:
        lines = self._errors.decode(errors="replace").split("\n")
        text = " / ".join(line.strip() for line in lines if line.strip())[-SHOWN:]
        return f"; its last words: {text}" if text else ""


def quote(data: bytes) -> str:
    """A quotation for a message, shortened."""
    text = data.decode(errors="replace").strip()
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
