"""Gradients of weights that are computed while a rank waits for the others.

The gradient of a convolution's input is needed at once, by the layer before; that of its weights only at the end of a
step.  On the way back ranks tell each other two sums for each batch norm, and as their cores are never equally fast,
one waits for the other each time.  With the weights of the layer behind to do in that time, none does.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LateGradients:
    """What is still to be computed of this step."""

    def __init__(self) -> None:
        self._jobs: list[Callable[[], None]] = []

    def add(self, job: Callable[[], None]) -> None:
        """Leaves a job to the next `run`."""
        self._jobs.append(job)

    def run(self) -> None:
        """Computes them; at the end of a step, too."""
        while self._jobs:
            self._jobs.pop()()


class LateConvolution(nn.Module):
    """As nn.Conv2d with step 1 and without a bias, whose weights get their gradient by `LateGradients.run`."""

    def __init__(self, own: nn.Conv2d, late: LateGradients) -> None:
        assert own.bias is None
        assert own.stride == own.dilation == (1, 1)
        assert own.groups == 1
        super().__init__()
        self.weight, self._padding, self._late = own.weight, own.padding, late

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, H, W] -> [B, outputs, H, W]."""
        convolve: Any = _Convolve.apply
        y: Tensor = convolve(x, self.weight, self._padding, self._late)
        return y


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, padding: tuple[int, int], late: LateGradients) -> Tensor:
        context.weight, context.padding, context.late = weight, padding, late
        if torch.is_autocast_enabled(x.device.type):
            dtype = torch.get_autocast_dtype(x.device.type)
            x, weight = x.to(dtype), weight.to(dtype)
        context.save_for_backward(x, weight)
        return F.conv2d(x, weight, padding=padding)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None, None]:
        x, used = context.saved_tensors
        weight, padding = context.weight, context.padding

        def gradient(of_input: bool) -> Tensor:
            both = torch.ops.aten.convolution_backward(
                gradients[0], x, used, None, (1, 1), padding, (1, 1), False, (0, 0), 1,
                (of_input, not of_input, False))
            one: Tensor = both[0] if of_input else both[1]
            return one

        @torch.no_grad()
        def add_to_weight() -> None:
            own = torch.empty_like(weight).copy_(gradient(False))  # in the type and the layout of the weight
            weight.grad = own if weight.grad is None else weight.grad.add_(own)

        context.late.add(add_to_weight)
        return gradient(True) if context.needs_input_grad[0] else None, None, None, None
