"""Answers of measurements, kept between processes: one JSON object, key -> answer.

Where the file is lost or damaged, or cannot be written, the measurement is made again.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shusaku.common.durable_files import write_atomically

MOST_KEPT = 200  # answers of a file; the oldest goes first


def user_cache(file: str) -> Path:
    """The place of such a file for all runs of a user (XDG Base Directory Specification)."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # as it is for a user without a home
    return Path(folder) / "shusaku" / file


def key_of(*parts: object) -> str:
    """A key for all that a measurement depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def find_choice(path: Path, key: str) -> dict[str, Any] | None:
    """The answer under this key; None if there is none."""
    answer = _read(path).get(key)
    return answer if isinstance(answer, dict) else None


def keep_choice(path: Path, key: str, answer: Mapping[str, Any]) -> None:
    """Writes the answer, which JSON must be able to hold; nothing happens if the disk refuses it."""
    kept = dict(list(_read(path).items())[1 - MOST_KEPT:]) | {key: dict(answer)}
    with contextlib.suppress(OSError):  # no home, or a full disk: the next process measures again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(kept).encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
