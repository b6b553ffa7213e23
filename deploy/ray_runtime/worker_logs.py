"""What a worker wrote last to its error log, for the diagnosis of its death."""

import contextlib
import re
from pathlib import Path

READ_BYTES = 20_000  # of the end of the log
SHOWN_CHARACTERS = 300
CAUSE = re.compile(r"([\w.]+(Error|Exception)|Fatal Python error)\b")  # behind it may follow a long stack
HEADER = re.compile(r":(job_id|actor_name|task_name):")  # lines of Ray for its own tools


def last_output(log_directory: str, pid: int) -> str:
    """The line that names the cause, else the last line; empty if this node has no output of such a worker."""
    lines: list[str] = []
    for path in Path(log_directory).glob(f"worker-*-{pid}.err"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - READ_BYTES))
            text = file.read().decode(errors="replace")
            lines += [line.strip() for line in text.splitlines() if line.strip() and not HEADER.match(line)]
    causes = [line for line in lines if CAUSE.match(line)]
    return (causes or lines or [""])[-1][:SHOWN_CHARACTERS]
