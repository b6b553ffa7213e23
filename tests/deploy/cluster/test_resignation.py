"""The threshold of resignation on a cluster: known to the driver, and there again after a restart."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from cluster_process import ClusterProcess

from shusaku.common.config.schema import Config
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.deploy.run.training_run import TrainingRun


def keep(progress: RunProgress, *values: float, errors: float = 0.05) -> float:
    config = Config()
    config.self_play.resign_errors = errors
    run: Any = SimpleNamespace(progress=progress, config=config)
    return TrainingRun.keep_resign_value(run, values)


def test_the_threshold_of_the_run_is_the_median_of_its_actors_and_stays_while_none_has_one() -> None:
    progress = RunProgress()
    assert keep(progress) == keep(progress, -1.0) == -1.0
    assert keep(progress, -0.75, -1.0, -0.875, -0.9375) == -0.875
    assert keep(progress) == keep(progress, -1.0) == -0.875, "no actor has been heard from yet"
    assert progress.resign_value == -0.875
    assert keep(progress, errors=0.0) == -1.0, "no player resigns"


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    return tmp_path / "run"


@pytest.mark.faults
@pytest.mark.timeout(200)
def test_actors_begin_with_the_threshold_of_the_run_before_a_restart(run_dir: Path) -> None:
    """Also the successor of an actor that was killed."""
    resigns = ("self_play.resign_errors=0.3", "actors.count=2")
    run = ClusterProcess(run_dir, *resigns, "self_play.never_resign_share=0.5")
    try:
        state = run.until(lambda s: s["status"]["resign_value"] > -1 and s["status"]["resigned_share"] > 0
                          and s["status"]["played_on"] > 50, 90, "a threshold")
        assert -1 < state["status"]["resign_value"] < -0.699
        assert state["status"]["wrongly_resigned_share"] < 0.9
        assert run.stop() == 143
    finally:
        run.close()
    kept = json.loads((run_dir / "progress.json").read_text())["resign_value"]
    assert -1 < kept < -0.699
    # No game is played on, so no actor finds a threshold of its own.
    again = ClusterProcess(run_dir, *resigns, "self_play.never_resign_share=1e-9")

    def thresholds(count: int) -> dict[int, tuple[int, float]]:
        """Of each actor that has been heard from: its incarnation, and its threshold."""
        again.until(lambda s: len(again.control.actor_metrics()) == count, 60, f"metrics of {count} actors")
        return {actor: (sent.incarnation, msgpack.unpackb(sent.metrics)["resign_value"])
                for actor, sent in again.control.actor_metrics().items() if sent.metrics}

    try:
        again.until(lambda s: s["alive_actors"] == 2 and s["totals"].get("games", 0) > 100, 90, "games")
        assert thresholds(2) == {0: (0, pytest.approx(kept)), 1: (0, pytest.approx(kept))}
        again.hurt("self_play 0")
        again.until(lambda s: thresholds(2)[0] == (1, pytest.approx(kept)), 60, "the successor's threshold")
        assert again.status()["status"]["resign_value"] == pytest.approx(kept)
    finally:
        again.close()
