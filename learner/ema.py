"""The exponential moving average of the network: what is published."""

import torch
from torch import Tensor, nn

from shusaku.common.network.network import fill, named_tensors
from shusaku.common.network.tower import Tensors


class Average:
    """Every tensor of the network averaged over its steps, statistics of batch norms included.

    Statistics are averaged, not computed again: they belong to the averaged parameters only nearly, which is near
    enough with a slow average.  The warm-up, (1 + t) / (10 + t), keeps the first weights from lingering.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._decay = decay
        self.steps = 0
        # What is live: a later update changes these tensors.
        self.own = {name: t.detach().clone() for name, t in named_tensors(network)}

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Takes in the network as it is after a step."""
        decay = self.next_decay()
        self.steps += 1
        tensors: list[Tensor] = [t.detach() for _, t in named_tensors(network)]
        torch._foreach_lerp_(list(self.own.values()), tensors, 1 - decay)

    def next_decay(self) -> float:
        """Of the next update."""
        return min(self._decay, (1 + self.steps) / (10 + self.steps))

    def tensors(self) -> Tensors:
        """A copy as numpy float32."""
        return {name: t.float().cpu().contiguous().numpy().copy() for name, t in self.own.items()}

    def load(self, tensors: Tensors, steps: int) -> None:
        """UsageError when the tensors are another network's."""
        fill(self.own, tensors)
        self.steps = steps
