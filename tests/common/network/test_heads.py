"""The linear layers of the heads, and the layout of what meets on the way back."""

import pytest
import torch
from torch import Tensor, nn

from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network import heads
from shusaku.common.network.heads import of_cells
from shusaku.common.network.network import Network
from shusaku.common.network.targets import make_targets

LAYOUTS = [torch.channels_last, torch.contiguous_format]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layer_over_cells_is_one_over_the_flat_planes(layout: torch.memory_format) -> None:
    linear = nn.Linear(30, 7).double()
    y = torch.randn(4, 3, 2, 5, dtype=torch.float64).contiguous(memory_format=layout).requires_grad_()
    weights = torch.randn(4, 7, dtype=torch.float64)
    found: list[list[Tensor]] = []
    for result in (of_cells(linear, y), linear(y.flatten(1))):
        gradients = torch.autograd.grad((result * weights).sum(), [y, linear.weight, linear.bias])
        found.append([result.detach(), *gradients])
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("filters", [8, 5])  # in the core's loops, and in torch's
@pytest.mark.parametrize("policy_head", ["linear", "planes"])
def test_no_gradient_meets_another_layout(policy_head: str, filters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    apply = heads.norm_relu

    def watched(norm: nn.BatchNorm2d, x: Tensor, skip: Tensor | None = None) -> Tensor:
        y = apply(norm, x, skip)
        y.register_hook(lambda gradient: seen.append(gradient.is_contiguous(memory_format=torch.channels_last)))
        return y

    monkeypatch.setattr(heads, "norm_relu", watched)
    targets = make_targets(LearnerConfig(targets=["policy", "value", "short_term", "soft_policy"]))
    config = NetworkConfig(filters=filters, blocks=2, policy_filters=filters, value_filters=filters,
                           policy_head=policy_head)
    network = Network((3, 5, 5), 25, config, targets).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    predictions = network(torch.randn(6, 3, 5, 5).contiguous(memory_format=torch.channels_last))
    torch.stack([each.square().mean() for each in predictions.values()]).sum().backward()
    assert len(seen) == 1 + 2 * 2 + 4
    assert all(seen)
