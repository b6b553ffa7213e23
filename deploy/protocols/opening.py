"""From `checkpoint=…` and `engine.…` to an analysis: how every engine of ours begins."""

import os
from dataclasses import dataclass, replace

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.config.search import GumbelConfig, PuctConfig, SearchConfig, replace_read, rows_a_step
from shusaku.common.network.tower import published_heads
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import ChosenWeights, choose_weights

SIZES = (1, 4, 16)  # of batches, below the largest: a search begins with single leaves


@dataclass(frozen=True)
class OpenedAnalysis:
    """An analysis of the start position, and what it was made from."""

    analysis: Analysis
    game: Game
    chosen: ChosenWeights
    simulations: int  # of a move, unless a clock or a command says otherwise
    evaluator: str  # runtime and precision, as text for the user
    notes: tuple[str, ...]  # lines for the user


def open_analysis(config: Config) -> OpenedAnalysis:
    """The network that `checkpoint` names, with `engine.threads` threads on one tree.

    UsageError if there is nothing to load, or if it cannot be searched so.
    """
    chosen = choose_weights(config)
    engine, game = config.engine, chosen.game
    simulations = engine.simulations or chosen.search.simulations
    search = replace(chosen.search, simulations=simulations)
    weights = with_scales(config.inference, game, chosen.network, chosen.weights)
    one_leaf = replace_read(search, leaves=1)
    rows = engine.leaves * rows_a_step(one_leaf, game.num_symmetries)
    evaluators = []
    for _ in range(engine.threads or len(os.sched_getaffinity(0))):
        evaluator = make_bucketed_evaluator(game, config.inference, chosen.network, rows, sizes=SIZES,
                                            heads=published_heads(weights.tensors))
        evaluator.load(weights)
        evaluators.append(evaluator)
    analysis = Analysis(game, evaluators, search, leaves=engine.leaves, seed=config.run.seed,
                        megabytes=engine.megabytes)
    notes = (*chosen.notes, *_notes(search))
    return OpenedAnalysis(analysis, game, chosen, simulations, evaluators[0].description, notes)


def _notes(search: SearchConfig) -> list[str]:
    if isinstance(search, GumbelConfig):
        return ["search.policy=gumbel plans for a fixed number of simulations: under a clock and until stop, puct is "
                "used"]
    if isinstance(search, PuctConfig) and search.graph:
        return ["search.graph=true: an analysis grows a tree instead"]
    return []
