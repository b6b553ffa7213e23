"""From `checkpoint=…` and `engine.…` to an analysis: how every engine of ours begins."""

import os
from dataclasses import dataclass, replace
from functools import partial

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.evaluators.buckets import BucketedEvaluator
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.config.search import SearchConfig, replace_read, rows_a_step
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import ChosenWeights, choose_weights


@dataclass(frozen=True)
class OpenedNetwork:
    """A network that is ready to be asked, and how it is searched."""

    game: Game
    chosen: ChosenWeights
    evaluators: tuple[BucketedEvaluator, ...]  # of the same weights, each for one thread
    search: SearchConfig
    simulations: int  # of a move, unless a clock or a command says otherwise

    @property
    def evaluator(self) -> str:
        """Runtime and precision, as text for the user."""
        return self.evaluators[0].description


@dataclass(frozen=True)
class OpenedAnalysis:
    """An analysis of the start position, and what it was made from."""

    analysis: Analysis
    game: Game
    chosen: ChosenWeights
    simulations: int  # of a move, unless a clock or a command says otherwise
    evaluator: str  # runtime and precision, as text for the user
    notes: tuple[str, ...]  # lines for the user


def open_network(config: Config, leaves: int) -> OpenedNetwork:
    """The network that `checkpoint` names, once for each of `engine.threads`; `leaves`: of a batch.

    UsageError if there is nothing to load, or if it cannot be searched so.
    """
    chosen = choose_weights(config)
    engine, game = config.engine, chosen.game
    weights = with_scales(config.inference, game, chosen.network, chosen.weights)
    rows = leaves * rows_a_step(replace_read(chosen.search, leaves=1), game.num_symmetries)
    make = partial(make_bucketed_evaluator, game, config.inference, chosen.network, rows)
    evaluators = tuple(make() for _ in range(engine.threads or len(os.sched_getaffinity(0))))
    for evaluator in evaluators:
        evaluator.load(weights)
    simulations = engine.simulations or chosen.search.simulations
    return OpenedNetwork(game, chosen, evaluators, replace(chosen.search, simulations=simulations), simulations)


def open_analysis(config: Config) -> OpenedAnalysis:
    """An analysis with `engine.threads` threads on one tree; UsageError as in `open_network`."""
    network, engine = open_network(config, config.engine.leaves), config.engine
    analysis = Analysis(network.game, network.evaluators, network.search, leaves=engine.leaves, seed=config.run.seed)
    return OpenedAnalysis(analysis, network.game, network.chosen, network.simulations, network.evaluator,
                          network.chosen.notes)
