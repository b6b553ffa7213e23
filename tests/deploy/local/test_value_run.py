"""A value network learns in one process: the same games by the same seed, also when it is stopped, and what it says."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_runs import KeptRun, parameters, train_until

from shusaku.common.codec import decode_record
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.metrics import read_metrics
from shusaku.common.network.weights import load_weights, random_weights, save_weights
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.commands.backup import backup, restore
from shusaku.deploy.local.driver import run as run_local
from shusaku.replay.record_log import RecordLog
from shusaku.replay.row_window import is_test_game

SMALL = [
    "experiment=alphago_9x9_value", "game.size=5", "value.last_switch=12", "value.supervised=random", "actors.count=2",
    "value.reinforced=random", "actors.games_per_actor=8", "replay.minimum=200", "replay.capacity=3000",
    "replay.test_share=0.2", "learner.batch_size=32", "learner.publish_every=4", "learner.threads=1",
    "network.filters=8", "network.blocks=1", "run.minutes=5", "inference.runtime=pseudo_random",
    "learner.precision=fp32",
]


def games_of(directory: Path) -> list[tuple[Any, ...]]:
    """The games of a run in the order of its log."""
    records = map(decode_record, RecordLog(directory / "records").iterate())
    return [(record.game_id, record.actions.tolist(), record.outcome, record.row_weight.tolist())
            for record in records]


def train(directory: Path, questions: float, rows: int, *overrides: str) -> KeptRun:
    """Trains until so many rows were played, or until the run has asked `questions` times whether to stop."""
    return train_until([*SMALL, f"run.dir={directory}", *overrides], questions,
                       lambda run: run.buffer.stats().inserted >= rows)


def test_the_same_seed_gives_the_same_games_and_the_same_network(tmp_path: Path) -> None:
    one, two = (train(tmp_path / name, 1e9, 500) for name in ("one", "two"))
    assert games_of(tmp_path / "one") == games_of(tmp_path / "two")
    assert np.array_equal(parameters(one), parameters(two))
    assert one.training.learner.step_count >= 20
    assert one.buffer.stats().quarantined == {}
    assert one.result["games"] == one.result["rows"] >= 500, "one row a game"


@pytest.mark.parametrize("questions", [[3], [60, 30]])
def test_stopped_and_resumed_plays_the_games_of_a_run_that_was_not(tmp_path: Path, questions: list[int]) -> None:
    whole = train(tmp_path / "whole", 1e9, 500)
    for stop in questions:
        train(tmp_path / "parts", stop, 500)
    parts = train(tmp_path / "parts", 1e9, 500)
    assert games_of(tmp_path / "parts") == games_of(tmp_path / "whole")
    assert np.array_equal(parameters(parts), parameters(whole))


def test_what_was_learned_is_measured_on_games_that_were_not_learned_from(tmp_path: Path) -> None:
    run = train(tmp_path, 1e9, 600)
    games = [decode_record(data).game_id for data in RecordLog(tmp_path / "records").iterate()]
    tests = sum(is_test_game(game, 0.2) for game in games)
    assert run.buffer.stats().test_rows == tests
    assert 0.1 < tests / len(games) < 0.3
    lines = [line.values for line in read_metrics(tmp_path / "metrics.jsonl", "learner")]
    last = lines[-1]
    losses = run.result["losses"]["value"]
    assert (last["test/value"], last["train/value"]) == (losses["test"], losses["train"])
    assert losses["difference"] == losses["test"] - losses["train"]
    assert 0.3 < losses["test"] < 2
    assert any("unseen games" in line and f"{losses['test']:.4f}" in line for line in run.lines)


def test_the_policies_stay_in_the_run_directory(tmp_path: Path) -> None:
    """A run goes on with its own copies, also when the runs that they came from are gone or learn on."""
    config = compose(SMALL)
    game = configured_game(config.game)
    paths = [tmp_path / "one.safetensors", tmp_path / "two.safetensors"]
    for seed, path in enumerate(paths):
        save_weights(path, random_weights(game, config.network, seed + 5, version=9))
    named = [f"value.supervised={paths[0]}", f"value.reinforced={paths[1]}"]
    train(tmp_path / "run", 10, 300, *named)
    first = load_weights(paths[0]).tensors
    for path in paths:
        path.unlink()
    backup(str(tmp_path / "copy"), compose([*SMALL, f"run.dir={tmp_path / 'run'}"]), False)
    restore(str(tmp_path / "copy"), compose([*SMALL, f"run.dir={tmp_path / 'restored'}"]), False)
    for name in ("run", "restored"):
        train(tmp_path / name, 1e9, 300, *named)
    assert games_of(tmp_path / "run") == games_of(tmp_path / "restored")
    kept = load_weights(tmp_path / "run" / "policies" / "supervised.safetensors").tensors
    assert all(np.array_equal(kept[name], first[name]) for name in first)
    with pytest.raises(UsageError, match=r"another game, network, optimizer, targets or policies \(value\.reinforced"):
        train(tmp_path / "run", 1e9, 300, named[0], "value.reinforced=random")
    shutil.rmtree(tmp_path / "run" / "policies")
    with pytest.raises(UsageError, match="no such file or directory"):
        train(tmp_path / "run", 1e9, 300, *named)


@pytest.fixture(scope="module")
def unfit(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Weights of other planes, and some without a policy head."""
    directory, config = tmp_path_factory.mktemp("unfit"), compose([*SMALL, "game.planes=tutorial"])
    save_weights(directory / "planes", random_weights(configured_game(config.game), config.network, 1, version=1))
    plain = random_weights(configured_game(compose(SMALL).game), config.network, 1, version=1)
    for name in [name for name in plain.tensors if name.startswith("heads.policy.")]:
        del plain.tensors[name]
    save_weights(directory / "headless", plain)
    return {name: directory / name for name in ("planes", "headless")}


