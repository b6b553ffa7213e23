"""Muon replaces a kernel's momentum by the nearest matrix whose singular values are all 1, and steps along that.

A few large singular values dominate a gradient, so that a plain step hardly moves the other directions (Jordan et al.
2024).  The kernel [F, C, 3, 3] is taken as a matrix [F, 9 C].  Steps are about as long as AdamW's, so that a learning
rate means about the same for both (Liu et al. 2025, "Muon is Scalable for LLM Training", section 2.2).  All but the 3x3
kernels of the blocks, or layers, of the tower step with AdamW.
Sources: kellerjordan.github.io/posts/muon; torch/optim/_muon.py, which takes matrices alone and has no skipped steps.
"""

import inspect
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of x, x x^T x and x (x^T x)^2: singular values from 0.01 to 1 come near 1
ITERATIONS = 5
ADAMW_STEP = 0.2  # root mean square of AdamW's usual step, in learning rates (Liu et al. 2025)
SMALLEST = 1e-7  # norm that is divided by


class Muon(torch.optim.AdamW):
    """AdamW whose first group of parameters, kernels of a tower, takes orthogonal steps."""

    def __init__(self, kernels: Sequence[Tensor], decay: float, others: Sequence[dict[str, Any]], *, lr: float,
                 momentum: float, **adamw: Any) -> None:
        """`decay`: of the kernels, as AdamW's; `others`: groups with their own; `adamw`: its other settings."""
        super().__init__([{"params": list(kernels), "weight_decay": decay}, *others], lr=lr, **adamw)
        self._momentum = momentum

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step; as in torch's fused optimizers, nothing changes if `found_inf` is set and 1."""
        kernels, *others = self.param_groups
        self._step_kernels(kernels, getattr(self, "found_inf", None))
        self.param_groups = others
        try:
            inspect.unwrap(torch.optim.AdamW.step)(self)
        finally:
            self.param_groups = [kernels, *others]

    def _step_kernels(self, group: dict[str, Any], is_skipped: Tensor | None) -> None:
        alike = defaultdict(list)  # of one shape: one batch of matrices
        for kernel in group["params"]:
            if kernel.grad is not None:
                alike[kernel.shape].append(kernel)
        for shape, kernels in alike.items():
            gradients = [kernel.grad for kernel in kernels]
            momenta = [self._momentum_of(kernel) for kernel in kernels]
            newest = torch._foreach_lerp(momenta, gradients, 1 - self._momentum)
            ahead = torch._foreach_lerp(gradients, newest, self._momentum)  # Nesterov
            matrices = orthogonal(torch.stack([direction.flatten(1) for direction in ahead]))  # [L, F, 9 C]
            length = group["lr"] * ADAMW_STEP * math.sqrt(max(matrices.shape[1:]))
            for kernel, momentum, new, matrix in zip(kernels, momenta, newest, matrices, strict=True):
                moved = kernel * (1 - group["lr"] * group["weight_decay"]) - length * matrix.view(shape)
                momentum.copy_(new if is_skipped is None else torch.where(is_skipped > 0, momentum, new))
                kernel.copy_(moved if is_skipped is None else torch.where(is_skipped > 0, kernel, moved))

    def _momentum_of(self, kernel: Tensor) -> Tensor:
        state: dict[str, Tensor] = self.state[kernel]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(kernel)
        return state["momentum_buffer"]


def tower_kernels(network: nn.Module) -> dict[str, Tensor]:
    """Name -> kernel of every layer of the tower but the first, whose inputs are planes."""
    return {name: parameter for name, parameter in network.named_parameters()
            if parameter.ndim == 4 and name.startswith(("blocks.", "layers."))}


def orthogonal(matrices: Tensor) -> Tensor:
    """[L, M, N] -> the same shape: singular values of each are brought near 1 (0.7 to 1.2), its vectors stay.

    Newton-Schulz iterations of the fifth degree, whose coefficients lift small singular values as fast as they can.
    """
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=SMALLEST)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
