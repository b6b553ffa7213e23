"""The network in torch on a CPU, if OpenVINO is missing or torch was asked for.

The caller decides how many threads torch takes (`torch.set_num_threads`); one per self-play thread is right.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from shusaku.actors.evaluators.channels_last import Inputs, input_type
from shusaku.common.hardware import Precision
from shusaku.common.messages import Weights
from shusaku.common.network.torch_tower import TorchTower
from shusaku.common.network.tower import TowerShape


class TorchRuntime:
    """A folded network for batches of at most `batch_size`; see `actors.evaluators.evaluator.Runtime`."""

    runtime_name = "torch"
    has_fixed_batch = False

    def __init__(self, tower: TowerShape, batch_size: int, precision: Precision) -> None:
        self.description = f"torch {torch.__version__} on cpu, {precision.name} ({precision.reason})"
        self.precision = precision.name
        self._network = TorchTower(tower, precision.name, torch.device("cpu"))
        c, h, w = tower.planes
        self._input = torch.zeros((batch_size, h, w, c), dtype=self._network.type)
        self._policy = torch.zeros((batch_size, tower.num_actions))  # [S, A]
        self._value = torch.zeros((batch_size, 1))  # [S, 1]
        bits = self._input.view(torch.int16) if self._network.type == torch.bfloat16 else self._input
        self.inputs: Inputs = bits.numpy().view(input_type(precision.name))
        self.policy: NDArray[np.float32] = self._policy.numpy()
        self.values: NDArray[np.float32] = self._value.numpy().reshape(batch_size)
        self._heads = {head: torch.zeros(shape) for head, shape in tower.head_shapes(batch_size).items()}
        self.heads: dict[str, NDArray[np.float32]] = {head: tensor.numpy() for head, tensor in self._heads.items()}

    def load(self, weights: Weights) -> None:
        """Uses these weights from now on; ValueError, and no change, if they belong to another tower."""
        self._network.load(weights)

    @torch.inference_mode()
    def run(self, rows: int) -> None:
        """Evaluates the first `rows` inputs."""
        features = self._network.features(self._input[:rows].permute(0, 3, 1, 2))  # of [B, C, H, W], a view
        policy, value = self._network.policy_and_value(features)
        self._policy[:rows].copy_(policy)
        self._value[:rows].copy_(value)
        for head, prediction in self._network.heads(features).items():
            self._heads[head][:rows].copy_(prediction)
