"""What is learned from the searches: how they would play."""

import torch.nn.functional as F
from torch import Tensor, nn

from common.config import LearnerConfig, NetworkConfig
from common.heads import PolicyHead
from common.target import Labels


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


def cross_entropy(logits: Tensor, policy: Tensor) -> Tensor:
    """[B] of logits [B, A] under policies [B, A]; 0 where a policy is all zeros."""
    return -(policy * F.log_softmax(logits.float(), dim=1)).sum(1)
