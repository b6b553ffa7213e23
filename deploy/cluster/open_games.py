"""What the actors report about open games, in lines for the user."""

from collections.abc import Iterable, Mapping
from typing import Any

Reports = Iterable[Mapping[str, Any]]  # the newest metrics of each actor that runs


class OpenGamesNews:
    """Says what is new about restored and dropped games."""

    def __init__(self) -> None:
        self._restored = 0
        self._reasons: set[tuple[int, str]] = set()  # process and reason that were told

    def take(self, totals: Mapping[str, int], actors: Reports) -> list[str]:
        """A line for each thing that happened since the last call; `totals`: over all incarnations of all actors."""
        lines = []
        restored = totals.get("restored_games", 0)
        if restored > self._restored:
            lines.append(f"{restored - self._restored:,} open games go on from where they were saved")
        self._restored = restored
        told = {(int(metrics.get("pid", 0)), str(metrics.get("dropped", ""))) for metrics in actors}
        lines += sorted({reason for pid, reason in told - self._reasons if reason})
        self._reasons = told
        return lines
