"""What is learned from how the game went on."""

from torch import Tensor, nn

from common.config import LearnerConfig, NetworkConfig
from common.heads import ValueHead
from common.target import Labels


class Value:
    """How the game ends: (y - v)^2 with y = (1 - r) z + r q; r is 0 where only the end of the game counts.

    q is what the search said of the root (lc0: q_ratio).  `learner.blunder_gap` decides how far back z reaches.
    """

    name = "value"

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = config.value_weight
        self._root_share = config.root_value_share
        self.columns: tuple[str, ...] = ("outcome", "root_values") if self._root_share else ("outcome",)

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return ValueHead(board, config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        return (self._label(batch) - prediction.float()).square()  # [B]

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: |z - v|."""
        return {"error": (batch["outcome"] - prediction.float()).abs()}

    def _label(self, batch: Labels) -> Tensor:
        if not self._root_share:
            return batch["outcome"]
        return (1 - self._root_share) * batch["outcome"] + self._root_share * batch["root_values"]  # [B]
