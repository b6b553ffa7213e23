"""The heads of the network as torch modules; their parts have the names of `common.network.tower`."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shusaku.common.config.schema import NetworkConfig
from shusaku.common.network.convolution import convolve, convolve_and_pass
from shusaku.common.network.norm_relu import norm_relu
from shusaku.common.network.tower import NORM_EPSILON, TowerShape


class Normed(nn.Module):
    """A convolution without bias, and its batch norm."""

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=NORM_EPSILON)
        # Only used by cumulative averages; without it every tensor of the network is float32.
        self.norm.num_batches_tracked = None

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, H, W] -> [B, outputs, H, W]."""
        y: Tensor = self.norm(convolve(self.conv, x))
        return y

    def relu_and_pass(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """ReLU of this, and x, for a skip."""
        y, passed = convolve_and_pass(self.conv, x)
        return norm_relu(self.norm, y), passed

    def relu(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
        """[B, inputs, H, W], [B, outputs, H, W] or none -> [B, outputs, H, W]: ReLU of this and the skip."""
        return norm_relu(self.norm, convolve(self.conv, x), skip)


def of_cells(linear: nn.Linear, y: Tensor) -> Tensor:
    """[B, P, H, W] -> [B, K]: `linear` of y.flatten(1).

    On a CPU, where y has its channels last in memory, the weights are laid out anew instead of y and its gradient, and
    these are larger; over two layouts ReLU's backward pass takes ten times as long as over one.
    """
    if y.device.type != "cpu" or not y.is_contiguous(memory_format=torch.channels_last):
        return linear(y.flatten(1))  # type: ignore[no-any-return]
    weight = linear.weight.view(len(linear.weight), y.shape[1], -1).transpose(1, 2).flatten(1)  # [K, H * W * P]
    return F.linear(y.permute(0, 2, 3, 1).flatten(1), weight, linear.bias)


def make_policy_head(board: tuple[int, int], num_actions: int, config: NetworkConfig) -> nn.Module:
    """The policy head of the tower that `network.tower` names."""
    make = PlainPolicyHead if config.tower == "plain" else PolicyHead
    return make(board, num_actions, config)


class PolicyHead(nn.Module):
    """1x1 convolution, norm, ReLU, linear to one logit per action: from the whole board, or cell by cell."""

    def __init__(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> None:
        super().__init__()
        self.features = Normed(config.filters, config.policy_filters, 1)
        outputs, inputs = TowerShape((1, *board), num_actions, config).policy_output
        self.output = nn.Linear(inputs, outputs)
        self.is_by_cell = config.policy_head == "planes"

    def forward(self, x: Tensor) -> Tensor:
        """[B, F, H, W] -> [B, A]."""
        y = self.features.relu(x)
        if not self.is_by_cell:
            return of_cells(self.output, y)
        logits: Tensor = self.output(y.flatten(2).transpose(1, 2)).flatten(1)  # [B, H * W, P] -> [B, A]
        return logits


class PlainPolicyHead(nn.Module):
    """1x1 convolution to the actions of each cell, linear from the mean to those of no cell, a bias for each action."""

    def __init__(self, board: tuple[int, int], num_actions: int, config: NetworkConfig) -> None:
        super().__init__()
        tower = TowerShape((1, *board), num_actions, config)
        self.output = BiasedActions(config.filters, tower.cell_actions, num_actions)
        count = num_actions % (board[0] * board[1])
        self.others = ActionsOfNoCell(config.filters, count) if count else None

    def forward(self, x: Tensor) -> Tensor:
        """[B, F, H, W] -> [B, A]."""
        y: Tensor = F.conv2d(x, self.output.weight).flatten(2).transpose(1, 2).flatten(1)  # [B, K * H * W]
        if self.others is not None:
            y = torch.cat([y, self.others(x)], 1)
        return y + self.output.bias


class BiasedActions(nn.Module):
    """The filters of a `PlainPolicyHead`, and the bias of each action."""

    def __init__(self, filters: int, cell_actions: int, num_actions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(cell_actions, filters, 1, 1))
        self.bias = nn.Parameter(torch.zeros(num_actions))


class ActionsOfNoCell(nn.Module):
    """Linear from the mean of the features over the cells, without a bias of its own."""

    def __init__(self, filters: int, count: int) -> None:
        super().__init__()
        self.output = nn.Linear(filters, count, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, F, H, W] -> [B, count]."""
        y: Tensor = self.output(x.mean((2, 3)))
        return y


class NumbersHead(nn.Module):
    """1x1 convolution, norm, ReLU, linear, ReLU, linear to K numbers.

    Of a plain tower: 3x3 convolution, ReLU, 1x1 convolution, linear, ReLU, linear.
    """

    def __init__(self, board: tuple[int, int], config: NetworkConfig, outputs: int) -> None:
        super().__init__()
        if config.tower == "plain":
            self.layer = nn.Conv2d(config.filters, config.filters, 3, padding=1)
            self.features: nn.Conv2d | Normed = nn.Conv2d(config.filters, config.value_filters, 1)
        else:
            self.features = Normed(config.filters, config.value_filters, 1)
        self.hidden = nn.Linear(config.value_filters * board[0] * board[1], config.value_hidden)
        self.output = nn.Linear(config.value_hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """[B, F, H, W] -> [B, K]."""
        y = self.features.relu(x) if isinstance(self.features, Normed) else self.features(F.relu(self.layer(x)))
        y = F.relu(of_cells(self.hidden, y))
        numbers: Tensor = self.output(y).float()  # [B, K]
        return numbers


class ValueHead(NumbersHead):
    """A `NumbersHead` of one number, tanh."""

    def __init__(self, board: tuple[int, int], config: NetworkConfig) -> None:
        super().__init__(board, config, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, F, H, W] -> [B]."""
        return torch.tanh(super().forward(x)).squeeze(1)  # [B]


class CellsHead(nn.Module):
    """1x1 convolution to one number per cell."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.output = nn.Conv2d(config.filters, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, F, H, W] -> [B, H, W]."""
        y: Tensor = self.output(x).float().squeeze(1)  # [B, H, W]
        return y
