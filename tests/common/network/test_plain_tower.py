"""AlphaGo's tower: 5x5, then 3x3, no norms, a bias for each action; by hand, in every runtime, with one head."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from evaluator_fixtures import assert_same, evaluator_of_runtime, expected, leaves_of, trained_network
from network_fixtures import weights_of
from torch import Tensor

from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.common._core import Game
from shusaku.common.config.rules import TARGETS
from shusaku.common.config.schema import InferenceConfig, LearnerConfig, NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.network.network import Network, named_tensors, tensors_of
from shusaku.common.network.targets import make_targets
from shusaku.common.network.tower import TowerShape, fold, initial_tensors, quantised_layers, tensor_shapes
from shusaku.common.network.weights import tower_shape, weights_from_bytes, weights_to_bytes
from shusaku.deploy.cli.overrides import compose
from shusaku.learner.quantisation import quantise

CONFIG = NetworkConfig(filters=8, blocks=2, value_filters=2, value_hidden=16, tower="plain")
GAMES = [("go", {"size": 5}), ("othello", {"size": 6}), ("tic_tac_toe", {}), ("chess", {"planes": "small"})]

pytestmark = pytest.mark.usefixtures("one_thread")
every_game = pytest.mark.parametrize(("name", "params"), GAMES)


@every_game
def test_the_tower_describes_the_network(name, params):
    game = Game(name, params)
    network = Network(game.observation_shape, game.num_actions, CONFIG, seed=3)
    shapes = {name: tuple(tensor.shape) for name, tensor in named_tensors(network)}
    tower = tower_shape(game, CONFIG)
    assert shapes == tensor_shapes(tower)
    arrays, own = initial_tensors(tower, 3), tensors_of(network)
    assert all(np.array_equal(own[name], arrays[name]) for name in own)
    assert fold(own).keys() == own.keys()
    assert not any("norm" in name for name in own)


def by_hand(t: dict[str, Tensor], x: Tensor, cells: int, actions: int) -> tuple[Tensor, Tensor]:
    """The paper's layers, cell by cell where they see one cell."""
    x = F.conv2d(F.pad(x, (2, 2, 2, 2)), t["stem.weight"], t["stem.bias"]).clamp(min=0)
    for i in range(2):
        x = F.conv2d(F.pad(x, (1, 1, 1, 1)), t[f"layers.{i}.weight"], t[f"layers.{i}.bias"]).clamp(min=0)
    features = x.flatten(2)  # [B, F, H * W]
    count = actions // cells
    kernels = t["heads.policy.output.weight"][:, :, 0, 0]
    logits = [kernels[a % count] @ features[:, :, a // count].T for a in range(count * cells)]
    logits += [row @ features.mean(2).T for row in t.get("heads.policy.others.output.weight", ())]
    policy = torch.stack(logits, 1) + t["heads.policy.output.bias"]
    y = F.conv2d(F.pad(x, (1, 1, 1, 1)), t["heads.value.layer.weight"], t["heads.value.layer.bias"]).clamp(min=0)
    kernel = t["heads.value.features.weight"][:, :, 0, 0]
    y = (torch.einsum("of,bfhw->bohw", kernel, y) + t["heads.value.features.bias"][:, None, None]).flatten(1)
    y = (y @ t["heads.value.hidden.weight"].T + t["heads.value.hidden.bias"]).clamp(min=0)
    return policy, torch.tanh(y @ t["heads.value.output.weight"].T + t["heads.value.output.bias"]).squeeze(1)


@torch.no_grad()
@every_game
def test_it_computes_the_layers_of_the_paper(name, params):
    game = Game(name, params)
    network = trained_network(game, CONFIG)
    with torch.no_grad():
        network.heads["policy"].output.bias.normal_()
    (_, h, w), x = game.observation_shape, torch.rand(5, *game.observation_shape)
    tensors = {name: torch.from_numpy(tensor) for name, tensor in tensors_of(network).items()}
    policy, value = by_hand(tensors, x, h * w, game.num_actions)
    with torch.no_grad():
        said = network(x)
    torch.testing.assert_close(said["policy"], policy, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(said["value"], value, rtol=1e-4, atol=1e-4)
    assert value.std() > 1e-4


@pytest.mark.parametrize("runtime", ["openvino", "torch", "cuda"])
@every_game
def test_every_runtime_agrees_with_the_training_network(name, params, runtime):
    game = Game(name, params)
    network = trained_network(game, CONFIG)
    evaluator = evaluator_of_runtime(runtime, game, CONFIG)
    for version in (1, 2):  # the second in the memory of the first
        evaluator.load(weights_of(network, game, version, 0))
        leaves = leaves_of(game, 6)
        assert_same(evaluator(leaves), *expected(network, game, leaves))


def test_every_target_has_a_head():
    """Each of them learns: its loss has a gradient in every layer of the tower."""
    game = Game("go", {"size": 5})
    targets = make_targets(LearnerConfig(targets=list(TARGETS)))
    network = Network(game.observation_shape, game.num_actions, CONFIG, targets)
    for name, prediction in network(torch.rand(3, *game.observation_shape)).items():
        network.zero_grad()
        prediction.square().sum().backward(retain_graph=True)
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.layers.parameters()), name


def test_a_policy_alone_has_no_value():
    game = Game("go", {"size": 5})
    network = Network(game.observation_shape, game.num_actions, CONFIG,
                      make_targets(LearnerConfig(targets=["policy"]))).eval()
    weights = weights_from_bytes(weights_to_bytes(weights_of(network, game, 1, 0)), "a file")
    assert not any(name.startswith("heads.value.") for name in weights.tensors)
    evaluator = make_evaluator(game, InferenceConfig(runtime="openvino", precision="fp32"), CONFIG, 4)
    evaluator.load(weights)
    answer = evaluator(leaves_of(game, 4))
    assert not answer.values.any()
    assert np.ptp(answer.logits) > 1e-4


def test_its_layers_are_rounded_to_8_bits():
    game = Game("go", {"size": 5})
    config, random = dataclasses.replace(CONFIG, filters=32), np.random.default_rng(1)
    weights, tower = weights_of(trained_network(game, config), game, 1, 0), tower_shape(game, config)
    planes = (random.random((32, *game.observation_shape)) < 0.3).astype(np.float32)
    quantised, error = quantise(weights, tower, planes)
    assert quantised_layers(tower) == ["layers.0", "layers.1"]
    assert list(quantised.scales) == quantised_layers(tower), error
    exact, rounded = (make_evaluator(game, InferenceConfig(runtime="openvino", precision=p), config, 8)
                      for p in ("fp32", "int8"))
    exact.load(weights)
    rounded.load(quantised)
    leaves = leaves_of(game, 8)
    assert np.abs(exact(leaves).logits - rounded(leaves).logits).max() < 0.5


def test_a_game_with_fewer_actions_than_cells_is_refused():
    with pytest.raises(UsageError, match=r"network\.tower=plain.*7 actions on 42 cells.*network\.tower=residual"):
        tensor_shapes(TowerShape((3, 6, 7), 7, CONFIG))


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(UsageError, match=r"network\.tower=deep"):
        compose(["game=go", "network.tower=deep"])
    with pytest.raises(UsageError, match=r"network\.policy_head=planes.*leave it out"):
        compose(["game=hex", "network.tower=plain", "network.policy_head=planes"])


def test_the_group_is_the_network_of_the_paper():
    """13 layers of 192 filters on 48 planes of 19 x 19, and a value network on 49: layers 2 to 11, 12, 13, 14, 15."""
    policy = tensor_shapes(TowerShape((48, 19, 19), 362, compose(["game=go", "network=alphago"]).network))
    kernels = [shape for name, shape in policy.items() if len(shape) == 4 and ".value." not in name]
    assert kernels == [(192, 48, 5, 5), *[(192, 192, 3, 3)] * 11, (1, 192, 1, 1)]
    config = compose(["game=go", "network=alphago", "network.blocks=10"]).network
    value = tensor_shapes(TowerShape((49, 19, 19), 362, config))
    shapes = [shape for name, shape in value.items() if name.endswith("weight") and ".policy." not in name]
    assert shapes == [(192, 49, 5, 5), *[(192, 192, 3, 3)] * 11, (1, 192, 1, 1), (256, 361), (1, 256)]
