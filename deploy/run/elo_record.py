"""What a run shows and keeps of its ratings: metrics, and the files of elo_files.py."""

import threading
from collections.abc import Callable
from pathlib import Path

from shusaku.actors.arena.rating_log import EloCurve
from shusaku.actors.evaluators.factory import DUMMIES
from shusaku.common.config.schema import Config
from shusaku.deploy.run.elo_files import read_curve, write_curve
from shusaku.deploy.run.run_status import MetricsWriter


def is_rated(config: Config) -> bool:
    """Whether versions are rated while this run trains: not if nothing learns, nor if no network evaluates."""
    return config.rater.enabled and config.learner.enabled and config.inference.runtime not in DUMMIES


class EloRecord:
    """Takes each new curve of the rater."""

    def __init__(self, directory: Path, title: str, metrics: MetricsWriter, log: Callable[[str], None]) -> None:
        self._directory, self._title, self._metrics, self._log = directory, title, metrics, log
        self._drawing: threading.Thread | None = None
        self.curve = read_curve(directory)

    def take(self, curve: EloCurve | None) -> None:
        """Writes down the newest version of the curve; the picture is drawn by a thread."""
        if curve is None or not curve.points or (self.curve and curve.points[-1] == self.curve.points[-1]):
            return
        self.curve = curve
        self._metrics.write_rating(curve.points[-1])
        if self._drawing is None or not self._drawing.is_alive():
            self._drawing = threading.Thread(target=self._draw, args=(curve,), name="elo", daemon=True)
            self._drawing.start()

    def close(self) -> None:
        """Waits for the picture, and draws the newest curve if a later one has come meanwhile."""
        if self._drawing is not None and self.curve is not None:
            self._drawing.join()
            self._draw(self.curve)

    def _draw(self, curve: EloCurve) -> None:
        try:
            write_curve(self._directory, curve, self._title)
        except OSError as error:
            self._log(f"the ratings could not be written: {error}")
