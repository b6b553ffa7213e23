"""The learning rate over the steps of a run."""

import pytest

from common.config import LearnerConfig
from learner.optimizers import learning_rate


def rates(schedule: str, *steps: int) -> list[float]:
    config = LearnerConfig(learning_rate=1.0, warmup_steps=10, schedule=schedule, schedule_steps=300)
    return [learning_rate(step, config) for step in steps]


def test_the_warm_up_rises_linearly() -> None:
    assert rates("constant", 0, 4, 9, 10, 5000) == pytest.approx([0.1, 0.5, 1.0, 1.0, 1.0])
    assert learning_rate(0, LearnerConfig(learning_rate=1.0, warmup_steps=0)) == 1.0


def test_cosine_ends_at_a_twentieth_and_stays_there() -> None:
    assert rates("cosine", 150, 300, 10_000) == pytest.approx([0.525, 0.05, 0.05])


def test_step_divides_by_ten_at_each_third() -> None:
    assert rates("step", 99, 100, 199, 200, 299, 300, 9999) == pytest.approx(
        [1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    )
