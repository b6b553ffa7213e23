"""The gate as a Ray actor: a thin shell around `actors.arena.gate`."""

import time
from typing import Any

import ray

from shusaku.actors.arena.gate import GateMatch, GateResult
from shusaku.actors.arena.strength import StoppedError
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import decided_game
from shusaku.common.hardware import lower_priority
from shusaku.common.messages import Weights
from shusaku.common.remote_worker import RemoteWorker

SLICE_SECONDS = 0.5  # of playing, before it rests


class GateActor(RemoteWorker):
    """Plays the games of candidates, and rests so that they take no more than their share of the actors' time."""

    def __init__(self, config: Config, threads: int, share: float) -> None:
        """`share`: of the time of these threads."""
        super().__init__()
        self._config, self._threads, self._share = config, threads, share

    def run(self) -> str:
        """Waits until it is stopped, and returns why."""
        self.activity.set_ready()
        self.activity.wait("playing games of a candidate, or waiting for one")
        self._stopping.wait()
        return "the gate was stopped"

    def play(self, best: list[Any], candidate: list[Any]) -> GateResult | None:
        """The match of these weights, each as a list of one reference; None if it was stopped."""
        config = self._config
        lower_priority(config.cluster.nice)  # of this thread, before it makes others
        weights: tuple[Weights, Weights] = (ray.get(best[0]), ray.get(candidate[0]))
        match = GateMatch(config, decided_game(config.game), *weights, threads=self._threads,
                          should_stop=self._stopping.is_set)
        try:
            begin = time.monotonic()
            while match.step():
                played = time.monotonic() - begin
                if played >= SLICE_SECONDS:
                    if self._stopping.wait(played * (1 / self._share - 1)):
                        return None
                    begin = time.monotonic()
            return match.result()
        except StoppedError:
            return None
        finally:
            match.close()

    def __repr__(self) -> str:
        return "Gate"
