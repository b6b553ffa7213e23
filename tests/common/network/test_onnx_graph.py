"""The exported graph answers in onnxruntime what the torch network answers, for every head and any batch."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from shusaku.common._core import Game
from shusaku.common.config.rules import TARGETS
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.external.configured_game import configured_game
from shusaku.common.messages import Weights
from shusaku.common.network.fingerprint import planes_fingerprint
from shusaku.common.network.game_targets import MOVES_SCALE
from shusaku.common.network.network import Network, tensors_of
from shusaku.common.network.onnx_graph import MEANINGS, onnx_model
from shusaku.common.network.targets import make_targets
from shusaku.common.network.tower import SCORE_SCALE
from shusaku.common.network.weights import tower_shape
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.cli.presets import Presets

onnxruntime = pytest.importorskip("onnxruntime")

ALL = list(TARGETS)
TOLERANCE = 1e-4
CASES = [
    ("tic_tac_toe", {}, NetworkConfig(filters=16, blocks=0, value_filters=4), ["policy", "value"]),
    ("connect_four", {}, NetworkConfig(filters=32, blocks=4, policy_filters=32, value_filters=8), ["policy", "value"]),
    ("go", {"size": 9}, NetworkConfig(filters=16, blocks=2), ALL),
    ("chess", {"planes": "small"}, NetworkConfig(filters=8, blocks=1, policy_filters=4, policy_head="planes"),
     ["policy", "value", "reply", "moves_left"]),
    ("othello", {"size": 6}, NetworkConfig(filters=8, blocks=1), ["policy", "value", "score"]),
    ("go", {"size": 7}, NetworkConfig(filters=16, blocks=2, tower="plain"), ALL),
    ("chess", {"planes": "small"}, NetworkConfig(filters=8, blocks=1, tower="plain"), ["policy", "value", "reply"]),
]


@torch.no_grad()
def random_network(game: Game, config: NetworkConfig, targets: list[str], *, is_deep: bool = False) -> Network:
    """With statistics, scales and last layers that are far from their first values.

    A deep one stays nearer to them, and its logits near those of trained ones: of hundreds, float32 keeps few digits.
    """
    spread = 0.1 if is_deep else 1.0
    network = Network(game.observation_shape, game.num_actions, config,
                      make_targets(LearnerConfig(targets=targets)), seed=5).eval()
    random = torch.Generator().manual_seed(1)
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        if tensor.ndim == 1:
            most = 0.5 if name.endswith("running_var") else 0.3
            tensor += torch.rand(tensor.shape, generator=random) * most * spread
        elif ".output." in name:
            tensor *= 0.05 if is_deep else 5
    return network


@torch.no_grad()
def expected(network: Network, planes: np.ndarray) -> dict[str, np.ndarray]:
    """The predictions in the units that the outputs promise."""
    units = {
        "short_term": torch.tanh, "ownership": torch.tanh, "score": lambda x: SCORE_SCALE * x.squeeze(1),
        "moves_left": lambda x: MOVES_SCALE * torch.nn.functional.softplus(x.squeeze(1)),
    }

    def same(x: Tensor) -> Tensor:
        return x

    return {name: units.get(name, same)(x).numpy() for name, x in network(torch.from_numpy(planes)).items()}


@pytest.mark.parametrize(("name", "params", "config", "targets"), CASES, ids=lambda value: str(value)[:12])
def test_onnxruntime_answers_what_torch_answers(
    name: str, params: dict[str, str | int], config: NetworkConfig, targets: list[str]
) -> None:
    game = Game(name, params)
    compare(game, random_network(game, config, targets), config)


@pytest.mark.long
@pytest.mark.parametrize("experiment", Presets().choices()["experiment"])
def test_the_network_of_every_experiment_is_exported(experiment: str) -> None:
    policies = ["value.supervised=random", "value.reinforced=random"] if experiment.endswith("_value") else []
    config = compose([f"experiment={experiment}", *policies])
    game = configured_game(config.game)
    compare(game, random_network(game, config.network, config.learner.targets, is_deep=True), config.network)


def compare(game: Game, network: Network, config: NetworkConfig) -> None:
    weights = Weights(7, 700, tensors_of(network), asdict(config), game.name, game.params,
                      planes=planes_fingerprint(game), about={"licence": "Apache-2.0"})
    model = onnx_model(weights, tower_shape(game, config))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [entry.name for entry in session.get_inputs()] == ["planes"]
    assert {entry.name for entry in session.get_outputs()} == set(network.heads)
    random = np.random.default_rng(2)
    for batch in (1, 3):
        planes = random.random((batch, *game.observation_shape), np.float32)
        answers = dict(zip([entry.name for entry in session.get_outputs()], session.run(None, {"planes": planes}),
                           strict=True))
        for head, wanted in expected(network, planes).items():
            assert answers[head].shape == wanted.shape, head
            scale = {"score": SCORE_SCALE, "moves_left": MOVES_SCALE}.get(head, 1.0)
            np.testing.assert_allclose(answers[head] / scale, wanted / scale, atol=TOLERANCE, rtol=0, err_msg=head)
            assert batch == 1 or np.ptp(wanted, axis=0).max() > 5 * TOLERANCE, f"{head} tells positions apart"
    stored = session.get_modelmeta().custom_metadata_map
    assert stored["planes_fingerprint"] == planes_fingerprint(game)
    assert (stored["game"], stored["licence"], json.loads(stored["params"])) == (game.name, "Apache-2.0", game.params)
    assert all(output.doc_string for output in model.graph.output)


def test_every_target_has_a_meaning() -> None:
    assert set(MEANINGS) == set(TARGETS)


def test_weights_of_another_tower_are_refused() -> None:
    game = Game("connect_four")
    config = NetworkConfig(filters=8, blocks=1)
    tensors = tensors_of(random_network(game, config, ["policy", "value"]))
    weights = Weights(1, 1, tensors, asdict(config), game.name, {})
    with pytest.raises(ValueError, match="they belong to another game or network"):
        onnx_model(weights, tower_shape(game, replace(config, filters=16)))
