"""What is learned from how the game went on."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network.heads import CellsHead, NumbersHead, ValueHead
from shusaku.common.network.row_labels import PLIES_A_CELL
from shusaku.common.network.search_targets import rescale_known
from shusaku.common.network.target import Labels

SCORE_SCALE = 20.0  # of the head's output, in points (KataGo: python/model_pytorch.py, scoremean_multiplier)
SCORE_DELTA = 12.0  # points from which an error counts linearly (KataGo: python/metrics_pytorch.py)
MOVES_SCALE = 20.0  # of the head's output, in plies (lc0: training, tf/tfprocess.py, moves_left_loss)
MOVES_DELTA = 10.0  # plies from which an error counts linearly (the same)


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


class ShortTermValues:
    """What the searches of the next plies say, looking 64, 21 and 7 plies ahead on 19x19: sum over k of (s_k - v_k)^2.

    Less noisy than the end of the game, and sooner right than the search of now (KataGo: docs/KataGoMethods.md,
    "Short-term Value and Score Targets"); `common.network.row_labels.horizons` says how far on other boards.
    """

    name = "short_term"
    columns: tuple[str, ...] = ("short_term",)

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = config.short_term_weight

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return NumbersHead(board, config, len(PLIES_A_CELL))

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        return (batch["short_term"] - torch.tanh(prediction.float())).square().sum(1)  # [B] of [B, K]

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: mean of |s_k - v_k|."""
        return {"error": (batch["short_term"] - torch.tanh(prediction.float())).abs().mean(1)}


class MovesLeft:
    """How many plies the game still lasts: Huber loss of n / 20 (lc0: tf/tfprocess.py, moves_left_loss).

    Where somebody resigned, or the plies ran out, the game lasted until then.
    """

    name = "moves_left"
    columns: tuple[str, ...] = ("plies_left",)

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = config.moves_left_weight

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return NumbersHead(board, config, 1)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        label = batch["plies_left"] / MOVES_SCALE
        return F.huber_loss(self._scaled(prediction), label, reduction="none", delta=MOVES_DELTA / MOVES_SCALE)  # [B]

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: in plies."""
        return {"error": (MOVES_SCALE * self._scaled(prediction) - batch["plies_left"]).abs()}

    def _scaled(self, prediction: Tensor) -> Tensor:
        return F.softplus(prediction.float().squeeze(1))  # [B] never negative, and never without a gradient


class Ownership:
    """Who owns each cell at the end: cross entropy, mean over the cells (KataGo: python/metrics_pytorch.py).

    The head's tanh is the owner: 1 the player to move, -1 the other one.  Games that were resigned teach nothing.
    """

    name = "ownership"
    columns: tuple[str, ...] = ("ownership",)

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = config.ownership_weight

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return CellsHead(config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        share = (1 + batch["ownership"].nan_to_num(0.0)) / 2  # [B, H, W] of the player to move
        # (1 + tanh x) / 2 is the logistic function of 2 x.
        cells = F.binary_cross_entropy_with_logits(2 * prediction.float(), share, reduction="none")
        return torch.where(self._is_known(batch), cells.mean((1, 2)), 0.0)  # [B]

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: mean of |owner - tanh|, among the rows whose game came to its end."""
        error = (batch["ownership"].nan_to_num(0.0) - torch.tanh(prediction.float())).abs().mean((1, 2))
        return {"error": rescale_known(error, self._is_known(batch))}

    def _is_known(self, batch: Labels) -> Tensor:
        return ~batch["ownership"][:, 0, 0].isnan()  # [B] a map is known whole or not at all


class Score:
    """The points at the end: Huber loss (KataGo: python/metrics_pytorch.py, loss_scoremean_samplewise)."""

    name = "score"
    columns: tuple[str, ...] = ("score",)

    def __init__(self, config: LearnerConfig) -> None:
        self.weight = config.score_weight

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        return NumbersHead(board, config, 1)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        points, label = self._points(prediction), batch["score"].nan_to_num(0.0)
        error = F.huber_loss(points, label, reduction="none", delta=SCORE_DELTA)
        return torch.where(batch["score"].isnan(), 0.0, error)  # [B]

    def figures(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: in points, among the rows whose game came to its end."""
        error = (self._points(prediction) - batch["score"].nan_to_num(0.0)).abs()
        return {"error": rescale_known(error, ~batch["score"].isnan())}

    def _points(self, prediction: Tensor) -> Tensor:
        return SCORE_SCALE * prediction.float().squeeze(1)  # [B]
