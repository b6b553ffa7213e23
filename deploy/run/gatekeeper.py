"""Which version self-play uses with gating=win_rate: the best one, until a candidate has beaten it.

    RUN_DIR/best.safetensors   the version that self-play uses
            gate.jsonl         one line a decision: who met, the score, and the points of every game
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shusaku.actors.arena.gate import GateResult
from shusaku.actors.arena.rating_log import GATE, version_name, version_of
from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.common.json_lines import append_json_line, heal_json_lines, read_json_lines
from shusaku.common.messages import Weights
from shusaku.common.network.weights import load_weights, save_weights
from shusaku.deploy.run.disk_troubles import DiskTroubles

BEST = "best.safetensors"
RETRY_SECONDS = 5.0  # between two tries to write what the disk refused
UNWRITTEN = 1000  # decisions that wait for the disk, at most


@dataclass(frozen=True, slots=True)
class _Candidate:
    weights: Weights
    seconds: float  # training time at its publication


def is_gated(config: Config) -> bool:
    """Whether versions are candidates that have to win first: not if nothing learns."""
    return config.gating == "win_rate" and config.learner.enabled


class Gatekeeper:
    """Takes what the learner publishes, names the next match, and takes its result; the same in both wirings."""

    def __init__(
        self, config: Config, directory: Path, log: Callable[[str], None], seconds: Callable[[], float]
    ) -> None:
        """Goes on with what the run directory holds; `seconds`: training time up to now."""
        self._settings, self._directory, self._log, self._seconds = config.gate, directory, log, seconds
        self.troubles = DiskTroubles(log)
        heal_json_lines(directory / GATE)
        decisions = list(read_json_lines(directory / GATE))
        self._seen = max((version_of(str(line.get("first"))) for line in decisions), default=0)  # newest that was taken
        self._step = next((line["step"] for line in reversed(decisions) if isinstance(line.get("step"), int)), 0)
        self.best = self._load_best()
        self._playing: _Candidate | None = None
        self._waiting: _Candidate | None = None
        self._unsaved: Weights | None = None  # the best version, until the disk takes it
        # Decisions, the same, oldest first; a match takes minutes, so that these are days of a full disk.
        self._unwritten: deque[dict[str, Any]] = deque(maxlen=UNWRITTEN)
        self._tried_at = float("-inf")

    def offer(self, weights: Weights) -> None:
        """A publication.  The first of a run is the best; later ones are candidates every `gate.every` steps."""
        if self.best is None:
            self.best = self._unsaved = weights
            self._write()
        every, known = self._settings.every, max(self._seen, self.best.version if self.best else 0)
        if weights.version > known and weights.step // every != self._step // every:
            self._waiting = _Candidate(weights, self._seconds())
            self._seen, self._step = weights.version, weights.step

    def next_match(self) -> tuple[Weights, Weights] | None:
        """The best version and the candidate that is to meet it; None if none waits.  It is named until `conclude`.

        What the disk has refused is tried again from time to time.
        """
        if time.monotonic() - self._tried_at >= RETRY_SECONDS:
            self._write()
        if self._playing is None:
            self._playing, self._waiting = self._waiting, None
        if self._playing is None or self.best is None:
            return None
        return self.best, self._playing.weights

    def conclude(self, result: GateResult) -> None:
        """Keeps the decision; a candidate that has passed is the best version from now on."""
        candidate, self._playing = self._playing, None
        assert candidate is not None
        assert candidate.weights.version == result.candidate
        if result.has_passed:
            self.best = self._unsaved = candidate.weights
        self._unwritten.append({
            "first": version_name(result.candidate), "second": version_name(result.best),
            "passed": result.has_passed, "score": round(result.score, 4), "games": result.games,
            "step": candidate.weights.step, "seconds": round(candidate.seconds, 3),
            **({"simulations": result.simulations} if result.simulations else {}),
            "whole_pairs": result.whole_pairs, "points": [list(points) for points in result.points]})
        self._write()
        verb = "passed" if result.has_passed else "did not pass"
        self._log(f"gate: version {result.candidate} {verb}: {result.score:.1%} of {result.games} games against "
                  f"version {result.best}; more than {self._settings.score:.1%} of {self._settings.games} are needed")

    def _write(self) -> None:
        """Brings to the disk what is not there yet, the best version before its decision.

        A decision on the disk without its weights would have a restart play with an older version for good.
        """
        self._tried_at = time.monotonic()
        if self._unsaved is not None:
            with self.troubles.watch("the best version"):
                save_weights(self._directory / BEST, self._unsaved)
                self._unsaved = None
        if self._unsaved is None and self._unwritten:
            with self.troubles.watch("the decision of the gate"):
                while self._unwritten:
                    append_json_line(self._directory / GATE, self._unwritten[0])
                    self._unwritten.popleft()

    def _load_best(self) -> Weights | None:
        path = self._directory / BEST
        if not path.exists():
            return None
        try:
            return load_weights(path)
        except UsageError as error:
            self._log(f"{error}; the newest version takes its place")
            return None
