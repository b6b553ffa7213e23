"""The learning rate over the steps of a run, and the step itself."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from shusaku.common.config.schema import LearnerConfig, RunConfig
from shusaku.learner.optimizers import learning_rate, make_optimizer, run_share, take_step


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


def test_alphazero_drops_where_it_did() -> None:
    config = LearnerConfig(learning_rate=0.2, warmup_steps=0, schedule="step",
                           schedule_drops=[100_000, 300_000, 500_000])
    steps = (0, 99_999, 100_000, 299_999, 300_000, 499_999, 500_000, 700_000)
    assert [learning_rate(step, config) for step in steps] == pytest.approx(
        [0.2, 0.2, 0.02, 0.02, 0.002, 0.002, 0.0002, 0.0002])


def test_cooldown_goes_by_the_time_of_the_run_whatever_the_step() -> None:
    config = LearnerConfig(learning_rate=1.0, warmup_steps=10, schedule="cooldown", cooldown_share=0.2)
    shares = (0.0, 0.5, 0.8, 0.9, 1.0, 1.7)
    for step in (10, 1_000_000):
        rates = [learning_rate(step, config, share) for share in shares]
        assert rates == pytest.approx([1, 1, 1, 0.525, 0.05, 0.05])
    assert learning_rate(4, config, 0.9) == pytest.approx(0.5 * 0.525), "the warm-up of a short run"


def test_the_share_of_a_run() -> None:
    assert [run_share(seconds, RunConfig(minutes=2)) for seconds in (0, 30, 120, 1e6)] == [0, 0.25, 1, 1]
    assert run_share(0, RunConfig(minutes=0)) == 1


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "muon"])
def test_a_step_is_that_of_torch(name: str) -> None:
    def parameters(how: str) -> list[torch.Tensor]:
        torch.manual_seed(1)
        network = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 1))
        optimizer = make_optimizer(network, LearnerConfig(optimizer=name, learning_rate=0.1))
        for _ in range(4):
            optimizer.zero_grad()
            network(torch.randn(8, 5)).square().mean().backward()
            optimizer.step() if how == "torch" else take_step(optimizer)
        return [parameter.detach() for parameter in network.parameters()]

    assert all(torch.equal(*pair) for pair in zip(parameters("torch"), parameters("ours"), strict=True))


def test_no_compiler_is_imported() -> None:
    code = """
import sys
import torch
from shusaku.common.config.schema import LearnerConfig
from shusaku.learner.optimizers import make_optimizer, take_step
network = torch.nn.Linear(2, 1)
optimizer = make_optimizer(network, LearnerConfig())
optimizer.zero_grad(set_to_none=True)
network(torch.ones(3, 2)).sum().backward()
before = network.weight.detach().clone()
take_step(optimizer)
assert not torch.equal(network.weight, before)
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False\n", "a start takes 1.3 s longer: see learner/optimizers.py"
