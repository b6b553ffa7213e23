"""The losses, against numbers worked out by hand."""

import math

import pytest
import torch

from shusaku.common.config.rules import TARGETS as NAMES
from shusaku.common.config.rules import check
from shusaku.common.config.schema import Config, LearnerConfig
from shusaku.common.errors import UsageError
from shusaku.common.network.target import Target, total_loss
from shusaku.common.network.targets import TARGETS, make_targets

ROWS = {
    "policy": torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]),
    "outcome": torch.tensor([1.0, -1.0]),
    "weight": torch.tensor([1.0, 3.0]),
}
LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]))
VALUES = torch.tensor([0.5, 0.0])


def of(name: str, **config: float | str) -> Target:
    return TARGETS[name](LearnerConfig(**config))


def test_the_policy_loss_is_the_cross_entropy() -> None:
    loss = of("policy").loss(LOGITS, ROWS)
    torch.testing.assert_close(loss, torch.tensor([math.log(2), math.log(4)]))


def test_the_value_loss_is_the_squared_error() -> None:
    torch.testing.assert_close(of("value").loss(VALUES, ROWS), torch.tensor([0.25, 1.0]))


def test_the_value_loss_may_be_a_cross_entropy() -> None:
    """0.75 and 0.5 of a point were expected, 1 and 0 came."""
    target = of("value", value_loss="cross_entropy")
    torch.testing.assert_close(target.loss(VALUES, ROWS), torch.tensor([-math.log(0.75), math.log(2)]))
    draw = {"outcome": torch.zeros(3)}
    best = torch.tensor([-0.5, 0.0, 0.5])
    assert target.loss(best, draw).argmin() == 1


@pytest.mark.parametrize("logit", [0.5, 4.0, 8.0, 8.5])
def test_a_value_that_is_sure_and_wrong_is_corrected(logit: float) -> None:
    """The gradient by the logit x of v = tanh x is 2 (p - s) with p = (1 + v) / 2; the square's vanishes."""
    logits = torch.tensor([logit, -logit], requires_grad=True)
    of("value", value_loss="cross_entropy").loss(torch.tanh(logits), {"outcome": torch.tensor([-1.0, 1.0])}).sum(
        ).backward()
    expected = 1 + math.tanh(logit)
    torch.testing.assert_close(logits.grad, torch.tensor([expected, -expected]), rtol=0.3, atol=0)
    rounded = of("value", value_loss="cross_entropy").loss(torch.tensor([1.0]), {"outcome": torch.tensor([-1.0])})
    assert 10 < float(rounded) < 20


def test_the_value_may_be_learned_from_the_search_too() -> None:
    batch = {**ROWS, "root_values": torch.tensor([0.2, 0.6])}
    target = of("value", root_value_share=0.25)
    labels = torch.tensor([0.75 * 1.0 + 0.25 * 0.2, 0.75 * -1.0 + 0.25 * 0.6])
    torch.testing.assert_close(target.loss(VALUES, batch), (labels - VALUES) ** 2)
    assert target.columns == ("outcome", "root_values")
    assert of("value").columns == ("outcome",)


def test_rows_count_by_their_weight_and_targets_by_theirs() -> None:
    config = LearnerConfig(value_weight=0.5)
    loss, parts = total_loss({"policy": LOGITS, "value": VALUES}, ROWS, make_targets(config))
    policy, value = (math.log(2) + 3 * math.log(4)) / 4, (0.25 + 3 * 1.0) / 4
    assert parts["policy"].item() == pytest.approx(policy)
    assert parts["value"].item() == pytest.approx(value)
    assert loss.item() == pytest.approx(policy + 0.5 * value)


def test_the_soft_policy_is_flattened_and_normalised() -> None:
    logits = torch.zeros(1, 3)
    pi = torch.tensor([[0.9, 0.1, 0.0]])
    soft = torch.tensor([0.9**0.25, 0.1**0.25]) / (0.9**0.25 + 0.1**0.25)
    logits[0, :2] = soft.log()
    logits[0, 2] = -50.0
    entropy = -(soft * soft.log()).sum()
    torch.testing.assert_close(of("soft_policy").loss(logits, {"policy": pi}), entropy[None])
    rows = {"policy": torch.cat([pi, torch.tensor([[0.0, 0.0, 1.0]])])}  # each row is normalised by itself
    torch.testing.assert_close(of("soft_policy").loss(logits.repeat(2, 1), rows)[0], entropy)