@pytest.mark.parametrize(("overrides", "line"), [
    (["value.supervised="], "value.supervised=: must name the run, checkpoint or file of a policy, such as"),
    (["search.temperature_final=0"], "search.temperature_final=0.0: must be above 0: games for a value network"),
    (["value.reinforced=nowhere"], "value.reinforced=nowhere: no such file or directory"),
    (["value.reinforced=shipped"], "value.reinforced=shipped: plays go("),
    (["value.reinforced={planes}"], "both policies must have the same planes"),
    (["value.supervised={headless}"], "has no policy head; name a run whose learner.targets hold policy"),
    (["value.rows=two"], "value.rows=two: must be one of one, all"),
    (["value.last_switch=0"], "value.last_switch=0: must be at least 1"),
    (["search=puct"], "search.policy=puct: games for a value network are played without a search"),
    (["learner.root_value_share=0.5"], "learner.root_value_share=0.5: games for a value network have no searches"),
    (["learner.targets=[value,short_term]"], "games for a value network have no searches"),
    (["learner.cut_off_value=search"], "learner.cut_off_value=search: games for a value network have no searches"),
    (["self_play.random_plies=2"], "self_play.random_plies=2: changes no games for a value network"),
    (["rater.enabled=true"], "rater.enabled=true: a value network plays no games"),
    (["learner.targets=[policy]"], "value must be among them"),
    (["replay.test_share=0.6"], "replay.test_share=0.6: must be at least 0 and at most 0.5"),
])
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, unfit: dict[str, Path], overrides: list[str], line: str
) -> None:
    words = [text.format(**unfit) for text in overrides]
    with pytest.raises(UsageError) as said:
        run_local(compose([*SMALL, f"run.dir={tmp_path / 'run'}", *words]), False)
    assert line in str(said.value)
    assert "\n" not in str(said.value)
    assert not (tmp_path / "run").exists()


def test_the_command_ends_with_2() -> None:
    done = subprocess.run([sys.executable, "-m", "shusaku", "local", *SMALL, "value.supervised="],
                          capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 2
    assert "value.supervised=: must name" in done.stderr.splitlines()[-1]
