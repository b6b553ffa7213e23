"""`run.grow`: a run that goes on in a larger network, with its steps, its versions and its window."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.json_lines import read_json_lines
from shusaku.common.messages import Weights
from shusaku.common.network.network import Network, load_tensors
from shusaku.common.network.targets import make_targets
from shusaku.common.network.weights import load_weights, network_config
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.local.driver import run as run_local
from shusaku.deploy.run import network_growth
from shusaku.deploy.run.chosen_weights import find_weights
from shusaku.deploy.run.healing import heal_weights
from shusaku.deploy.run.network_growth import grow_checkpoint
from shusaku.deploy.run.network_stages import seconds_to_growth, settle_network
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.deploy.run.saved_config import read_config
from shusaku.learner.checkpoints import kept_steps, load_latest, network_of, write_checkpoint

SMALL = [
    "game=tic_tac_toe", "network.filters=8", "network.blocks=1", "strength.enabled=false", "rater.enabled=false",
    "actors.count=1", "replay.minimum=500", "inference.runtime=pseudo_random", "learner.batch_size=32",
    "learner.publish_every=5", "run.checkpoint_seconds=0.1", "run.keep_checkpoints=1000",
]


def run(directory: Path, *more: str) -> dict[str, Any]:
    return run_local(compose([*SMALL, f"run.dir={directory}", *more]), as_json=False)


def size(network: NetworkConfig) -> tuple[int, int]:
    return network.filters, network.blocks


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run of two stages, and its result."""
    directory = tmp_path_factory.mktemp("grown") / "run"
    return directory, run(directory, "run.minutes=0.1", "run.grow=[0.05:12x2]")


def test_one_command_goes_through_both_stages(grown: tuple[Path, dict[str, Any]]) -> None:
    directory, result = grown
    weights = load_weights(directory / "weights.safetensors")
    assert size(network_config(weights)) == (12, 2)
    assert weights.tensors["stem.conv.weight"].shape[0] == 12
    assert read_config(directory)["network"]["filters"] == 12
    assert result["steps"] > 0
    versions = [line["version"] for line in read_json_lines(directory / "versions.jsonl")]
    assert versions == sorted(set(versions))
    kept = [directory / "checkpoints" / f"{step:09d}" for step in sorted(kept_steps(directory / "checkpoints"))]
    sizes = [size(find_weights(compose(SMALL), "checkpoint", str(path)).network) for path in kept]
    assert sizes[0] == (8, 1), "a checkpoint from before can still be played with"
    assert sizes[-1] == (12, 2)
    assert sizes == sorted(sizes)


def test_the_same_command_goes_on_in_the_larger_network(grown: tuple[Path, dict[str, Any]]) -> None:
    directory, result = grown
    more = run(directory, "run.minutes=0.12", "run.grow=[0.05:12x2]")
    assert more["steps"] > result["steps"]
    with pytest.raises(UsageError, match=r"another game, network.*network.filters 12 -> 8"):
        run(directory, "run.minutes=0.13")


def test_going_back_to_a_smaller_checkpoint_grows_it_again(grown: tuple[Path, dict[str, Any]]) -> None:
    directory, _ = grown
    first = min(kept_steps(directory / "checkpoints"))
    run(directory, "run.minutes=0.14", "run.grow=[0.05:12x2]", f"resume_from={first}")
    found = load_latest(directory / "checkpoints")
    assert found is not None
    assert size(network_of(found.checkpoint, compose(SMALL).network)) == (12, 2)
    assert found.checkpoint.facts["learner"]["first_step"] == first


