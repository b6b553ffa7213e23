"""What is learned from the searches: how they would play."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network.heads import PolicyHead
from shusaku.common.network.target import Labels


class Policy:
    """What the search would play: cross entropy -pi . log p over all actions."""

    name = "policy"
    weight = 1.0
    columns: tuple[str, ...] = ("policy",)

    def __init__(self, config: LearnerConfig) -> None:
        pass

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return PolicyHead(board, num_actions, config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        return cross_entropy(prediction, batch["policy"])

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """accuracy: the network's first choice is the search's."""
        return {"accuracy": (prediction.argmax(1) == batch["policy"].argmax(1)).float()}


class SoftPolicy:
    """The same policy flattened to pi^(1/4) and normalised again, so that what it says of lesser moves counts, too.

    KataGo: docs/KataGoMethods.md, "Auxiliary Soft Policy Target".
    """

    name = "soft_policy"
    columns: tuple[str, ...] = ("policy",)

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = config.soft_policy_weight

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return PolicyHead(board, num_actions, config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        soft = batch["policy"].pow(0.25)  # [B, A]
        return cross_entropy(prediction, soft / soft.sum(1, keepdim=True))

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        return {}


class OpponentReply:
    """What the opponent's next search would play; rows without one teach nothing (KataGo: paper, section 3.4)."""

    name = "reply"
    columns: tuple[str, ...] = ("reply",)

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = config.reply_weight

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return PolicyHead(board, num_actions, config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        return cross_entropy(prediction, batch["reply"])

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """accuracy: the first choice is the opponent's, among the rows that have a reply."""
        is_known = batch["reply"].sum(1) > 0
        return {"accuracy": rescale_known((prediction.argmax(1) == batch["reply"].argmax(1)).float(), is_known)}


def rescale_known(values: Tensor, is_known: Tensor) -> Tensor:
    """[B] whose mean is the mean of those values that are known; 0 where none is."""
    share = is_known.float().mean().clamp(min=1e-9)
    return torch.where(is_known, values, 0.0) / share


def cross_entropy(logits: Tensor, policy: Tensor) -> Tensor:
    """[B] of logits [B, A] under policies [B, A]; 0 where a policy is all zeros."""
    return -(policy * F.log_softmax(logits.float(), dim=1)).sum(1)
