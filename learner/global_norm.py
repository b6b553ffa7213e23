"""Batch norm over the rows of all ranks: the statistics and the gradient are those of one process with the whole batch.

torch.nn.SyncBatchNorm does the same, but not on CPUs.  Here the passes over the activations are torch's own kernels;
between them go two rows of numbers a channel: mean and variance forward, two sums backward.
"""

from typing import Any

import torch
from torch import Tensor, nn

from shusaku.learner.collectives import Collectives


def share_norms(network: nn.Module, ranks: Collectives) -> None:
    """Puts a `GlobalNorm` in the place of each batch norm, with the same tensors under the same names."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.BatchNorm2d:
                setattr(module, name, GlobalNorm(child, ranks))


class GlobalNorm(nn.BatchNorm2d):
    """As nn.BatchNorm2d; while it trains, over all ranks, each of which has equally many rows."""

    def __init__(self, own: nn.BatchNorm2d, ranks: Collectives) -> None:
        super().__init__(own.num_features, own.eps, own.momentum)
        self.weight, self.bias = own.weight, own.bias
        self.running_mean, self.running_var = own.running_mean, own.running_var
        self.num_batches_tracked = None
        self._ranks = ranks

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C, H, W]."""
        if not self.training:
            return super().forward(x)
        normalise: Any = _Normalise.apply
        y, mean, variance = normalise(x, self.weight, self.bias, self.eps, self._ranks)
        with torch.no_grad():
            assert self.running_mean is not None
            assert self.running_var is not None
            assert self.momentum is not None
            count = self._ranks.size * x.numel() // x.shape[1]
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
        result: Tensor = y
        return result


class _Normalise(torch.autograd.Function):
    """With the mean and the variance of all ranks, through which the gradient goes, too (Ioffe and Szegedy 2015)."""

    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, ranks: Collectives
    ) -> tuple[Tensor, Tensor, Tensor]:
        statistics = torch.zeros_like(weight), torch.ones_like(weight)  # their type is that of the results
        own = torch.stack(torch.batch_norm_update_stats(x, *statistics, 1.0))  # [2, C]: mean, variance
        means, variances = ranks.gather(own).unbind(1)  # [R, C] each
        mean = means.mean(0)
        variance = (means - mean).square_().add_(variances).mean(0)
        y = torch.native_batch_norm(x, weight, bias, mean, variance, False, 0.0, eps)[0]
        context.save_for_backward(x, weight, mean, variance)
        context.eps, context.ranks = eps, ranks
        context.mark_non_differentiable(mean, variance)
        return y, mean, variance

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        x, weight, mean, variance = context.saved_tensors
        dy = gradients[0]
        if dy.stride() != x.stride():
            dy = dy.contiguous(memory_format=torch.channels_last)
        # The sums of dy x^ and dy over the own rows, which are the gradients of weight and bias.
        _, dweight, dbias = torch.ops.aten.native_batch_norm_backward(
            dy, x, weight, mean, variance, None, None, False, context.eps, [False, True, True])
        sums = context.ranks.sum(torch.stack([dweight, dbias]))  # [2, C]
        # dx = weight / sigma (dy - mean(dy) - x^ mean(dy x^)), as scale dy + slope x + offset.
        count = context.ranks.size * x.numel() // x.shape[1]
        inverse = (variance + context.eps).rsqrt()
        scale = weight * inverse  # [C]
        slope = -scale * inverse * sums[0] / count
        offset = -scale * sums[1] / count - slope * mean
        scale, slope, offset = (factor.to(x.dtype)[:, None, None] for factor in (scale, slope, offset))
        dx = torch.addcmul(offset, x, slope).addcmul_(dy, scale)
        return dx, dweight, dbias, None, None
