"""Policy gradient in one process: the same by a seed, also when it is stopped, and what it says of bad input."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_runs import KeptRun, parameters, train_until

from shusaku.common._core import Game
from shusaku.common.codec import decode_record
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.metrics import read_metrics
from shusaku.common.network.weights import load_weights, random_weights, save_weights
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.local.driver import run as run_local
from shusaku.replay.record_log import RecordLog

SMALL = [
    "experiment=alphago_9x9_reinforce", "game.size=5", "policy.from=random", "actors.count=2",
    "actors.games_per_actor=4", "reinforce.games=8", "reinforce.pool_every=2", "learner.threads=1",
    "network.filters=8", "network.blocks=1", "run.minutes=5", "inference.precision=fp32", "inference.runtime=torch",
    "learner.precision=fp32", "replay.capacity=20000",
]


def train(directory: Path, questions: float, steps: int, *overrides: str) -> KeptRun:
    """Trains so many updates, or until the run has asked `questions` times whether to stop."""
    return train_until([*SMALL, f"run.dir={directory}", *overrides], questions,
                       lambda run: run.training.learner.step_count >= steps)


def games_of(directory: Path) -> list[tuple[Any, ...]]:
    """The games of a run in the order of its log."""
    records = map(decode_record, RecordLog(directory / "records").iterate())
    return [(r.game_id, r.actions.tolist(), r.outcome, r.versions.tolist()) for r in records]


@pytest.mark.parametrize(("actors", "lag"), [(1, 0), (4, 0), (3, 1), (7, 0)])  # of 8 games an update, in pairs
def test_many_actors_play_no_more_than_the_next_update_takes(actors: int, lag: int, tmp_path: Path) -> None:
    run = train(tmp_path, 1e9, 5, f"actors.count={actors}", "actors.games_per_actor=8")
    assert len(run.actors) == min(actors, 4)
    assert run.buffer.stats().too_old == 0
    versions = [max(game[3]) for game in games_of(tmp_path)][:40]  # opponents are no newer than who learns
    assert {number // 8 + 1 - version for number, version in enumerate(versions)} == set(range(lag + 1))


def pool_of(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "reinforce" / "pool").iterdir())


def test_a_run_that_was_stopped_again_and_again_is_the_same(tmp_path: Path) -> None:
    """Games, opponents, network and pool; each game was learned from once, by the version that played it."""
    whole = train(tmp_path / "whole", 1e9, 6)
    steps, run = [], None
    for questions in (40, 90, 60, 120, 1e9):
        run = train(tmp_path / "parts", questions, 6)
        steps.append(run.training.learner.step_count)
    assert run is not None
    assert steps[0] < steps[-1] == 6, steps
    assert games_of(tmp_path / "parts") == games_of(tmp_path / "whole")
    assert np.array_equal(parameters(run), parameters(whole))
    assert pool_of(tmp_path / "parts") == pool_of(tmp_path / "whole")
    assert len(pool_of(tmp_path / "whole")) == 4, "the start, and after updates 2, 4 and 6"
    stats = whole.buffer.stats()
    assert (stats.too_old, stats.quarantined, stats.games) == (0, {}, 0)
    assert stats.sampled == stats.inserted
    games = games_of(tmp_path / "whole")
    assert len(games) == 6 * 8
    for number, (_, _, _, versions) in enumerate(games):
        assert max(versions) == number // 8 + 1, "by the newest version"
    assert {min(versions) for *_, versions in games[-16:]} <= {1, 3, 5}, "against members of the pool"


def test_metrics_say_how_it_goes(tmp_path: Path) -> None:
    run = train(tmp_path / "run", 1e9, 3)
    values = {name for line in read_metrics(tmp_path / "run" / "metrics.jsonl") for name in line.values}
    wanted = {f"reinforce/{name}" for name in ("return", "score", "entropy", "kl_start", "moves", "advantage", "pool")}
    assert wanted <= values
    assert "too_old" in values
    metrics = run.training.report().metrics
    assert 0 <= metrics["reinforce/score"] <= 1
    assert metrics["reinforce/entropy"] > 1
    assert metrics["learning_rate"] == pytest.approx(0.001)


def test_it_begins_with_the_policy_of_another_run_and_keeps_it(tmp_path: Path) -> None:
    game = Game("go", {"size": 5})
    network = NetworkConfig(filters=8, blocks=1, policy_filters=32)
    save_weights(tmp_path / "start.safetensors", random_weights(game, network, 77, version=9))
    source = f"policy.from={tmp_path / 'start.safetensors'}"
    run = train(tmp_path / "run", 1e9, 1, source)
    first = load_weights(tmp_path / "run" / "reinforce" / "pool" / "00000001.safetensors")
    wanted = random_weights(game, network, 77).tensors
    assert all(np.array_equal(tensor, wanted[name]) for name, tensor in first.tensors.items())
    assert not any(name.startswith("heads.value") for name in first.tensors)
    (tmp_path / "start.safetensors").unlink()
    again = train(tmp_path / "run", 1e9, 2, source)
    assert run.training.learner.step_count == 1
    assert again.training.learner.step_count == 2


def test_a_value_network_is_the_baseline(tmp_path: Path) -> None:
    game = Game("go", {"size": 5})
    weights = random_weights(game, NetworkConfig(filters=4, blocks=1), 5, version=1)
    save_weights(tmp_path / "value.safetensors", weights)
    run = train(tmp_path / "run", 1e9, 1, f"reinforce.baseline={tmp_path / 'value.safetensors'}")
    without = train(tmp_path / "without", 1e9, 1)
    assert games_of(tmp_path / "run") == games_of(tmp_path / "without"), "the first games are the same"
    assert not np.array_equal(parameters(run), parameters(without))
    assert (tmp_path / "run" / "reinforce" / "baseline.safetensors").exists()


@pytest.mark.parametrize(("override", "message"), [
    ("policy.from=", r"policy.from= is missing"),
    ("policy.from=runs/none", r"policy.from=runs/none: no such file or directory"),
    ("policy.from=shipped", r"policy.from=shipped: is of go.*size=9.* plays go.*size=5.*; name one of the same game"),
    ("reinforce.baseline=shipped", r"reinforce.baseline=shipped: is of go.*size=9"),
    ("learner.targets=[policy,value]", r"learner.targets=.*must be \[policy\]"),
    ("learner.publish_every=50", r"learner.publish_every=50: must be 1: every update plays the next games"),
    ("learner.ema_decay=0.9", r"learner.ema_decay=0.9: must be 0"),
    ("search.temperature_final=0.5", r"search.temperature_final=0.5: moves must be drawn at temperature 1"),
    ("search=puct", r"search.policy=puct: .*use search=policy_only"),
    ("self_play.random_plies=2", r"self_play.random_plies=2: changes no games of policy gradient"),
    ("actors.games_per_actor=3", r"actors.games_per_actor=3: must be even"),
    ("reinforce.max_lag=0", r"reinforce.max_lag=0: must be at least 1"),
    ("inference.placement=server", r"inference.placement=server: .*use inference.placement=actor"),
])
def test_bad_input_is_one_line(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        run_local(compose([*SMALL, f"run.dir={tmp_path / 'run'}", override]), False)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_policy_of_another_network_is_refused_with_the_way_out(tmp_path: Path) -> None:
    game = Game("go", {"size": 5})
    other = random_weights(game, NetworkConfig(filters=12, blocks=1, policy_filters=32, value_hidden=5), 1)
    save_weights(tmp_path / "other.safetensors", other)
    with pytest.raises(UsageError, match=r"another network than this run; add network.filters=12$"):
        run_local(compose([*SMALL, f"run.dir={tmp_path / 'run'}", f"policy.from={tmp_path / 'other.safetensors'}"]),
                  False)


def test_the_command_ends_with_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shusaku", "local", "experiment=alphago_9x9_reinforce", f"run.dir={tmp_path}/run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "policy.from= is missing" in done.stderr
