"""The exponential moving average of the network: what is published."""

import torch
from torch import Tensor, nn

from shusaku.common.network.network import fill, named_tensors
from shusaku.common.network.tower import Tensors


class Average:
    """Every tensor of one network averaged over its steps, statistics of batch norms included.

    Statistics are averaged, not computed again: they belong to the averaged parameters only nearly, which is near
    enough with a slow average.  The warm-up, (1 + t) / (10 + t), keeps the first weights from lingering.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._decay = decay
        self.steps = 0
        # The network's tensors, gone through once: a walk through its modules at each step is a few per cent of it.
        self.live: dict[str, Tensor] = {name: t.detach() for name, t in named_tensors(network)}
        # What is averaged: a later update changes these tensors.
        self.own = {name: t.clone() for name, t in self.live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Takes in the network as it is after a step."""
        decay = self.next_decay()
        self.steps += 1
        torch._foreach_lerp_(list(self.own.values()), list(self.live.values()), 1 - decay)

    def next_decay(self) -> float:
        """The decay of the next update."""
        return min(self._decay, (1 + self.steps) / (10 + self.steps))

    def tensors(self) -> Tensors:
        """A copy as numpy float32."""
        return {name: t.float().cpu().contiguous().numpy().copy() for name, t in self.own.items()}

    def load(self, tensors: Tensors, steps: int) -> None:
        """UsageError when the tensors are another network's."""
        fill(self.own, tensors)
        self.steps = steps
