"""How well the network fits games that it has not learned from, or hardly, and games that it has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.messages import GameRecord, Weights
from shusaku.deploy.diagnosis.game_facts import readable
from shusaku.learner.unseen_games import UnseenGames
from shusaku.replay.row_window import is_test_game

ROWS = 4000  # of each of the two, at most
NEWEST = 0.02  # of the window, from which the learner has hardly drawn


class Mean(NamedTuple):
    """Over the rows of some games, and its standard error, by games: rows of one game are no samples of their own."""

    value: float
    error: float


@dataclass(frozen=True)
class Loss:
    """On some games."""

    rows: int
    excess: Mean  # KL(pi || p): what the network lacks of the searches' policies, in nats
    value: Mean  # (z - v)^2


@dataclass(frozen=True)
class Fit:
    """Of one network."""

    unseen: Loss
    learned: Loss
    is_kept_aside: bool  # the games not learned from: by `replay.test_share`; else they are the newest

    @property
    def policy_gap(self) -> Mean:
        """What games not learned from cost more, in nats."""
        return _difference(self.unseen.excess, self.learned.excess)

    @property
    def value_gap(self) -> Mean:
        """The same of (z - v)^2."""
        return _difference(self.unseen.value, self.learned.value)


def measure_fit(
    game: Game, network: NetworkConfig, weights: Weights, window: Sequence[bytes], test_share: float = 0.0
) -> Fit | None:
    """Of the encoded games of a window, oldest first; None if it has too few for two parts.

    With a share of test games both parts are of the older half of the window, which was drawn from for longest.  Else
    the games not learned from are the newest: of today's versions, to which some of the gap is owed.
    """
    older = window[:len(window) // 2]
    if test_share:
        unseen, learned = (
            _enough(game for game in readable(reversed(older)) if is_test_game(game.game_id, test_share) is is_test)
            for is_test in (True, False))
    else:
        newest = window[len(window) - max(1, int(NEWEST * len(window))):]
        unseen, learned = _enough(readable(reversed(newest))), _enough(readable(reversed(older)))
    if not unseen or not learned:
        return None
    return Fit(_measure(game, network, weights, unseen), _measure(game, network, weights, learned), test_share > 0)


def _enough(records: Iterable[GameRecord]) -> list[GameRecord]:
    """The first ones that have `ROWS` rows together; empty if none has a row."""
    chosen, rows = [], 0
    for record in records:
        if record.num_rows:
            chosen.append(record)
            rows += record.num_rows
        if rows >= ROWS:
            break
    return chosen


def _measure(game: Game, network: NetworkConfig, weights: Weights, records: Sequence[GameRecord]) -> Loss:
    games = UnseenGames(game, network, records, sum(record.num_rows for record in records))
    columns = games.of_positions(weights)
    counts = np.array(games.rows)  # [G]
    whole = counts > 0  # a game that cannot be replayed has no rows
    begins = np.cumsum(counts)[whole] - counts[whole]
    policy, value = (np.add.reduceat(columns[name], begins) for name in ("policy_loss", "value_loss"))
    entropy = np.array([_entropy(record) for record in records])[whole]
    return Loss(int(counts.sum()), _mean(policy - entropy, counts[whole]), _mean(value, counts[whole]))


def _mean(sums: NDArray[np.float64], counts: NDArray[np.int64]) -> Mean:
    """Of the sums [G] and numbers [G] of the rows of each game."""
    rows = float(counts.sum())
    mean = float(sums.sum()) / rows
    spread = float(((sums - mean * counts) ** 2).sum()) * len(counts) / max(1, len(counts) - 1)
    return Mean(mean, spread**0.5 / rows)


def _entropy(record: GameRecord) -> float:
    """The sum over the rows that are learned from, in nats: below it no policy's loss falls."""
    shares = record.policy_shares.astype(np.float64) / 65_535
    terms = np.zeros(len(shares) + 1)
    terms[1:] = np.cumsum(-shares * np.log(np.maximum(shares, 1e-12)))
    offsets = record.policy_offsets.astype(np.int64)
    return float((terms[offsets[1:]] - terms[offsets[:-1]])[record.row_weight > 0].sum())


def _difference(more: Mean, less: Mean) -> Mean:
    return Mean(more.value - less.value, hypot(more.error, less.error))
