"""`actors.games_per_actor=auto`: a number takes its place before anything is built."""

import contextlib
from dataclasses import replace

from shusaku.actors.evaluators.factory import choose_runtime
from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError
from shusaku.deploy.bench.batch_size import GamesChoice, measure_games
from shusaku.deploy.bench.processes import run_in_subprocess
from shusaku.deploy.cluster.layout import placement_of
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import choose_weights
from shusaku.deploy.run.composed_config import replace_settings


def settle_games(config: Config) -> tuple[Config, GamesChoice | None]:
    """The configuration with a number of games, measured if none is given, and the measurement."""
    if config.actors.games_per_actor or placement_of(config) == "server":  # there the layout says how many
        return config, None
    choice = run_in_subprocess(_measure, replace_settings(config, checkpoint=config.checkpoint or "random"))
    return replace_settings(config, actors=replace(config.actors, games_per_actor=choice.games)), choice


def _measure(config: Config) -> GamesChoice:
    chosen = choose_weights(config)
    if choose_runtime(config.inference)[0] == "torch":
        import torch

        torch.set_num_threads(1)  # as an actor has
    weights = chosen.weights
    with contextlib.suppress(RunError):  # 8 bits err too much: the next best precision plays, and is measured
        weights = with_scales(config.inference, chosen.game, chosen.network, weights)
    return measure_games(replace_settings(config, network=chosen.network), chosen.game, weights)
