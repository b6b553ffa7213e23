"""3x3 convolutions while a network learns in floats on a CPU: the core's, where they are faster than torch's.

They are Winograd's (`common/core/network/winograd.h`), forward and backward.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from shusaku.common._core import convolution_backward, convolution_forward
from shusaku.common.hardware import core_floats_are_fastest

_LAST = torch.channels_last
_TOGETHER = 16  # channels are a multiple of it

Strides = tuple[int, int, int]


def convolve(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """conv(x), [B, inputs, H, W] -> [B, outputs, H, W]."""
    if _fits(conv, x):
        y: Tensor = _Convolution.apply(x, conv.weight)  # type: ignore[no-untyped-call]
        return y
    return conv(x)  # type: ignore[no-any-return]


def _fits(conv: nn.Conv2d, x: Tensor) -> bool:
    """Whether this is a training step in floats on a CPU, and x lies in memory as the core takes it."""
    return (core_floats_are_fastest() and torch.is_grad_enabled() and conv.training and x.device.type == "cpu"
            and conv.kernel_size == (3, 3) and conv.padding == (1, 1) and conv.bias is None
            and conv.in_channels % _TOGETHER == 0 and conv.out_channels % _TOGETHER == 0
            and x.dtype is torch.float32 and conv.weight.dtype is torch.float32
            and not torch.is_autocast_enabled("cpu") and x.is_contiguous(memory_format=_LAST))


def _strides(kernels: Tensor) -> Strides:
    """Of outputs, inputs and taps, of [outputs, inputs, 3, 3] in torch's usual order or with the channels last."""
    of_output, of_input, of_row, of_tap = kernels.stride()
    assert of_row == 3 * of_tap
    return of_output, of_input, of_tap


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernels: Tensor) -> Tensor:
        (boards, inputs, height, width), outputs = x.shape, len(kernels)
        y = torch.empty((boards, outputs, height, width), memory_format=_LAST)
        ctx.sizes = boards, height, width, inputs, outputs, torch.get_num_threads()
        convolution_forward(ctx.sizes, x.data_ptr(), kernels.data_ptr(), _strides(kernels), y.data_ptr())
        ctx.save_for_backward(x, kernels)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor]:
        x, kernels = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=_LAST)
        of_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        of_kernels = torch.empty_like(kernels)
        convolution_backward(
            ctx.sizes, gradient.data_ptr(), x.data_ptr(), kernels.data_ptr(), _strides(kernels),
            0 if of_x is None else of_x.data_ptr(), of_kernels.data_ptr(), _strides(of_kernels))
        return of_x, of_kernels
