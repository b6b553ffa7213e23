"""Ratings of many players: against choix, against players of known strength, and where results are one-sided."""

import time
from itertools import combinations

import numpy as np
import pytest
from oracles import package
from tournaments import tournaments

from shusaku.actors.arena.elo import estimate_elo
from shusaku.actors.arena.ratings import ELO, PRIOR_ELO, Estimate, PlayedPair, rate

WON, LOST, SPLIT, DRAWN = (1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.5, 0.5)


@pytest.mark.parametrize(("spread", "draws", "correlation"), [
    (100.0, 0.0, 0.0), (300.0, 0.4, 0.0), (300.0, 0.0, -0.5), (100.0, 0.4, 0.5),
])
def test_the_truth_lies_in_the_interval(spread: float, draws: float, correlation: float) -> None:
    # 300 tournaments of 7 differences: the share has a standard deviation of 0.6 % or less.  The whole simulation:
    # benchmarks/strength/ratings.py.
    elo = np.linspace(-spread, spread, 8)
    estimate = Estimate(tournaments(elo, 300, 40, draws=draws, correlation=correlation, seed=1), 8)
    low, high = estimate.intervals(0)
    inside = ((low <= elo - elo[0]) & (elo - elo[0] <= high))[:, 1:]
    assert 0.93 <= inside.mean() <= 0.97
    ratings = estimate.ratings - estimate.ratings[:, :1]
    assert ratings.mean(0) == pytest.approx(elo - elo[0], abs=12)


def test_ratings_are_those_of_choix() -> None:
    choix = package("choix")
    random = np.random.default_rng(5)
    names = [f"player {number}" for number in range(8)]
    pairs, wins = [], []
    for first, second in combinations(range(8), 2):
        for _ in range(1 if first == 0 else 20):  # player 0 has played little, and player 7 has won every game
            points = tuple(float(second != 7 and random.random() < 0.3 + 0.05 * (second - first)) for _ in range(2))
            pairs.append(PlayedPair(names[first], names[second], points))
            wins += [(first, second) if point else (second, first) for point in points]
    expected = choix.opt_pairwise(8, wins, alpha=(ELO / PRIOR_ELO) ** 2 / 2, method="Newton-CG", tol=1e-10) * ELO
    ratings = rate(pairs, names[3])
    for number, name in enumerate(names):
        player = ratings.find(name)
        assert player is not None
        assert player.elo == pytest.approx(expected[number] - expected[3], abs=1)
        assert player.low <= player.elo <= player.high


@pytest.mark.parametrize("points", [
    [WON] * 10 + [LOST] * 5 + [SPLIT] * 25, [WON] * 30 + [LOST] * 30, [SPLIT] * 40, [DRAWN] * 30 + [WON] * 10,
])
def test_two_players_get_the_interval_of_a_match(points: list[tuple[float, ...]]) -> None:
    player = rate([PlayedPair("a", "b", pair) for pair in points], "b").find("a")
    match = estimate_elo(points)
    assert player is not None
    assert player.elo == pytest.approx(match.elo, abs=1)
    width = match.high - match.low
    assert player.low == pytest.approx(match.low, abs=0.05 * width)
    assert player.high == pytest.approx(match.high, abs=0.05 * width)


def test_results_all_on_one_side_stay_finite_and_say_at_least() -> None:
    ratings = rate([PlayedPair("strong", "weak", WON)] * 20 + [PlayedPair("weakest", "weak", LOST)] * 20, "weak")
    strong, weakest = ratings.find("strong"), ratings.find("weakest")
    assert strong is not None
    assert weakest is not None
    # The lower end is about that of 40 games won; the upper one is the prior's.
    assert 400 < strong.low < 600 < strong.elo < 1500 < strong.high < 5000
    assert (weakest.elo, weakest.low, weakest.high) == pytest.approx((-strong.elo, -strong.high, -strong.low), abs=1e-3)


def test_more_games_narrow_the_interval() -> None:
    widths = []
    for count in (5, 20, 80):
        player = rate([PlayedPair("a", "b", points) for points in [WON, SPLIT, LOST, SPLIT] * count], "b").find("a")
        assert player is not None
        widths.append(player.high - player.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] / widths[2] == pytest.approx(4, rel=0.15)  # the root of 16


@pytest.mark.parametrize(("spread", "draws", "correlation"), [(100.0, 0.0, 0.0), (300.0, 0.4, -0.5)])
def test_the_truth_lies_in_the_normal_interval(spread: float, draws: float, correlation: float) -> None:
    elo = np.linspace(-spread, spread, 8)
    estimate = Estimate(tournaments(elo, 300, 40, draws=draws, correlation=correlation, seed=2), 8)
    low, high = estimate.intervals(0, lopsided=[])
    inside = ((low <= elo - elo[0]) & (elo - elo[0] <= high))[:, 1:]
    assert 0.93 <= inside.mean() <= 0.97
    assert not low[:, 0].any()
    assert not high[:, 0].any()
    for some, every in zip(estimate.intervals(0, lopsided=[1, 7]), estimate.intervals(0), strict=True):
        np.testing.assert_allclose(some[:, [1, 7]], every[:, [1, 7]], atol=1e-3)


def test_hundreds_of_versions_are_rated_in_seconds_and_nearly_as_few() -> None:
    """A run of days: each version meets three before it; a Zen 3 took 0.3 s, and 5 with all intervals lopsided."""
    random, pairs = np.random.default_rng(1), []
    for version in range(1, 301):
        for other in (version - 1, max(0, version - 3), max(0, version - 9)):
            share = 1 / (1 + 10 ** (-(version - other) * 5 / 400))
            pairs += [PlayedPair(str(version), str(other), tuple(map(float, random.random(2) < share)))
                      for _ in range(10)]
    begin = time.monotonic()
    ratings = rate(pairs, "0")
    assert time.monotonic() - begin < 10
    few = rate([pair for pair in pairs if max(int(pair.first), int(pair.second)) <= 60], "0")
    many = rate([pair for pair in pairs if max(int(pair.first), int(pair.second)) <= 70], "0")
    assert [len(ratings.players), len(few.players), len(many.players)] == [301, 61, 71]
    for version in range(5, 45):  # what came later says little of these
        lopsided, normal = few.find(str(version)), many.find(str(version))
        assert lopsided is not None
        assert normal is not None
        assert (normal.low - normal.elo) / (lopsided.low - lopsided.elo) == pytest.approx(1, abs=0.15)
        assert (normal.high - normal.elo) / (lopsided.high - lopsided.elo) == pytest.approx(1, abs=0.15)


def test_players_without_a_game_against_the_others_are_named() -> None:
    ratings = rate([PlayedPair("a", "b", SPLIT), PlayedPair("d", "c", WON), PlayedPair("a", "x", ())], "b")
    assert [player.name for player in ratings.players] == ["a", "b"]
    assert ratings.unconnected == (("c", "d"),)
    with pytest.raises(ValueError, match="x has played no game"):
        rate([PlayedPair("a", "b", SPLIT)], "x")


def test_sides_of_a_pair_and_single_games_count_as_they_are() -> None:
    one = rate([PlayedPair("a", "b", (1.0, 0.5)), PlayedPair("b", "a", (0.0,))], "b").find("a")
    other = rate([PlayedPair("b", "a", (0.0, 0.5)), PlayedPair("a", "b", (1.0,))], "b").find("a")
    assert one is not None
    assert other is not None
    assert (one.elo, one.low, one.high) == pytest.approx((other.elo, other.low, other.high))
    assert (one.games, one.score) == (other.games, other.score) == (3, pytest.approx(2.5 / 3))
