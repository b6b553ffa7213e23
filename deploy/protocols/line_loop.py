"""Lines in, lines out: what stands between an engine, which has no input and output of its own, and its pipes."""

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

MAX_LINE = 1 << 20  # bytes; a game of a thousand moves takes six thousand
WAITING_LINES = 256  # that are read ahead while the engine is busy; then its client has to wait
POLL_S = 0.004  # between two looks at a search that runs

Say = Callable[[str], None]


class Engine(Protocol):
    """What the loop needs of an engine; all of it is called from one thread."""

    @property
    def is_busy(self) -> bool:
        """Whether `advance` has to be called soon, also without a line."""

    def receive(self, line: str) -> bool:
        """Takes a line without its end; False: the client asked it to quit."""

    def advance(self) -> None:
        """Says what has become known meanwhile."""

    def end(self) -> None:
        """The client is gone or wants no more; ends what runs."""


class LineReader:
    """A thread that reads lines from a pipe, so that an engine hears them while it searches."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._lines: queue.Queue[str | None] = queue.Queue(WAITING_LINES)
        threading.Thread(target=self._read, name="lines", daemon=True).start()

    def next(self, seconds: float | None) -> str | None:
        """The next line, without its end; None at the end of the input.  queue.Empty if none came in time."""
        return self._lines.get(timeout=seconds)

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the pipe was closed under it
            while line := self._pipe.readline(MAX_LINE):
                if not line.endswith(b"\n") and len(line) == MAX_LINE:
                    while (rest := self._pipe.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                        pass
                    continue  # no command is so long: dropped as a whole
                self._lines.put(line.decode("utf-8", errors="replace").rstrip("\r\n"))
        self._lines.put(None)


def serve(engine: Engine, reader: LineReader) -> None:
    """Gives the engine its lines until it quits or the input ends."""
    try:
        while True:
            try:
                line = reader.next(POLL_S if engine.is_busy else None)
            except queue.Empty:
                engine.advance()
                continue
            if line is None or not engine.receive(line):
                return
            engine.advance()
    finally:
        engine.end()


@contextlib.contextmanager
def protocol_output() -> Iterator[Say]:
    """Within it, stdout belongs to the protocol: what anything else prints there goes to stderr.

    Yields the function that says a line, at once; BrokenPipeError if the client is gone.
    """
    sys.stdout.flush()
    owned = os.dup(1)
    os.dup2(2, 1)
    try:
        with open(owned, "w", encoding="utf-8", newline="\n", closefd=False) as pipe, \
                contextlib.redirect_stdout(sys.stderr):

            def say(line: str) -> None:
                pipe.write(f"{line}\n")
                pipe.flush()

            yield say
    finally:
        os.dup2(owned, 1)
        os.close(owned)
