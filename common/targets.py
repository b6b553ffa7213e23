"""What the network learns to predict: one class a target, with its label, its head and its loss."""

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.config import LearnerConfig, NetworkConfig
from common.tower import NORM_EPSILON


class Labels(Protocol):
    """The columns of a mini-batch that targets are made from, already on the learner's device."""

    @property
    def policy(self) -> Tensor: ...  # [B, A] the search's policy, pi
    @property
    def outcome(self) -> Tensor: ...  # [B] z in [-1, 1] for the player to move
    @property
    def weight(self) -> Tensor: ...  # [B] of each row in every loss, > 0


class Target(Protocol):
    """One prediction of the network."""

    @property
    def name(self) -> str: ...

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """Features [B, F, H, W] -> prediction."""
        ...

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """[B] the loss of each row, float32."""
        ...

    def weight(self, config: LearnerConfig) -> float:
        """Its share in the total loss."""
        ...

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """Name -> [B], what people want to see of it besides the loss."""
        ...


class Normed(nn.Module):
    """A convolution without bias, and its batch norm."""

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=NORM_EPSILON)
        # Only used by cumulative averages; without it every tensor of the network is float32.
        self.norm.num_batches_tracked = None

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(x))
        return y


class PolicyHead(nn.Module):
    """1x1 convolution, norm, ReLU, linear to one logit an action."""

    def __init__(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> None:
        super().__init__()
        self.features = Normed(config.filters, config.policy_filters, 1)
        self.output = nn.Linear(config.policy_filters * board[0] * board[1], num_actions)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.output(F.relu(self.features(x)).flatten(1))  # [B, A]
        return y


class ValueHead(nn.Module):
    """1x1 convolution, norm, ReLU, linear, ReLU, linear to one number, tanh."""

    def __init__(self, board: tuple[int, int], config: NetworkConfig) -> None:
        super().__init__()
        self.features = Normed(config.filters, config.value_filters, 1)
        self.hidden = nn.Linear(config.value_filters * board[0] * board[1], config.value_hidden)
        self.output = nn.Linear(config.value_hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.hidden(F.relu(self.features(x)).flatten(1)))
        return torch.tanh(self.output(y).float()).squeeze(1)  # [B]


class Policy:
    """What the search would play: cross entropy -pi . log p over all actions."""

    name = "policy"

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return PolicyHead(board, num_actions, config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        return -(batch.policy * F.log_softmax(prediction.float(), dim=1)).sum(1)  # [B]

    def weight(self, config: LearnerConfig) -> float:
        return 1.0

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """accuracy: the network's first choice is the search's."""
        return {"accuracy": (prediction.argmax(1) == batch.policy.argmax(1)).float()}


class Value:
    """How the game ends: (z - v)^2."""

    name = "value"

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return ValueHead(board, config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        return (batch.outcome - prediction.float()).square()  # [B]

    def weight(self, config: LearnerConfig) -> float:
        return config.value_weight

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: |z - v|."""
        return {"error": (batch.outcome - prediction.float()).abs()}


TARGETS: dict[str, Target] = {target.name: target for target in (Policy(), Value())}


def total_loss(
    predictions: dict[str, Tensor], batch: Labels, config: LearnerConfig, targets: Sequence[Target]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum that is minimised, and every target's own loss: means over the rows by their weight."""
    share = batch.weight / batch.weight.sum()  # [B]
    losses = {t.name: (t.loss(predictions[t.name], batch) * share).sum() for t in targets}
    return torch.stack([losses[t.name] * t.weight(config) for t in targets]).sum(), losses
