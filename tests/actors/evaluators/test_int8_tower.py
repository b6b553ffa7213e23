"""The core's 8-bit tower against the same numbers computed one by one, and against OpenVINO's."""

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

from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.int8_tower import MOST_FILTERS, CoreInt8Tower
from shusaku.common._core import Game, Int8Tower, int8_ways
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.messages import Weights
from shusaku.common.network.tower import TowerShape
from shusaku.common.network.weights import folded_tensors, tower_shape
from shusaku.learner.quantisation import quantise

SMALL = NetworkConfig(filters=32, blocks=2, policy_filters=4, value_filters=3, value_hidden=20)
# Rows of up to 10 cells are computed at once, those of 11 in two parts.
GAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "tic_tac_toe": ("tic_tac_toe", {}), "connect_four": ("connect_four", {}),
    "go": ("go", {"size": 9, "planes": "liberties"}), "hex_2": ("hex", {"size": 2}), "hex_4": ("hex", {"size": 4}),
    "hex_8": ("hex", {"size": 8}), "hex_10": ("hex", {"size": 10}), "hex_11": ("hex", {"size": 11}),
    "go_19": ("go", {"size": 19}),
    "othello": ("othello", {"size": 6})}

pytestmark = pytest.mark.skipif(not int8_ways(), reason="needs AVX-512 with VNNI and BF16")


@pytest.fixture(autouse=True, params=int8_ways())
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the processor's ways to convolve."""
    monkeypatch.setattr("shusaku.actors.evaluators.int8_tower.WAY", request.param)
    return str(request.param)


def bf16(x: Array) -> Array:
    """Rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32).astype(np.float64)


def expected(weights: Weights, tower: TowerShape, planes: Array) -> tuple[Array, Array]:
    """What `learner.quantisation` describes, with the first layer and the heads in bf16, in double precision."""
    t = exact_tensors(weights, tower)

    def layer(x: Array, name: str) -> Array:
        scale = weights.scales[name]
        steps = np.clip(np.round(x * (255 / scale)), 0, 255)
        step = np.abs(t[f"{name}.weight"]).max((1, 2, 3)) / 127
        integers = np.round(t[f"{name}.weight"] / step[:, None, None, None])
        return convolution(steps, integers) * (step * scale / 255)[OF_CHANNELS] + t[f"{name}.bias"][OF_CHANNELS]

    return answers_of_sums(t, tower, planes, layer, bf16)


def quantised(game: Game, network: NetworkConfig, rows: int) -> tuple[Weights, Array]:
    """Weights that may be rounded, and positions."""
    planes = bf16(noisy_planes(game, rows)).astype(np.float32)
    weights, _ = quantise(noisy_weights(game, network), tower_shape(game, network), planes)
    assert weights.scales
    return weights, planes


def answers(tower: TowerShape, weights: Weights, planes: Array, rows: int) -> tuple[Array, Array]:
    core = CoreInt8Tower.make(tower)
    assert core is not None
    core.load(folded_tensors(weights, tower), weights.scales)
    inputs = channels_last(planes, np.zeros(0, np.uint16))
    logits, values = np.full((len(planes), tower.num_actions), 7, np.float32), np.full(len(planes), 7, np.float32)
    core.run(inputs, rows, logits, values)
    return logits, values


@pytest.mark.parametrize("network", [
    SMALL, replace(SMALL, filters=16), replace(SMALL, filters=48, policy_filters=32, value_filters=8, blocks=1),
    replace(SMALL, filters=64), replace(SMALL, filters=96, blocks=1), replace(SMALL, filters=128, blocks=1)],
    ids=lambda network: f"{network.filters} filters")
@pytest.mark.parametrize("name", GAMES)
def test_it_computes_what_the_quantisation_describes(
    name: str, network: NetworkConfig, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MOST_FILTERS, way, 128)
    if way == "vnni" and network.filters > 64:
        pytest.skip("the core has no loops of so many filters by VNNI")
    game = Game(*GAMES[name])
    tower = tower_shape(game, network)
    weights, planes = quantised(game, network, 40)
    logits, values = answers(tower, weights, planes, 40)
    wanted_logits, wanted_values = expected(weights, tower, planes)
    # Where a step lies between two, double precision may round to the other one.
    for found, wanted in ((logits, wanted_logits), (values, wanted_values)):
        error = np.abs(found - wanted)
        assert np.median(error) < 2e-3
        assert error.max() < 0.03 * max(0.3, float(wanted.std()))


@pytest.mark.parametrize("policy_filters", [4, 32])
def test_a_policy_by_cells(policy_filters: int) -> None:
    game = Game("minishogi", {"planes": "small"})
    network = replace(SMALL, policy_head="planes", policy_filters=policy_filters, value_filters=8)
    tower = tower_shape(game, network)
    weights, planes = quantised(game, network, 20)
    logits, values = answers(tower, weights, planes, 20)
    wanted_logits, wanted_values = expected(weights, tower, planes)
    np.testing.assert_allclose(logits, wanted_logits, atol=0.01)
    np.testing.assert_allclose(values, wanted_values, atol=0.01)


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 40])
def test_rows_are_computed_alike_in_every_batch_and_the_rest_is_left_alone(rows: int) -> None:
    game = Game("connect_four")
    tower = tower_shape(game, SMALL)
    weights, planes = quantised(game, SMALL, 40)
    check_rows(lambda planes, rows: answers(tower, weights, planes, rows), planes, rows)


def test_a_network_that_is_no_number_leaves_nothing_behind() -> None:
    """An odd number of cells: the loops read behind the last board's features, and multiply that by zeros."""
    game = Game("go", {"size": 9})
    tower = tower_shape(game, SMALL)
    weights, planes = quantised(game, SMALL, 16)
    core = CoreInt8Tower.make(tower)
    assert core is not None
    inputs = channels_last(planes, np.zeros(0, np.uint16))
    logits, values = np.zeros((16, tower.num_actions), np.float32), np.zeros(16, np.float32)
    tensors = folded_tensors(weights, tower)
    core.load({name: np.full_like(array, np.nan) if name.endswith("features.bias") else array
               for name, array in tensors.items()}, weights.scales)
    core.run(inputs, 16, logits, values)
    assert not np.isfinite(values).any()
    core.load(tensors, weights.scales)
    for rows in (1, 3, 16):
        core.run(inputs, rows, logits, values)
        assert np.isfinite(logits[:rows]).all()
        assert np.isfinite(values[:rows]).all()


