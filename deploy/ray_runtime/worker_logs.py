"""What a worker wrote last to its error log, for the diagnosis of its death."""

import contextlib
import re
from pathlib import Path

READ_BYTES = 20_000  # of the end of the log
SHOWN_CHARACTERS = 300
CAUSES = (re.compile(r"[\w.]+(Error|Exception)\b"), re.compile(r"Fatal Python error\b"))  # the better one first
HEADER = re.compile(r":(job_id|actor_name|task_name):")  # lines of Ray for its own tools


def last_output(log_directory: str, pid: int) -> str:
    """The line that names the cause, else the last line; empty if this node has no output of such a worker."""
    output = _lines(log_directory, f"worker-*-{pid}.err")
    log = _lines(log_directory, f"python-core-worker-*_{pid}.log")  # has the cause if Ray itself aborts the process
    for cause in CAUSES:
        for lines in (output, log):
            named = [line for line in lines if cause.match(line)]
            if named:
                return named[-1][:SHOWN_CHARACTERS]
    return (output or [""])[-1][:SHOWN_CHARACTERS]


def _lines(log_directory: str, pattern: str) -> list[str]:
    lines: list[str] = []
    for path in Path(log_directory).glob(pattern):
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - READ_BYTES))
            text = file.read().decode(errors="replace")
            lines += [line.strip() for line in text.splitlines() if line.strip() and not HEADER.match(line)]
    return lines
