"""Where records go that must not be learned from."""

from collections import Counter, deque
from typing import NamedTuple


class Quarantined(NamedTuple):
    """A record that was refused."""

    reason: str  # "key: what is wrong"
    data: bytes  # as encoded; empty where it could not even be encoded


class Quarantine:
    """The newest `limit` refused records with their reasons, and how many there were of each kind.

    A reason is "key: what is wrong" as validation and `RowRing.append` write it; the keys are few, so counting by
    them is bounded too.
    """

    MAX_DATA = 1 << 20  # bytes kept of one record

    def __init__(self, limit: int = 100) -> None:
        self.entries: deque[Quarantined] = deque(maxlen=limit)
        self._counts: Counter[str] = Counter()

    def add(self, reason: str, data: bytes) -> None:
        self.entries.append(Quarantined(reason, data[: self.MAX_DATA]))
        self._counts[reason.partition(":")[0][:32]] += 1

    @property
    def counts(self) -> dict[str, int]:
        """Refused records by the key of their reason."""
        return dict(self._counts)
