"""A policy network of 48 planes and a value network of 49 answer about the same positions of Go."""

from dataclasses import replace

import numpy as np
import pytest
from evaluator_fixtures import assert_same, expected, leaves_of, trained_network
from network_fixtures import weights_of

from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.actors.evaluators.two_networks import TwoNetworks
from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.messages import Evaluation

POLICY, VALUE = (Game("go", {"size": 5, "planes": planes}) for planes in ("alphago", "alphago_value"))
CONFIG = NetworkConfig(filters=8, blocks=2, value_hidden=16, tower="plain")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("runtime", ["openvino", "torch"])
def test_each_says_what_it_says_alone(runtime: str) -> None:
    networks = [trained_network(game, CONFIG, seed) for game, seed in ((POLICY, 1), (VALUE, 2))]
    evaluators: list[NetworkEvaluator] = []
    for game, network in zip((POLICY, VALUE), networks, strict=True):
        evaluator = make_evaluator(game, InferenceConfig(runtime=runtime, precision="fp32"), CONFIG, 8)
        evaluator.load(weights_of(network, game, 1, 0))
        evaluators.append(evaluator)
    both = TwoNetworks(*evaluators, policy_game=POLICY)

    leaves = leaves_of(VALUE, 6)  # of the game with the planes of both
    asked = both(leaves)
    logits, _ = expected(networks[0], POLICY, replace(leaves, uniform=leaves.uniform[:, :0]))
    assert_same(Evaluation(asked.logits, np.zeros(6, np.float32), 0), logits, np.zeros(6, np.float32))

    none = replace(leaves, offsets=np.zeros_like(leaves.offsets), actions=leaves.actions[:0])
    _, values = expected(networks[1], VALUE, leaves)
    np.testing.assert_allclose(both(none).values, values, rtol=1e-4, atol=1e-4)
    assert np.ptp(values) > 1e-4
