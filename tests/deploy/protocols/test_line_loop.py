"""Lines reach an engine one by one, while it searches too, and what libraries print stays off its output."""

import os
import subprocess
import sys
import threading
from typing import BinaryIO

import pytest

from shusaku.deploy.protocols.line_loop import MAX_LINE, LineReader, serve


class Recorder:
    """Busy from `go` to the third `advance` after it."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.left = 0
        self.has_ended = False

    @property
    def is_busy(self) -> bool:
        return self.left > 0

    def receive(self, line: str) -> bool:
        self.heard.append(line)
        self.left = 3 if line == "go" else self.left
        return line != "quit"

    def advance(self) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                self.heard.append("(done)")

    def end(self) -> None:
        self.has_ended = True


def pipe() -> tuple[BinaryIO, BinaryIO]:
    ours, theirs = os.pipe()
    return os.fdopen(ours, "rb"), os.fdopen(theirs, "wb")


def serve_bytes(data: bytes) -> Recorder:
    source, sink = pipe()
    engine = Recorder()
    writer = threading.Thread(target=lambda: (sink.write(data), sink.close()))
    writer.start()
    serve(engine, LineReader(source))
    writer.join()
    source.close()
    return engine


@pytest.mark.parametrize(("data", "heard"), [
    (b"a\nb\r\n\nquit\nc\n", ["a", "b", "", "quit"]),
    (b"a\nlast without an end", ["a", "last without an end"]),
    (b"\xff\xfe\x00\n", ["��\x00"]),
    (b"x" * (3 * MAX_LINE) + b"\nb\n", ["b"]),
    (b"x" * MAX_LINE + b"\nb\n", ["b"]),
    (b"", []),
], ids=["quit", "no end", "bytes", "too long", "just too long", "nothing"])
def test_lines(data: bytes, heard: list[str]) -> None:
    engine = serve_bytes(data)
    assert engine.heard == heard
    assert engine.has_ended


def test_a_reader_takes_nothing_of_the_file_that_gets_the_number_of_a_closed_pipe() -> None:
    source, sink = pipe()
    reader, number = LineReader(source), source.fileno()
    source.close()
    other, other_sink = pipe()
    assert other.fileno() == number
    with other, other_sink:
        sink.write(b"ours\n")
        sink.flush()
        assert reader.next(10) == "ours"
        other_sink.write(b"theirs\n")
        other_sink.close()
        sink.close()
        assert reader.next(10) is None
        assert other.read() == b"theirs\n"


def test_a_busy_engine_goes_on_without_lines() -> None:
    source, sink = pipe()
    engine = Recorder()
    thread = threading.Thread(target=serve, args=(engine, LineReader(source)))
    thread.start()
    sink.write(b"go\n")
    sink.flush()
    for _ in range(1000):
        if "(done)" in engine.heard:
            break
        thread.join(0.01)
    sink.close()
    thread.join(10)
    source.close()
    assert engine.heard == ["go", "(done)"]


def test_only_the_protocol_is_on_stdout() -> None:
    script = ("import os, subprocess\nfrom shusaku.deploy.protocols.line_loop import protocol_output\n"
              "with protocol_output() as say:\n    print('noise')\n    os.write(1, b'noise')\n"
              "    subprocess.run(['echo', 'noise'])\n    say('ok é')\nprint('after')\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().split("\n") == ["ok é", "after", ""]
    assert done.stderr.count(b"noise") == 3
