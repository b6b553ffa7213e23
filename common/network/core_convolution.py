"""The core's 3x3 convolution as an operation of torch's autograd, on a CPU.

Forward and backward: of bf16 by the matrix unit of a processor that has one (`common/core/network/amx_loops.h`), of
floats and otherwise Winograd's (`common/core/network/winograd.h`).  Sums are floats.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from shusaku.common._core import convolution_backward, convolution_forward, convolution_ways

CHANNEL_MULTIPLE = 16  # channels are a multiple of it
WAY = {dtype: convolution_ways(dtype is torch.bfloat16)[0] for dtype in (torch.float32, torch.bfloat16)}
_LAST = torch.channels_last

Strides = tuple[int, int, int]


def convolve_by_core(x: Tensor, kernels: Tensor) -> Tensor:
    """Of x [B, inputs, H, W] of float or bf16, channels last, and kernels [outputs, inputs, 3, 3] of float."""
    y: Tensor = _CoreConvolution.apply(x, kernels)  # type: ignore[no-untyped-call]
    return y


def convolve_and_pass_by_core(x: Tensor, kernels: Tensor) -> tuple[Tensor, Tensor]:
    """The same, and x for a skip.

    On the way back the convolution's gradient is added to the skip's in the skip's own memory.  So what is added to the
    second result has to be made from the first one, as in a residual block: an older skip would read what was added.
    """
    y, passed = _PassingConvolution.apply(x, kernels)  # type: ignore[no-untyped-call]
    return y, passed


def _strides(kernels: Tensor) -> Strides:
    """Of outputs, inputs and taps, of [outputs, inputs, 3, 3] in torch's usual order or with the channels last."""
    of_output, of_input, of_row, of_tap = kernels.stride()
    assert of_row == 3 * of_tap
    return of_output, of_input, of_tap


def _forward(ctx: Any, x: Tensor, kernels: Tensor) -> Tensor:
    (boards, inputs, height, width), outputs = x.shape, len(kernels)
    y = torch.empty((boards, outputs, height, width), dtype=x.dtype, memory_format=_LAST)
    ctx.sizes = boards, height, width, inputs, outputs, torch.get_num_threads()
    convolution_forward(
        x.dtype is torch.bfloat16, ctx.sizes, x.data_ptr(), kernels.data_ptr(), _strides(kernels), y.data_ptr(),
        WAY[x.dtype])
    ctx.save_for_backward(x, kernels)
    return y


def _backward(ctx: Any, gradient: Tensor, of_x: Tensor | None, *, adds: bool) -> Tensor:
    """The gradient of the kernels; that of x goes into `of_x`, or is added to it."""
    x, kernels = ctx.saved_tensors
    gradient = gradient.contiguous(memory_format=_LAST)
    of_kernels = torch.empty_like(kernels)
    convolution_backward(
        x.dtype is torch.bfloat16, ctx.sizes, gradient.data_ptr(), x.data_ptr(), kernels.data_ptr(),
        _strides(kernels), adds, 0 if of_x is None else of_x.data_ptr(), of_kernels.data_ptr(), _strides(of_kernels),
        WAY[x.dtype])
    return of_kernels


class _CoreConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernels: Tensor) -> Tensor:
        return _forward(ctx, x, kernels)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor]:
        of_x = torch.empty_like(ctx.saved_tensors[0]) if ctx.needs_input_grad[0] else None
        return of_x, _backward(ctx, gradient, of_x, adds=False)


class _PassingConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernels: Tensor) -> tuple[Tensor, Tensor]:
        return _forward(ctx, x, kernels), x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, of_passed: Tensor) -> tuple[Tensor | None, Tensor]:
        # In place: all else that reads the skip's gradient lies between y and it, and was passed on the way here.
        of_x = of_passed.contiguous(memory_format=_LAST) if ctx.needs_input_grad[0] else None
        if of_x is not None and of_x.data_ptr() == gradient.data_ptr():
            of_x = of_x.clone()  # y and the skip have one gradient, which is still to be read
        return of_x, _backward(ctx, gradient, of_x, adds=True)
