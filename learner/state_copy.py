"""A copy of everything that decides the learner's next step.

Learning pauses for a plain copy of memory only, into buffers that are made once; the thread that writes the checkpoint
lays the tensors out as the file has them, and looks for NaN and infinity.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shusaku.common.network.weights import is_finite

LiveState = Mapping[str, Mapping[str, Tensor]]  # part -> name -> tensor


class Diverged(RuntimeError):
    """Too many steps in a row, or the network itself, were not finite: go on from the last checkpoint."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnerState:
    """Everything that decides the next step, as plain arrays and numbers."""

    tensors: dict[str, dict[str, NDArray[Any]]]  # of network, average, optimizer and random
    # step, average_steps, rate_factor, first_step; scale/<layer> and int8_error/<policy|value> where publications are
    # rounded; by_core/<layer> of convolutions
    facts: dict[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class StateCopy:
    """The state of one moment; valid until its `StateBuffers` copy the next one."""

    _tensors: LiveState  # in main memory, laid out as the learner has them
    _facts: dict[str, float]

    def to_state(self) -> LearnerState:
        """The state for a checkpoint.  Diverged if the network is not finite: no run may go on from such a one."""
        tensors = {part: {name: _array(part, tensor) for name, tensor in named.items()}
                   for part, named in self._tensors.items()}
        if not all(is_finite(tensors[part]) for part in ("network", "average", "optimizer")):
            raise Diverged(f"after step {self._facts['step']:.0f} the network or the optimizer holds NaN or infinity")
        return LearnerState(tensors, self._facts)


class StateBuffers:
    """Memory for one copy of the state, used again for the next one: fresh memory is slower than the copy itself."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, str], Tensor] = {}

    def copy(self, live: LiveState, facts: dict[str, float]) -> StateCopy:
        """Copies the tensors, from the GPU too; waits until all of them are there."""
        copied = {part: {name: self._copy(part, name, tensor) for name, tensor in named.items()}
                  for part, named in live.items()}
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return StateCopy(copied, facts)

    def _copy(self, part: str, name: str, tensor: Tensor) -> Tensor:
        buffer = self._buffers.get((part, name))
        if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
            buffer = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
            self._buffers[part, name] = buffer
        if tensor.is_cuda:
            return buffer.copy_(tensor, non_blocking=True)
        # One thread: a team of torch's threads waits for its slowest member, which actors may keep from its core.
        np.copyto(buffer.numpy(), tensor.numpy())
        return buffer


def _array(part: str, tensor: Tensor) -> NDArray[Any]:
    """States of random generators are bytes, all else is float32."""
    array: NDArray[Any] = (tensor if part == "random" else tensor.float()).contiguous().numpy()
    return array
