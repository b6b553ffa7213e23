"""What `learner.targets` changes of training, and that its default changes nothing."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from labelled_games import random_game

from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.actors.evaluators.torch_cpu import TorchRuntime
from shusaku.common._core import Game, RowRing
from shusaku.common.config.rules import TARGETS as NAMES
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.hardware import Precision
from shusaku.common.network.network import Network, load_tensors, named_tensors
from shusaku.common.network.row_labels import row_labels
from shusaku.common.network.targets import make_targets
from shusaku.common.network.tower import tensor_shapes
from shusaku.common.network.weights import tower_shape
from shusaku.learner.learner import Learner
from shusaku.learner.optimizers import learning_rate, make_optimizer
from shusaku.replay.buffer import Batch

GAME = Game("connect_four")
NETWORK = NetworkConfig(filters=8, blocks=1, value_hidden=16)

pytestmark = pytest.mark.usefixtures("one_thread")


def batch_of(seed: int, rows: int = 16) -> Batch:
    """Random numbers in every column that any target of connect four reads."""
    random = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        return random.uniform(-1, 1, shape).astype(np.float32)

    def policies() -> np.ndarray:
        return random.dirichlet(np.full(GAME.num_actions, 0.3), rows).astype(np.float32)

    return Batch(
        observations=(numbers(rows, *GAME.observation_shape) < 0).astype(np.float32),
        policy=policies(), outcome=np.sign(numbers(rows)), root_values=numbers(rows), weight=1 + numbers(rows) ** 2,
        plies_left=10 + 9 * numbers(rows), versions=np.ones(rows, np.uint32), rows=np.arange(rows),
    )


def test_policy_and_value_alone_train_as_ever_bit_for_bit() -> None:
    """Against the steps of AlphaZero's loss written out: sum of w ((z - v)^2 c - pi log p) / sum of w."""
    config = LearnerConfig(precision="fp32", warmup_steps=3, value_weight=0.7)
    assert config.targets == ["policy", "value"]
    learner = Learner(Network(GAME.observation_shape, GAME.num_actions, NETWORK, make_targets(config), 3), GAME, config)
    plain = Network(GAME.observation_shape, GAME.num_actions, NETWORK, seed=3).train()
    plain.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(plain, config)
    for step in range(6):
        batch = batch_of(step)
        assert learner.step(batch)
        policy, outcome, weight = (torch.from_numpy(a) for a in (batch.policy, batch.outcome, batch.weight))
        observations = torch.from_numpy(batch.observations).contiguous(memory_format=torch.channels_last)
        predictions = plain(observations)
        share = weight / weight.sum()
        losses = [(-(policy * F.log_softmax(predictions["policy"], dim=1)).sum(1) * share).sum() * 1.0,
                  ((outcome - predictions["value"]).square() * share).sum() * 0.7]
        optimizer.zero_grad(set_to_none=True)
        torch.stack(losses).sum().backward()
        torch.nn.utils.clip_grad_norm_(list(plain.parameters()), config.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config)
        optimizer.step()
    for (name, one), (_, other) in zip(named_tensors(learner.network), named_tensors(plain), strict=True):
        assert torch.equal(one, other), name


# --- heads that only teach the tower ---------------------------------------------------------------------------------

GO = Game("go", {"size": 5})
ALL = LearnerConfig(precision="fp32", warmup_steps=3, learning_rate=3e-3, targets=list(NAMES), weight_decay=0)


def go_batch(seed: int, rows: int = 64) -> Batch:
    """Rows of random games, some of which stopped early, with every label."""
    ring = RowRing(GO, 5000, **dataclasses.asdict(row_labels(GO, ALL)))
    for number in range(6):
        r = random_game(GO, number, stop_early=number % 3 == 2)
        ring.append(r)
    return Batch(**ring.sample(rows, 0, ring.end, seed, True, 1))


def go_learner(config: LearnerConfig = ALL, seed: int = 2) -> Learner:
    network = Network(GO.observation_shape, GO.num_actions, NETWORK, make_targets(config), seed)
    return Learner(network, GO, config)


def test_every_target_is_learned() -> None:
    """A mini-batch by heart: each loss falls, towards its label's own entropy where that is not 0."""
    learner, batch = go_learner(), go_batch(1)
    learner.step(batch)
    first = learner.metrics()
    for _ in range(150):
        learner.step(batch)
    learner.metrics()
    learner.step(batch)
    last = learner.metrics()
    assert learner.skipped_steps == 0
    for name in NAMES:
        assert last[f"loss/{name}"] < 0.95 * first[f"loss/{name}"], name
    total = sum(last[f"loss/{target.name}"] * target.weight for target in make_targets(ALL))
    assert last["loss/total"] == pytest.approx(total, rel=1e-4)
    assert {"score/error", "ownership/error", "moves_left/error", "short_term/error", "reply/accuracy"} <= last.keys()


def test_what_is_published_is_what_evaluators_compute_and_nothing_else() -> None:
    learner = go_learner()
    for step in range(4):
        learner.step(go_batch(step))
    weights = learner.publish(1)
    assert weights is not None
    shapes = {name: tensor.shape for name, tensor in weights.tensors.items()}
    tower = tower_shape(GO, NETWORK)
    assert shapes == tensor_shapes(tower)
    assert set(learner.state().tensors["average"]) > set(shapes)
    batch = go_batch(9, 8)
    runtime = TorchRuntime(tower, 8, Precision("fp32", ""))
    runtime.load(weights)
    runtime.inputs[:] = channels_last(batch.observations, runtime.inputs)
    runtime.run(8)
    averaged = Network(GO.observation_shape, GO.num_actions, NETWORK, make_targets(ALL))
    load_tensors(averaged, learner.average.tensors())
    with torch.no_grad():
        expected = averaged.eval()(torch.from_numpy(batch.observations))
    np.testing.assert_allclose(runtime.policy, expected["policy"].numpy(), atol=1e-4)
    np.testing.assert_allclose(runtime.values, expected["value"].numpy(), atol=1e-4)


def test_a_run_with_every_target_goes_on_bit_for_bit() -> None:
    whole, resumed = go_learner(), go_learner(seed=5)
    for step in range(4):
        whole.step(go_batch(step))
    resumed.restore(whole.state())
    for step in range(4, 8):
        whole.step(go_batch(step))
        resumed.step(go_batch(step))
    for (name, one), (_, other) in zip(named_tensors(whole.network), named_tensors(resumed.network), strict=True):
        assert torch.equal(one, other), name


def test_a_state_of_other_targets_is_refused() -> None:
    fewer = dataclasses.replace(ALL, targets=["policy", "value", "score"])
    with pytest.raises(UsageError, match=r"learner\.targets"):
        go_learner(fewer).restore(go_learner().state())


def test_targets_of_weight_0_leave_policy_and_value_as_they_are() -> None:
    """Their heads get gradients of zero, and the tower none from them."""
    plain = LearnerConfig(precision="fp32", warmup_steps=3, max_grad_norm=0)
    idle = {f"{name}_weight": 0.0 for name in NAMES if name not in ("policy", "value")}
    one, other = go_learner(plain), go_learner(dataclasses.replace(plain, targets=list(NAMES), **idle))
    for step in range(5):
        one.step(go_batch(step))
        other.step(go_batch(step))
    tensors = dict(named_tensors(other.network))
    for name, tensor in named_tensors(one.network):
        torch.testing.assert_close(tensor, tensors[name], rtol=1e-4, atol=1e-6)
