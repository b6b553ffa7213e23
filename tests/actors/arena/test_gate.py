"""The gate's decision: by hand, and how often it is wrong."""


import numpy as np
import pytest
from tournaments import expected_share, pair_points

from shusaku.actors.arena.arena import FinishedGame, MatchResult
from shusaku.actors.arena.gate import GateMatch, has_passed
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, GateConfig, NetworkConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.network.weights import random_weights


def result_of(points: list[float]) -> MatchResult:
    games = [FinishedGame(number, number % 2, point, (), (), "rules") for number, point in enumerate(points)]
    return MatchResult(games)


def test_it_needs_more_than_the_score_and_ends_when_that_is_certain() -> None:
    settings = GateConfig(games=20, score=0.55)  # more than 11 points
    assert has_passed(settings, result_of([1.0] * 11)) is None
    assert has_passed(settings, result_of([1.0] * 11 + [0.5])) is True
    assert has_passed(settings, result_of([0.0] * 8)) is None
    assert has_passed(settings, result_of([0.0] * 9)) is False  # 11 points are not enough
    assert has_passed(settings, result_of([0.5] * 20)) is False


@pytest.mark.parametrize(("draws", "correlation"), [(0.0, 0.0), (0.5, 0.0), (0.0, -0.5)])
def test_an_equal_version_hardly_passes_and_a_stronger_one_does(draws: float, correlation: float) -> None:
    settings, random = GateConfig(), np.random.default_rng(3)
    shares = []
    for elo in (0.0, 100.0):
        expected = np.full((200, settings.games // 2), expected_share(np.array(elo)))
        points = pair_points(expected, draws, correlation, random)
        shares.append(np.mean([has_passed(settings, result_of(list(gate.ravel()))) is True for gate in points]))
    assert shares[0] <= 0.05
    assert shares[1] >= 0.95


def test_a_match_of_two_versions_is_played_to_its_decision() -> None:
    game = Game("tic_tac_toe")
    config = Config(search=PuctConfig(simulations=4), network=NetworkConfig(4, 1))
    config.inference.runtime = "torch"  # which has nothing to compile
    config.gate = GateConfig(games=40, opening_plies=2)
    best, candidate = (random_weights(game, NetworkConfig(4, 1), seed, version=seed) for seed in (3, 8))
    results = []
    for _ in range(2):
        match = GateMatch(config, game, best, candidate, threads=1, should_stop=lambda: False)
        while match.step():
            pass
        results.append(match.result())
        match.close()
    first, second = results
    assert first == second  # the same weights play the same games
    assert (first.candidate, first.best) == (8, 3)
    assert first.games <= 40
    points = [point for pair in first.points for point in pair]
    assert first.has_passed == (sum(points) > 0.55 * 40)
    assert all(len(pair) <= 2 for pair in first.points)
