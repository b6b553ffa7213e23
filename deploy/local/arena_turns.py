"""The games of the rater and of the gate in one process, between the turns of playing and learning."""

import time
from collections.abc import Callable
from pathlib import Path

from shusaku.actors.arena.gate import GateMatch
from shusaku.actors.arena.rater import Rater
from shusaku.actors.arena.rating_log import EloCurve
from shusaku.actors.arena.strength import StoppedError
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.messages import Weights
from shusaku.deploy.run.elo_record import is_rated
from shusaku.deploy.run.gatekeeper import Gatekeeper


class ArenaTurns:
    """Each of the two gets its share of the training time; both use all cores while they play."""

    def __init__(
        self, config: Config, game: Game, directory: Path, gatekeeper: Gatekeeper | None, *, threads: int,
        should_stop: Callable[[], bool],
    ) -> None:
        self._config, self._game, self._threads, self._should_stop = config, game, threads, should_stop
        self._rater = Rater(config, game, directory, threads=threads,
                            should_stop=should_stop) if is_rated(config) else None
        self._gatekeeper = gatekeeper
        self._ended = ""  # why the rater has ended
        self._match: GateMatch | None = None
        self._spent = {"rater": 0.0, "gate": 0.0}  # seconds

    @property
    def plays(self) -> bool:
        """Whether there are any such games in this run."""
        return self._rater is not None or self._gatekeeper is not None

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong now."""
        if self._ended:
            return (self._ended,)
        return (f"rater: {self._rater.trouble}",) if self._rater and self._rater.trouble else ()

    def offer(self, weights: Weights, seconds: float) -> None:
        """A publication, at this training time."""
        if self._rater is not None:
            self._rater.offer(weights, seconds)

    def play(self, seconds: float, on_step: Callable[[], object]) -> EloCurve | None:
        """Plays until the shares of the time so far, in seconds, are used up; the newest ratings."""
        if self._rater is not None:
            try:
                self._spend("rater", self._config.rater.share * seconds, self._rater.step, on_step)
            except (OSError, RuntimeError, ValueError) as error:  # the run goes on without ratings
                self._rater, self._ended = None, f"no version is rated any more: {error}"
        if self._gatekeeper is not None:
            self._spend("gate", self._config.gate.share * seconds, self._step_gate, on_step)
        return self._rater.curve if self._rater else None

    def _spend(self, who: str, allowed: float, step: Callable[[], bool], on_step: Callable[[], object]) -> None:
        goes_on = True
        while goes_on and self._spent[who] < allowed and not self._should_stop():
            begin = time.monotonic()
            goes_on = step()
            self._spent[who] += time.monotonic() - begin
            on_step()

    def _step_gate(self) -> bool:
        """A move in each game of the candidate; False if there is none, or if it was decided."""
        assert self._gatekeeper is not None
        if self._match is None:
            match = self._gatekeeper.next_match()
            if match is None:
                return False
            self._match = GateMatch(self._config, self._game, *match, threads=self._threads,
                                    should_stop=self._should_stop)
        try:
            if self._match.step():
                return True
        except StoppedError:
            return False
        self._gatekeeper.conclude(self._match.result())
        self.close()
        return False

    def close(self) -> None:
        """Gives up the match of a candidate that is not decided."""
        if self._match is not None:
            self._match.close()
            self._match = None
