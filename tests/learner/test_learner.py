"""The learner learns, goes on bit for bit from its state, and survives numbers that are not numbers."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.network import convolution_choice
from shusaku.common.network.network import Network, named_tensors, tensors_of
from shusaku.common.network.torch_tower import TorchTower
from shusaku.common.network.tower import quantised_layers
from shusaku.common.network.weights import tower_shape
from shusaku.learner import quantisation
from shusaku.learner.checkpoints import Checkpoint, load_latest, write_checkpoint
from shusaku.learner.ema import Average
from shusaku.learner.learner import Learner
from shusaku.learner.quantisation import QuantisationError
from shusaku.learner.state_copy import Diverged, LearnerState

GAME = Game("tic_tac_toe")
CONFIG = LearnerConfig(precision="fp32", warmup_steps=5, batch_size=16, max_bad_steps=3)
NETWORK = NetworkConfig(filters=8, blocks=1, value_hidden=16)


pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass
class Rows:
    observations: NDArray[np.float32]
    policy: NDArray[np.float32]
    outcome: NDArray[np.float32]
    weight: NDArray[np.float32]


def rows(seed: int, count: int = 16) -> Rows:
    random = np.random.default_rng(seed)
    return Rows(
        observations=(random.random((count, *GAME.observation_shape)) < 0.4).astype(np.float32),
        policy=random.dirichlet(np.full(GAME.num_actions, 0.3), count).astype(np.float32),
        outcome=random.integers(-1, 2, count).astype(np.float32),
        weight=np.ones(count, np.float32),
    )


def learner_of(config: LearnerConfig = CONFIG, network: NetworkConfig = NETWORK) -> Learner:
    return Learner(Network(GAME.observation_shape, GAME.num_actions, network, seed=2), GAME, config)


def losses(learner: Learner, seeds: range) -> list[float]:
    found = []
    for seed in seeds:
        assert learner.step(rows(seed))
        found.append(learner.metrics()["loss/total"])
    return found


def test_it_learns_one_batch_by_heart() -> None:
    learner = learner_of(dataclasses.replace(CONFIG, learning_rate=1e-2, weight_decay=0))
    batch = rows(1)
    batch.policy = np.eye(GAME.num_actions, dtype=np.float32)[np.arange(16) % 9]
    for _ in range(20):
        learner.step(batch)
    first = learner.metrics()
    for _ in range(300):
        learner.step(batch)
    learner.metrics()
    learner.step(batch)
    last = learner.metrics()
    assert last["loss/total"] < 0.02 < first["loss/total"]
    assert last["policy/accuracy"] == 1.0
    assert last["value/error"] < 0.1


@pytest.mark.parametrize("schedule", ["constant", "cosine", "step"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "muon"])
def test_it_goes_on_bit_for_bit(optimizer: str, schedule: str, tmp_path: Path) -> None:
    """Through the files of a checkpoint."""
    config = dataclasses.replace(CONFIG, optimizer=optimizer, schedule=schedule, schedule_steps=12)
    whole = learner_of(config)
    first = losses(whole, range(8))
    state = whole.state()
    write_checkpoint(tmp_path, Checkpoint(8, state.tensors, {"learner": state.facts}))
    rest = losses(whole, range(8, 16))
    resumed = learner_of(config)
    found = load_latest(tmp_path)
    assert found is not None
    resumed.restore(LearnerState(found.checkpoint.tensors, found.checkpoint.facts["learner"]))
    assert resumed.step_count == 8
    assert losses(resumed, range(8, 16)) == rest
    assert first != rest
    one, other = whole.publish(3), resumed.publish(3)
    assert one is not None
    assert other is not None
    assert all(np.array_equal(one.tensors[name], other.tensors[name]) for name in one.tensors)


def test_its_state_is_a_copy() -> None:
    learner = learner_of()
    losses(learner, range(3))
    state = learner.state()
    before = {part: {n: a.copy() for n, a in tensors.items()} for part, tensors in state.tensors.items()}
    losses(learner, range(3, 6))
    assert all(np.array_equal(before[p][n], a) for p, tensors in state.tensors.items() for n, a in tensors.items())


def test_a_state_of_another_network_or_optimizer_is_refused() -> None:
    learner = learner_of()
    losses(learner, range(2))
    with pytest.raises(UsageError, match=r"network\.\*"):
        learner_of(network=dataclasses.replace(NETWORK, filters=4)).restore(learner.state())


@pytest.mark.parametrize(("own", "other"), [("adamw", "sgd"), ("sgd", "adamw"), ("adamw", "muon"), ("muon", "adamw"),
                                            ("sgd", "muon"), ("muon", "sgd")])
def test_a_state_of_another_optimizer_is_refused(own: str, other: str) -> None:
    learner = learner_of(dataclasses.replace(CONFIG, optimizer=own))
    losses(learner, range(2))
    with pytest.raises(UsageError, match=r"learner\.optimizer"):
        learner_of(dataclasses.replace(CONFIG, optimizer=other)).restore(learner.state())


def test_muon_without_blocks_goes_on() -> None:
    config, network = dataclasses.replace(CONFIG, optimizer="muon"), dataclasses.replace(NETWORK, blocks=0)
    learner = learner_of(config, network=network)
    losses(learner, range(2))
    learner_of(config, network=network).restore(learner.state())


def test_the_average_follows_with_a_warm_up_and_holds_the_statistics() -> None:
    network = Network(GAME.observation_shape, GAME.num_actions, NETWORK)
    average = Average(network, decay=0.5)
    for step, number in enumerate((1.0, 2.0, 4.0)):
        with torch.no_grad():
            for _, tensor in named_tensors(network):
                tensor.fill_(number)
        before = average.tensors()
        average.update()
        decay = min(0.5, (1 + step) / (10 + step))
        for name, array in average.tensors().items():
            np.testing.assert_allclose(array, decay * before[name] + (1 - decay) * number, rtol=1e-5)
    assert "stem.norm.running_var" in average.tensors()


def test_the_average_is_published() -> None:
    learner = learner_of(dataclasses.replace(CONFIG, ema_decay=0.9))
    losses(learner, range(10))
    weights = learner.publish(5)
    assert weights is not None
    assert (weights.version, weights.step, weights.game) == (5, 10, "tic_tac_toe")
    average, network = learner.average.tensors(), tensors_of(learner.network)
    assert all(np.array_equal(weights.tensors[name], average[name]) for name in average)
    assert any(not np.array_equal(weights.tensors[name], network[name]) for name in average)


@pytest.mark.parametrize("column", ["observations", "policy", "outcome", "weight"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_poisoned_batch_changes_nothing(column: str, number: float) -> None:
    learner, twin = learner_of(), learner_of()
    losses(learner, range(4))
    losses(twin, range(4))
    poisoned = rows(99)
    getattr(poisoned, column)[3] = number
    assert not learner.step(poisoned)
    assert (learner.skipped_steps, learner.step_count) == (1, 4)
    assert learner.metrics() == {}
    assert losses(learner, range(4, 8)) == losses(twin, range(4, 8))


def test_a_gradient_that_is_not_finite_is_skipped() -> None:
    learner = learner_of()
    first = next(learner.network.parameters())
    handle = first.register_hook(lambda gradient: gradient * torch.nan)  # type: ignore[no-untyped-call]
    assert not learner.step(rows(1))
    handle.remove()
    assert learner.step(rows(2))


def test_a_batch_without_memory_for_it_is_taken_in_parts() -> None:
    """The device refuses more than 5 rows at once: 16 are taken in 4 parts, and later batches at once so."""
    learner, twin = learner_of(), learner_of()
    for module in (*learner.network.modules(), *twin.network.modules()):
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()  # else a part has other statistics than the whole
    sizes: list[int] = []

    def refuse(network: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        sizes.append(len(arguments[0]))
        if sizes[-1] > 5:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    learner.network.register_forward_pre_hook(refuse)
    assert learner.step(rows(1))
    assert sizes == [16, 8, 4, 4, 4, 4]
    assert twin.step(rows(1))
    mine, other = tensors_of(learner.network), tensors_of(twin.network)
    for name in mine:
        np.testing.assert_allclose(mine[name], other[name], rtol=2e-4, atol=2e-6, err_msg=name)
    assert learner.metrics() == pytest.approx(twin.metrics(), rel=1e-3)
    assert learner.step(rows(2))
    assert sizes[6:] == [4, 4, 4, 4], "it is remembered"
    assert learner.parts == 4


def test_a_row_that_does_not_fit_alone_is_an_error() -> None:
    learner = learner_of()

    def refuse(network: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    learner.network.register_forward_pre_hook(refuse)
    with pytest.raises(torch.OutOfMemoryError):
        learner.step(rows(1))


def test_too_many_bad_steps_in_a_row_are_a_divergence() -> None:
    learner = learner_of()
    bad = rows(1)
    bad.outcome[:] = np.nan
    for _ in range(2):
        learner.step(bad)
    learner.step(rows(2))
    learner.step(bad)
    learner.step(bad)
    with pytest.raises(Diverged, match="3 steps in a row"):
        learner.step(bad)
    assert learner.skipped_steps == 5


def test_a_network_with_nan_is_neither_published_nor_saved() -> None:
    learner = learner_of()
    losses(learner, range(2))
    with torch.no_grad():
        next(learner.network.parameters())[0] = torch.nan
    assert learner.publish(1) is not None  # the average has not seen it
    learner.average.update()
    assert learner.publish(2) is None
    assert learner.refused_publications == 1
    with pytest.raises(Diverged):
        learner.state()


def test_a_network_whose_answers_are_not_finite_is_not_published() -> None:
    """As of a run that diverged: every weight is finite, and their products are not."""
    learner = learner_of(dataclasses.replace(CONFIG, ema_decay=0.0))
    losses(learner, range(1))
    assert learner.publish(1) is not None
    with torch.no_grad():
        for name, parameter in learner.network.named_parameters():
            if name.endswith("conv.weight"):
                parameter.fill_(1e20)
    learner.average.update()
    assert not learner.answers_are_finite()
    assert learner.network.training, "as before"
    assert learner.publish(2) is None
    assert learner.refused_publications == 1


def test_norms_and_biases_do_not_decay() -> None:
    """With gradients of zero, only decay moves a parameter."""
    learner = learner_of(dataclasses.replace(CONFIG, weight_decay=0.1, warmup_steps=0, learning_rate=0.1))
    before = {name: p.detach().clone() for name, p in learner.network.named_parameters()}
    for parameter in learner.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    learner._optimizer.step()
    for name, parameter in learner.network.named_parameters():
        factor = 0.99 if parameter.ndim > 1 else 1.0
        torch.testing.assert_close(parameter.detach(), before[name] * factor)


def test_gradients_are_clipped_and_their_norm_is_told() -> None:
    config = dataclasses.replace(CONFIG, optimizer="sgd", momentum=0.0, weight_decay=0, warmup_steps=0)
    learner = learner_of(dataclasses.replace(config, learning_rate=1.0, max_grad_norm=0.01))
    before = torch.cat([p.detach().flatten().clone() for p in learner.network.parameters()])
    learner.step(rows(1))
    after = torch.cat([p.detach().flatten() for p in learner.network.parameters()])
    assert (after - before).norm().item() == pytest.approx(0.01, rel=1e-3)
    assert learner.metrics()["grad_norm"] > 0.01


def test_bf16_autocast_learns_too() -> None:
    """Forced, because the processor may only imitate it."""
    learner = learner_of(dataclasses.replace(CONFIG, learning_rate=1e-2))
    learner._is_bf16 = True
    first = losses(learner, range(1, 2))
    for _ in range(60):
        learner.step(rows(1))
    learner.metrics()
    assert losses(learner, range(1, 2))[0] < 0.7 * first[0]
    assert all(tensor.dtype == torch.float32 for _, tensor in named_tensors(learner.network))


def test_metrics_are_means_since_the_last_call() -> None:
    learner, twin = learner_of(), learner_of()
    each = losses(twin, range(4))
    for seed in range(4):
        learner.step(rows(seed))
    figures: dict[str, Any] = learner.metrics()
    assert figures["loss/total"] == pytest.approx(np.mean(each), rel=1e-5)
    assert {"loss/policy", "loss/value", "policy/accuracy", "value/error", "grad_norm"} <= figures.keys()
    assert figures["learning_rate"] == pytest.approx(CONFIG.learning_rate * 4 / 5)


def test_scales_of_8_bits_go_with_publications_and_outlive_a_stop() -> None:
    def learner() -> Learner:
        network = Network(GAME.observation_shape, GAME.num_actions, NETWORK, seed=3)
        return Learner(network, GAME, CONFIG, is_quantised=True)

    first = learner()
    before = first.publish(1)
    assert before is not None
    assert before.scales == {}, "there were no positions yet"
    for seed in range(3):
        first.step(rows(seed))
    published = first.publish(2)
    assert published is not None
    assert set(published.scales) == set(quantised_layers(tower_shape(GAME, NETWORK)))
    assert {"int8_policy_error", "int8_value_error", "int8_rejected"} <= set(first.metrics())
    second = learner()
    second.restore(first.state())
    again = second.publish(3)
    assert again is not None
    assert again.scales == published.scales
    plain = learner_of()
    plain.step(rows(1))
    assert plain.publish(1).scales == {}  # type: ignore[union-attr]


def test_a_refusal_of_8_bits_outlives_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def learner(is_quantised: bool = True) -> Learner:
        network = Network(GAME.observation_shape, GAME.num_actions, NETWORK, seed=3)
        return Learner(network, GAME, CONFIG, is_quantised=is_quantised)

    monkeypatch.setattr(quantisation, "MOST_POLICY_ERROR", -1.0)
    first = learner()
    first.step(rows(1))
    published = first.publish(1)
    assert published is not None
    assert "in 8 bits the policy errs by" in published.rejected
    state = first.state()
    facts = json.loads(json.dumps(state.facts, allow_nan=False))
    second = learner()
    second.restore(LearnerState(state.tensors, facts))
    again = second.publish(2)
    assert again is not None
    assert (again.scales, again.rejected) == ({}, published.rejected)
    plain = learner(is_quantised=False)
    plain.restore(LearnerState(state.tensors, facts))
    plain.step(rows(2))
    assert plain.publish(2).rejected == ""  # type: ignore[union-attr]
    assert "int8_policy_error" not in plain.metrics()


def test_an_error_of_8_bits_that_is_no_number_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON has no such numbers, and a checkpoint must not fail for it."""
    network = Network(GAME.observation_shape, GAME.num_actions, NETWORK, seed=3)
    learner = Learner(network, GAME, CONFIG, is_quantised=True)
    learner.step(rows(1))
    error = QuantisationError(float("nan"), 0.0)
    monkeypatch.setattr("shusaku.learner.learner.quantise",
                        lambda weights, tower, planes: (dataclasses.replace(weights, rejected=error.reason), error))
    published = learner.publish(1)
    assert published is not None
    assert published.rejected
    json.dumps(learner.state().facts, allow_nan=False)


