"""The interface of a target, and the sum of the losses of several."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from shusaku.common.config.schema import LearnerConfig, NetworkConfig

# Columns of `replay.buffer.Batch` by name, [B, ...] each, already on the learner's device, for the player to
# move.  `weight` [B] is above 0 and scales every loss.
Labels = Mapping[str, Tensor]


class Target(ABC):
    """One prediction of the network."""

    name: str  # of its head and its loss
    columns: tuple[str, ...]  # that its label is made from

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = float(getattr(config, f"{self.name}_weight"))  # the factor of its loss in the total loss

    @abstractmethod
    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """A module: features [B, F, H, W] -> prediction."""

    @abstractmethod
    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """The loss [B] of each row, float32; 0 if the row has no such label."""

    def metrics(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """Metrics besides the loss: name -> [B]."""
        return {}


def total_loss(
    predictions: Mapping[str, Tensor], batch: Labels, targets: Sequence[Target]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum that is minimised, and every target's own loss: means over the rows by their weight."""
    return _losses(predictions, batch, targets, batch["weight"] / batch["weight"].sum())


def step_metrics(
    loss: Tensor, losses: Mapping[str, Tensor], predictions: Mapping[str, Tensor], batch: Labels,
    targets: Sequence[Target],
) -> dict[str, Tensor]:
    """What a gradient step measures: loss/total, loss/<target>, and <target>/<metric>, means over the rows."""
    return {
        "loss/total": loss, **{f"loss/{name}": value for name, value in losses.items()},
        **{f"{target.name}/{name}": rows.mean() for target in targets
           for name, rows in target.metrics(predictions[target.name], batch).items()},
    }


def summed_losses(
    predictions: Mapping[str, Tensor], batch: Labels, targets: Sequence[Target]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The same as sums over the rows times their weight, for a part of a batch whose other rows are elsewhere."""
    return _losses(predictions, batch, targets, batch["weight"])


def _losses(
    predictions: Mapping[str, Tensor], batch: Labels, targets: Sequence[Target], share: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """`share` [B]: by which the loss of each row counts."""
    losses = {t.name: (t.loss(predictions[t.name], batch) * share).sum() for t in targets}
    return torch.stack([losses[t.name] * t.weight for t in targets]).sum(), losses
