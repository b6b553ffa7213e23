"""Elo differences and their intervals, against numbers worked out by hand and against simulation."""

from itertools import pairwise
from math import inf, sqrt

import numpy as np
import pytest

from shusaku.actors.arena.elo import elo_of, estimate_elo

WIN, DRAW, LOSS = 1.0, 0.5, 0.0


def score_of(elo: float) -> float:
    """The inverse of `elo_of`: 0 -> 0.5, 400 -> 10 / 11."""
    return 0.0 if elo == -inf else 1 / (1 + 10 ** (-elo / 400))


@pytest.mark.parametrize(("score", "elo"), [
    (0.5, 0.0), (10 / 11, 400.0), (1 / 11, -400.0), (0.75, 190.8485), (100 / 101, 800.0), (1.0, inf), (0.0, -inf),
])
def test_scores_and_differences(score: float, elo: float) -> None:
    assert elo_of(score) == pytest.approx(elo, abs=1e-4)
    assert score_of(elo) == pytest.approx(score, abs=1e-6)


def test_games_that_are_independent_get_wilsons_interval() -> None:
    # 50 games: 10 pairs won, 5 lost, 10 split.  p = 0.6; sum over pairs of (points - 1.2)^2 = 10 * 0.64 + 5 * 1.44 +
    # 10 * 0.04 = 14; D = (14 + 4 * 0.24) / (54 * 0.24) = 14.96 / 12.96; effective games 50 / D = 43.3155.
    samples = [(WIN, WIN)] * 10 + [(LOSS, LOSS)] * 5 + [(WIN, LOSS)] * 10
    estimate = estimate_elo(samples)
    n, z2 = 43.3155, 3.84146
    middle = (0.6 + z2 / (2 * n)) / (1 + z2 / n)
    half = sqrt(z2) / (1 + z2 / n) * sqrt(0.24 / n + z2 / (4 * n * n))
    assert estimate.score == pytest.approx(0.6)
    assert estimate.elo == pytest.approx(70.4365, abs=1e-3)
    assert score_of(estimate.low) == pytest.approx(middle - half, abs=1e-5)
    assert score_of(estimate.high) == pytest.approx(middle + half, abs=1e-5)


def test_everything_won_or_lost() -> None:
    won = estimate_elo([(WIN, WIN)] * 50)
    assert (won.elo, won.high) == (inf, inf)
    # Wilson's lower end of 100 of 100: 1 / (1 + z^2 / 100).
    assert score_of(won.low) == pytest.approx(1 / 1.0384146, abs=1e-6)
    lost = estimate_elo([(LOSS, LOSS)] * 50)
    assert (lost.elo, lost.low, lost.high) == (-inf, -inf, pytest.approx(-won.low))


def test_pairs_that_always_split_say_more_than_pairs_that_agree() -> None:
    width = {}
    for name, pairs in {
        "split": [(WIN, LOSS)] * 50, "drawn": [(DRAW, DRAW)] * 50, "agree": [(WIN, WIN), (LOSS, LOSS)] * 25,
    }.items():
        estimate = estimate_elo(pairs)
        assert estimate.elo == 0
        assert estimate.low == pytest.approx(-estimate.high)
        width[name] = estimate.high - estimate.low
    independent = 2 * 68.0  # Wilson: 100 games at 0.5 lie within 0.4038 .. 0.5962
    assert width["split"] == width["drawn"] < independent < width["agree"]
    assert width["agree"] == pytest.approx(sqrt(2) * independent, rel=0.06)


def test_more_games_narrow_the_interval() -> None:
    widths = [estimate_elo([(WIN, LOSS), (WIN, WIN), (LOSS, LOSS)] * n) for n in (5, 20, 80)]
    assert all(b.high - b.low < 0.6 * (a.high - a.low) for a, b in pairwise(widths))


def test_a_pair_without_its_second_game_counts() -> None:
    assert estimate_elo([(WIN, DRAW), (LOSS,)]).score == pytest.approx(0.5)
    with pytest.raises(ValueError, match="no game"):
        estimate_elo([])


@pytest.mark.parametrize("split_share", [0.0, 0.5])
@pytest.mark.parametrize("strength", [0.5, 0.8])
def test_the_interval_holds_the_truth_as_often_as_it_says(split_share: float, strength: float) -> None:
    random = np.random.default_rng(7)
    truth = split_share * 0.5 + (1 - split_share) * strength
    held = 0
    for _ in range(1000):
        splits = random.random(50) < split_share  # an opening that decides the game
        wins = (random.random((50, 2)) < strength).astype(float)
        wins[splits] = (WIN, LOSS)
        estimate = estimate_elo(wins.tolist())
        held += score_of(estimate.low) <= truth <= score_of(estimate.high)
    assert 0.92 <= held / 1000 <= 0.98


def test_the_interval_is_the_bootstraps() -> None:
    random = np.random.default_rng(3)
    points = random.choice([WIN, DRAW, LOSS], p=[0.5, 0.3, 0.2], size=(400, 2))
    points[:100, 1] = points[:100, 0]  # openings that decide both games alike
    means = [points[random.integers(0, 400, 400)].mean() for _ in range(2000)]
    estimate = estimate_elo(points.tolist())
    low, high = np.quantile(means, [0.025, 0.975])
    assert score_of(estimate.low) == pytest.approx(low, abs=0.004)
    assert score_of(estimate.high) == pytest.approx(high, abs=0.004)