def test_a_measurement_is_the_loss_of_the_averaged_network_and_changes_nothing() -> None:
    """Against the published tensors in a network of their own."""
    learner = learner_of()
    losses(learner, range(30))
    before = tensors_of(learner.network)
    batch = rows(99)
    measured = learner.measure(batch)
    tower = TorchTower(tower_shape(GAME, NETWORK), "fp32", torch.device("cpu"))
    published = learner.publish(1)
    assert published is not None
    tower.load(published)
    with torch.inference_mode():
        logits, values = tower(torch.from_numpy(batch.observations).contiguous(memory_format=torch.channels_last))
    log_p = torch.log_softmax(logits, 1).numpy()
    assert measured["value"] == pytest.approx(np.square(batch.outcome - values.squeeze(1).numpy()).mean(), abs=1e-4)
    assert measured["policy"] == pytest.approx(-(batch.policy * log_p).sum(1).mean(), abs=1e-4)
    after = tensors_of(learner.network)
    assert all(np.array_equal(after[name], before[name]) for name in before)
    assert learner.network.training
    assert learner.metrics() == {}, "it is no step"


def test_a_step_on_a_cpu_takes_no_new_memory_from_the_system() -> None:
    """Of glibc, whose defaults give freed memory back: 9,000 page faults in a step of this size."""
    learner, batch = learner_of(network=NetworkConfig(filters=64, blocks=5)), rows(1, 256)
    for _ in range(6):
        learner.step(batch)
    before, steps = getrusage(RUSAGE_SELF).ru_minflt, 4
    for _ in range(steps):
        learner.step(batch)
    assert (getrusage(RUSAGE_SELF).ru_minflt - before) / steps < 1000


def test_a_run_goes_on_with_the_convolutions_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was faster when it began decides the last digits of every later step."""
    monkeypatch.setattr(convolution_choice, "_answers", {"one layer": True, "another": False})
    state = learner_of().state()
    monkeypatch.setattr(convolution_choice, "_answers", {"another": True})
    learner_of().restore(state)
    assert convolution_choice.answers() == {"one layer": True, "another": False}
