"""How many games an actor plays: the fewest that come close to the best, with few and short measurements."""

from collections.abc import Callable

import pytest

from shusaku.common._core import Game
from shusaku.common.config.schema import ActorsConfig, Config, GameConfig, InferenceConfig, NetworkConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.network.weights import random_weights
from shusaku.deploy.bench.batch_size import ENOUGH, SIZES, SLICES, Pace, choose_games, measure_games


def machine(fixed: float, each: float, tried: list[int] | None = None) -> Callable[[int], Pace]:
    """A step of `size` positions takes `fixed` + size x `each` seconds."""
    def pace_of(size: int) -> Pace:
        if tried is not None:
            tried.append(size)
        seconds = fixed + size * each
        return Pace(size / seconds, seconds)

    return pace_of


def test_the_fewest_games_that_come_close_to_the_best() -> None:
    choice = choose_games(machine(100e-6, 20e-6))
    rates = {size: size / (100e-6 + size * 20e-6) for size in choice.rates}
    assert choice.rates == pytest.approx(rates)
    best = max(rates.values())
    assert rates[choice.games] >= ENOUGH * best
    assert all(rate < ENOUGH * best for size, rate in rates.items() if size < choice.games)
    assert choice.games > SIZES[0]


@pytest.mark.parametrize(("fixed", "more"), [(10e-6, 100e-6), (100e-6, 1000e-6)])
def test_a_larger_fixed_part_wants_more_games(fixed: float, more: float) -> None:
    assert choose_games(machine(fixed, 20e-6)).games < choose_games(machine(more, 20e-6)).games


def test_where_nothing_is_gained_the_fewest_games_are_taken() -> None:
    assert choose_games(machine(0.0, 20e-6)).games == SIZES[0]


def test_a_large_network_is_tried_with_the_fewest_games_alone() -> None:
    """19 x 19, 256 x 20: a batch of 16 takes half a second here, and no fixed part is worth another one."""
    tried: list[int] = []
    assert choose_games(machine(0.001, 0.03, tried)).games == SIZES[0]
    assert tried == [SIZES[0]] * SLICES


def test_a_machine_that_is_slow_for_a_while_is_slow_for_every_size() -> None:
    """A neighbour takes half of it, over one round and a half of the measurement."""
    calls = 0

    def slice_of(size: int) -> Pace:
        nonlocal calls
        calls += 1
        pace = machine(100e-6, 20e-6)(size)
        return Pace(pace.evaluations_per_s / 2, pace.step_seconds * 2) if 4 < calls < 15 else pace

    assert choose_games(slice_of) == choose_games(machine(100e-6, 20e-6))


def test_a_step_that_was_slow_once_forbids_nothing() -> None:
    calls = 0

    def slice_of(size: int) -> Pace:
        nonlocal calls
        calls += 1
        return Pace(1.0, 5.0) if calls == 2 else machine(100e-6, 20e-6)(size)

    assert choose_games(slice_of) == choose_games(machine(100e-6, 20e-6))


def test_a_size_at_which_caches_fail_is_passed_over() -> None:
    rates = {16: 700.0, 32: 900.0, 64: 1000.0, 96: 800.0, 128: 1010.0}
    choice = choose_games(lambda size: Pace(rates[size], 0.01), list(rates))
    assert choice.games == 64
    assert str(choice) == ("64 games an actor, chosen by evaluations/s (batches of 16: 69%, 32: 89%, 64: 99%, "
                           "96: 79%, 128: 100%)")


def test_a_real_machine_has_an_answer() -> None:
    config = Config(
        game=GameConfig("tic_tac_toe"), network=NetworkConfig(filters=8, blocks=1), search=PuctConfig(simulations=8),
        inference=InferenceConfig(runtime="openvino", precision="fp32"), actors=ActorsConfig(games_per_actor=0),
    )
    game = Game("tic_tac_toe")
    choice = measure_games(config, game, random_weights(game, config.network, 1, version=1))
    assert choice.games in choice.rates
    assert all(rate > 1000 for rate in choice.rates.values())
