"""Squeeze and excitation in the residual blocks: by hand, in every runtime, in 8 bits and in an ONNX file."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from evaluator_fixtures import assert_same, evaluator_of_runtime, expected, leaves_of, trained_network
from network_fixtures import weights_of

from shusaku.actors.evaluators import openvino
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.hardware import cpu_has_int8
from shusaku.common.network.network import Network, named_tensors, tensors_of
from shusaku.common.network.tower import TowerShape, fold, folded_shapes, initial_tensors, tensor_shapes
from shusaku.common.network.weights import tower_shape
from shusaku.deploy.cli.overrides import compose
from shusaku.learner.quantisation import quantise

CONFIG = NetworkConfig(filters=16, blocks=2, squeeze=4)
GAMES = [("connect_four", {}), ("go", {"size": 5}), ("chess", {"planes": "small"})]

pytestmark = pytest.mark.usefixtures("one_thread")
every_game = pytest.mark.parametrize(("name", "params"), GAMES)


def test_the_tower_describes_the_network() -> None:
    game = Game("connect_four")
    network = Network(game.observation_shape, game.num_actions, CONFIG, seed=3)
    tower = tower_shape(game, CONFIG)
    assert {name: tuple(tensor.shape) for name, tensor in named_tensors(network)} == tensor_shapes(tower)
    arrays, own = initial_tensors(tower, 3), tensors_of(network)
    assert all(np.array_equal(own[name], arrays[name]) for name in own)
    assert {name: tensor.shape for name, tensor in fold(own).items()} == folded_shapes(tower)
    plain = tensor_shapes(TowerShape(tower.planes, tower.num_actions, dataclasses.replace(CONFIG, squeeze=0)))
    assert plain.keys() == {name for name in own if "squeeze" not in name and "excite" not in name}


@torch.no_grad()
def test_a_block_computes_the_layers_of_the_paper() -> None:
    network = trained_network(Game("connect_four"), CONFIG)
    block, x = network.blocks[0], torch.rand(3, 16, 6, 7)
    t = {name: torch.from_numpy(tensor) for name, tensor in fold(tensors_of(network)).items()}
    y = F.relu(F.conv2d(x, t["blocks.0.first.weight"], t["blocks.0.first.bias"], padding=1))
    y = F.conv2d(y, t["blocks.0.second.weight"], t["blocks.0.second.bias"], padding=1)
    wanted = torch.empty_like(y)
    for row in range(3):
        means = torch.stack([y[row, channel].sum() / 42 for channel in range(16)])
        hidden = (t["blocks.0.squeeze.weight"] @ means + t["blocks.0.squeeze.bias"]).clamp(min=0)
        both = t["blocks.0.excite.weight"] @ hidden + t["blocks.0.excite.bias"]  # [2 F]
        for channel in range(16):
            gate = 1 / (1 + torch.exp(-both[channel]))
            wanted[row, channel] = F.relu(gate * y[row, channel] + both[16 + channel] + x[row, channel])
    torch.testing.assert_close(block(x), wanted, rtol=1e-4, atol=1e-4)


def test_its_gradient_is_right() -> None:
    """A part of the block adds in place to what autograd may need."""
    block = trained_network(Game("connect_four"), CONFIG).blocks[0].double()
    x = torch.rand(2, 16, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(block, [x])
    block(x).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in block.parameters())


@torch.no_grad()
def test_a_cell_sees_the_whole_board() -> None:
    """One 3x3 block reaches a distance of 3 with its stem; squeeze and excitation all cells."""
    for squeeze, is_seen in ((4, True), (0, False)):
        game = Game("go", {"size": 13})
        network = trained_network(game, NetworkConfig(filters=8, blocks=1, squeeze=squeeze))
        planes = torch.zeros(1, *game.observation_shape)
        other = planes.clone()
        other[0, 0, 12, 12] = 1
        features = [network.blocks(F.relu(network.stem(x)))[0, :, 0, 0] for x in (planes, other)]
        assert (not torch.allclose(*features)) is is_seen


@pytest.mark.parametrize("runtime", ["openvino", "torch", "cuda"])
@every_game
def test_every_runtime_agrees_with_the_training_network(name: str, params: dict[str, int], runtime: str) -> None:
    game = Game(name, params)
    evaluator = evaluator_of_runtime(runtime, game, CONFIG)
    for version in (1, 2):  # the second in the memory of the first
        network = trained_network(game, CONFIG, seed=version)
        evaluator.load(weights_of(network, game, version, 0))
        leaves = leaves_of(game, 6)
        assert_same(evaluator(leaves), *expected(network, game, leaves))


def test_openvino_swaps_weights_without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    game = Game("connect_four")
    evaluator = make_evaluator(game, InferenceConfig(runtime="openvino", precision="fp32"), CONFIG, 8)
    monkeypatch.setattr(openvino, "build_graph", None)  # to be called for a graph that is compiled
    evaluator.load(weights_of(trained_network(game, CONFIG), game, 1, 0))
    assert evaluator.version == 1


@pytest.mark.skipif(not cpu_has_int8(), reason="this CPU computes no products of 8-bit numbers")
def test_its_convolutions_are_rounded_to_8_bits() -> None:
    game, config = Game("connect_four"), dataclasses.replace(CONFIG, filters=32)
    weights, tower = weights_of(trained_network(game, config), game, 1, 0), tower_shape(game, config)
    planes = (np.random.default_rng(1).random((32, *game.observation_shape)) < 0.3).astype(np.float32)
    quantised, error = quantise(weights, tower, planes)
    assert len(quantised.scales) == 4, error
    exact, rounded = (make_evaluator(game, InferenceConfig(runtime="openvino", precision=precision), config, 8)
                      for precision in ("fp32", "int8"))
    exact.load(weights)
    rounded.load(quantised)
    leaves = leaves_of(game, 8)
    assert "int8" in rounded.description
    assert 0 < np.abs(exact(leaves).logits - rounded(leaves).logits).max() < 0.5


def test_onnxruntime_computes_the_same() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = pytest.importorskip("shusaku.common.network.onnx_graph")
    game = Game("connect_four")
    network = trained_network(game, CONFIG)
    model = graph.onnx_model(weights_of(network, game, 1, 0), tower_shape(game, CONFIG))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    planes = torch.rand(5, *game.observation_shape)
    policy, value = session.run(["policy", "value"], {"planes": planes.numpy()})
    with torch.no_grad():
        said = network(planes)
    np.testing.assert_allclose(policy, said["policy"].numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(value, said["value"].numpy(), rtol=1e-4, atol=1e-4)


def test_a_plain_tower_has_no_blocks() -> None:
    with pytest.raises(UsageError, match=r"network\.squeeze=8.*no residual blocks; leave it out"):
        compose(["game=go", "network.tower=plain", "network.squeeze=8"])
    with pytest.raises(UsageError, match=r"network\.squeeze=-1"):
        compose(["network.squeeze=-1"])
