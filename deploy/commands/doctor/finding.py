"""What a check of `shusaku doctor` says: one line, and one that tells what to do."""

from dataclasses import asdict, dataclass
from enum import Enum


class Level(Enum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"  # works, with a limit that the user should know
    FAIL = "FAIL"  # a run fails, loses data or is open to others


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    name: str  # of the check: token, modes, ...
    level: Level
    text: str
    fix: str = ""  # what to do; empty if all is well

    def __str__(self) -> str:
        line = f"{self.level.value:<5} {self.name:<14} {self.text}"
        return f"{line}\n{'':<6}{'':<14} fix: {self.fix}" if self.fix else line

    def to_json(self) -> dict[str, str]:
        """For `--json`."""
        return {**asdict(self), "level": self.level.value}


def ok(name: str, text: str) -> Finding:
    """All is well."""
    return Finding(name, Level.OK, text)


def warn(name: str, text: str, fix: str) -> Finding:
    """Works, with a limit."""
    return Finding(name, Level.WARN, text, fix)


def fail(name: str, text: str, fix: str) -> Finding:
    """Does not work, or is open to others."""
    return Finding(name, Level.FAIL, text, fix)
