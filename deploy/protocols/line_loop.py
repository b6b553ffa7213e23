"""Lines in, lines out: what stands between an engine, which has no input and output of its own, and its pipes."""

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

MAX_LINE = 1 << 20  # bytes; a game of a thousand moves takes six thousand
CHUNK = 1 << 16  # bytes that are read at once
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
        """Reads a descriptor of its own for `pipe`, and leaves its buffer alone.

        A thread that waits in the buffer's `readline` keeps its lock, and Python aborts if it ends meanwhile.  Once
        `pipe` is closed, the next file that is opened gets its number: reading on would take what belongs to that.
        """
        self._descriptor = os.dup(pipe.fileno())
        self._lines: queue.Queue[str | None] = queue.Queue(WAITING_LINES)
        threading.Thread(target=self._read, name="lines", daemon=True).start()

    def next(self, seconds: float | None) -> str | None:
        """The next line, without its end; None at the end of the input.  queue.Empty if none came in time."""
        return self._lines.get(timeout=seconds)

    def _read(self) -> None:
        begun, is_too_long = bytearray(), False  # the line that has not ended yet
        with contextlib.suppress(OSError):  # a terminal that is gone
            while chunk := os.read(self._descriptor, CHUNK):
                *ends, begin = chunk.split(b"\n")
                for end in ends:
                    begun += end
                    if not is_too_long and len(begun) < MAX_LINE:
                        self._put(begun)
                    begun, is_too_long = bytearray(), False
                begun += begin
                if len(begun) >= MAX_LINE:  # no command is so long: dropped as a whole
                    begun, is_too_long = bytearray(), True
        os.close(self._descriptor)
        if begun and not is_too_long:
            self._put(begun)
        self._lines.put(None)

    def _put(self, line: bytearray) -> None:
        self._lines.put(line.decode("utf-8", errors="replace").rstrip("\r"))


def serve(engine: Engine, reader: LineReader, *, finishes: bool = False) -> None:
    """Gives the engine its lines until it quits or the input ends.

    `finishes`: at the end of the input it goes on until it is no longer busy.
    """
    try:
        while True:
            try:
                line = reader.next(POLL_S if engine.is_busy else None)
            except queue.Empty:
                engine.advance()
                continue
            if line is None or not engine.receive(line):
                break
            engine.advance()
        while finishes and engine.is_busy:
            engine.advance()
            time.sleep(POLL_S)
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
