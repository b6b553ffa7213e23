"""The core's tower of floats against the same network in double precision, one product at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evaluator_fixtures import leaves_of
from plain_sums import (
    OF_CHANNELS,
    Array,
    answers_of_sums,
    check_rows,
    convolution,
    exact_tensors,
    noisy_planes,
    noisy_weights,
)

from shusaku.actors.evaluators import float_tower
from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.float_tower import CoreFloatRuntime, core_float_runtimes
from shusaku.common._core import FloatTower, Game
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.hardware import Precision
from shusaku.common.messages import Weights
from shusaku.common.network.tower import TowerShape
from shusaku.common.network.weights import random_weights, tower_shape

SMALL = NetworkConfig(filters=32, blocks=2, policy_filters=4, value_filters=3, value_hidden=20)
# Boards of one tile, of whole tiles and of parts, with tiles of three cells and of four.
GAMES: list[tuple[str, dict[str, Any]]] = [
    ("tic_tac_toe", {}), ("connect_four", {}), ("othello", {"size": 6}), ("hex", {"size": 7}), ("othello", {}),
    ("go", {"size": 5}), ("go", {"size": 9, "planes": "liberties"}), ("hex", {"size": 11}), ("go", {"size": 19})]
FP32 = Precision("fp32", "a test")


@pytest.fixture(autouse=True)
def where_it_is_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops are of any processor; where they are the fastest is another question."""
    monkeypatch.setattr(float_tower, "core_floats_are_fastest", lambda: True)


def expected(weights: Weights, tower: TowerShape, planes: Array) -> tuple[Array, Array]:
    t = exact_tensors(weights, tower)
    return answers_of_sums(
        t, tower, planes, lambda x, name: convolution(x, t[f"{name}.weight"]) + t[f"{name}.bias"][OF_CHANNELS])


def made(game: Game, network: NetworkConfig, rows: int) -> tuple[Weights, Array]:
    return noisy_weights(game, network), noisy_planes(game, rows)


def runtime_of(tower: TowerShape, rows: int) -> CoreFloatRuntime:
    make = core_float_runtimes(tower, FP32)
    assert make is not None
    return make(rows)


def answers(tower: TowerShape, weights: Weights, planes: Array, rows: int) -> tuple[Array, Array]:
    runtime = runtime_of(tower, len(planes))
    runtime.load(weights)
    runtime.inputs[...] = channels_last(planes, runtime.inputs)
    runtime.policy.fill(7)
    runtime.values.fill(7)
    runtime.run(rows)
    return runtime.policy, runtime.values


@pytest.mark.parametrize("network", [
    SMALL, replace(SMALL, filters=16), replace(SMALL, filters=48, policy_filters=32, value_filters=8, blocks=1),
    replace(SMALL, filters=128, blocks=1)], ids=lambda network: f"{network.filters} filters")
@pytest.mark.parametrize(("name", "params"), GAMES)
def test_it_computes_the_network(name: str, params: dict[str, Any], network: NetworkConfig) -> None:
    game = Game(name, params)
    tower = tower_shape(game, network)
    weights, planes = made(game, network, 21)
    logits, values = answers(tower, weights, planes, 21)
    wanted_logits, wanted_values = expected(weights, tower, planes)
    np.testing.assert_allclose(logits, wanted_logits, atol=2e-5 * max(1.0, float(np.abs(wanted_logits).max())))
    np.testing.assert_allclose(values, wanted_values, atol=2e-5)


def test_a_policy_by_cells() -> None:
    game = Game("minishogi", {"planes": "small"})
    network = replace(SMALL, policy_head="planes", policy_filters=32, value_filters=8)
    tower = tower_shape(game, network)
    weights, planes = made(game, network, 20)
    logits, values = answers(tower, weights, planes, 20)
    wanted_logits, wanted_values = expected(weights, tower, planes)
    np.testing.assert_allclose(logits, wanted_logits, atol=2e-5)
    np.testing.assert_allclose(values, wanted_values, atol=2e-5)


@pytest.mark.parametrize("rows", [0, 1, 5, 6, 7, 16, 17, 40])
def test_rows_are_computed_alike_in_every_batch_and_the_rest_is_left_alone(rows: int) -> None:
    game = Game("connect_four")
    tower = tower_shape(game, SMALL)
    weights, planes = made(game, SMALL, 40)
    check_rows(lambda planes, rows: answers(tower, weights, planes, rows), planes, rows)


def test_it_answers_as_the_other_runtimes_do_and_new_weights_replace_the_old_ones() -> None:
    game = Game("go", {"size": 9})
    evaluators = [make_evaluator(game, InferenceConfig(precision="fp32", runtime=runtime), SMALL, 8)
                  for runtime in ("auto", "torch")]
    leaves = leaves_of(game, 20)
    for version in (1, 2):
        weights = replace(made(game, SMALL, 1)[0], version=version)
        weights = replace(weights, tensors={name: tensor * np.float32(version) if name == "stem.conv.weight" else tensor
                                            for name, tensor in weights.tensors.items()})
        for evaluator in evaluators:
            evaluator.load(weights)
        core, torch = (evaluator(leaves) for evaluator in evaluators)
        assert (core.version, torch.version) == (version, version)
        np.testing.assert_allclose(core.logits, torch.logits, atol=1e-4)
        np.testing.assert_allclose(core.values, torch.values, atol=1e-4)
    assert evaluators[0].description.startswith("core, fp32")
    assert evaluators[1].description.startswith("torch")


