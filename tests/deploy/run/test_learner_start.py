"""A run may begin with the network of another one: what it takes, what it keeps, what it refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.messages import Weights
from shusaku.common.network.network import Network, load_tensors
from shusaku.common.network.weights import load_weights, network_config, random_weights, save_weights
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.local.driver import run as run_local
from shusaku.deploy.run.learner_start import FILE, check_learner_start, load_learner_start

SMALL = ["game=tic_tac_toe", "network.filters=8", "network.blocks=1", "strength.enabled=false", "rater.enabled=false"]
NETWORK = compose(SMALL).network


def weights_file(path: Path, game: str = "tic_tac_toe", network: NetworkConfig = NETWORK) -> Path:
    save_weights(path, random_weights(Game(game), network, seed=99, version=7))
    return path


def test_weights_from_before_a_setting_have_its_default(tmp_path: Path) -> None:
    weights = random_weights(Game("tic_tac_toe"), NETWORK, seed=99)
    old = replace(weights, network={name: value for name, value in weights.network.items() if name != "squeeze"})
    save_weights(tmp_path / "old", old)
    check_learner_start(compose([*SMALL, f"learner.start={tmp_path / 'old'}", f"run.dir={tmp_path / 'run'}"]))
    with pytest.raises(UsageError, match=r"has another network than this run, .* add network\.squeeze=0$"):
        check_learner_start(compose([*SMALL, f"learner.start={tmp_path / 'old'}", "network.squeeze=4",
                                     f"run.dir={tmp_path / 'run'}"]))


def test_a_new_run_begins_with_the_weights_and_keeps_a_copy(tmp_path: Path) -> None:
    source, run = weights_file(tmp_path / "source.safetensors"), tmp_path / "run"
    run_local(compose([*SMALL, f"learner.start={source}", f"run.dir={run}", "run.minutes=0.01", "actors.count=1",
                       "replay.minimum=2000", "inference.runtime=pseudo_random"]), as_json=False)
    first, given = load_weights(run / "weights_first.safetensors"), load_weights(source)
    assert first.tensors.keys() == given.tensors.keys()
    assert all(np.array_equal(first.tensors[name], given.tensors[name]) for name in given.tensors)
    assert first.version == 1, "publications of this run count from 1"
    source.unlink()
    config = compose([*SMALL, f"learner.start={source}", f"run.dir={run}"])
    check_learner_start(config)
    kept = load_learner_start(config, run)
    assert kept is not None
    assert np.array_equal(kept.tensors["stem.conv.weight"], given.tensors["stem.conv.weight"])
    assert (run / FILE).exists()


def test_heads_that_the_start_does_not_have_begin_untrained(tmp_path: Path) -> None:
    source, run = weights_file(tmp_path / "source.safetensors"), tmp_path / "run"
    more = ["learner.targets=[policy,value,moves_left]", f"run.dir={run}", "run.minutes=0.01", "actors.count=1",
            "replay.minimum=2000", "inference.runtime=pseudo_random"]
    run_local(compose([*SMALL, *more, f"learner.start={source}"]), as_json=False)
    given, first = load_weights(source), load_weights(run / "weights_first.safetensors")
    assert np.array_equal(first.tensors["stem.conv.weight"], given.tensors["stem.conv.weight"])


def test_a_value_network_begins_with_the_tower_of_a_policy(tmp_path: Path) -> None:
    policy = compose([*SMALL, "network.policy_filters=5", "network.policy_head=planes", "network.value_hidden=128"])
    source, run = weights_file(tmp_path / "policy.safetensors", network=policy.network), tmp_path / "run"
    more = [f"learner.start={source}", f"run.dir={run}", "learner.targets=[value]", "dataset.records=games"]
    with pytest.raises(UsageError, match=r"add network\.value_hidden=128$"):
        check_learner_start(compose([*SMALL, *more]))
    check_learner_start(compose([*SMALL, *more, "network.value_hidden=128"]))


@pytest.mark.parametrize(("start", "said"), [
    ("missing", "learner.start=missing: no such file or directory"),
    ("other_game", r"is of connect_four\(.*\), and this run plays tic_tac_toe\(.*name a run of the same board"),
    ("other_network", "has another network than this run, .*; add network.filters=16$"),
])
def test_what_cannot_be_the_start_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    weights_file(tmp_path / "other_game", "connect_four")
    weights_file(tmp_path / "other_network", network=compose([*SMALL, "network.filters=16"]).network)
    with pytest.raises(UsageError, match=said):
        check_learner_start(compose([*SMALL, f"learner.start={start}", "run.dir=run"]))


def test_policy_gradient_has_a_start_of_its_own() -> None:
    with pytest.raises(UsageError, match=r"learner.start=x: policy gradient begins with the policy that policy.from="):
        compose(["experiment=alphago_9x9_reinforce", "policy.from=random", "learner.start=x"])


def test_a_larger_network_begins_with_what_the_smaller_one_computes(tmp_path: Path) -> None:
    source, run = weights_file(tmp_path / "source.safetensors"), tmp_path / "run"
    larger = ["network.filters=12", "network.blocks=2", f"learner.start={source}", f"run.dir={run}"]
    run_local(compose([*SMALL, *larger, "run.minutes=0.01", "actors.count=1", "replay.minimum=2000",
                       "inference.runtime=pseudo_random"]), as_json=False)
    given, first = load_weights(source), load_weights(run / "weights_first.safetensors")
    assert first.network["filters"] == 12
    planes = np.random.default_rng(1).random((4, *Game("tic_tac_toe").observation_shape), np.float32)
    for name in ("policy", "value"):
        expected, found = (answers(weights, planes)[name] for weights in (given, first))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def answers(weights: Weights, planes: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    game = Game(weights.game, weights.params)
    network = Network(game.observation_shape, game.num_actions, network_config(weights)).eval()
    load_tensors(network, weights.tensors)
    with torch.no_grad():
        return {name: answer.numpy() for name, answer in network(torch.from_numpy(planes)).items()}


@pytest.mark.parametrize("smaller", ["network.filters=4", "network.blocks=0", "network.value_hidden=8"])
def test_a_smaller_network_is_refused(tmp_path: Path, smaller: str) -> None:
    source = weights_file(tmp_path / "source.safetensors")
    config = compose([*SMALL, smaller, f"learner.start={source}", f"run.dir={tmp_path / 'run'}"])
    with pytest.raises(UsageError, match="has another network than this run, which may have more blocks"):
        check_learner_start(config)
