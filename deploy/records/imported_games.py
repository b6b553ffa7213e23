"""The imported games of a run directory: RUN_DIR/imported, a record log that a run in one process takes from."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from shusaku.common.codec import decode_record
from shusaku.common.messages import GameRecord
from shusaku.replay.record_log import RecordLog

FOLDER = "imported"


class ImportedGames:
    """Reads them in their order, each once."""

    def __init__(self, directory: Path) -> None:
        self.taken = 0  # games, over the life of the run
        self._folder = directory / FOLDER
        self._games: Iterator[bytes] | None = None

    def take(self, rows: int) -> list[GameRecord]:
        """The next games, as many as have so many rows; empty: there are none left."""
        if self._games is None:
            has_any = self._folder.is_dir()
            self._games = islice(RecordLog(self._folder).iterate(), self.taken, None) if has_any else iter(())
        taken: list[GameRecord] = []
        while rows > 0 and (data := next(self._games, None)) is not None:
            taken.append(decode_record(data))
            rows -= taken[-1].num_rows
        self.taken += len(taken)
        return taken
