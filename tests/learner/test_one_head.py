"""A network that learns the policy alone, or the value alone, and what all that computes with it makes of that."""

import dataclasses

import numpy as np
import pytest
import torch
from labelled_games import random_game

from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.actors.evaluators.evaluator import Runtime
from shusaku.actors.evaluators.openvino import OpenVINORuntime
from shusaku.actors.evaluators.torch_cpu import TorchRuntime
from shusaku.common._core import Game, RowRing
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.config.search import make_search
from shusaku.common.errors import UsageError
from shusaku.common.hardware import Precision
from shusaku.common.messages import Weights
from shusaku.common.network.network import Network, load_tensors
from shusaku.common.network.targets import make_targets
from shusaku.common.network.weights import tower_shape, weights_from_bytes, weights_to_bytes
from shusaku.deploy.run.chosen_weights import check_heads
from shusaku.learner.learner import Learner
from shusaku.replay.buffer import Batch

GAME = Game("othello", {"size": 6})
NETWORK = NetworkConfig(filters=16, blocks=1, value_hidden=16)
HEADS = ("policy", "value")

pytestmark = pytest.mark.usefixtures("one_thread")


def batch_of(seed: int, rows: int = 32) -> Batch:
    """Rows of random games."""
    ring = RowRing(GAME, 2000)
    for number in range(8):
        ring.append(random_game(GAME, number))
    return Batch(**ring.sample(rows, 0, ring.end, seed, False, 1))


def learner_of(head: str, steps: int = 0) -> Learner:
    config = LearnerConfig(precision="fp32", warmup_steps=1, learning_rate=3e-3, targets=[head])
    learner = Learner(Network(GAME.observation_shape, GAME.num_actions, NETWORK, make_targets(config)), GAME, config)
    for _ in range(steps):
        assert learner.step(batch_of(1))
    return learner


def published(learner: Learner) -> Weights:
    weights = learner.publish(1)
    assert weights is not None
    return weights_from_bytes(weights_to_bytes(weights), "a file")


@pytest.mark.parametrize("head", HEADS)
def test_it_learns_its_head_alone(head: str) -> None:
    learner = learner_of(head, steps=1)
    first = learner.metrics()
    for _ in range(60):
        learner.step(batch_of(1))
    learner.metrics()
    learner.step(batch_of(1))
    last = learner.metrics()
    assert last[f"loss/{head}"] < 0.8 * first[f"loss/{head}"]
    assert last["loss/total"] == pytest.approx(last[f"loss/{head}"])
    other = HEADS[1 - HEADS.index(head)]
    assert not [name for name in (*last, *published(learner).tensors) if other in name]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("runtime_class", [TorchRuntime, OpenVINORuntime])
def test_evaluators_answer_zeros_for_the_head_that_is_missing(
    head: str, runtime_class: type[TorchRuntime] | type[OpenVINORuntime]
) -> None:
    learner = learner_of(head, steps=5)
    observations = batch_of(3, 8).observations
    runtime: Runtime = runtime_class(tower_shape(GAME, NETWORK), 8, Precision("fp32", ""))
    runtime.load(published(learner))
    runtime.inputs[:] = channels_last(observations, runtime.inputs)
    runtime.run(8)
    averaged = Network(GAME.observation_shape, GAME.num_actions, NETWORK, make_targets(LearnerConfig(targets=[head])))
    load_tensors(averaged, learner.average.tensors())
    with torch.no_grad():
        expected = averaged.eval()(torch.from_numpy(observations))[head].numpy()
    answers = {"policy": np.array(runtime.policy), "value": np.array(runtime.values)}
    np.testing.assert_allclose(answers.pop(head), expected, atol=1e-4)
    assert np.ptp(expected) > 1e-3
    assert not np.any(next(iter(answers.values())))


@pytest.mark.parametrize(("head", "policy", "way_out"), [
    ("policy", "puct", "policy_only"), ("policy", "gumbel", "policy_only"), ("value", "policy_only", "puct"),
])
def test_a_search_that_asks_for_the_missing_head_is_refused(head: str, policy: str, way_out: str) -> None:
    weights = published(learner_of(head))
    with pytest.raises(UsageError, match=rf"^checkpoint=x: this network has no .*search={way_out}"):
        check_heads(weights, make_search(policy), "checkpoint=x", "search")


@pytest.mark.parametrize(("head", "policy"), [
    ("policy", "policy_only"), ("policy", "mcts"), ("value", "puct"), ("value", "gumbel"),
])
def test_a_search_that_does_without_it_is_not(head: str, policy: str) -> None:
    check_heads(published(learner_of(head)), make_search(policy), "checkpoint=x", "search")


def test_weights_without_any_head_belong_to_nothing() -> None:
    weights = published(learner_of("policy"))
    bare = {name: tensor for name, tensor in weights.tensors.items() if not name.startswith("heads.")}
    with pytest.raises(ValueError, match=r"heads\.policy.* found nothing"):
        TorchRuntime(tower_shape(GAME, NETWORK), 8, Precision("fp32", "")).load(
            dataclasses.replace(weights, tensors=bare))
