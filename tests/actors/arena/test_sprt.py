"""The test that ends a match: its ratio by hand, and how often it is wrong."""

from math import log

import numpy as np
import pytest
from tournaments import expected_share, pair_points

from shusaku.actors.arena.sprt import LEAST_PAIRS, PRIOR_PAIRS, Sprt


def test_ratio_of_pairs_that_are_all_won_or_lost() -> None:
    # Two outcomes only: the most likely shares are the hypothesis itself, so the ratio is that of independent trials.
    sprt = Sprt(0.0, 100.0, 0.05, 0.05)
    share = 1 / (1 + 10 ** (-100 / 400))
    expected = 3000 * log(share / 0.5) + 2000 * log((1 - share) / 0.5)
    assert float(sprt.ratio([2000, 0, 0, 0, 3000])) == pytest.approx(expected, rel=1e-2)


def test_ratio_has_no_sign_for_a_result_in_the_middle() -> None:
    sprt = Sprt(-50.0, 50.0, 0.05, 0.05)
    assert float(sprt.ratio([10, 20, 30, 20, 10])) == pytest.approx(0, abs=1e-9)
    # Of two sets with the same mean the one that spreads less says more.
    narrow, wide = sprt.ratio([[0, 0, 60, 40, 0], [40, 0, 0, 0, 60]])
    assert narrow > wide > 0


def test_nothing_is_decided_before_the_spread_is_known() -> None:
    sprt = Sprt(0.0, 400.0, 0.05, 0.05)
    assert sprt.decide([0, 0, 0, 0, LEAST_PAIRS - 1]) == ""
    assert sprt.decide([0, 0, 0, 0, LEAST_PAIRS]) == "H1"
    assert sprt.decide([LEAST_PAIRS, 0, 0, 0, 0]) == "H0"
    assert PRIOR_PAIRS > 0


@pytest.mark.parametrize(("draws", "correlation"), [(0.0, 0.0), (0.5, -0.5)])
def test_errors_are_as_rare_as_asked_for(draws: float, correlation: float) -> None:
    # 500 matches: a standard deviation of 1 %.  The 2,000 of each kind: benchmarks/strength/ratings.py.
    sprt = Sprt(0.0, 100.0, 0.05, 0.05)
    for elo, wrong in ((0.0, "H1"), (100.0, "H0")):
        decisions = simulate(sprt, elo, 500, draws, correlation)
        assert np.mean(np.array(decisions) == wrong) <= 0.05 + 0.03


def simulate(sprt: Sprt, elo: float, matches: int, draws: float, correlation: float) -> list[str]:
    """The decision of each match, at the latest after 150 pairs."""
    random = np.random.default_rng(7)
    share = np.full((matches, 150), expected_share(np.array(elo)))
    outcomes = (2 * pair_points(share, draws, correlation, random).sum(-1)).astype(int)  # [matches, pairs]
    counts = np.cumsum(outcomes[:, :, None] == np.arange(5), axis=1)  # [matches, pairs, 5]
    ratios = np.concatenate([sprt.ratio(some) for some in np.array_split(counts, 10)])[:, LEAST_PAIRS - 1:]
    ended = (ratios >= sprt.upper) | (ratios <= sprt.lower)
    return ["" if not row.any() else "H1" if ratio[row.argmax()] > 0 else "H0"
            for row, ratio in zip(ended, ratios, strict=True)]
