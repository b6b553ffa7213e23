"""The Elo difference of two players, with its 95 % interval, from the results of their games.

Two games from one opening are one sample: their results are correlated, because the same side of an uneven opening
wins both times.  The interval is Wilson's (1927, "Probable inference") on the score, with Kish's effective number of
games (1965, "Survey sampling") in place of the number: n / D, where D is the ratio of the variance of the mean, as the
pairs show it, to that of n independent won or lost games.  Draws and opposite results of a pair make D small, equal
results large.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log10, sqrt

Z_95 = 1.959964  # the normal distribution's 97.5 % point
PRIOR_GAMES = 4  # independent games that are added to the estimate of D, because few pairs say little about it


@dataclass(frozen=True, slots=True)
class EloEstimate:
    """How much stronger the first player is; -inf and inf if it lost, or won, every game."""

    score: float  # its share of the points, a draw counts half
    elo: float
    low: float  # of the 95 % interval
    high: float


def elo_of(score: float) -> float:
    """The difference at which this share of the points is expected: -400 log10(1 / score - 1), from -inf to inf."""
    if score <= 0:
        return -inf
    return inf if score >= 1 else -400 * log10(1 / score - 1)


def estimate_elo(samples: Sequence[Sequence[float]]) -> EloEstimate:
    """From the first player's points (1, 0.5 or 0) in the games of each pair; ValueError without a game.

    A pair of which one game is missing counts as far as it goes.
    """
    games = sum(len(sample) for sample in samples)
    if games == 0:
        raise ValueError("no game was played, so nothing can be said of the players")
    score = sum(map(sum, samples)) / games
    low, high = wilson_interval(score, games / _dispersion(samples, score, games))
    return EloEstimate(score, elo_of(score), elo_of(low), elo_of(high))


def _dispersion(samples: Sequence[Sequence[float]], score: float, games: int) -> float:
    """D: the variance of the sum of points over that of as many independent won or lost games; 1 if it is 0."""
    variance = score * (1 - score)
    if variance == 0:
        return 1.0
    found = sum(sum(points - score for points in sample) ** 2 for sample in samples)
    return (found + PRIOR_GAMES * variance) / ((games + PRIOR_GAMES) * variance)


def wilson_interval(score: float, games: float) -> tuple[float, float]:
    """95 %: the scores whose distance from `score` is within 1.96 of their own standard deviations."""
    weight = Z_95**2 / games
    middle = (score + weight / 2) / (1 + weight)
    half = Z_95 / (1 + weight) * sqrt(score * (1 - score) / games + Z_95**2 / (4 * games**2))
    # At the ends the formula gives 0 or 1 except for rounding.
    low = 0.0 if score <= 0 else max(0.0, middle - half)
    high = 1.0 if score >= 1 else min(1.0, middle + half)
    return low, high
