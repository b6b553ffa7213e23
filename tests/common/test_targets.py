"""The losses, against numbers worked out by hand."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from common.config import LearnerConfig
from common.targets import TARGETS, total_loss


@dataclass
class Rows:
    policy: Tensor
    outcome: Tensor
    weight: Tensor


ROWS = Rows(
    policy=torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]),
    outcome=torch.tensor([1.0, -1.0]),
    weight=torch.tensor([1.0, 3.0]),
)
LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]))
VALUES = torch.tensor([0.5, 0.0])


def test_the_policy_loss_is_the_cross_entropy() -> None:
    loss = TARGETS["policy"].loss(LOGITS, ROWS)
    torch.testing.assert_close(loss, torch.tensor([math.log(2), math.log(4)]))


def test_the_value_loss_is_the_squared_error() -> None:
    torch.testing.assert_close(TARGETS["value"].loss(VALUES, ROWS), torch.tensor([0.25, 1.0]))


def test_rows_count_by_their_weight_and_targets_by_theirs() -> None:
    config = LearnerConfig(value_weight=0.5)
    loss, parts = total_loss({"policy": LOGITS, "value": VALUES}, ROWS, config, list(TARGETS.values()))
    policy, value = (math.log(2) + 3 * math.log(4)) / 4, (0.25 + 3 * 1.0) / 4
    assert parts["policy"].item() == pytest.approx(policy)
    assert parts["value"].item() == pytest.approx(value)
    assert loss.item() == pytest.approx(policy + 0.5 * value)


def test_the_figures() -> None:
    assert TARGETS["policy"].figures(LOGITS, ROWS)["accuracy"].tolist() == [1.0, 0.0]
    assert TARGETS["value"].figures(VALUES, ROWS)["error"].tolist() == [0.5, 1.0]


def test_logits_of_half_precision_lose_nothing_in_the_loss() -> None:
    assert TARGETS["policy"].loss(LOGITS.bfloat16(), ROWS).dtype == torch.float32
