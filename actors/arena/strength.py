"""How strong a network is against exact answers: the share of positions in which it plays an optimal move.

An optimal move keeps the game-theoretic result (win, draw or loss); `optimal` is the mean over the buckets of a set.
Letters of the shapes: P positions of a set.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.arena.solvers import play_on_copy
from shusaku.actors.arena.strength_sets import StrengthSet
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game, Position, SearchResult
from shusaku.common.config.search import (
    AveragingConfig,
    MctsConfig,
    PolicyOnlyConfig,
    PuctConfig,
    SearchConfig,
    without_exploration,
)
from shusaku.common.messages import Evaluation, Leaves
from shusaku.common.search import Evaluate, search_positions

SIMULATIONS = (16, 64, 400)  # of the full table
BATCH = 512  # positions searched in parallel; evaluators of a small fixed batch (64) cut it with little waste

ShouldStop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Share:
    """How often one player chose an optimal move."""

    optimal: float  # mean of `by_bucket`
    by_bucket: dict[str, float]
    mistakes: float  # positions in which its move was not optimal; an expectation for the random mover


@dataclass(frozen=True, slots=True)
class Strength:
    """What `shusaku evaluate` reports."""

    game: str
    positions: int
    policy: Share  # the network alone
    searches: dict[int, Share]  # simulations -> share
    never_loses: bool | None = None  # with the search nearest to 64 simulations; None unless the set is the whole game
    baselines: dict[str, Share] = field(default_factory=dict)  # name as in `measure_baselines` -> share

    def to_json(self) -> dict[str, Any]:
        """policy, search_16, ... with optimal, by_bucket, mistakes; never_loses where it is known; baselines."""
        report: dict[str, Any] = {"game": self.game, "positions": self.positions, "policy": asdict(self.policy)}
        report |= {f"search_{simulations}": asdict(share) for simulations, share in self.searches.items()}
        if self.never_loses is not None:
            report["never_loses"] = self.never_loses
        if self.baselines:
            report["baselines"] = {name: asdict(share) for name, share in self.baselines.items()}
        return report


class StoppedError(Exception):
    """A measurement or match ended because `should_stop()` became true."""


def measure(
    positions: StrengthSet, evaluators: Sequence[Evaluate], search: SearchConfig,
    simulations: Sequence[int] = SIMULATIONS, *, with_baselines: bool = False,
    should_stop: ShouldStop = lambda: False,
) -> Strength:
    """Measures the network alone and with searches as `search` configures them, without noise and temperature.

    Each evaluator, all of the same weights, gets a thread and its share of the positions.  The same weights give the
    same result.  Raises StoppedError soon after `should_stop()` has become true.
    """
    averages = isinstance(search, AveragingConfig) and search.average_symmetries
    policy = share_of(positions, policy_actions(positions, evaluators, should_stop, average_symmetries=averages))
    actions = {n: search_actions(positions, evaluators, search, n, should_stop) for n in simulations}
    is_unbeaten = None
    if positions.is_complete and actions:
        is_unbeaten = never_loses(positions, actions[min(actions, key=lambda n: abs(n - 64))])
    shares = {n: share_of(positions, chosen) for n, chosen in actions.items()}
    baselines = measure_baselines(positions) if with_baselines else {}
    return Strength(positions.game.name, len(positions), policy, shares, is_unbeaten, baselines)


def policy_actions(
    positions: StrengthSet, evaluators: Sequence[Evaluate], should_stop: ShouldStop = lambda: False, *,
    average_symmetries: bool = False,
) -> NDArray[np.intp]:
    """The action that the network prefers in each position without any search: [P]."""
    search = PolicyOnlyConfig(cache=0, average_symmetries=average_symmetries)
    results = _search(positions, strength_search(search, 1), evaluators, should_stop)
    return np.array([result.actions[int(np.argmax(result.prior))] for result in results], np.intp)


def search_actions(
    positions: StrengthSet, evaluators: Sequence[Evaluate], search: SearchConfig, simulations: int,
    should_stop: ShouldStop = lambda: False,
) -> NDArray[np.intp]:
    """The action that a search of this many simulations plays in each position: [P]."""
    results = _search(positions, strength_search(search, simulations), evaluators, should_stop)
    return np.array([result.action for result in results], np.intp)


def strength_search(search: SearchConfig, simulations: int) -> SearchConfig:
    """`search` as it plays for strength: no random choice, no exploration for learning."""
    return replace(without_exploration(search), simulations=simulations)


def _search(
    positions: StrengthSet, search: SearchConfig, evaluators: Sequence[Evaluate], should_stop: ShouldStop
) -> list[SearchResult]:
    """One result a position.  Thread i of k takes positions i, i + k, ...: as many of every bucket as the others."""
    threads = min(len(evaluators), len(positions))

    def search_some(thread: int) -> list[SearchResult]:
        some = positions.positions[thread::threads]
        results = search_positions(positions.game, some, search, evaluators[thread], should_stop, batch=BATCH)
        if len(results) < len(some):
            raise StoppedError(f"stopped after {len(results)} of {len(some)} positions")
        return results

    if threads == 1:
        return search_some(0)
    with ThreadPoolExecutor(threads, "strength") as pool:
        parts = list(pool.map(search_some, range(threads)))
    return [parts[row % threads][row // threads] for row in range(len(positions))]


def share_of(positions: StrengthSet, actions: NDArray[np.intp]) -> Share:
    """The share of a player that chose `actions` [P]; ValueError where one of them is illegal."""
    rows = np.arange(len(positions))
    illegal = np.flatnonzero(~positions.legal[rows, actions])
    if len(illegal):
        raise ValueError(f"action {actions[illegal[0]]} is illegal in position {illegal[0]} of the set")
    is_optimal = positions.optimal[rows, actions]
    return _share(positions, is_optimal.astype(np.float64), int(np.count_nonzero(~is_optimal)))


def random_share(positions: StrengthSet) -> Share:
    """The exact expectation of a player that draws its moves uniformly."""
    chances = positions.optimal.sum(axis=1) / positions.legal.sum(axis=1)  # [P]
    return _share(positions, chances, float(len(positions) - chances.sum()))


def _share(positions: StrengthSet, chances: NDArray[np.float64], mistakes: float) -> Share:
    """`chances` [P]: how likely the move in each position is optimal.  Buckets without positions are left out."""
    by_bucket = {}
    for bucket, name in enumerate(positions.bucket_names):
        members = positions.buckets == bucket
        if members.any():
            by_bucket[name] = float(chances[members].mean())
    return Share(sum(by_bucket.values()) / len(by_bucket), by_bucket, mistakes)


def never_loses(positions: StrengthSet, actions: NDArray[np.intp]) -> bool:
    """Whether a player that always chooses `actions` [P] loses no game, from either side, whatever the replies.

    ValueError unless the set holds every position of the game in which a player has to move.
    """
    if not positions.is_complete:
        raise ValueError(f"the set of {positions.game.name} is not the whole game, so not every reply can be tried")
    pairs = zip(positions.positions, actions, strict=True)
    move = {position.transposition_key: int(action) for position, action in pairs}
    return all(_holds(positions.game.start(), side, move) for side in (0, 1))


def _holds(start: Position, side: int, move: Mapping[int, int]) -> bool:
    """Whether `side` loses nowhere below `start`; every position is visited once."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        position = waiting.pop()
        for action in [move[position.transposition_key]] if position.to_play == side else position.legal_actions:
            reached = play_on_copy(position, action)
            if reached.is_terminal:
                if (reached.outcome if reached.to_play == side else -reached.outcome) < 0:
                    return False
            elif reached.transposition_key not in seen:
                seen.add(reached.transposition_key)
                waiting.append(reached)
    return True


class _TieBreakingUniform:
    """Priors that differ by about 1 %, value 0 for every position.

    With exactly equal priors the first legal action would win every tie, and the player would be worse than a random
    mover wherever the search sees no difference; a hash of position and action breaks ties without a bias.
    """

    version = 0

    def __init__(self, game: Game) -> None:
        self._hash = PseudoRandomEvaluator(game, BATCH)

    def __call__(self, leaves: Leaves) -> Evaluation:
        logits = self._hash(leaves).logits
        return Evaluation(np.tanh(logits) * np.float32(0.01), np.zeros(len(leaves), np.float32), self.version)


def measure_baselines(positions: StrengthSet) -> dict[str, Share]:
    """Players that have learned nothing, by name; under a second for either set."""
    uniform = _TieBreakingUniform(positions.game)
    searches: dict[str, tuple[SearchConfig, int]] = {
        "puct_64_uniform": (PuctConfig(), 64), "uct_64": (MctsConfig(), 64), "uct_400": (MctsConfig(), 400),
    }
    shares = {"random": random_share(positions)}
    for name, (search, simulations) in searches.items():  # plain UCT does not ask the evaluator
        shares[name] = share_of(positions, search_actions(positions, [uniform], search, simulations))
    return shares
