"""One engine process that speaks the Go Text Protocol, version 2, and everything that can go wrong with it.

No threads: while an answer is awaited, stdout and stderr are read together, so neither fills up, and the wait ends with
the answer, the time limit, the engine's death, or too much output.  The engine leads a process group of its own, which
is killed as a whole at the end.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from actors.strength import Stopped
from common.errors import UsageError

FAULTS = ("crash", "timeout", "garbage", "illegal_move", "refusal")  # kinds; a refusal is of a legal move of ours
MAX_ANSWER = 1 << 16  # bytes
KEPT_STDERR = 4096  # last bytes that a message may quote
SHOWN = 200  # characters that it does
SLICE_SECONDS = 0.1  # between looks at `should_stop`
QUIT_SECONDS = 1.0  # that an engine has to leave by itself


class EngineFault(Exception):
    """The engine cannot go on; it lost its game."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind  # one of FAULTS


class Refused(Exception):
    """The engine answered `?`: it will not do this, and lives on."""


class GtpEngine:
    """Asks one thing at a time.  One thread at a time uses it."""

    def __init__(self, command: Sequence[str], should_stop: Callable[[], bool] = lambda: False) -> None:
        """UsageError when the program is not to be had."""
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
        self._answer = b""  # what came on stdout and is not consumed
        self._errors = b""  # the end of what came on stderr

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, command: str, seconds: float) -> str:
        """The text of the answer, without its `=`.

        Refused with the text behind `?`; EngineFault when it dies, takes longer, or says what no answer is; Stopped
        when the match is.
        """
        self._read(0.0)
        if self._answer.strip():
            raise EngineFault("garbage", f"said {_shown(self._answer)} before it was asked to {command}")
        deadline = time.monotonic() + seconds
        try:
            self._stdin.write(command.encode() + b"\n")
        except OSError:
            raise self._crash(command) from None
        return self._parse(command, self._await_answer(command, seconds, deadline))

    def close(self, at_once: bool = False) -> None:
        """Asks it to quit, unless `at_once`; then ends it and whatever it started, and waits for it."""
        if not at_once:
            with contextlib.suppress(OSError):
                self._stdin.write(b"quit\n")
        self._stdin.close()
        if not at_once:
            self._await_exit(QUIT_SECONDS)
        # Not reaped yet, so its number still belongs to it and to its group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._stdout.close()
        self._stderr.close()

    def _await_answer(self, command: str, seconds: float, deadline: float) -> bytes:
        """Everything up to the empty line that ends an answer."""
        while True:
            text = self._answer.replace(b"\r", b"").lstrip(b"\n")
            if text and text[:1] not in b"=?":
                raise EngineFault("garbage", f"answered {_shown(text)} to {command}; an answer begins with = or ?")
            answer, end, rest = text.partition(b"\n\n")
            if end:
                self._answer = rest
                return answer
            if len(text) > MAX_ANSWER:
                raise EngineFault("garbage", f"answered {command} with more than {MAX_ANSWER:,} bytes: {_shown(text)}")
            if self._stdout.fileno() not in self._open:
                raise self._crash(command)
            left = deadline - time.monotonic()
            if left <= 0:
                said = f", only {_shown(text)} without the empty line that ends an answer" if text else ""
                raise EngineFault("timeout", f"no answer to {command} within {seconds:g} s{said}{self._last_words()}")
            if self._should_stop():
                raise Stopped(f"the match was stopped while an engine was asked to {command}")
            if not self._read(min(left, SLICE_SECONDS)) and self._exit_status():
                raise self._crash(command)  # though a child of it holds its output open

    def _parse(self, command: str, answer: bytes) -> str:
        status, text = answer[:1], answer[1:].decode(errors="replace").strip()
        if status == b"?":
            raise Refused(text or "no reason given")
        return text

    def _read(self, seconds: float) -> bool:
        """Takes what is there, or comes within the time; whether anything did."""
        ready = select.select(list(self._open), [], [], seconds)[0] if self._open else []
        for descriptor in ready:
            try:
                data = os.read(descriptor, MAX_ANSWER)
            except BlockingIOError:
                continue
            if not data:
                self._open.discard(descriptor)
            elif descriptor == self._stdout.fileno():
                self._answer += data
            else:
                self._errors = (self._errors + data)[-KEPT_STDERR:]
        return bool(ready)

    def _crash(self, command: str) -> EngineFault:
        """What to say of an engine that is gone, or has closed its output."""
        status = self._await_exit(SLICE_SECONDS)
        for _ in range(64):  # its last words; a child of it may speak for ever
            if not self._open or not self._read(0.0):
                break
        return EngineFault("crash", f"{status} when asked to {command}{self._last_words()}")

    def _await_exit(self, seconds: float) -> str:
        """How it ended within the time, in words."""
        deadline = time.monotonic() + seconds
        while not (status := self._exit_status()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return status or "closed its output"

    def _exit_status(self) -> str:
        """How it ended, empty while it lives.  It stays a zombie, so that its number is not given to anybody else."""
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


def _shown(data: bytes) -> str:
    text = data.decode(errors="replace").strip()
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
