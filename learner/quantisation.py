"""8-bit evaluation: how large the input of each convolution gets, and whether the error of rounding is small enough.

Weights are rounded to 255 steps for each output channel, symmetric; the input of a convolution, which is the output of
a ReLU, to 256 steps from 0 to the largest value seen.  Both scales are fixed before play ("static").  The convolutions
of the tower do nine tenths of the work, and only they are rounded: the first convolution reads planes, whose
uniform values have no bound, and the heads are small.
Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", section 3; Lc0's ONNX and TensorRT backends for the practice of rounding a tower after training.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from shusaku.common.hardware import cpu_has_bf16
from shusaku.common.messages import Weights
from shusaku.common.network.rounding import INPUT_STEPS, rounded_kernel
from shusaku.common.network.torch_tower import TorchTower
from shusaku.common.network.tower import TowerShape, quantised_layers
from shusaku.common.network.weights import folded_tensors

POSITIONS, FEWEST = 256, 16  # that scales are computed from; fewer for a large tower, or learning would pause too long
WORK = 10**10  # multiplications in the blocks for all of them: half a second of a core in fp32
MOST_POLICY_ERROR = 0.02  # nats: mean Kullback-Leibler divergence of the quantised policy from the other
MOST_VALUE_ERROR = 0.02  # mean distance of the values


class QuantisationError(NamedTuple):
    """How far the rounded network differs from the one that was trained, on average over the positions."""

    policy: float  # nats
    value: float

    @property
    def reason(self) -> str:
        """Why the error is too large; empty if it is not."""
        if self.policy <= MOST_POLICY_ERROR and self.value <= MOST_VALUE_ERROR:
            return ""
        return (f"in 8 bits the policy errs by {self.policy:.3g} nats (at most {MOST_POLICY_ERROR:g}) and the value "
                f"by {self.value:.3g} (at most {MOST_VALUE_ERROR:g})")


def quantise(weights: Weights, tower: TowerShape, planes: NDArray[np.float32]) -> tuple[Weights, QuantisationError]:
    """The weights with scales from positions [N, C, H, W], or with the reason why they are rejected."""
    planes = planes[: positions_for(tower)]
    # In fp32 the largest towers would keep the learner for seconds; what they are compared with is bf16 anyway.
    precision = "bf16" if len(planes) * _work(tower) > WORK and cpu_has_bf16() else "fp32"
    exact = _Watched(tower, precision)
    exact.load(weights)
    x = torch.from_numpy(planes).to(exact.type).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        logits, values = exact(x)
        scales = {name: exact.largest[name] or 1.0 for name in quantised_layers(tower)}  # a layer may be dead
        quantised = _Quantised(tower, scales, precision)
        quantised.load(weights)
        other_logits, other_values = quantised(x)
    policy, other = F.log_softmax(logits.float(), 1), F.log_softmax(other_logits.float(), 1)
    error = QuantisationError(
        float((policy.exp() * (policy - other)).sum(1).mean()), float((values - other_values).abs().mean())
    )
    return replace(weights, scales={} if error.reason else scales, rejected=error.reason), error


def positions_for(tower: TowerShape) -> int:
    """How many positions the scales of this tower are computed from."""
    return max(FEWEST, min(POSITIONS, WORK // _work(tower)))


def _work(tower: TowerShape) -> int:
    """Multiplications in the blocks for one position."""
    (_, h, w), n = tower.planes, tower.network
    return max(1, h * w * 9 * n.filters**2 * len(tower.layers))


class _Watched(TorchTower):
    """Remembers the largest input of every convolution."""

    def __init__(self, tower: TowerShape, precision: str) -> None:
        super().__init__(tower, precision, torch.device("cpu"))
        self.largest: dict[str, float] = {}

    def convolution(self, x: Tensor, name: str) -> Tensor:
        self.largest[name] = float(x.max())
        return super().convolution(x, name)


class _Quantised(TorchTower):
    """Computes with the integers that 8 bits would hold; fp32 and bf16 represent all of them exactly."""

    def __init__(self, tower: TowerShape, scales: dict[str, float], precision: str) -> None:
        super().__init__(tower, precision, torch.device("cpu"))
        self._scales = scales
        self._steps: dict[str, Tensor] = {}  # of the products of each output channel: [1, O, 1, 1]

    def load(self, weights: Weights) -> None:
        super().load(weights)
        folded = folded_tensors(weights, self._tower)
        for name, scale in self._scales.items():
            integers, step = rounded_kernel(folded[f"{name}.weight"])
            self.tensors[f"{name}.weight"].copy_(torch.from_numpy(integers.astype(np.float32)))
            self._steps[name] = torch.from_numpy(step.reshape(1, -1, 1, 1)) * (scale / INPUT_STEPS)

    def convolution(self, x: Tensor, name: str) -> Tensor:
        if name not in self._scales:
            return super().convolution(x, name)
        x = (x * (INPUT_STEPS / self._scales[name])).round_().clamp_(0, INPUT_STEPS)
        products = F.conv2d(x, self.tensors[f"{name}.weight"], padding=1).float()
        return products.mul_(self._steps[name]).add_(self.tensors[f"{name}.bias"][:, None, None]).to(self.type)