def test_rows_without_a_reply_teach_nothing() -> None:
    reply = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # the row without one does not agree with the logits
    torch.testing.assert_close(of("reply").loss(LOGITS, {"reply": reply}), torch.tensor([math.log(2), 0.0]))
    accuracy = of("reply").metrics(LOGITS, {"reply": reply})["accuracy"]
    assert accuracy.mean().item() == 1.0  # of one row


def test_the_short_term_loss_sums_the_horizons() -> None:
    labels = torch.tensor([[0.5, -0.5, 1.0]])
    prediction = torch.atanh(torch.tensor([[0.5, 0.0, 0.5]]))
    torch.testing.assert_close(of("short_term").loss(prediction, {"short_term": labels}), torch.tensor([0.25 + 0.25]))


def test_win_draw_loss_is_the_cross_entropy_of_three_outcomes() -> None:
    target = of("win_draw_loss")
    chances = torch.tensor([[0.7, 0.2, 0.1]])
    for outcome, chance in ((1.0, 0.7), (0.0, 0.2), (-1.0, 0.1)):
        loss = target.loss(chances.log() + 3, {"outcome": torch.tensor([outcome])})
        torch.testing.assert_close(loss, torch.tensor([-math.log(chance)]))
    between = target.loss(chances.log(), {"outcome": torch.tensor([-0.25])})
    torch.testing.assert_close(between, torch.tensor([-0.75 * math.log(0.2) - 0.25 * math.log(0.1)]))
    torch.testing.assert_close(target.metrics(chances.log(), {"outcome": torch.zeros(1)})["drawn"], torch.tensor([0.2]))


def test_moves_left_is_a_huber_loss_of_twenty_plies() -> None:
    left = torch.tensor([20.0, 40.0])
    prediction = torch.tensor([1.25, 0.5]).expm1().log()[:, None]  # softplus of it: 25 and 10 plies
    loss = of("moves_left").loss(prediction, {"plies_left": left})
    torch.testing.assert_close(loss, torch.tensor([0.5 * 0.25**2, 0.5 * (1.5 - 0.25)]))
    torch.testing.assert_close(of("moves_left").metrics(prediction, {"plies_left": left})["error"],
                               torch.tensor([5.0, 30.0]))


def test_games_without_an_end_teach_neither_ownership_nor_score() -> None:
    nan = math.nan
    owners = torch.tensor([[[1.0, -1.0], [0.0, 1.0]], [[nan, nan], [nan, nan]]])
    tanh = torch.tensor([[0.5, 0.5], [0.0, -0.5]])
    prediction = torch.atanh(tanh).repeat(2, 1, 1).requires_grad_()
    loss = of("ownership").loss(prediction, {"ownership": owners})
    cells = [math.log(4 / 3), math.log(4), math.log(2), math.log(4)]  # of shares 3/4, 3/4, 1/2, 1/4
    torch.testing.assert_close(loss.detach(), torch.tensor([sum(cells) / 4, 0.0]))
    loss.sum().backward()
    assert prediction.grad is not None
    assert prediction.grad[0].abs().min() > 0 or prediction.grad[0, 1, 0] == 0
    assert torch.equal(prediction.grad[1], torch.zeros(2, 2))

    points = torch.tensor([[0.5], [1.0], [2.0]]).requires_grad_()  # 10, 20 and 40 points
    loss = of("score").loss(points, {"score": torch.tensor([12.0, nan, 0.0])})
    torch.testing.assert_close(loss.detach(), torch.tensor([0.5 * 2**2, 0.0, 12 * (40 - 6)]))
    loss.sum().backward()
    assert points.grad is not None
    assert points.grad[1].item() == 0
    assert torch.isfinite(points.grad).all()


def test_the_figures() -> None:
    assert of("policy").metrics(LOGITS, ROWS)["accuracy"].tolist() == [1.0, 0.0]
    assert of("value").metrics(VALUES, ROWS)["error"].tolist() == [0.5, 1.0]


def test_logits_of_half_precision_lose_nothing_in_the_loss() -> None:
    assert of("policy").loss(LOGITS.bfloat16(), ROWS).dtype == torch.float32


def test_the_table_is_that_of_the_configuration() -> None:
    assert tuple(TARGETS) == NAMES
    for name in NAMES:
        assert of(name).name == name


@pytest.mark.parametrize(("targets", "reason"), [
    (["policy", "valve"], r"learner\.targets=\[policy,valve\]: there is no target valve; nearest: value"),
    (["ownership"], "policy or value must be among them"),
    (["policy"], "policy and value must be among them"),
    (["policy", "value", "value"], "names a target twice"),
])
def test_targets_that_cannot_be_are_refused(targets: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check(Config(learner=LearnerConfig(targets=targets)))
