"""Steps that are queued for a device: the same network as steps that wait, whatever some of their batches hold."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shusaku.common._core import Game
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.network.network import Network, named_tensors
from shusaku.common.network.targets import make_targets
from shusaku.learner import device_step
from shusaku.learner.checkpoints import Checkpoint, load_latest, write_checkpoint
from shusaku.learner.device_step import PlanesOnDevice
from shusaku.learner.learner import READ_EVERY, Learner
from shusaku.learner.state_copy import Diverged, LearnerState
from shusaku.replay.buffer import Batch, PackedPlanes

GAME = Game("connect_four")
NETWORK = NetworkConfig(filters=8, blocks=1, policy_filters=4, value_filters=4, value_hidden=8)
CONFIG = LearnerConfig(batch_size=16, precision="fp32", warmup_steps=4)
GAMES = [("tic_tac_toe", {}), ("connect_four", {}), ("othello", {"size": 6}), ("go", {"size": 9}), ("chess", {}),
         ("go", {"size": 5, "planes": "alphago"})]


def learner_of(config: LearnerConfig = CONFIG, **options: Any) -> Learner:
    network = Network(GAME.observation_shape, GAME.num_actions, NETWORK, make_targets(config), 3)
    return Learner(network, GAME, config, **options)


def batch_of(seed: int, **changes: Any) -> Batch:
    random = np.random.default_rng(seed)
    ones = np.ones(16, np.float32)
    columns: dict[str, Any] = {
        "observations": random.integers(0, 2, (16, *GAME.observation_shape)).astype(np.float32),
        "policy": random.dirichlet(np.ones(GAME.num_actions), 16).astype(np.float32),
        "outcome": random.integers(-1, 2, 16).astype(np.float32), "root_values": ones, "weight": ones,
        "plies_left": ones, "versions": np.ones(16, np.uint32), "rows": np.arange(16)}
    return Batch(**{**columns, **changes})


def poisoned(seed: int) -> Batch:
    return batch_of(seed, outcome=np.full(16, np.nan, np.float32))


def tensors_of(learner: Learner) -> dict[str, torch.Tensor]:
    learner.metrics()  # waits
    return {name: tensor.detach().clone() for name, tensor in named_tensors(learner.network)}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "muon"])
def test_queued_steps_are_those_that_wait(optimizer: str, precision: str) -> None:
    """Also where batches are not finite.

    Rate and decay are constant: behind a skipped step they are those of one step later until the skip is read.
    """
    config = dataclasses.replace(CONFIG, optimizer=optimizer, precision=precision, schedule="constant", warmup_steps=0,
                                 ema_decay=0.1, max_grad_norm=0.5)
    waiting, queued = learner_of(config, waits=True), learner_of(config, waits=False)
    for step in range(24):
        batch = poisoned(step) if step in (5, 6, 15) else batch_of(step)
        waiting.step(batch)
        queued.step(batch)
    expected = waiting.metrics()
    assert queued.metrics() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert expected["loss/total"] > 0
    assert (queued.step_count, queued.skipped_steps) == (waiting.step_count, waiting.skipped_steps) == (21, 3)
    assert queued.average.steps == waiting.average.steps == 21
    found = tensors_of(queued)
    for name, tensor in tensors_of(waiting).items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-6)
    one, other = waiting.publish(1), queued.publish(1)
    assert one is not None
    assert other is not None
    for name, tensor in one.tensors.items():
        np.testing.assert_allclose(other.tensors[name], tensor, rtol=1e-5, atol=1e-6)


def test_without_skipped_steps_they_are_the_same_bit_for_bit() -> None:
    """Where rate and decay change with each step."""
    config = dataclasses.replace(CONFIG, schedule="cosine", schedule_steps=30)
    waiting, queued = learner_of(config, waits=True), learner_of(config, waits=False)
    for step in range(12):
        waiting.step(batch_of(step))
        queued.step(batch_of(step))
    found = tensors_of(queued)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors_of(waiting).items())


def test_a_poisoned_batch_changes_nothing() -> None:
    learner = learner_of(waits=False)
    for step in range(4):
        learner.step(batch_of(step))
    before, average = tensors_of(learner), learner.average.tensors()
    state = {name: tensor.clone() for name, tensor in learner._optimizer.state_dict()["state"][0].items()}
    learner.step(poisoned(9))
    after = tensors_of(learner)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert all(np.array_equal(learner.average.tensors()[name], tensor) for name, tensor in average.items())
    for name, tensor in learner._optimizer.state_dict()["state"][0].items():
        assert torch.equal(tensor, state[name]), name
    assert (learner.step_count, learner.skipped_steps) == (4, 1)
    assert learner.metrics() == {}


def test_too_many_bad_steps_in_a_row_are_a_divergence() -> None:
    learner = learner_of(dataclasses.replace(CONFIG, max_bad_steps=3), waits=False)
    for step in range(READ_EVERY - 1):
        learner.step(batch_of(step) if step < 2 else poisoned(step))
    with pytest.raises(Diverged, match=f"{READ_EVERY - 2} steps in a row were not finite at step 2"):
        learner.step(poisoned(0))


def test_bad_steps_in_a_row_count_though_a_good_one_came_before_they_were_read() -> None:
    learner = learner_of(dataclasses.replace(CONFIG, max_bad_steps=3), waits=False)
    for step in range(8):
        learner.step(poisoned(step) if 2 <= step < 6 else batch_of(step))
    with pytest.raises(Diverged, match="4 steps in a row"):
        learner.publish(1)


def test_a_first_step_that_is_skipped_leaves_no_momentum() -> None:
    config = dataclasses.replace(CONFIG, optimizer="sgd", momentum=0.9, schedule="constant", warmup_steps=0,
                                 ema_decay=0.1)
    waiting, queued = learner_of(config, waits=True), learner_of(config, waits=False)
    garbage = [torch.full((1 << 20,), 1e30) for _ in range(8)]  # memory that a new tensor may be given
    del garbage
    for learner in (waiting, queued):
        for step in range(6):
            learner.step(poisoned(0) if step == 0 else batch_of(step))
    found = tensors_of(queued)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors_of(waiting).items())


def test_their_outcome_is_read_now_and_then_and_before_anything_is_shown() -> None:
    learner, reads = learner_of(waits=False), []
    assert learner._queue is not None
    read = learner._queue.read
    learner._queue.read = lambda: reads.append(learner.step_count) or read()  # type: ignore[method-assign, func-returns-value]
    for step in range(READ_EVERY + 3):
        learner.step(batch_of(step))
    assert reads == [READ_EVERY]
    learner.publish(1)
    learner.state()
    learner.metrics()
    assert reads == [READ_EVERY, READ_EVERY + 3], "there was nothing new to read"


def test_a_checkpoint_of_queued_steps_goes_on(tmp_path: Path) -> None:
    whole = learner_of(waits=False)
    for step in range(6):
        whole.step(batch_of(step))
    state = whole.state()
    write_checkpoint(tmp_path, Checkpoint(6, state.tensors, {"learner": state.facts}))
    found = load_latest(tmp_path)
    assert found is not None
    resumed = learner_of(waits=False)
    resumed.step(batch_of(77))
    resumed.restore(LearnerState(found.checkpoint.tensors, found.checkpoint.facts["learner"]))
    for step in range(6, 12):
        whole.step(batch_of(step))
        resumed.step(batch_of(step))
    found_tensors = tensors_of(resumed)
    assert all(torch.equal(found_tensors[name], tensor) for name, tensor in tensors_of(whole).items())
    assert resumed.step_count == 12


def test_a_batch_without_memory_for_it_is_taken_in_parts() -> None:
    """From then on each step waits: nothing of the failed one is left, which the batch norms had seen already."""
    queued, waiting = learner_of(waits=False), learner_of(waits=True)
    for learner in (queued, waiting):
        for step in range(2):
            learner.step(batch_of(step))
        learner.network.register_forward_hook(refuse_many)
        for step in range(2, 5):
            assert learner.step(batch_of(step))
        assert (learner.parts, learner.step_count) == (4, 5)
    assert queued._queue is None
    found = tensors_of(queued)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors_of(waiting).items())


def test_without_memory_on_the_way_to_the_device_the_statistics_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    queued, waiting = learner_of(waits=False), learner_of(waits=True)
    for learner in (queued, waiting):
        for step in range(3):
            learner.step(batch_of(step))

    def refuse(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(device_step._Stage, "fill", refuse)
    assert queued.step(batch_of(3))
    waiting.step(batch_of(3))
    assert queued._queue is None
    found = tensors_of(queued)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors_of(waiting).items())


def refuse_many(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...], __: Any) -> None:
    if len(inputs[0]) > 5:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize(("name", "parameters"), GAMES)
def test_packed_planes_are_the_planes(name: str, parameters: dict[str, Any]) -> None:
    """On the device and on the host, as the ring expands them, under every symmetry."""
    game = Game(name, parameters)
    rng = np.random.default_rng(5)
    rows, labels = [], []
    for _ in range(3):
        position = game.start()
        for _ in range(10):
            if position.is_terminal:
                break
            symmetry = int(rng.integers(game.num_symmetries))
            labels.append(position.observation(symmetry))
            plain = position.observation(0)
            uniforms = game.num_uniform_planes
            binary = plain[: len(plain) - uniforms].reshape(-1).astype(np.uint8)
            rows.append((np.packbits(binary, bitorder="little"), plain[len(plain) - uniforms:, 0, 0], symmetry))
            position.play(int(rng.choice(position.legal_actions)))
    planes = PackedPlanes(np.stack([row[0] for row in rows]), np.stack([row[1] for row in rows]).astype(np.float32),
                          np.array([row[2] for row in rows], np.uint8))
    expected = np.stack(labels)
    np.testing.assert_array_equal(planes.expand(game), expected)
    np.testing.assert_array_equal(planes.expand(game, 2), expected[:2])
    on_device = PlanesOnDevice(game, torch.device("cpu"))({
        "packed": torch.from_numpy(planes.packed), "uniform": torch.from_numpy(planes.uniform),
        "symmetry": torch.from_numpy(planes.symmetry)})
    np.testing.assert_array_equal(on_device.numpy(), expected)
    assert on_device.is_contiguous(memory_format=torch.channels_last)
