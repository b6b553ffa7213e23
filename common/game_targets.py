"""What is learned from how the game went on."""

from torch import Tensor, nn

from common.config import LearnerConfig, NetworkConfig
from common.heads import ValueHead
from common.target import Labels


class Value:
    """How the game ends: (z - v)^2."""

    name = "value"
    columns: tuple[str, ...] = ("outcome",)

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = config.value_weight

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return ValueHead(board, config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        return (batch["outcome"] - prediction.float()).square()  # [B]

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: |z - v|."""
        return {"error": (batch["outcome"] - prediction.float()).abs()}
