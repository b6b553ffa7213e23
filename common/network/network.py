"""The network that learns: a tower with one head per target, as a torch module.

Names and shapes are described, and first values made, in `common.network.tower`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.network.heads import Normed
from shusaku.common.network.target import Target
from shusaku.common.network.targets import make_targets
from shusaku.common.network.tower import Tensors, initial_tensor


class Block(nn.Module):
    """Two normed 3x3 convolutions, squeeze and excitation if it has a width, and a skip."""

    def __init__(self, filters: int, squeeze: int = 0) -> None:
        super().__init__()
        self.first = Normed(filters, filters, 3)
        self.second = Normed(filters, filters, 3)
        self.squeeze = nn.Linear(filters, squeeze) if squeeze else None
        self.excite = nn.Linear(squeeze, 2 * filters) if squeeze else None

    def forward(self, x: Tensor) -> Tensor:
        """[B, F, H, W] -> [B, F, H, W]."""
        y, x = self.first.relu_and_pass(x)
        if self.squeeze is None or self.excite is None:
            return self.second.relu(y, x)
        y = self.second(y)
        both = self.excite(F.relu(self.squeeze(y.mean((2, 3)))))  # [B, 2 F]
        gate, shift = both[:, :, None, None].chunk(2, 1)  # [B, F, 1, 1]
        # In place where autograd keeps the result anyway (ReLU) or keeps nothing (sum): less memory traffic.
        return F.relu(torch.addcmul(shift, y, torch.sigmoid(gate)).add_(x), inplace=True)


class Layer(nn.Conv2d):
    """A convolution with a bias, and ReLU."""

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__(inputs, outputs, size, padding=size // 2)

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, H, W] -> [B, outputs, H, W]."""
        return F.relu(super().forward(x), inplace=True)


class Network(nn.Module):
    """[B, C, H, W] -> {target: prediction}; the policy as logits [B, A], the value [B] for the player to move."""

    def __init__(
        self, planes: tuple[int, int, int], num_actions: int, config: NetworkConfig,
        targets: Sequence[Target] | None = None, seed: int = 1,
    ) -> None:
        """`targets` decide the heads; None: policy and value."""
        super().__init__()
        self.planes, self.num_actions, self.config = planes, num_actions, config
        if config.tower == "plain":
            self.stem: Layer | Normed = Layer(planes[0], config.filters, 5)
            self.layers = nn.Sequential(*(Layer(config.filters, config.filters, 3) for _ in range(config.blocks)))
        else:
            self.stem = Normed(planes[0], config.filters, 3)
            self.blocks = nn.Sequential(*(Block(config.filters, config.squeeze) for _ in range(config.blocks)))
        chosen = targets or make_targets(LearnerConfig())
        self.heads = nn.ModuleDict({t.name: t.head(planes[1:], num_actions, config) for t in chosen})
        load_tensors(self, {name: initial_tensor(name, tuple(t.shape), seed) for name, t in named_tensors(self)})

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Planes [B, C, H, W] -> {target: prediction}."""
        # [B, F, H, W]
        x = self.blocks(self.stem.relu(x)) if isinstance(self.stem, Normed) else self.layers(self.stem(x))
        return {name: head(x) for name, head in self.heads.items()}


def named_tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter and every statistic of a batch norm, by its name."""
    yield from network.named_parameters()
    yield from network.named_buffers()


def tensors_of(network: nn.Module) -> Tensors:
    """A copy of every tensor as numpy float32."""
    copies = ((name, t.detach().float().cpu().contiguous().numpy().copy()) for name, t in named_tensors(network))
    return {name: cast(NDArray[np.float32], array) for name, array in copies}


def load_tensors(network: nn.Module, tensors: Mapping[str, NDArray[np.float32]]) -> None:
    """Copies the tensors into the network; UsageError if names or shapes are not the network's."""
    fill(dict(named_tensors(network)), tensors)


@torch.no_grad()
def fill(own: Mapping[str, Tensor], tensors: Mapping[str, NDArray[np.float32]]) -> None:
    """Copies each array into the tensor of its name; UsageError, and nothing copied, if they do not match."""
    if own.keys() != tensors.keys():
        wrong = sorted(own.keys() ^ tensors.keys())
        raise UsageError(f"these weights belong to another network: {', '.join(wrong[:3])} "
                         f"{'is' if len(wrong) == 1 else 'are'} only on one side; set network.* and learner.targets as "
                         "they were trained")
    for name, tensor in own.items():
        if tuple(tensor.shape) != tensors[name].shape:
            raise UsageError(f"these weights belong to another network: {name} has shape {tensors[name].shape}, "
                             f"the network's is {tuple(tensor.shape)}; set game.* and network.* as they were trained")
    for name, tensor in own.items():
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(tensors[name])))
