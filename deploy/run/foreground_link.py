"""The line between a command and the foreground process in front of it (`deploy.cli.foreground`).

The command says how a signal should end it, and the foreground process holds it to that.  Without a foreground process,
as in tests that call a command in their own process, nothing is said and nothing is held.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any


class Ending(StrEnum):
    """How a signal ends the command now."""

    AT_ONCE = "at once"  # there is nothing to bring to an end: every process is killed
    IN_ORDER = "in order"  # within 5 s
    WITH_CHECKPOINT = "with a checkpoint"  # within 25 s


class ForegroundLink:
    """The command's end of the line; all of it is harmless without a foreground process."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.ending = Ending.IN_ORDER  # what `expect` said last
        self._print: Callable[[str], None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether a foreground process counts the signals, and ends this process by force at the second one."""
        return self._socket is not None

    def connect(self, end: socket.socket) -> None:
        """Uses the end of a socket pair whose other end the foreground process has."""
        self._socket = end
        threading.Thread(target=self._listen, name="foreground", daemon=True).start()

    def expect(self, ending: Ending) -> None:
        """From now on a signal ends the command like this."""
        self.ending = ending
        self._tell(ending=ending.value)

    @contextlib.contextmanager
    def expecting(self, ending: Ending) -> Iterator[None]:
        """Within it, a signal ends the command like this."""
        before = self.ending
        self.expect(ending)
        try:
            yield
        finally:
            self.expect(before)

    def print_with(self, write: Callable[[str], None] | None) -> None:
        """While a block is redrawn in the terminal, lines of the foreground process go through `write`; None ends it.

        `write` is called by another thread.
        """
        self._print = write
        self._tell(prints=write is not None)

    def say_last_words(self, reason: str, seconds: float) -> None:
        """This process ends within so many seconds, else by force; then this reason is printed.

        This process may be ended before it can print anything itself.
        """
        self._tell(last_words=reason, seconds=seconds)

    def say_how_to_go_on(self, text: str) -> None:
        """What stands behind the reason if the command does not end by itself."""
        self._tell(how_to_go_on=text)

    def depend_on(self, names: dict[int, str]) -> None:
        """Process id -> name of each process without which this one may end at any moment and say nothing."""
        self._tell(depends_on=[[pid, name] for pid, name in names.items()])

    def finish(self, code: int) -> None:
        """The command ends with this exit code."""
        self._tell(code=code)

    def _tell(self, **message: Any) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # the foreground process was killed, and so is this one
                self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _listen(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError), self._socket.makefile(encoding="utf-8") as lines:
            for line in lines:
                write = self._print
                if write is not None:
                    write(json.loads(line)["say"])
                    self._tell(said=True)


LINK = ForegroundLink()  # of this process
