"""The network in torch, for a GPU or where OpenVINO is missing: norms folded, channels last, no autograd.

On a CPU the caller decides how many threads torch takes (`torch.set_num_threads`); one a self-play thread is right.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from common.errors import UsageError
from common.hardware import Precision
from common.messages import Weights
from common.tower import TowerShape, fold, folded_shapes

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class TorchRuntime:
    """A folded network for batches of at most `batch_size`; see `actors.evaluators.Runtime`."""

    def __init__(self, tower: TowerShape, batch_size: int, precision: Precision, device: str) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise UsageError("inference.device=cuda: torch finds no GPU that it can use; use inference.device=cpu")
        self.description = f"torch {torch.__version__} on {device}, {precision.name} ({precision.reason})"
        self.precision = precision.name
        self._tower, self._device, self._type = tower, torch.device(device), TYPES[precision.name]
        pinned = device == "cuda"  # so that copies to and from the GPU need no detour
        self._input = torch.zeros((batch_size, *tower.planes), pin_memory=pinned)  # [S, C, H, W]
        self._policy = torch.zeros((batch_size, tower.num_actions), pin_memory=pinned)  # [S, A]
        self._value = torch.zeros((batch_size, 1), pin_memory=pinned)  # [S, 1]
        self.inputs: NDArray[np.float32] = self._input.numpy()
        self.policy: NDArray[np.float32] = self._policy.numpy()
        self.values: NDArray[np.float32] = self._value.numpy().reshape(batch_size)
        self._tensors: dict[str, Tensor] = {}

    def load(self, weights: Weights) -> None:
        """ValueError when the tensors are not this tower's; the old weights go on answering then."""
        folded = fold(weights.tensors)
        tensors = {}
        for name, shape in folded_shapes(self._tower).items():
            if name not in folded or folded[name].shape != shape:
                found = folded[name].shape if name in folded else "nothing"
                raise ValueError(f"weights version {weights.version}: {name} must have shape {shape}, found {found}; "
                                 "they belong to another game or network")
            tensor = torch.from_numpy(np.array(folded[name])).to(self._device, self._type)
            tensors[name] = tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor
        self._tensors = tensors

    @torch.inference_mode()
    def run(self, rows: int) -> None:
        """Evaluates the first `rows` inputs and waits for the answer."""
        x = self._input[:rows].to(self._device, non_blocking=True)
        policy, value = self._forward(x.to(self._type).contiguous(memory_format=torch.channels_last))
        self._policy[:rows].copy_(policy, non_blocking=True)
        self._value[:rows].copy_(value, non_blocking=True)
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, C, H, W] -> logits [B, A], values [B, 1]."""
        x = F.relu(self._convolution(x, "stem"))
        for i in range(self._tower.network.blocks):
            y = F.relu(self._convolution(x, f"blocks.{i}.first"), inplace=True)
            x = F.relu(self._convolution(y, f"blocks.{i}.second").add_(x), inplace=True)
        p = F.relu(self._convolution(x, "heads.policy.features"))
        v = F.relu(self._convolution(x, "heads.value.features"))
        v = F.relu(self._linear(v.flatten(1), "heads.value.hidden"))
        value = torch.tanh(self._linear(v, "heads.value.output").float())
        p = p.flatten(2).transpose(1, 2) if self._tower.network.policy_head == "planes" else p.flatten(1)
        return self._linear(p, "heads.policy.output").flatten(1), value

    def _convolution(self, x: Tensor, name: str) -> Tensor:
        kernel = self._tensors[f"{name}.weight"]
        return F.conv2d(x, kernel, self._tensors[f"{name}.bias"], padding=kernel.shape[2] // 2)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"])
