"""Files of JSON lines, one object each, which are only appended to."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from shusaku.common.durable_files import write_atomically

Object = dict[str, Any]


def read_json_lines(path: Path) -> Iterator[Object]:
    """The objects of the file in their order, without a torn last line and damaged ones; none if there is no file."""
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            content = _parse(line)
            if content is not None:
                yield content


def append_json_line(path: Path, content: Object) -> None:
    """Appends a line; OSError if the disk refuses."""
    append_line(path, json.dumps(content))


def append_line(path: Path, line: str) -> None:
    """The same with a line that was made before.

    What a kill or a full disk has left of another one becomes a damaged line of its own.
    """
    with path.open("a+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(line.encode() + b"\n")


def heal_json_lines(path: Path, judge: Callable[[list[Object]], list[bool]] = lambda lines: [True] * len(lines)) -> int:
    """Drops a line that a kill has torn, and moves damaged lines to `<path>.damaged`; returns the number of these.

    `judge` says of each object whether it is good.
    """
    if not path.exists():
        return 0
    *lines, torn = path.read_bytes().split(b"\n")
    objects = [_parse(line) for line in lines]
    verdicts = iter(judge([content for content in objects if content is not None]))
    good: list[bytes] = []
    damaged = [torn] if b"\0" in torn else []
    for line, content in zip(lines, objects, strict=True):
        (good if content is not None and next(verdicts) else damaged).append(line)
    if damaged:
        with path.with_name(f"{path.name}.damaged").open("ab") as file:
            file.write(b"".join(line + b"\n" for line in damaged))
    if damaged or torn:
        write_atomically(path, b"".join(line + b"\n" for line in good))
    return len(damaged)


def _parse(line: bytes) -> Object | None:
    try:
        content = json.loads(line.decode())
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
