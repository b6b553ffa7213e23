"""Ownership and score beside policy and value: published, loaded and answered, against the training network."""

import dataclasses

import numpy as np
import pytest
import torch
from evaluator_fixtures import CONFIG, assert_same, expected, inference_of, leaves_of, trained_network

from shusaku.actors.evaluators.factory import make_bucketed_evaluator, make_evaluator
from shusaku.common._core import Game
from shusaku.common.config.rules import check
from shusaku.common.config.schema import Config, InferenceConfig, LearnerConfig
from shusaku.common.errors import UsageError
from shusaku.common.messages import Weights
from shusaku.common.network.network import Network, tensors_of
from shusaku.common.network.targets import make_targets
from shusaku.common.network.tower import HEADS, SCORE_SCALE, evaluation_tensors, published_heads
from shusaku.common.network.weights import weights_from_bytes, weights_to_bytes
from shusaku.learner.learner import Learner

GAME = Game("go", {"size": 5})
TARGETS = ["policy", "value", "ownership", "score"]


def network_with_heads() -> Network:
    like = trained_network(GAME)
    network = Network(GAME.observation_shape, GAME.num_actions, CONFIG,
                      make_targets(LearnerConfig(targets=TARGETS, precision="fp32")))
    network.load_state_dict(like.state_dict(), strict=False)
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if any(f"heads.{head}." in name for head in HEADS):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return network.eval()


@pytest.mark.parametrize("runtime", ["torch", "openvino", "core"])
@pytest.mark.parametrize("heads", [HEADS, ("score",), ("ownership",), ()])
def test_heads_are_those_of_the_training_network(
    runtime: str, heads: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_with_heads()
    tensors = evaluation_tensors(tensors_of(network), HEADS)
    weights = Weights(1, 1, tensors, dataclasses.asdict(CONFIG), GAME.name, GAME.params)
    weights = weights_from_bytes(weights_to_bytes(weights), "test")
    assert published_heads(weights.tensors) == HEADS
    evaluate = make_bucketed_evaluator(GAME, inference_of(runtime, monkeypatch), CONFIG, 6, sizes=(1, 4), heads=heads)
    evaluate.load(weights)
    assert evaluate.description.startswith(runtime)
    for count in (1, 3, 6, 15):  # 15: three batches
        leaves = leaves_of(GAME, count, seed=count)
        planes = np.zeros((count, *GAME.observation_shape), np.float32)
        GAME.expand(leaves.packed, leaves.uniform, planes)
        with torch.no_grad():
            wanted = network(torch.from_numpy(planes))
        evaluation = evaluate(leaves)
        assert_same(evaluation, *expected(network, GAME, leaves))
        assert set(evaluation.heads) == set(heads)
        if "ownership" in heads:
            np.testing.assert_allclose(evaluation.heads["ownership"], torch.tanh(wanted["ownership"]), atol=1e-4)
        if "score" in heads:
            np.testing.assert_allclose(evaluation.heads["score"], SCORE_SCALE * wanted["score"][:, 0], rtol=1e-4,
                                       atol=1e-3)


def test_weights_without_heads_are_refused_by_an_evaluator_with_them() -> None:
    tensors = evaluation_tensors(tensors_of(network_with_heads()))
    weights = Weights(1, 1, tensors, dataclasses.asdict(CONFIG), GAME.name, GAME.params)
    assert published_heads(tensors) == ()
    make_evaluator(GAME, InferenceConfig(runtime="torch"), CONFIG, 4).load(weights)
    with pytest.raises(ValueError, match=r"heads\.ownership\.output\.weight must have shape"):
        make_bucketed_evaluator(GAME, InferenceConfig(runtime="torch"), CONFIG, 4, heads=HEADS).load(weights)


def test_a_learner_publishes_the_heads_that_are_asked_for() -> None:
    for heads in ([], ["score"], ["ownership", "score"]):
        config = LearnerConfig(targets=TARGETS, publish_heads=heads, precision="fp32")
        network = Network(GAME.observation_shape, GAME.num_actions, CONFIG, make_targets(config))
        weights = Learner(network, GAME, config).publish(1)
        assert weights is not None
        assert list(published_heads(weights.tensors)) == heads


@pytest.mark.parametrize(("learner", "text"), [
    (LearnerConfig(publish_heads=["owner"]), "must be made of ownership, score"),
    (LearnerConfig(targets=TARGETS, publish_heads=["score", "score"]), "each once"),
    (LearnerConfig(publish_heads=["score"]), "must be among learner.targets"),
])
def test_impossible_heads_are_refused(learner: LearnerConfig, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        check(Config(learner=learner))
