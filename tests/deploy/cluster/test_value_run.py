"""A value network learns on Ray and Redis, and goes on after its driver was killed."""

import json
import signal
from collections.abc import Callable

import numpy as np
import pytest
from cluster_process import START_S, ClusterProcess

from shusaku.common.messages import RowKind

SETTINGS = (
    "experiment=alphago_9x9_value", "game.size=5", "value.last_switch=12", "value.supervised=random",
    "value.reinforced=random", "actors.games_per_actor=16", "actors.count=1", "replay.minimum=200",
    "replay.test_share=0.2", "learner.batch_size=32", "learner.publish_every=20", "network.filters=8",
    "network.blocks=1", "run.minutes=30", "run.checkpoint_seconds=2", "cluster.dashboard=false", "cluster.nice=19",
)


@pytest.mark.faults
@pytest.mark.timeout(400)
def test_a_run_goes_on_after_its_driver_was_killed(start: Callable[..., ClusterProcess]) -> None:
    run = start(settings=SETTINGS)
    state = run.until(lambda s: s["status"]["step"] >= 60 and "test_value" in s["status"]["losses"]
                      and any(run.run_dir.glob("checkpoints/0*/manifest.json")), START_S, "a checkpoint")
    assert "discarded" in state["totals"]
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    run.until_nothing_is_left(60)
    again = start(settings=SETTINGS)
    step = run.newest_checkpoint()[0]
    again.until(lambda s: s["status"]["step"] > step + 20, START_S, "learning on")
    assert again.resumed_steps()
    assert again.check_games() > 200
    for record in again.records().values():
        (random,) = np.flatnonzero(record.kind == RowKind.OPENING)
        assert np.flatnonzero(record.row_weight).tolist() == [random + 1]
    assert again.stop() == 143
    metrics = [json.loads(line) for line in (again.run_dir / "metrics.jsonl").read_text().splitlines()]
    assert any("test/value" in line.get("values", line) for line in metrics)
