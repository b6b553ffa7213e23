"""Batch norm, a skip and ReLU as one operation while a network learns on a CPU, where torch makes a pass of each.

A gradient step of 32 filters x 4 takes 1.17 times as long with torch's three in connect four, and 1.14 times in Go 9x9
(one core of an AMD EPYC with AVX-512 BF16, `python -m benchmarks.speed.learner_norms`).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from shusaku.common._core import norm_relu_backward, norm_relu_fits, norm_relu_forward

_LAST = torch.channels_last


def norm_relu(norm: nn.BatchNorm2d, x: Tensor, skip: Tensor | None = None) -> Tensor:
    """ReLU(norm(x) + skip), [B, F, H, W] each; x and skip are not changed."""
    if _fits(norm, x, skip):
        y: Tensor = _NormRelu.apply(x, norm.weight, norm.bias, skip, norm)  # type: ignore[no-untyped-call]
        return y
    normed = norm(x)
    # In place where autograd keeps the result anyway (ReLU) or keeps nothing (sum): less memory traffic.
    return F.relu(normed if skip is None else normed.add_(skip), inplace=True)


def _fits(norm: nn.BatchNorm2d, x: Tensor, skip: Tensor | None) -> bool:
    """Whether this is a training step on a CPU, and x lies in memory as the core takes it."""
    return (type(norm) is nn.BatchNorm2d  # not that of a learner's ranks, who share their statistics
            and norm.training and torch.is_grad_enabled() and x.device.type == "cpu"
            and x.dtype in (torch.bfloat16, torch.float32) and norm.weight.dtype is torch.float32
            and all(y.dtype is x.dtype and y.is_contiguous(memory_format=_LAST) for y in (x, skip) if y is not None)
            and norm_relu_fits(x.dtype is torch.bfloat16, x.numel() // max(1, x.shape[1]), x.shape[1]))


class _NormRelu(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, skip: Tensor | None, norm: nn.BatchNorm2d
    ) -> Tensor:
        channels = x.shape[1]
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.momentum is not None
        y, (mean, scale) = torch.empty_like(x), x.new_empty((2, channels), dtype=torch.float32)
        is_bf16, rows, threads = x.dtype is torch.bfloat16, x.numel() // channels, torch.get_num_threads()
        norm_relu_forward(
            is_bf16, rows, channels, threads, x.data_ptr(), 0 if skip is None else skip.data_ptr(), weight.data_ptr(),
            bias.data_ptr(), norm.running_mean.data_ptr(), norm.running_var.data_ptr(), norm.momentum, norm.eps,
            y.data_ptr(), mean.data_ptr(), scale.data_ptr())
        ctx.sizes, ctx.has_skip = (is_bf16, rows, channels, threads), skip is not None
        ctx.save_for_backward(x, y, weight, mean, scale)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, y, weight, mean, scale = ctx.saved_tensors
        is_bf16, rows, channels, threads = ctx.sizes
        gradient = gradient.contiguous(memory_format=_LAST)
        of_x, of_weight, of_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        of_skip = torch.empty_like(x) if ctx.has_skip else None
        norm_relu_backward(
            is_bf16, rows, channels, threads, gradient.data_ptr(), y.data_ptr(), x.data_ptr(), weight.data_ptr(),
            mean.data_ptr(), scale.data_ptr(), of_x.data_ptr(), 0 if of_skip is None else of_skip.data_ptr(),
            of_weight.data_ptr(), of_bias.data_ptr())
        return of_x, of_weight, of_bias, of_skip, None
