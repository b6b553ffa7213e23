"""The compiled program of a step is another way to compute the same step."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from shusaku.common._core import Game
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network.network import Network, named_tensors
from shusaku.common.network.targets import make_targets
from shusaku.learner import step_program
from shusaku.learner.step_program import StepProgram

GAME = Game("connect_four")
NETWORK = NetworkConfig(filters=8, blocks=1, squeeze=4)


def network_of() -> Network:
    return Network(GAME.observation_shape, GAME.num_actions, NETWORK, make_targets(LearnerConfig()), 3).train()


def planes_of() -> torch.Tensor:
    bits = np.random.default_rng(1).integers(0, 2, (16, *GAME.observation_shape)).astype(np.float32)
    return torch.from_numpy(bits).contiguous(memory_format=torch.channels_last)


def test_without_a_gpu_nothing_is_measured() -> None:
    network, planes = network_of(), planes_of()
    before = [tensor.clone() for _, tensor in named_tensors(network)]
    program = StepProgram(network, "auto", is_bf16=False)
    program.settle(planes, None)
    assert program.description == ""
    assert all(torch.equal(old, new) for old, (_, new) in zip(before, named_tensors(network), strict=True))
    assert program(planes)["policy"].shape == (16, GAME.num_actions)


def test_measuring_a_program_leaves_the_network_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    network, planes = network_of(), planes_of()
    before = [tensor.clone() for _, tensor in named_tensors(network)]
    changed: list[bool] = []

    def run(compute: Callable[[], None], _: object) -> float:
        for _ in range(3):
            compute()
        changed.append(any(not torch.equal(old, new)
                           for old, (_, new) in zip(before, named_tensors(network), strict=True)))
        return 2.0

    monkeypatch.setattr(step_program, "_runs_per_s", run)
    program = StepProgram(network, "auto", is_bf16=False)
    assert program._rate_of("eager", planes, None) == 32.0  # type: ignore[arg-type]
    assert changed == [True], "a forward pass changes the statistics of the batch norms"
    assert all(torch.equal(old, new) for old, (_, new) in zip(before, named_tensors(network), strict=True))
    assert all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.long
def test_the_compiled_program_has_the_gradients_and_statistics_of_the_eager_one() -> None:
    planes, networks = planes_of(), [network_of(), network_of()]
    for network, name in zip(networks, ("eager", "compiled"), strict=True):
        program = StepProgram(network, name, is_bf16=False)
        program.settle(planes, None)
        predictions = program(planes)
        (predictions["policy"].square().mean() + predictions["value"].square().mean()).backward()
    one, other = networks
    for (name, parameter), (_, compiled) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        torch.testing.assert_close(compiled.grad, parameter.grad, rtol=1e-3, atol=1e-6, msg=name)
    for (name, statistic), (_, compiled) in zip(one.named_buffers(), other.named_buffers(), strict=True):
        torch.testing.assert_close(compiled, statistic, rtol=1e-4, atol=1e-6, msg=name)