def test_it_plays_as_openvino_does() -> None:
    game = Game("go", {"size": 9})
    weights, planes = quantised(game, SMALL, 32)
    answered = []
    for runtime in ("auto", "openvino"):
        evaluator = make_evaluator(game, InferenceConfig(precision="int8", runtime=runtime), SMALL, 32)
        evaluator.load(weights)
        runtime_of: Any = evaluator.runtime  # type: ignore[attr-defined]
        runtime_of.inputs[...] = channels_last(planes, runtime_of.inputs)
        runtime_of.run(32)
        answered.append((runtime_of.runtime_name, runtime_of.policy.copy(), runtime_of.values.copy()))
    (core, logits, values), (openvino, other_logits, other_values) = answered
    assert (core, openvino) == ("core", "openvino")
    np.testing.assert_allclose(logits, other_logits, atol=0.05)
    np.testing.assert_allclose(values, other_values, atol=0.05)


def test_weights_without_scales_are_played_by_openvino_and_the_next_ones_by_the_core() -> None:
    game = Game("connect_four")
    weights, _ = quantised(game, SMALL, 20)
    evaluator = make_evaluator(game, InferenceConfig(precision="int8"), SMALL, 4)
    leaves = leaves_of(game, 9)
    evaluator.load(replace(weights, scales={}, rejected="they stray", version=1))
    assert evaluator.description.startswith("openvino")
    assert "they stray" in evaluator.description
    evaluator.load(replace(weights, version=2))
    assert evaluator.description.startswith("core, int8")
    assert (evaluator.runtime_name, evaluator.precision) == ("core", "int8")  # type: ignore[attr-defined]
    core = evaluator(leaves)
    assert core.version == 2
    logits = core.logits.copy()
    evaluator.load(replace(weights, scales={}, rejected="they stray", version=3))
    assert evaluator.description.startswith("openvino")
    np.testing.assert_allclose(evaluator(leaves).logits, logits, atol=0.1)


@pytest.mark.parametrize("network", [
    replace(SMALL, filters=40), replace(SMALL, filters=80), replace(SMALL, squeeze=4), replace(SMALL, tower="plain")])
def test_other_towers_are_left_to_openvino(network: NetworkConfig) -> None:
    game = Game("othello", {"size": 6})
    assert CoreInt8Tower.make(tower_shape(game, network)) is None
    assert CoreInt8Tower.make(tower_shape(game, SMALL, ("ownership",))) is None


@pytest.mark.parametrize("filters", [64, 96, 128])
def test_many_filters_are_the_cores_by_amx_alone(filters: int, way: str) -> None:
    core = CoreInt8Tower.make(tower_shape(Game("connect_four"), replace(SMALL, filters=filters)))
    assert (core is not None) == (way == "amx")


def test_a_way_that_the_processor_has_not_makes_no_tower() -> None:
    assert Int8Tower.make("other", (3, 6, 7, 7, 32, 1, 4, 3, 20, False)) is None


def test_arrays_of_another_tower_are_refused(way: str) -> None:
    core = Int8Tower.make(way, (3, 6, 7, 7, 32, 1, 4, 3, 20, False))
    assert core is not None
    zeros = np.zeros
    with pytest.raises(ValueError, match="a stem of another tower"):
        core.set_stem(zeros((32, 4, 3, 3), np.float32), zeros(32, np.float32), 1.0)
    for layer, filters in ((2, 32), (-1, 32), (0, 16)):
        with pytest.raises(ValueError, match="a layer of another tower"):
            core.set_layer(layer, zeros((filters, 32, 3, 3), np.int8), zeros(32, np.float32), zeros(32, np.float32), 1)
    with pytest.raises(ValueError, match="a policy head of another tower"):
        core.set_policy(zeros((4, 32, 1, 1), np.float32), zeros(4, np.float32), zeros((7, 4), np.float32),
                        zeros(7, np.float32))
    with pytest.raises(ValueError, match="a value head of another tower"):
        core.set_value(zeros((3, 32, 1, 1), np.float32), zeros(3, np.float32), zeros((20, 3), np.float32),
                       zeros(20, np.float32), zeros((1, 20), np.float32), zeros(1, np.float32))
    with pytest.raises(ValueError, match="5 rows of smaller arrays"):
        core.run(zeros((4, 6, 7, 3), np.uint16), 5, zeros((8, 7), np.float32), zeros(8, np.float32))
    with pytest.raises(ValueError, match="of another tower"):
        core.run(zeros((4, 7, 6, 3), np.uint16), 4, zeros((8, 7), np.float32), zeros(8, np.float32))
