"""From `checkpoint=…` and `engine.…` to an analysis: how every engine of ours begins."""

import os
from dataclasses import dataclass, replace
from functools import partial

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.config.search import rows_a_step
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import ChosenWeights, choose_weights


@dataclass(frozen=True)
class OpenedAnalysis:
    """An analysis of the start position, and what it was made from."""

    analysis: Analysis
    game: Game
    chosen: ChosenWeights
    simulations: int  # of a move, unless a clock or a command says otherwise
    evaluator: str  # runtime and precision, as text for the user
    notes: tuple[str, ...]  # lines for the user


def open_analysis(config: Config, default_game: str = "") -> OpenedAnalysis:
    """The network that `checkpoint` names, with `engine.threads` threads on one tree.

    `default_game`: whose shipped network is meant unless the user names a game.

    UsageError if there is nothing to load, or if it cannot be searched so.
    """
    chosen = choose_weights(config, default_game)
    engine, game = config.engine, chosen.game
    weights = with_scales(config.inference, game, chosen.network, chosen.weights)
    rows = engine.leaves * rows_a_step(chosen.search, game.num_symmetries)
    make = partial(make_bucketed_evaluator, game, config.inference, chosen.network, rows)
    evaluators = [make() for _ in range(engine.threads or len(os.sched_getaffinity(0)))]
    for evaluator in evaluators:
        evaluator.load(weights)
    simulations = engine.simulations or chosen.search.simulations
    search = replace(chosen.search, simulations=simulations)
    analysis = Analysis(game, evaluators, search, leaves=engine.leaves, seed=config.run.seed)
    return OpenedAnalysis(analysis, game, chosen, simulations, evaluators[0].description, chosen.notes)
