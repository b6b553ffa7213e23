"""How well the network fits the newest games, which it has hardly learned from, and older ones, which it has."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.messages import GameRecord, Weights
from shusaku.learner.unseen_games import UnseenGames

ROWS = 4000  # of each of the two, at most
NEWEST = 0.05  # of the games, which the network has hardly learned from


@dataclass(frozen=True)
class Loss:
    """On some games; nats, and (z - v)^2."""

    rows: int
    policy: float  # -sum pi log p
    value: float
    entropy: float  # of the searches' policies, below which no policy loss falls

    @property
    def excess(self) -> float:
        """KL(pi || p): what the network still lacks of the searches' policies, in nats."""
        return self.policy - self.entropy


@dataclass(frozen=True)
class Fit:
    """Of one network."""

    newest: Loss
    learned: Loss

    @property
    def policy_gap(self) -> float:
        """What the newest games cost more than those learned from, above what no network could know; nats."""
        return self.newest.excess - self.learned.excess

    @property
    def value_gap(self) -> float:
        """The same of (z - v)^2."""
        return self.newest.value - self.learned.value


def measure_fit(
    game: Game, network: NetworkConfig, weights: Weights, records: Sequence[GameRecord]
) -> Fit | None:
    """Of records from the oldest to the newest; None if there are too few to have two parts."""
    newest = max(1, int(NEWEST * len(records)))
    middle = records[len(records) // 2:-2 * newest]  # still of about the same strength
    if not middle:
        return None
    return Fit(*(_measure(game, network, weights, part) for part in (records[-newest:], middle)))


def _measure(game: Game, network: NetworkConfig, weights: Weights, records: Sequence[GameRecord]) -> Loss:
    chosen, rows = [], 0
    for record in reversed(records):
        if rows < ROWS:
            chosen.append(record)
            rows += record.num_rows
    measured = UnseenGames(game, network, chosen, rows).measure(weights)
    return Loss(int(measured["positions"]), measured["policy_loss"], measured["value_loss"], _entropy(chosen))


def _entropy(records: Sequence[GameRecord]) -> float:
    """Mean over the rows that are learned from, in nats."""
    total = rows = 0.0
    for record in records:
        shares = record.policy_shares.astype(np.float64) / 65_535
        terms = np.zeros(len(shares) + 1)
        terms[1:] = np.cumsum(-shares * np.log(np.maximum(shares, 1e-12)))
        offsets = record.policy_offsets.astype(np.int64)
        of_row = terms[offsets[1:]] - terms[offsets[:-1]]
        learned = record.row_weight > 0
        total, rows = total + float(of_row[learned].sum()), rows + int(learned.sum())
    return total / max(1, rows)
