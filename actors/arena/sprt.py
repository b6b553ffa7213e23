"""A match that ends as soon as its result is clear: the sequential probability ratio test over pairs of games.

H0: the first player is `elo0` stronger; H1: it is `elo1` stronger.  H1 is accepted in a share of at most alpha of the
matches in which H0 is true, H0 in at most beta of those in which H1 is true (Wald 1945, "Sequential tests of
statistical hypotheses").

The two games of an opening are one sample with five outcomes, 0 to 2 points, of unknown probabilities.  The test is the
generalised one: it compares the largest likelihoods that the outcomes can have if their mean is the one or the other
hypothesis (Van den Bergh, "A practical introduction to the GSPRT"; the test of Stockfish's fishtest, there with Elo
normalised by the spread of the outcomes, here with ordinary Elo).  Under a mean s the most likely probabilities are
p / (1 + t (a - s)), p the observed shares, a the outcomes, t the number that makes their mean s (Owen 1988, "Empirical
likelihood ratio confidence intervals for a single functional").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

OUTCOMES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # share of the points of a pair
PRIOR_PAIRS = 0.5  # spread evenly over the outcomes, so that none is taken for impossible
LEAST_PAIRS = 8  # before which nothing is decided: the spread of the outcomes is not known
BISECTIONS = 40


@dataclass(frozen=True, slots=True)
class Sprt:
    """What is tested, and how sure the answer must be."""

    elo0: float
    elo1: float  # above elo0
    alpha: float
    beta: float

    @property
    def lower(self) -> float:
        """The log likelihood ratio at which H0 is accepted."""
        return log(self.beta / (1 - self.alpha))

    @property
    def upper(self) -> float:
        """The log likelihood ratio at which H1 is accepted."""
        return log((1 - self.beta) / self.alpha)

    def ratio(self, counts: ArrayLike) -> NDArray[np.float64]:
        """The logarithm of the likelihood ratio of H1 to H0 for counts of the five outcomes [..., 5]: [...]."""
        counted = np.asarray(counts, np.float64)
        return _log_likelihood(counted, _score(self.elo1)) - _log_likelihood(counted, _score(self.elo0))

    def decide(self, counts: Sequence[int]) -> str:
        """`H0` or `H1` once it is accepted, empty before."""
        if sum(counts) < LEAST_PAIRS:
            return ""
        ratio = float(self.ratio(counts))
        return "H1" if ratio >= self.upper else "H0" if ratio <= self.lower else ""


def _score(elo: float) -> float:
    return float(1 / (1 + 10 ** (-elo / 400)))


def _log_likelihood(counts: NDArray[np.float64], score: float) -> NDArray[np.float64]:
    """The largest one that the counts [..., 5] can have if the mean is `score`, up to a constant: [...]."""
    shares = counts + PRIOR_PAIRS / len(OUTCOMES)
    shares = shares / shares.sum(-1, keepdims=True)
    deviations = OUTCOMES - score
    # The mean falls with t between the two values at which a probability would become infinite.
    low = np.full(shares.shape[:-1], -1 / deviations[-1])
    high = np.full(shares.shape[:-1], -1 / deviations[0])
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_below = np.sum(shares * deviations / (1 + middle[..., None] * deviations), -1) > 0
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.asarray(-np.sum(counts * np.log1p(((low + high) / 2)[..., None] * deviations), -1))
