"""The gradient of the heads: the same numbers as ever, and in one layout with what it meets on its way back."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network.heads import flatten_cells
from shusaku.common.network.network import Network
from shusaku.common.network.targets import make_targets


class Layouts(TorchDispatchMode):
    """Collects how the arguments of the backward passes of ReLU and batch norm lie in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[set[bool]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.threshold_backward.default, torch.ops.aten.native_batch_norm_backward.default):
            boards = [each for each in args[:2] if each.ndim == 4]
            self.seen.append({each.is_contiguous(memory_format=torch.channels_last) for each in boards})
        return func(*args, **(kwargs or {}))


def test_flattening_has_the_same_gradient() -> None:
    y = torch.randn(4, 3, 2, 5).contiguous(memory_format=torch.channels_last).requires_grad_()
    weights = torch.randn(4, 30)
    gradients = []
    for flatten in (flatten_cells, lambda y: y.flatten(1)):
        y.grad = None
        flat = flatten(y)
        assert torch.equal(flat, y.detach().flatten(1))
        (flat * weights).sum().backward()
        assert y.grad is not None
        gradients.append(y.grad.clone())
    assert torch.equal(*gradients)


def test_without_a_gradient_it_is_a_flatten() -> None:
    y = torch.randn(4, 3, 2, 5)
    assert flatten_cells(y).grad_fn is None
    flat: Tensor = flatten_cells(y)
    assert torch.equal(flat, y.flatten(1))


@pytest.mark.parametrize("policy_head", ["linear", "planes"])
def test_no_gradient_meets_another_layout(policy_head: str) -> None:
    targets = make_targets(LearnerConfig(targets=["policy", "value", "short_term", "soft_policy"]))
    config = NetworkConfig(filters=8, blocks=2, policy_filters=4, value_filters=2, policy_head=policy_head)
    network = Network((3, 5, 5), 25, config, targets).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with Layouts() as layouts:
        predictions = network(torch.randn(6, 3, 5, 5).contiguous(memory_format=torch.channels_last))
        torch.stack([each.square().mean() for each in predictions.values()]).sum().backward()
    boards = [layout for layout in layouts.seen if layout]
    assert len(boards) > 10
    assert all(layout == {True} for layout in boards)
