"""How many games an actor plays side by side, which is also the batch of its network: chosen by a short measurement.

A step of self-play costs a fixed part (Python, one call of the runtime, cold caches) and a part for each position.
More games spread the fixed part, but end later, are played by older weights and take more memory; so the fewest are
taken that come close to the best.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from actors.evaluators import make_evaluator
from actors.self_play import ActorIdentity, SelfPlay
from common._core import Game
from common.config import Config, SelfPlayConfig
from common.messages import Weights

SIZES = (16, 32, 64, 96, 128, 192, 256)
ENOUGH = 0.97  # of the best rate
GAIN = 1.01  # that the next size must bring, or none larger is tried
SLOW_STEP = 0.1  # seconds: beside such a step no fixed part matters
SLICES, SLICE_SECONDS = 4, 0.05  # the best of so many: what disturbs a measurement only makes it slower


class Pace(NamedTuple):
    """What one size reaches."""

    evaluations_per_s: float
    step_seconds: float


class GamesChoice(NamedTuple):
    """What was chosen and why."""

    games: int
    rates: dict[int, float]  # size -> evaluations a second, of the sizes that were tried

    def __str__(self) -> str:
        best = max(self.rates.values())
        tried = ", ".join(f"{size}: {rate / best:.0%}" for size, rate in self.rates.items())
        return f"{self.games} games an actor, chosen by evaluations/s (batches of {tried})"


def choose_games(pace_of: Callable[[int], Pace], sizes: Iterable[int] = SIZES) -> GamesChoice:
    """The smallest size with ENOUGH of the best rate; larger ones are tried while they bring GAIN."""
    rates: dict[int, float] = {}
    for size in sizes:
        best = max(rates.values(), default=0.0)
        pace = pace_of(size)
        rates[size] = pace.evaluations_per_s
        if pace.evaluations_per_s < GAIN * best or pace.step_seconds > SLOW_STEP:
            break
    best = max(rates.values())
    return GamesChoice(next(size for size, rate in rates.items() if rate >= ENOUGH * best), rates)


def measure_games(config: Config, game: Game, weights: Weights) -> GamesChoice:
    """Self-play of the configured search on this machine, every position evaluated: one or two seconds.

    UsageError when the runtime, the device or the precision is not to be had here.
    """
    search = replace(config.search, cache=0)  # else the first moves of all games are one position

    def pace_of(size: int) -> Pace:
        evaluator = make_evaluator(game, config.inference, config.network, size)
        evaluator.load(weights)
        player = SelfPlay(game, search, SelfPlayConfig(), evaluator, games=size, seed=1, identity=ActorIdentity(0))
        player.step()
        return max(_slice(player) for _ in range(SLICES))

    return choose_games(pace_of)


def _slice(player: SelfPlay) -> Pace:
    before, begin, steps = player.counters()["evaluations"], time.perf_counter(), 0
    while steps == 0 or time.perf_counter() - begin < SLICE_SECONDS:
        player.step()
        steps += 1
    seconds = time.perf_counter() - begin
    return Pace((player.counters()["evaluations"] - before) / seconds, seconds / steps)
