"""8 bits: what OpenVINO computes is what the learner judged, scales travel with the weights, and refusals are said."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from network_fixtures import weights_of
from numpy.typing import NDArray

from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.common import hardware
from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.hardware import cpu_has_int8
from shusaku.common.messages import Weights
from shusaku.common.network.network import Network
from shusaku.common.network.tower import quantised_layers
from shusaku.common.network.weights import random_weights, tower_shape, weights_from_bytes, weights_to_bytes
from shusaku.learner import quantisation
from shusaku.learner.quantisation import MOST_POLICY_ERROR, MOST_VALUE_ERROR, POSITIONS, QuantisationError, quantise

pytestmark = pytest.mark.usefixtures("one_thread")
GAME = Game("connect_four")
CONFIG = NetworkConfig(filters=32, blocks=3)
TOWER = tower_shape(GAME, CONFIG)


def positions(count: int, seed: int = 1) -> NDArray[np.float32]:
    """Planes [N, C, H, W] of random games."""
    random, planes = np.random.default_rng(seed), []
    while len(planes) < count:
        position = GAME.start()
        for _ in range(int(random.integers(0, 25))):
            if not position.is_terminal:
                position.play(int(random.choice(position.legal_actions)))
        if not position.is_terminal:
            planes.append(position.observation())
    return np.stack(planes)


def trained(seed: int = 1) -> Weights:
    """A network whose norms have seen positions and whose heads say something."""
    network = Network(GAME.observation_shape, GAME.num_actions, CONFIG, seed=seed).train()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        for step in range(30):
            network(torch.from_numpy(positions(64, seed=step)))
    return weights_of(network.eval(), GAME, version=1, step=0)


WEIGHTS = trained()


def answers(weights: Weights, planes: NDArray[np.float32], precision: str) -> tuple[NDArray[np.float32], ...]:
    evaluator = make_evaluator(GAME, InferenceConfig(precision=precision), CONFIG, len(planes))
    assert isinstance(evaluator, NetworkEvaluator)
    evaluator.load(weights)
    assert evaluator.precision == precision
    evaluator.runtime.inputs[...] = channels_last(planes, evaluator.runtime.inputs)
    evaluator.run_raw(1)
    return evaluator.runtime.policy.copy(), evaluator.runtime.values.copy()


def test_every_convolution_of_the_blocks_has_its_largest_input() -> None:
    quantised, error = quantise(WEIGHTS, TOWER, positions(64))
    assert list(quantised.scales) == quantised_layers(TOWER) == [
        f"blocks.{i}.{half}" for i in range(3) for half in ("first", "second")
    ]
    assert all(scale > 0 for scale in quantised.scales.values())
    assert 0 < error.policy < MOST_POLICY_ERROR
    assert 0 < error.value < MOST_VALUE_ERROR
    twice, _ = quantise(WEIGHTS, TOWER, np.concatenate([positions(64), positions(64)]))
    assert twice.scales == pytest.approx(quantised.scales)


def test_a_dead_layer_has_a_scale_all_the_same() -> None:
    dead = {name: t * 0 if name.startswith("blocks.0.first.norm") else t for name, t in WEIGHTS.tensors.items()}
    dead["blocks.0.first.norm.running_var"] = WEIGHTS.tensors["blocks.0.first.norm.running_var"]
    quantised, _ = quantise(replace(WEIGHTS, tensors=dead), TOWER, positions(16))
    assert quantised.scales["blocks.0.second"] == 1.0


@pytest.mark.skipif(not cpu_has_int8(), reason="this CPU computes no products of 8-bit numbers")
def test_openvino_computes_what_the_learner_judged() -> None:
    """Its answers are nearer to the rounded network of torch than that is to the exact one."""
    planes = positions(64)
    quantised, _ = quantise(WEIGHTS, TOWER, planes)
    policy, values = answers(quantised, planes, "int8")
    exact_policy, exact_values = answers(WEIGHTS, planes, "fp32")
    rounded = quantisation._Quantised(TOWER, quantised.scales, "fp32")
    rounded.load(WEIGHTS)
    with torch.inference_mode():
        judged_policy, judged_values = (t.numpy() for t in rounded(torch.from_numpy(planes)))
    rounding = np.abs(judged_policy - exact_policy).mean()
    assert np.abs(policy - judged_policy).mean() < max(rounding, 0.02)
    assert np.abs(values - judged_values[:, 0]).mean() < max(np.abs(judged_values[:, 0] - exact_values).mean(), 0.005)
    assert (policy.argmax(1) == exact_policy.argmax(1)).mean() > 0.9
    assert not np.array_equal(policy, exact_policy)


def test_too_large_an_error_is_refused_with_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantisation, "MOST_POLICY_ERROR", 1e-9)
    refused, error = quantise(WEIGHTS, TOWER, positions(16))
    assert refused.scales == {}
    assert refused.rejected == error.reason
    assert f"the policy errs by {error.policy:.3g} nats (at most 1e-09)" in error.reason
    assert QuantisationError(0.0, 0.0).reason == ""
    assert "the value by 0.5" in QuantisationError(0.0, 0.5).reason


@pytest.mark.skipif(not cpu_has_int8(), reason="this CPU computes no products of 8-bit numbers")
def test_weights_without_scales_are_answered_in_the_next_precision() -> None:
    evaluator = make_evaluator(GAME, InferenceConfig(precision="int8"), CONFIG, 8)
    other = "bf16" if hardware.cpu_has_bf16() else "fp32"
    evaluator.load(WEIGHTS)
    assert evaluator.precision == other
    assert "not int8: these weights have no scales" in evaluator.description
    quantised, _ = quantise(WEIGHTS, TOWER, positions(32))
    evaluator.load(replace(quantised, version=2))
    assert evaluator.precision == "int8"
    assert "int8 (inference.precision=int8)" in evaluator.description
    evaluator.load(replace(WEIGHTS, version=3, rejected="the error is too large"))
    assert evaluator.precision == other
    assert "not int8: the error is too large" in evaluator.description


def test_scales_travel_in_the_file() -> None:
    quantised, _ = quantise(WEIGHTS, TOWER, positions(32))
    again = weights_from_bytes(weights_to_bytes(quantised), "memory")
    assert again.scales == quantised.scales
    assert again.rejected == ""
    assert weights_from_bytes(weights_to_bytes(replace(WEIGHTS, rejected="why")), "memory").rejected == "why"
    plain = weights_to_bytes(WEIGHTS)
    assert b"scales" not in plain, "files without them stay as they were"


def test_a_tower_that_takes_long_is_measured_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scales are those of fp32 to within its rounding, and an error in one is an error in the other."""
    planes = positions(64)
    quantised, error = quantise(WEIGHTS, TOWER, planes)
    monkeypatch.setattr(quantisation, "WORK", 1)
    monkeypatch.setattr(quantisation, "FEWEST", 64)
    monkeypatch.setattr(quantisation, "cpu_has_bf16", lambda: False)
    assert quantise(WEIGHTS, TOWER, planes)[1] == error, "nothing imitates bf16"
    monkeypatch.setattr(quantisation, "cpu_has_bf16", lambda: True)
    short, other = quantise(WEIGHTS, TOWER, planes)
    assert other != error
    assert short.scales == pytest.approx(quantised.scales, rel=0.02)
    assert other.policy == pytest.approx(error.policy, rel=0.5)
    assert other.value == pytest.approx(error.value, rel=0.5)
    wild = replace(WEIGHTS, tensors={name: t * 30 if name == "heads.value.output.weight" else t
                                     for name, t in WEIGHTS.tensors.items()})
    assert quantise(wild, TOWER, planes)[0].rejected


def test_a_large_tower_is_measured_with_fewer_positions() -> None:
    sizes = [(NetworkConfig(), 256), (NetworkConfig(filters=128, blocks=10), 41), (NetworkConfig(256, 20), 16)]
    for network, count in sizes:
        assert quantisation.positions_for(tower_shape(Game("go", {"size": 9}), network)) == pytest.approx(count, abs=1)


def test_it_is_quick_and_takes_a_bounded_number_of_positions() -> None:
    network = NetworkConfig()  # 64 filters x 5 blocks
    weights = random_weights(GAME, network, 1, version=1)
    seen: list[int] = []

    class Counting(quantisation._Watched):
        def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            seen.append(len(x))
            return super().__call__(x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantisation, "_Watched", Counting)
        quantise(weights, tower_shape(GAME, network), positions(POSITIONS + 50))
    assert seen == [POSITIONS]
