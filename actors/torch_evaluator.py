"""The network in torch on a CPU, where OpenVINO is missing or torch was asked for.

The caller decides how many threads torch takes (`torch.set_num_threads`); one a self-play thread is right.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from common.hardware import Precision
from common.messages import Weights
from common.torch_tower import TorchTower
from common.tower import TowerShape


class TorchRuntime:
    """A folded network for batches of at most `batch_size`; see `actors.evaluators.Runtime`."""

    def __init__(self, tower: TowerShape, batch_size: int, precision: Precision) -> None:
        self.description = f"torch {torch.__version__} on cpu, {precision.name} ({precision.reason})"
        self.precision = precision.name
        self._network = TorchTower(tower, precision.name, torch.device("cpu"))
        self._input = torch.zeros((batch_size, *tower.planes))  # [S, C, H, W]
        self._policy = torch.zeros((batch_size, tower.num_actions))  # [S, A]
        self._value = torch.zeros((batch_size, 1))  # [S, 1]
        self.inputs: NDArray[np.float32] = self._input.numpy()
        self.policy: NDArray[np.float32] = self._policy.numpy()
        self.values: NDArray[np.float32] = self._value.numpy().reshape(batch_size)

    def load(self, weights: Weights) -> None:
        """ValueError when the tensors are not this tower's; the old weights go on answering then."""
        self._network.load(weights)

    @torch.inference_mode()
    def run(self, rows: int) -> None:
        """Evaluates the first `rows` inputs."""
        x = self._input[:rows].to(self._network.type)
        policy, value = self._network(x.contiguous(memory_format=torch.channels_last))
        self._policy[:rows].copy_(policy)
        self._value[:rows].copy_(value)
