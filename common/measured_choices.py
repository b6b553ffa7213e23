"""Answers of measurements, kept between processes: one JSON object, key -> answer.

Where the file is lost or damaged, or cannot be written, the measurement is made again.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shusaku.common.durable_files import write_atomically

CORE_LOOPS = 3  # one more when the core's networks become faster, so that what they are measured against is asked again
MOST_KEPT = 200  # answers of a file; the oldest goes first
WORTH = 1.03  # times the rate of the usual one: less is within the noise


@dataclass(frozen=True)
class MeasuredChoice:
    """One of several ways to compute the same, and the measurement behind it."""

    name: str
    rates: Mapping[str, float]  # of each way that was measured, in `unit`
    measured_on: str  # a date
    unit: str
    left_out: str = ""  # why a way was not measured

    def __str__(self) -> str:
        others = ", ".join(f"{name} {rate:,.0f}" for name, rate in self.rates.items())
        left_out = f"; {self.left_out}" if self.left_out else ""
        return f"{self.name}, by {self.unit} ({others}{left_out}; measured on {self.measured_on})"


def choose_fastest(
    rates: Mapping[str, float], usual: str, unit: str, *, left_out: str = "", now: datetime | None = None
) -> MeasuredChoice:
    """The one with the highest rate; `usual` unless another is worth it."""
    fastest = max(rates, key=lambda name: rates[name])
    name = fastest if rates[fastest] > WORTH * rates.get(usual, 0.0) else usual
    return MeasuredChoice(name, rates, f"{now or datetime.now(UTC):%Y-%m-%d}", unit, left_out)


def user_cache(file: str) -> Path:
    """The place of such a file for all runs of a user (XDG Base Directory Specification)."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # as it is for a user without a home
    return Path(folder) / "shusaku" / file


def key_of(*parts: object) -> str:
    """A key for all that a measurement depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def find_choice(path: Path, key: str) -> MeasuredChoice | None:
    """The answer under this key; None if there is none that can be read."""
    try:
        choice = MeasuredChoice(**_read(path).get(key, {}))
        return choice if choice.name in choice.rates and str(choice) else None
    except (AttributeError, TypeError, ValueError):
        return None


def keep_choice(path: Path, key: str, choice: MeasuredChoice, *, replaces: bool = True) -> MeasuredChoice:
    """Writes the answer under this key, and returns the one that counts: without `replaces` an earlier one.

    Several processes may measure at once; what one of them writes is lost to none.  If the disk refuses, each has its
    own answer.
    """
    with contextlib.suppress(OSError):  # no home, or a full disk: the next process measures again
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            if not replaces and (earlier := find_choice(path, key)) is not None:
                return earlier
            kept = _read(path)
            kept.pop(key, None)  # the newest stands last
            newest = list(kept.items())[-(MOST_KEPT - 1):]
            write_atomically(path, json.dumps(dict([*newest, (key, asdict(choice))])).encode())
    return choice


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """By the folder itself, so that no file is left in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
