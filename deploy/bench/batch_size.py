"""How many parallel games an actor plays, which is also the batch of its network: chosen by a short measurement.

A step of self-play has a fixed cost (Python, one call of the runtime, cold caches) and a cost for each position.  More
games share the fixed cost, but end later, are played by older weights and take more memory; so the smallest number is
chosen whose rate is close to the best.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, SelfPlayConfig, self_play_search
from shusaku.common.config.search import replace_read
from shusaku.common.messages import Weights

SIZES = (16, 32, 64, 96, 128, 192, 256)
ENOUGH = 0.99  # of the best rate
SLOW_STEP = 0.1  # seconds: the fixed cost does not matter in such a step
SLICES, SLICE_SECONDS = 5, 0.05  # the best of five slices: disturbances only make a slice slower


class Pace(NamedTuple):
    """The speed of one size."""

    evaluations_per_s: float
    step_seconds: float


class GamesChoice(NamedTuple):
    """The chosen number of games, and the measurement behind it."""

    games: int
    rates: dict[int, float]  # size -> evaluations a second, of the measured sizes

    def __str__(self) -> str:
        best = max(self.rates.values())
        tried = ", ".join(f"{size}: {rate / best:.0%}" for size, rate in self.rates.items())
        return f"{self.games} games an actor, chosen by evaluations/s (batches of {tried})"


def choose_games(slice_of: Callable[[int], Pace], sizes: Sequence[int] = SIZES) -> GamesChoice:
    """The smallest size with ENOUGH of the best rate; none larger than the first whose step is slow.

    The sizes are measured in turns, so that a machine that is slow for a second is slow for all of them.
    """
    paces: dict[int, Pace] = {}  # the best of each
    for _ in range(SLICES):
        for size in sizes:
            pace = slice_of(size)
            paces[size] = max(pace, paces.get(size, pace))
            if paces[size].step_seconds > SLOW_STEP:
                break
    slow = min((size for size, pace in paces.items() if pace.step_seconds > SLOW_STEP), default=max(paces))
    rates = {size: pace.evaluations_per_s for size, pace in sorted(paces.items()) if size <= slow}
    best = max(rates.values())
    return GamesChoice(next(size for size, rate in rates.items() if rate >= ENOUGH * best), rates)


def measure_games(config: Config, game: Game, weights: Weights) -> GamesChoice:
    """Self-play of the configured search on this machine, every position evaluated: two or three seconds.

    UsageError if the runtime, the device or the precision is not available on this machine.
    """
    search = self_play_search(config.search, config.self_play)
    search = replace_read(search, cache=0)  # else the first moves of all games are one position
    players: dict[int, SelfPlay] = {}

    def slice_of(size: int) -> Pace:
        if size not in players:
            evaluator = make_evaluator(game, config.inference, config.network, size)
            evaluator.load(weights)
            players[size] = SelfPlay(
                game, search, SelfPlayConfig(), evaluator, games=size, seed=1, identity=ActorIdentity(0))
            players[size].step()
        return play_slice(players[size])

    return choose_games(slice_of)


def play_slice(player: SelfPlay) -> Pace:
    """Its speed in the next SLICE_SECONDS."""
    before, begin, steps = player.counters()["evaluations"], time.perf_counter(), 0
    while steps == 0 or time.perf_counter() - begin < SLICE_SECONDS:
        player.step()
        steps += 1
    seconds = time.perf_counter() - begin
    return Pace((player.counters()["evaluations"] - before) / seconds, seconds / steps)
