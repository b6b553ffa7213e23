"""Targets that are learned from the searches: their policies."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network.heads import make_policy_head
from shusaku.common.network.target import Labels, Target


class PolicyTarget(Target):
    """A policy of a search."""

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """See `Target`."""
        return make_policy_head(board, num_actions, config)


class Policy(PolicyTarget):
    """The policy of the search: cross entropy -pi . log p over all actions."""

    name = "policy"
    columns = ("policy",)

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = 1.0

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """See `Target`."""
        return cross_entropy(prediction, batch["policy"])

    def metrics(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """accuracy: the network's first choice is the search's."""
        return {"accuracy": (prediction.argmax(1) == batch["policy"].argmax(1)).float()}


class SoftPolicy(PolicyTarget):
    """The policy flattened to pi^(1/4) and normalised again, so that lesser moves count, too.

    KataGo: docs/KataGoMethods.md, "Auxiliary Soft Policy Target".
    """

    name = "soft_policy"
    columns = ("policy",)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """See `Target`."""
        soft = batch["policy"].pow(0.25)  # [B, A]
        return cross_entropy(prediction, soft / soft.sum(1, keepdim=True))


class OpponentReply(PolicyTarget):
    """The policy of the opponent's next search; rows without one do not count (KataGo: paper, section 3.4)."""

    name = "reply"
    columns = ("reply",)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """See `Target`."""
        return cross_entropy(prediction, batch["reply"])

    def metrics(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """accuracy: the first choice is the opponent's, of the rows that have a reply."""
        is_known = batch["reply"].sum(1) > 0
        return {"accuracy": rescale_known((prediction.argmax(1) == batch["reply"].argmax(1)).float(), is_known)}


def rescale_known(values: Tensor, is_known: Tensor) -> Tensor:
    """Scales known values and drops others, so that the mean [B] is that of the known ones; 0 if there are none."""
    share = is_known.float().mean().clamp(min=1e-9)
    return torch.where(is_known, values, 0.0) / share


def cross_entropy(logits: Tensor, policy: Tensor) -> Tensor:
    """The cross entropy [B] of logits [B, A] under policies [B, A]; 0 for a policy of zeros."""
    return -(policy * F.log_softmax(logits.float(), dim=1)).sum(1)
