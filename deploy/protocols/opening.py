"""From `checkpoint=…` and `engine.…` to an analysis: how every engine of ours begins."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.actors.evaluators.score_share import DescribedEvaluate, score_heads, share_score
from shusaku.common._core import Game
from shusaku.common.config.rule import raise_first
from shusaku.common.config.schema import Config
from shusaku.common.config.search import (
    AlphaGoConfig,
    GumbelConfig,
    PuctConfig,
    SearchConfig,
    replace_read,
    rows_a_step,
    search_rules,
)
from shusaku.common.errors import UsageError
from shusaku.common.network.tower import published_heads
from shusaku.common.search import Evaluate
from shusaku.deploy.run.alphago_networks import find_networks, make_evaluators
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import ChosenWeights, choose_weights
from shusaku.deploy.run.game_parameters import check_search

SIZES = (1, 4, 16)  # of batches, below the largest: a search begins with single leaves


@dataclass(frozen=True)
class OpenedNetwork:
    """A network that is ready to be asked, and how it is searched."""

    game: Game
    chosen: ChosenWeights
    evaluators: tuple[DescribedEvaluate, ...]  # of the same weights, each for one thread
    search: SearchConfig  # with the simulations of a move, unless a clock or a command says otherwise
    notes: tuple[str, ...]  # lines for the user

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
    evaluators: tuple[Evaluate, ...]  # a thread of the analysis uses each of them while it searches
    reopen: Callable[[Game], Analysis]  # the same network for a game with other rules, whose planes are the same


def open_network(config: Config, leaves: int, default_game: str = "") -> OpenedNetwork:
    """The network that `checkpoint` names, once for each of `engine.threads`; `leaves`: of a batch.

    `default_game`: whose shipped network is meant unless the user names a game.

    UsageError if there is nothing to load, or if it cannot be searched so.
    """
    search = config.search
    if isinstance(search, AlphaGoConfig):
        return _open_two(config, search, leaves, default_game)
    chosen = choose_weights(config, default_game)
    engine, game = config.engine, chosen.game
    simulations = engine.simulations or chosen.search.simulations
    search = replace(chosen.search, simulations=simulations)
    weights = with_scales(config.inference, game, chosen.network, chosen.weights)
    rows = leaves * rows_a_step(replace_read(search, leaves=1), game.num_symmetries)
    score_heads(weights, config.inference, search, "search")  # refused before anything is made
    evaluators = []
    for _ in range(engine.threads or len(os.sched_getaffinity(0))):
        evaluator = make_bucketed_evaluator(game, config.inference, chosen.network, rows, sizes=SIZES,
                                            heads=published_heads(weights.tensors))
        evaluator.load(weights)
        evaluators.append(evaluator)
    evaluators = share_score(evaluators, game, search)
    return OpenedNetwork(game, chosen, tuple(evaluators), search, (*chosen.notes, *_notes(search)))


def _open_two(config: Config, search: AlphaGoConfig, leaves: int, default_game: str) -> OpenedNetwork:
    """The networks of search=alphago."""
    engine = config.engine
    search = replace(search, simulations=engine.simulations or search.simulations)
    raise_first(search_rules(search, "search"))
    networks = find_networks(config, "", search, default_game)
    check_search(networks.game, search)
    chosen = networks.value or networks.policy
    if networks.policy is not None and networks.policy.game.params == networks.game.params:
        chosen = networks.policy
    if chosen is None:
        raise UsageError("checkpoint= is missing: name a run directory, a weights.safetensors file, `shipped` or "
                         "`random`, or engine.policy= and engine.value=")
    evaluators = make_evaluators(networks, search, config.inference,
                                 count=engine.threads or len(os.sched_getaffinity(0)), leaves=leaves, sizes=SIZES)
    return OpenedNetwork(networks.game, chosen, tuple(evaluators), search, networks.notes)


def open_analysis(config: Config, default_game: str = "") -> OpenedAnalysis:
    """An analysis with `engine.threads` threads on one tree; UsageError as in `open_network`."""
    network, engine = open_network(config, config.engine.leaves, default_game), config.engine
    reopen = partial(Analysis, evaluators=network.evaluators, search=network.search, leaves=engine.leaves,
                     seed=config.run.seed, megabytes=engine.megabytes)
    return OpenedAnalysis(reopen(network.game), network.game, network.chosen, network.search.simulations,
                          network.evaluator, network.notes, network.evaluators, reopen)


def _notes(search: SearchConfig) -> list[str]:
    if isinstance(search, GumbelConfig):
        return ["search.policy=gumbel plans for a fixed number of simulations: under a clock, until stop and where a "
                "report is shown, puct is used"]
    if isinstance(search, PuctConfig) and search.graph:
        return ["search.graph=true: an analysis grows a tree instead"]
    return []
