"""Where the URL of a replay server stands if not on the command line: a private file, or the environment.

A command line is shown to every user of the machine and kept in the shell's history, a job's even in Ray's dashboard.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from shusaku.common.config.schema import ReplayConfig
from shusaku.common.errors import UsageError

VARIABLE = "SHUSAKU_REPLAY_URL"
MAX_BYTES = 4096


def with_urls(replay: ReplayConfig, environ: Mapping[str, str] = os.environ) -> ReplayConfig:
    """The section with `url` and `actor_url` from where they stand; UsageError if they stand in two places."""
    for key in ("url", "actor_url"):
        file = getattr(replay, f"{key}_file")
        if file and getattr(replay, key):
            raise UsageError(f"replay.{key}_file={file}: replay.{key} names the server already; leave one of them out")
    url = replay.url or (read_url("replay.url_file", replay.url_file) if replay.url_file else environ.get(VARIABLE, ""))
    actor_url = replay.actor_url or read_url("replay.actor_url_file", replay.actor_url_file)
    return replace(replay, url=url, actor_url=actor_url)


def read_url(key: str, name: str) -> str:
    """The URL in the file; empty for an empty name.  UsageError if the file is not private or holds no URL."""
    if not name:
        return ""
    path = Path(name).expanduser()
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{key}={name}: cannot be read ({error.strerror}); name a file that holds the URL") from None
    if mode & 0o077:
        raise UsageError(f"{key}={name}: other users may read it (mode {mode:o}), and it holds a password: "
                         f"chmod 600 {name}")
    lines = data.decode(errors="replace").split()
    if len(lines) != 1 or len(data) > MAX_BYTES:
        raise UsageError(f"{key}={name}: must hold one URL and nothing else, such as redis://user:password@host:6379/0")
    return lines[0]
