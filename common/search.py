"""The C++ search in Python: its options, one round of a batch, and the search of many positions in batches."""

from collections.abc import Callable, Sequence
from typing import Protocol

from shusaku.common._core import Game, Position, SearchBatch, SearchOptions, SearchResult, SelfPlayOptions
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import SearchConfig, all_settings
from shusaku.common.messages import Evaluation, Leaves


class Evaluate(Protocol):
    """The part of an evaluator that a search needs."""

    @property
    def version(self) -> int:
        """The version of the weights; it keys cached evaluations."""

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Logits and values of all leaves."""


def search_options(config: SearchConfig, *, symmetries: bool, asks_policy: bool = True) -> SearchOptions:
    """The options of the C++ core.  `symmetries`: of the game, if the search says so, one for each evaluation.

    `asks_policy`: alphago has a policy network; else the rollout policy is the prior.
    """
    options = SearchOptions()
    for name, value in all_settings(config).items():
        setattr(options, name, value)
    options.symmetries, options.asks_policy = symmetries and options.symmetries, asks_policy
    assert options.dirichlet_alpha > 0 or not options.noise, "composing a configuration puts the game's alpha for 0"
    return options


def self_play_options(config: SelfPlayConfig) -> SelfPlayOptions:
    """The options of the C++ core."""
    options = SelfPlayOptions()
    for name, value in vars(config).items():
        if name != "solved_empties":  # of the search: `self_play_search`
            setattr(options, name, value)
    return options


def step(batch: SearchBatch, evaluate: Evaluate) -> None:
    """One round: every search selects a leaf, the leaves are evaluated as one batch and backed up."""
    leaves = Leaves(*batch.select(max(0, evaluate.version)))
    if len(leaves):
        evaluation = evaluate(leaves)
        batch.expand_and_backup(evaluation.logits, evaluation.values, max(0, evaluation.version))


def search_positions(
    game: Game, positions: Sequence[Position], config: SearchConfig, evaluate: Evaluate,
    should_stop: Callable[[], bool] = lambda: False, *, batch: int = 512, seed: int = 0,
) -> list[SearchResult]:
    """One search of each position (none of them terminal), up to `batch` of them at a time, without symmetries.

    Position i is searched with randomness of (seed, i) alone.  Stops early, with fewer results, on `should_stop`.
    """
    options = search_options(config, symmetries=False)
    results: list[SearchResult] = []
    searches = SearchBatch(game, options, max(1, min(batch, len(positions))), seed)
    for first in range(0, len(positions), batch):
        some = positions[first : first + batch]
        for index, position in enumerate(some):
            searches.begin(index, position, _position_seed(seed, first + index))
        while not searches.is_done():
            if should_stop():
                return results
            step(searches, evaluate)
        results.extend(searches.result(index) for index in range(len(some)))
    return results


def _position_seed(seed: int, index: int) -> int:
    return (seed * 0x9E3779B97F4A7C15 + index) % 2**64
