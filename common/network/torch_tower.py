"""The network in torch for play: norms folded, channels last, no autograd, in tensors that are never replaced."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shusaku.common.messages import Weights
from shusaku.common.network.tower import SCORE_SCALE, TowerShape, folded_shapes
from shusaku.common.network.weights import folded_tensors

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class TorchTower:
    """New weights are copied into the existing tensors, so that a captured CUDA graph stays valid."""

    def __init__(self, tower: TowerShape, precision: str, device: torch.device) -> None:
        """`precision`: of TYPES, of everything but the values, which leave as fp32."""
        self._tower, self.type = tower, TYPES[precision]
        self.tensors: dict[str, Tensor] = {}
        for name, shape in folded_shapes(tower).items():
            tensor = torch.zeros(shape, dtype=self.type, device=device)
            self.tensors[name] = tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

    @torch.inference_mode()
    def fill_random(self) -> None:
        """Weights to be timed with: a GPU computes zeros faster than any that were learned."""
        for name, tensor in self.tensors.items():
            if name.endswith(".weight"):
                tensor.normal_(0, (2 / tensor[0].numel()) ** 0.5)  # He et al. 2015: activations of constant size

    def load(self, weights: Weights) -> None:
        """Uses these weights from now on; ValueError, and no change, if they belong to another tower."""
        self.take(self.prepare(weights))

    @torch.inference_mode()
    def prepare(self, weights: Weights) -> dict[str, Tensor]:
        """These weights on the host, in the type and the order that they have in the tower; any thread may call this.

        Nothing has to be allocated on the device to take them, which could fail.  ValueError as by `load`.
        """
        folded, prepared = folded_tensors(weights, self._tower), {}
        for name, tensor in self.tensors.items():
            source = torch.from_numpy(np.array(folded[name])).to(self.type)
            source = source.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else source
            prepared[name] = source.pin_memory() if tensor.is_cuda else source
        return prepared

    @torch.inference_mode()
    def take(self, prepared: dict[str, Tensor]) -> None:
        """Uses what `prepare` made; on a GPU the copies are queued, and `prepared` has to live until they are done."""
        for name, tensor in self.tensors.items():
            tensor.copy_(prepared[name], non_blocking=True)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, C, H, W] of `type`, channels last -> logits [B, A] of `type`, values [B, 1] of fp32."""
        return self.policy_and_value(self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, F, H, W], what all heads read."""
        x = F.relu(self.convolution(x, "stem"))
        if self._tower.is_plain:
            for layer in self._tower.layers:
                x = F.relu(self.convolution(x, layer), inplace=True)
            return x
        for i in range(self._tower.network.blocks):
            y = F.relu(self.convolution(x, f"blocks.{i}.first"), inplace=True)
            y = self.convolution(y, f"blocks.{i}.second")
            if self._tower.network.squeeze:
                y = self._excite(y, f"blocks.{i}")
            x = F.relu(y.add_(x), inplace=True)
        return x

    def _excite(self, y: Tensor, block: str) -> Tensor:
        """Each channel scaled and shifted by what the means of all say: [B, F, H, W] -> the same shape."""
        means = F.relu(self._linear(y.mean((2, 3)), f"{block}.squeeze"))
        gate, shift = self._linear(means, f"{block}.excite")[:, :, None, None].chunk(2, 1)  # [B, F, 1, 1]
        return torch.addcmul(shift, y, torch.sigmoid(gate))

    def policy_and_value(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features [B, F, H, W] -> logits [B, A], values [B, 1]."""
        value = torch.tanh(self._number(x, "value"))
        if self._tower.is_plain:
            return self._plain_policy(x), value
        p = F.relu(self.convolution(x, "heads.policy.features"))
        p = p.flatten(2).transpose(1, 2) if self._tower.network.policy_head == "planes" else p.flatten(1)
        return self._linear(p, "heads.policy.output").flatten(1), value

    def heads(self, x: Tensor) -> dict[str, Tensor]:
        """Features [B, F, H, W] -> ownership [B, H, W] and score [B], those that the tower has."""
        made = {}
        if "ownership" in self._tower.heads:
            made["ownership"] = torch.tanh(self.convolution(x, "heads.ownership.output").float()).squeeze(1)
        if "score" in self._tower.heads:
            made["score"] = SCORE_SCALE * self._number(x, "score").squeeze(1)
        return made

    def convolution(self, x: Tensor, name: str) -> Tensor:
        """The convolution of this layer, with its bias."""
        kernel = self.tensors[f"{name}.weight"]
        return F.conv2d(x, kernel, self.tensors[f"{name}.bias"], padding=kernel.shape[2] // 2)

    def _plain_policy(self, x: Tensor) -> Tensor:
        p = F.conv2d(x, self.tensors["heads.policy.output.weight"])  # [B, K, H, W]
        p = p.flatten(2).transpose(1, 2).flatten(1)  # [B, K * H * W]
        if "heads.policy.others.output.weight" in self.tensors:
            others = F.linear(x.mean((2, 3)), self.tensors["heads.policy.others.output.weight"])
            p = torch.cat([p, others], 1)  # [B, A]
        return p + self.tensors["heads.policy.output.bias"]

    def _number(self, x: Tensor, head: str) -> Tensor:
        if self._tower.is_plain:
            y = self.convolution(F.relu(self.convolution(x, f"heads.{head}.layer")), f"heads.{head}.features")
        else:
            y = F.relu(self.convolution(x, f"heads.{head}.features"))
        y = F.relu(self._linear(y.flatten(1), f"heads.{head}.hidden"))
        return self._linear(y, f"heads.{head}.output").float()  # [B, 1]

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])
