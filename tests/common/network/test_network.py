"""The network: names and shapes of the tower, first values, folding, and what does not fit."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.network.network import Network, load_tensors, named_tensors, tensors_of
from shusaku.common.network.tower import TowerShape, fold, folded_shapes, initial_tensors, tensor_shapes

PLANES, ACTIONS = (3, 4, 5), 6
CONFIG = NetworkConfig(filters=8, blocks=2, policy_filters=3, value_filters=2, value_hidden=16)
TOWER = TowerShape(PLANES, ACTIONS, CONFIG)


def test_predictions_have_the_promised_shapes_and_ranges() -> None:
    predictions = Network(PLANES, ACTIONS, CONFIG)(torch.rand(7, *PLANES))
    assert predictions["policy"].shape == (7, ACTIONS)
    assert predictions["value"].shape == (7,)
    assert predictions["value"].abs().max() <= 1


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_the_tower_describes_the_network(blocks: int) -> None:
    config = NetworkConfig(filters=4, blocks=blocks)
    network = Network(PLANES, ACTIONS, config)
    shapes = {name: tuple(tensor.shape) for name, tensor in named_tensors(network)}
    assert shapes == tensor_shapes(TowerShape(PLANES, ACTIONS, config))


def test_a_policy_by_cells_says_each_cell_its_own_actions() -> None:
    config = NetworkConfig(filters=4, blocks=0, policy_head="planes", policy_filters=3)
    network = Network((3, 4, 5), 7 * 20, config).eval()
    torch.manual_seed(1)
    shapes = {name: tuple(tensor.shape) for name, tensor in named_tensors(network)}
    assert shapes == tensor_shapes(TowerShape(PLANES, 140, config))
    with torch.no_grad():
        network.stem.conv.weight[:, :, torch.tensor([0, 2])] = 0  # so that a cell sees itself alone
        network.stem.conv.weight[:, :, :, torch.tensor([0, 2])] = 0
        network.stem.conv.weight.abs_()  # no ReLU silences a cell
        network.heads["policy"].output.weight.normal_()
        one, other = torch.rand(1, *PLANES), torch.rand(1, *PLANES)
        other[:, :, 2, 3] = one[:, :, 2, 3]
        same = network(one)["policy"].eq(network(other)["policy"]).reshape(20, 7)
    assert same[2 * 5 + 3].all()
    assert not same[[i for i in range(20) if i != 13]].any()


def test_a_policy_by_cells_wants_as_many_actions_for_each() -> None:
    with pytest.raises(UsageError, match=r"network\.policy_head=planes.*141 actions.*20 cells"):
        Network(PLANES, 141, NetworkConfig(policy_head="planes"))


def test_the_first_values_follow_from_the_seed() -> None:
    network = tensors_of(Network(PLANES, ACTIONS, CONFIG, seed=5))
    arrays = initial_tensors(TOWER, seed=5)
    assert all(np.array_equal(network[name], arrays[name]) for name in arrays)
    other = initial_tensors(TOWER, seed=6)
    assert not np.array_equal(other["stem.conv.weight"], arrays["stem.conv.weight"])


def test_an_untrained_prior_is_nearly_uniform() -> None:
    with torch.no_grad():
        prior = F.softmax(Network(PLANES, ACTIONS, CONFIG).eval()(torch.rand(50, *PLANES))["policy"], dim=1)
    assert (prior - 1 / ACTIONS).abs().max() < 0.1


def test_folding_keeps_the_function() -> None:
    """The folded tensors, run by hand, say what the network in its evaluation mode says."""
    network = Network(PLANES, ACTIONS, CONFIG).train()
    for _ in range(20):
        network(torch.randn(32, *PLANES) * 2 + 1)  # statistics away from the identity
    network.eval()
    folded = {name: torch.from_numpy(tensor) for name, tensor in fold(tensors_of(network)).items()}
    assert {name: tuple(t.shape) for name, t in folded.items()} == folded_shapes(TOWER)

    def convolution(x: torch.Tensor, name: str) -> torch.Tensor:
        kernel = folded[f"{name}.weight"]
        return F.conv2d(x, kernel, folded[f"{name}.bias"], padding=kernel.shape[2] // 2)

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x.flatten(1), folded[f"{name}.weight"], folded[f"{name}.bias"])

    observations = torch.randn(9, *PLANES)
    x = F.relu(convolution(observations, "stem"))
    for i in range(CONFIG.blocks):
        x = F.relu(x + convolution(F.relu(convolution(x, f"blocks.{i}.first")), f"blocks.{i}.second"))
    policy = linear(F.relu(convolution(x, "heads.policy.features")), "heads.policy.output")
    hidden = F.relu(linear(F.relu(convolution(x, "heads.value.features")), "heads.value.hidden"))
    value = torch.tanh(linear(hidden, "heads.value.output")).squeeze(1)
    with torch.no_grad():
        expected = network(observations)
    torch.testing.assert_close(policy, expected["policy"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(value, expected["value"], rtol=1e-4, atol=1e-5)


def test_weights_of_another_network_are_refused() -> None:
    network = Network(PLANES, ACTIONS, CONFIG)
    with pytest.raises(UsageError, match=r"blocks\.2"):
        load_tensors(network, initial_tensors(TowerShape(PLANES, ACTIONS, NetworkConfig(8, 3, 3, 2, 16)), 1))
    with pytest.raises(UsageError, match=r"heads\.policy\.output\.weight has shape"):
        load_tensors(network, initial_tensors(TowerShape(PLANES, 7, CONFIG), 1))