def test_the_larger_network_answers_as_the_smaller_one(tmp_path: Path) -> None:
    directory, game = tmp_path / "run", Game("tic_tac_toe")
    run(directory, "run.minutes=0.03")
    config = compose([*SMALL, f"run.dir={directory}", "run.grow=[0.02:12x3]"])
    larger = replace(config, network=replace(config.network, filters=12, blocks=3))
    planes = np.random.default_rng(1).random((4, *game.observation_shape), np.float32)
    before = load_latest(directory / "checkpoints")
    assert before is not None
    lines: list[str] = []
    was, was_average = load_weights(directory / "weights.safetensors"), average(directory, config)
    grow_checkpoint(directory, larger, game, lines.append)
    assert lines == [f"the network grows after {before.checkpoint.step:,} steps: filters 8, blocks 1 -> filters 12, "
                     "blocks 3"]
    now, now_average = load_weights(directory / "weights.safetensors"), average(directory, config)
    assert size(network_config(now)) == size(network_config(now_average)) == (12, 3)
    assert now.version == was.version
    for old, new in ((was, now), (was_average, now_average)):
        for name, expected in answers(old, planes).items():
            np.testing.assert_allclose(answers(new, planes)[name], expected, rtol=1e-4, atol=1e-5)
    after = load_latest(directory / "checkpoints")
    assert after is not None
    assert after.checkpoint.step == before.checkpoint.step
    assert after.checkpoint.extra == before.checkpoint.extra, "games and window are those of before"
    assert after.checkpoint.tensors["optimizer"] == {}
    grow_checkpoint(directory, larger, game, lines.append)
    assert len(lines) == 1, "it has grown already"


def test_weights_that_an_interrupted_growth_has_left_are_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, game = tmp_path / "run", Game("tic_tac_toe")
    run(directory, "run.minutes=0.02")
    config = compose([*SMALL, f"run.dir={directory}", "run.grow=[0.01:12x3]"])
    larger = replace(config, network=replace(config.network, filters=12, blocks=3))
    found = load_latest(directory / "checkpoints")
    assert found is not None
    learner = {**found.checkpoint.facts["learner"], "int8_error/policy": 1.0, "int8_error/value": 1.0}
    facts = {**found.checkpoint.facts, "learner": learner}
    write_checkpoint(directory / "checkpoints", replace(found.checkpoint, facts=facts))
    lines: list[str] = []
    heal_weights(directory, game, config.network, lines.append)
    assert lines == []

    def refuse(path: Path, weights: Weights) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(network_growth, "save_weights", refuse)
    with pytest.raises(OSError, match="No space"):
        grow_checkpoint(directory, larger, game, lines.append)
    path = directory / "weights.safetensors"
    assert size(network_config(load_weights(path))) == (8, 1)
    for _ in range(2):
        step = heal_weights(directory, game, larger.network, lines.append)
        assert lines == [f"{path}: the newest checkpoint has another network; it is written anew from the checkpoint "
                         f"of step {step:,}"]
    assert size(network_config(load_weights(path))) == (12, 3)
    assert size(network_config(load_weights(directory / "weights_first.safetensors"))) == (8, 1)
    grown = load_latest(directory / "checkpoints")
    assert grown is not None
    assert not [name for name in grown.checkpoint.facts["learner"] if name.startswith("int8_error")]


def average(directory: Path, config: Any) -> Weights:
    return find_weights(config, "checkpoint", str(directory)).weights


def answers(weights: Weights, planes: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    game, config = Game(weights.game, weights.params), compose(SMALL).learner
    network = Network(game.observation_shape, game.num_actions, network_config(weights),
                      make_targets(replace(config, targets=["policy", "value"]))).eval()
    load_tensors(network, weights.tensors)
    with torch.no_grad():
        return {name: answer.numpy() for name, answer in network(torch.from_numpy(planes)).items()}


def test_the_stage_follows_the_time_of_training(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    config = compose([*SMALL, f"run.dir={directory}", "run.grow=[1:12x2,3:12x4]"])
    assert settle_network(config) is config, "there is no run yet"
    assert seconds_to_growth(config) == 60
    run(directory, "run.minutes=0.01")
    for seconds, expected, next_growth in ((59.0, (8, 1), 60), (60.0, (12, 2), 180), (500.0, (12, 4), float("inf"))):
        progress = RunProgress.load(directory)
        progress.seconds = seconds
        progress.save(directory)
        settled = settle_network(config)
        assert size(settled.network) == expected
        assert seconds_to_growth(settled) == next_growth
        RunDirectory(settled).close()
        again = compose([f"config={directory / 'config.yaml'}", f"run.dir={directory}"])  # as `shusaku restore` says
        assert (size(again.network), seconds_to_growth(again)) == (expected, next_growth)
        assert size(settle_network(again).network) == expected
    assert seconds_to_growth(compose(SMALL)) == float("inf")