def test_what_is_no_number_does_not_become_one() -> None:
    game = Game("connect_four")
    weights, planes = made(game, SMALL, 8)
    planes[3, 0, 2, 2] = np.nan
    logits, values = answers(tower_shape(game, SMALL), weights, planes, 8)
    assert np.isnan(values[3])
    assert np.isnan(logits[3]).any()
    others = np.arange(8) != 3
    assert np.isfinite(logits[others]).all()
    assert np.isfinite(values[others]).all()


@pytest.mark.parametrize("network", [replace(SMALL, filters=40), replace(SMALL, squeeze=4),
                                     replace(SMALL, tower="plain"), replace(SMALL, blocks=0)])
def test_other_towers_are_left_to_other_runtimes(network: NetworkConfig) -> None:
    game = Game("othello", {"size": 6})
    assert core_float_runtimes(tower_shape(game, network), FP32) is None
    assert core_float_runtimes(tower_shape(game, SMALL), Precision("bf16", "")) is None


def test_other_processors_are_left_to_other_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float_tower, "core_floats_are_fastest", lambda: False)
    assert core_float_runtimes(tower_shape(Game("connect_four"), SMALL), FP32) is None


def test_weights_of_another_tower_are_refused_without_a_change() -> None:
    game = Game("connect_four")
    tower = tower_shape(game, SMALL)
    weights, planes = made(game, SMALL, 4)
    runtime = runtime_of(tower, 4)
    runtime.load(weights)
    runtime.inputs[...] = channels_last(planes, runtime.inputs)
    runtime.run(4)
    before = runtime.policy.copy()
    with pytest.raises(ValueError, match="network"):
        runtime.load(random_weights(game, replace(SMALL, filters=16), seed=1))
    runtime.run(4)
    np.testing.assert_array_equal(runtime.policy, before)


def test_arrays_of_another_tower_are_refused() -> None:
    with pytest.raises(ValueError, match="40 filters, not a multiple of 16"):
        FloatTower((3, 6, 7, 7, 40, 1, 4, 3, 20, False))
    core = FloatTower((3, 6, 7, 7, 32, 1, 4, 3, 20, False))
    zeros = np.zeros
    for layer, channels, filters in ((3, 32, 32), (-1, 32, 32), (0, 32, 32), (1, 3, 32), (1, 32, 16)):
        with pytest.raises(ValueError, match="a layer of another tower"):
            core.set_layer(layer, zeros((filters, channels, 3, 3), np.float32), zeros(32, np.float32))
    with pytest.raises(ValueError, match="a policy head of another tower"):
        core.set_policy(zeros((4, 32, 1, 1), np.float32), zeros(4, np.float32), zeros((7, 4), np.float32),
                        zeros(7, np.float32))
    with pytest.raises(ValueError, match="a value head of another tower"):
        core.set_value(zeros((3, 32, 1, 1), np.float32), zeros(3, np.float32), zeros((20, 3), np.float32),
                       zeros(20, np.float32), zeros((1, 20), np.float32), zeros(1, np.float32))
    with pytest.raises(ValueError, match="a score head of another tower"):
        core.set_score(zeros((3, 32, 1, 1), np.float32), zeros(3, np.float32), zeros((20, 3), np.float32),
                       zeros(20, np.float32), zeros((1, 20), np.float32), zeros(1, np.float32))
    with pytest.raises(ValueError, match="an ownership head of another tower"):
        core.set_ownership(zeros((2, 32, 1, 1), np.float32), zeros(1, np.float32))
    with pytest.raises(ValueError, match="ownership of another tower"):
        core.run(zeros((4, 6, 7, 3), np.float32), 4, zeros((8, 7), np.float32), zeros(8, np.float32),
                 zeros((4, 6, 7), np.float32))
    core.set_ownership(zeros((1, 32, 1, 1), np.float32), zeros(1, np.float32))
    with pytest.raises(ValueError, match="ownership of another tower"):
        core.run(zeros((4, 6, 7, 3), np.float32), 4, zeros((8, 7), np.float32), zeros(8, np.float32),
                 zeros((4, 7, 6), np.float32))
    with pytest.raises(ValueError, match="scores of another tower"):
        core.run(zeros((4, 6, 7, 3), np.float32), 4, zeros((8, 7), np.float32), zeros(8, np.float32), None,
                 zeros(4, np.float32))
    with pytest.raises(ValueError, match="5 rows of smaller arrays"):
        core.run(zeros((4, 6, 7, 3), np.float32), 5, zeros((8, 7), np.float32), zeros(8, np.float32))
    with pytest.raises(ValueError, match="of another tower"):
        core.run(zeros((4, 7, 6, 3), np.float32), 4, zeros((8, 7), np.float32), zeros(8, np.float32))
