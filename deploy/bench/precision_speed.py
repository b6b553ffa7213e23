"""Self-play in each precision that this machine has, by turns: which one is the fastest, new versions included."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from shusaku.actors.evaluators.factory import DUMMIES, choose_runtime, make_evaluator
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, SelfPlayConfig, self_play_search
from shusaku.common.config.search import replace_read
from shusaku.common.errors import RunError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.hardware import choose_precision
from shusaku.common.measured_choices import MeasuredChoice, choose_fastest
from shusaku.common.messages import Weights
from shusaku.common.network.weights import random_weights, tower_shape
from shusaku.deploy.bench.batch_size import play_slice
from shusaku.deploy.bench.inference import runtimes
from shusaku.deploy.cluster.layout import placement_of
from shusaku.deploy.run.calibration import with_scales

MEASURING_SECONDS = 5.0  # at most, about; a slice of a large network may take longer
SLICES = 10  # in turns; the best of each: disturbances only make a slice slower
UNIT = "evaluations/s of one actor"  # new versions included


@dataclass(frozen=True)
class Speed:
    """What a precision reaches."""

    evaluations_per_s: float  # of one actor between two versions of the weights
    load_s: float  # of a new version, in an actor
    scales_s: float = 0.0  # of a new version, in the learner


def precisions_to_measure(config: Config) -> list[str]:
    """The precisions that this machine has, if the configuration leaves the choice; else none."""
    inference = config.inference
    if (inference.precision != "auto" or inference.is_on_gpu or inference.runtime in DUMMIES or config.reinforce.enabled
            or config.value.enabled or config.dataset.records or placement_of(config) == "server"):
        return []
    chosen = choose_runtime(inference)[0]
    return [precision for runtime, precision in runtimes(config) if runtime == chosen]


def measure(config: Config) -> MeasuredChoice:
    """Self-play of the configured search on this machine with an untrained network, in each precision by turns."""
    game = configured_game(config.game)
    weights = random_weights(game, config.network, config.run.seed, version=1)
    if choose_runtime(config.inference)[0] == "torch":
        import torch

        torch.set_num_threads(1)  # as an actor has
    search = self_play_search(config.search, config.self_play)
    search = replace_read(search, cache=0)  # else the first moves of all games are one position
    players: dict[str, SelfPlay] = {}
    costs: dict[str, tuple[float, float]] = {}
    refused = ""
    for name in precisions_to_measure(config):
        inference = replace(config.inference, precision=name)
        try:
            loaded = with_scales(inference, game, config.network, weights)
        except RunError as error:
            refused = str(error).partition(";")[0]  # 8 bits err too much
            continue
        evaluator = make_evaluator(game, inference, config.network, config.actors.games)
        evaluator.load(loaded)  # the first one makes what later ones only change
        _, load_s = _timed(partial(evaluator.load, replace(loaded, version=loaded.version + 1)))
        costs[name] = load_s, _seconds_of_scales(game, config, weights) if name == "int8" else 0.0
        players[name] = SelfPlay(game, search, SelfPlayConfig(), evaluator, games=config.actors.games, seed=1,
                                 identity=ActorIdentity(0))
        players[name].step()
    rates = best_rates(lambda name: play_slice(players[name]).evaluations_per_s, list(players))
    return choose(config, {name: Speed(rate, *costs[name]) for name, rate in rates.items()}, refused)


def _seconds_of_scales(game: Game, config: Config, weights: Weights) -> float:
    """What the learner spends on them at each publication."""
    from shusaku.learner.quantisation import positions_for, quantise  # imports torch, which only 8 bits need

    tower = tower_shape(game, config.network)
    shape = (positions_for(tower), *game.observation_shape)
    planes = np.random.default_rng(1).integers(0, 2, shape).astype(np.float32)
    return _timed(partial(quantise, weights, tower, planes))[1]


def best_rates(
    rate_of: Callable[[str], float], names: Sequence[str], clock: Callable[[], float] = time.monotonic
) -> dict[str, float]:
    """The best of several slices of each, in turns: a machine that is slow for a second is slow for all of them.

    As many turns as MEASURING_SECONDS allow, at least one.
    """
    rates: dict[str, float] = {}
    end = clock() + MEASURING_SECONDS
    for turn in range(SLICES):
        if turn and clock() >= end:
            break
        for name in names:
            rates[name] = max(rates.get(name, 0.0), rate_of(name))
    return rates


def choose(config: Config, speeds: Mapping[str, Speed], refused: str = "") -> MeasuredChoice:
    """The one with the most evaluations a second, new versions included; the usual one unless another is worth it.

    Rate r between versions, k r versions a second that cost c each: e evaluations a second with e = r (1 - k e c).
    `refused`: why 8 bits were not tried.
    """
    rates = {name: speed.evaluations_per_s / (1 + versions_per_s(config, speed) * cost_of_version(speed))
             for name, speed in speeds.items()}
    return choose_fastest(rates, choose_precision("auto", "cpu", "").name, UNIT, left_out=refused)


def versions_per_s(config: Config, speed: Speed) -> float:
    """How often new weights come, if the learner keeps up with the games of all actors here."""
    actors = config.actors.count or len(os.sched_getaffinity(0))
    rows = actors * speed.evaluations_per_s / getattr(config.search, "simulations", 1)
    steps = rows * config.replay.samples_per_position / config.learner.batch_size
    return steps / config.learner.publish_every if config.learner.enabled else 0.0


def cost_of_version(speed: Speed) -> float:
    """Seconds of an actor: it loads, and the cores that make the scales play no games meanwhile."""
    return speed.load_s + speed.scales_s / len(os.sched_getaffinity(0))


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - begin
