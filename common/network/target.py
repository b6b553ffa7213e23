"""What a target is, and how the losses of several become one."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from shusaku.common.config.schema import NetworkConfig

# Columns of `replay.buffer.Batch` by name, [B, ...] each, already on the learner's device; everything in them is for
# the player to move.  `weight` [B] counts in every loss and is above 0.
Labels = Mapping[str, Tensor]


class Target(Protocol):
    """One prediction of the network."""

    @property
    def name(self) -> str:
        """The key of its prediction and its loss."""
    @property
    def weight(self) -> float:
        """Its share in the total loss."""
    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `Labels` that its label is made from."""

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """Features [B, F, H, W] -> prediction."""
        ...

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """[B] the loss of each row, float32; 0 where the row has no such label."""
        ...

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """Name -> [B], what people want to see of it besides the loss."""
        ...


def total_loss(
    predictions: Mapping[str, Tensor], batch: Labels, targets: Sequence[Target]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum that is minimised, and every target's own loss: means over the rows by their weight."""
    share = batch["weight"] / batch["weight"].sum()  # [B]
    losses = {t.name: (t.loss(predictions[t.name], batch) * share).sum() for t in targets}
    return torch.stack([losses[t.name] * t.weight for t in targets]).sum(), losses
