"""What a diagnosis says of one side of a run."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """How that side is."""

    GOOD = "good"
    ADVICE = "advice"  # a setting would help
    UNKNOWN = "unknown"  # the run has not measured it


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis."""

    topic: str
    verdict: Verdict
    measured: str  # with the figures
    setting: str = ""  # KEY=VALUE that would help; only with ADVICE
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As `--json` shows it."""
        return {**asdict(self), "verdict": str(self.verdict)}


def good(topic: str, measured: str) -> Finding:
    """Nothing to be done."""
    return Finding(topic, Verdict.GOOD, measured)


def advice(topic: str, measured: str, setting: str, reason: str) -> Finding:
    """Something to be done, and why."""
    return Finding(topic, Verdict.ADVICE, measured, setting, reason)


def unknown(topic: str, measured: str) -> Finding:
    """What would have to be measured."""
    return Finding(topic, Verdict.UNKNOWN, measured)
