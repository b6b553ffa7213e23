"""Targets that are learned from the rest of the game."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network.heads import CellsHead, NumbersHead, ValueHead
from shusaku.common.network.row_labels import PLIES_A_CELL
from shusaku.common.network.search_targets import rescale_known
from shusaku.common.network.target import Labels, Target
from shusaku.common.network.tower import SCORE_SCALE

SCORE_DELTA = 12.0  # points from which an error counts linearly (KataGo: python/metrics_pytorch.py)
SMALLEST = 2.0**-24  # distance of a float32 below 1 from it
MOVES_SCALE = 20.0  # of the head's output, in plies (lc0: training, tf/tfprocess.py, moves_left_loss)
MOVES_DELTA = 10.0  # plies from which an error counts linearly (the same)


class Value(Target):
    """How the game ends: (y - v)^2 with y = (1 - r) z + r q; r is 0 if only the end of the game counts.

    q is the search's value of the root (lc0: q_ratio).  `learner.blunder_gap` decides how far back z reaches.
    `learner.value_loss=cross_entropy`: (1 + v) / 2 is the expected score, 0 lost, 1/2 drawn, 1 won, and the loss is its
    cross entropy with (1 + y) / 2.  A value that is sure and wrong costs more, and has a gradient up to a logit of 9,
    where tanh rounds to 1; around v = 0 the gradient by v is half of the square's.
    """

    name = "value"

    def __init__(self, config: LearnerConfig) -> None:
        super().__init__(config)
        self._root_share = config.root_value_share
        self._is_entropy = config.value_loss == "cross_entropy"
        self.columns = ("outcome", "root_values") if self._root_share else ("outcome",)

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """See `Target`."""
        return ValueHead(board, config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """See `Target`."""
        label, value = self._label(batch), prediction.float()  # [B]
        if not self._is_entropy:
            return (label - value).square()
        # 1 - v is exact for v near 1, where (1 + v) / 2 is not.
        won, lost = (torch.log(side.clamp(min=SMALLEST) / 2) for side in (1 + value, 1 - value))
        return -((1 + label) * won + (1 - label) * lost) / 2

    def metrics(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: |z - v|."""
        return {"error": (batch["outcome"] - prediction.float()).abs()}

    def _label(self, batch: Labels) -> Tensor:
        if not self._root_share:
            return batch["outcome"]
        return (1 - self._root_share) * batch["outcome"] + self._root_share * batch["root_values"]  # [B]


class WinDrawLoss(Target):
    """Won, drawn or lost for the player to move: cross entropy of three logits (lc0: its value head, "WDL").

    The value alone cannot tell a position that is surely drawn from one that either may win.  An outcome between, which
    `learner.blunder_gap` and `learner.cut_off_value` make, is partly a draw.
    """

    name = "win_draw_loss"
    columns = ("outcome",)

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """See `Target`."""
        return NumbersHead(board, config, 3)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """See `Target`."""
        outcome = batch["outcome"]  # [B]
        shares = torch.stack([outcome.clamp(min=0), 1 - outcome.abs(), (-outcome).clamp(min=0)], 1)  # [B, 3]
        return -(shares * F.log_softmax(prediction.float(), 1)).sum(1)

    def metrics(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """drawn: the probability of a draw."""
        return {"drawn": F.softmax(prediction.float(), 1)[:, 1]}


class ShortTermValues(Target):
    """The values of the searches 64, 21 and 7 plies ahead on 19x19: sum over k of (s_k - v_k)^2.

    They are less noisy than the end of the game, and more accurate than the current search (KataGo:
    docs/KataGoMethods.md, "Short-term Value and Score Targets").  For other boards see
    `common.network.row_labels.horizons`.
    """

    name = "short_term"
    columns = ("short_term",)

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """See `Target`."""
        return NumbersHead(board, config, len(PLIES_A_CELL))

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """See `Target`."""
        return (batch["short_term"] - torch.tanh(prediction.float())).square().sum(1)  # [B] of [B, K]

    def metrics(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: mean of |s_k - v_k|."""
        return {"error": (batch["short_term"] - torch.tanh(prediction.float())).abs().mean(1)}


class MovesLeft(Target):
    """How many plies the game still lasts: Huber loss of n / 20 (lc0: tf/tfprocess.py, moves_left_loss).

    A game that ended by resignation or by the ply limit lasted until then.
    """

    name = "moves_left"
    columns = ("plies_left",)

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """See `Target`."""
        return NumbersHead(board, config, 1)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """See `Target`."""
        label = batch["plies_left"] / MOVES_SCALE
        return F.huber_loss(self._scaled(prediction), label, reduction="none", delta=MOVES_DELTA / MOVES_SCALE)  # [B]

    def metrics(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: in plies."""
        return {"error": (MOVES_SCALE * self._scaled(prediction) - batch["plies_left"]).abs()}

    def _scaled(self, prediction: Tensor) -> Tensor:
        return F.softplus(prediction.float().squeeze(1))  # [B] never negative, with a gradient everywhere


class Ownership(Target):
    """Who owns each cell at the end: cross entropy, mean over the cells (KataGo: python/metrics_pytorch.py).

    The head's tanh is the owner: 1 the player to move, -1 the other one.  Resigned games do not count.
    """

    name = "ownership"
    columns = ("ownership",)

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """See `Target`."""
        return CellsHead(config)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """See `Target`."""
        share = (1 + batch["ownership"].nan_to_num(0.0)) / 2  # [B, H, W] of the player to move
        # (1 + tanh x) / 2 is the logistic function of 2 x.
        cells = F.binary_cross_entropy_with_logits(2 * prediction.float(), share, reduction="none")
        return torch.where(self._is_known(batch), cells.mean((1, 2)), 0.0)  # [B]

    def metrics(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: mean of |owner - tanh|, of the rows whose game was played to its end."""
        error = (batch["ownership"].nan_to_num(0.0) - torch.tanh(prediction.float())).abs().mean((1, 2))
        return {"error": rescale_known(error, self._is_known(batch))}

    def _is_known(self, batch: Labels) -> Tensor:
        return ~batch["ownership"][:, 0, 0].isnan()  # [B] a map is known completely or not at all


class Score(Target):
    """The points at the end: Huber loss (KataGo: python/metrics_pytorch.py, loss_scoremean_samplewise)."""

    name = "score"
    columns = ("score",)

    def head(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
        """See `Target`."""
        return NumbersHead(board, config, 1)

    def loss(self, prediction: Tensor, batch: Labels) -> Tensor:
        """See `Target`."""
        points, label = self._points(prediction), batch["score"].nan_to_num(0.0)
        error = F.huber_loss(points, label, reduction="none", delta=SCORE_DELTA)
        return torch.where(batch["score"].isnan(), 0.0, error)  # [B]

    def metrics(self, prediction: Tensor, batch: Labels) -> dict[str, Tensor]:
        """error: in points, of the rows whose game was played to its end."""
        error = (self._points(prediction) - batch["score"].nan_to_num(0.0)).abs()
        return {"error": rescale_known(error, ~batch["score"].isnan())}

    def _points(self, prediction: Tensor) -> Tensor:
        return SCORE_SCALE * prediction.float().squeeze(1)  # [B]
