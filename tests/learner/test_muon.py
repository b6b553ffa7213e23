"""Orthogonal steps of a tower's kernels, against torch's own Muon and a singular value decomposition."""

import numpy as np
import pytest
import torch

from shusaku.common._core import Game
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network.network import Network
from shusaku.learner.muon import Muon, orthogonal, tower_kernels
from shusaku.learner.optimizers import make_optimizer, take_step

GAME = Game("connect_four")


def network_of(game: Game = GAME, **changes: object) -> Network:
    return Network(game.observation_shape, game.num_actions, NetworkConfig(**{"filters": 8, "blocks": 2, **changes}))


@pytest.mark.parametrize("shape", [(3, 16, 144), (2, 40, 10), (1, 8, 8)])
def test_singular_values_come_near_one_and_vectors_stay(shape: tuple[int, int, int]) -> None:
    matrices = torch.from_numpy(np.random.default_rng(1).standard_normal(shape)).float()
    u, values, v = torch.linalg.svd(matrices, full_matrices=False)
    seen = u.mT @ orthogonal(matrices) @ v.mT  # diagonal if the vectors have stayed
    diagonal = torch.diagonal(seen, dim1=1, dim2=2)
    assert torch.allclose(seen, torch.diag_embed(diagonal), atol=1e-3)
    assert float(values.max() / values.min()) > 1.5
    large = diagonal[values > 0.01 * values.norm(dim=1, keepdim=True)]
    assert float(large.min()) > 0.6
    assert float(large.max()) < 1.25


def test_no_gradient_is_no_step() -> None:
    assert torch.equal(orthogonal(torch.zeros(2, 4, 6)), torch.zeros(2, 4, 6))


def test_steps_are_those_of_torch_on_matrices() -> None:
    """torch rounds to bfloat16 in its iterations: the steps agree as far as that does."""
    start = [torch.from_numpy(np.random.default_rng(seed).standard_normal((12, 30))).float() for seed in (1, 2)]
    ours, theirs = ([torch.nn.Parameter(tensor.clone()) for tensor in start] for _ in range(2))
    bias = torch.nn.Parameter(torch.zeros(3))
    one = Muon(ours, 0.1, [{"params": [bias], "weight_decay": 0.0}], lr=0.02, momentum=0.9, fused=True)
    other = torch.optim.Muon(theirs, lr=0.02, momentum=0.9, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    random = np.random.default_rng(3)
    for _ in range(5):
        for pair in zip(ours, theirs, strict=True):
            gradient = torch.from_numpy(random.standard_normal((12, 30))).float()
            for parameter in pair:
                parameter.grad = gradient.clone()
        bias.grad = torch.ones(3)
        take_step(one)
        other.step()
    for before, mine, reference in zip(start, ours, theirs, strict=True):
        moved = float((reference.detach() - before).norm())
        assert moved > 0.1
        assert float((mine - reference).detach().norm()) < 0.02 * moved
    assert torch.allclose(bias, torch.full((3,), -0.1), atol=1e-4), "AdamW's steps of equal gradients are the rate"


def test_kernels_step_as_their_matrices() -> None:
    """In the order of channels last, as the learner has them."""
    start = torch.from_numpy(np.random.default_rng(1).standard_normal((12, 10, 3, 3))).float()
    kernel = torch.nn.Parameter(start.clone().contiguous(memory_format=torch.channels_last))
    matrix = torch.nn.Parameter(start.flatten(1).clone())
    one = Muon([kernel], 0.1, [{"params": [torch.nn.Parameter(torch.zeros(1))]}], lr=0.02, momentum=0.9, fused=True)
    other = torch.optim.Muon([matrix], lr=0.02, momentum=0.9, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for seed in range(4):
        gradient = torch.from_numpy(np.random.default_rng(seed).standard_normal(start.shape)).float()
        kernel.grad, matrix.grad = gradient.contiguous(memory_format=torch.channels_last), gradient.flatten(1)
        take_step(one)
        other.step()
    moved = float((matrix.detach() - start.flatten(1)).norm())
    assert moved > 0.1
    assert float((kernel.detach().flatten(1) - matrix.detach()).norm()) < 0.02 * moved
    assert kernel.is_contiguous(memory_format=torch.channels_last)


def test_only_the_tower_is_orthogonal() -> None:
    network = network_of()
    assert set(tower_kernels(network)) == {f"blocks.{block}.{half}.conv.weight" for block in (0, 1)
                                           for half in ("first", "second")}
    assert set(tower_kernels(network_of(Game("othello"), tower="plain"))) == {"layers.0.weight", "layers.1.weight"}
    optimizer = make_optimizer(network, LearnerConfig(optimizer="muon"))
    grouped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert {id(parameter) for parameter in grouped} == {id(parameter) for parameter in network.parameters()}
    assert len(grouped) == len(list(network.parameters()))
    assert [group["weight_decay"] for group in optimizer.param_groups] == [1e-4, 1e-4, 0.0]


def test_kernels_step_as_far_as_adamw_does() -> None:
    """Learning rates mean the same: the root mean square of a step is 0.2 rates, about AdamW's."""
    torch.manual_seed(1)
    network = network_of(filters=32)
    before = {name: kernel.detach().clone() for name, kernel in tower_kernels(network).items()}
    optimizer = make_optimizer(network, LearnerConfig(optimizer="muon", learning_rate=1e-2, weight_decay=0.0))
    for parameter in network.parameters():
        parameter.grad = torch.randn_like(parameter)
    take_step(optimizer)
    for name, kernel in tower_kernels(network).items():
        assert float((kernel.detach() - before[name]).square().mean().sqrt()) == pytest.approx(0.2e-2, rel=0.2)
