"""A learner of two ranks on Ray and Redis: both learn, and the death of one costs the steps since the checkpoint."""

import os
import signal
from collections.abc import Callable

import psutil
import pytest
from cluster_process import START_S, ClusterProcess

SETTINGS = (
    "game=tic_tac_toe", "learner.ranks=2", "learner.batch_size=64", "learner.publish_every=20", "replay.minimum=400",
    "actors.count=1", "actors.games_per_actor=32", "network.filters=8", "network.blocks=1", "search.simulations=8",
    "strength.enabled=false", "rater.enabled=false", "run.minutes=30", "run.checkpoint_seconds=2",
    "cluster.dashboard=false", "cluster.nice=19",
)


def ranks_of(run: ClusterProcess) -> list[psutil.Process]:
    """The processes of the ranks beside rank 0: started by the Ray of this run, which its driver has started."""
    own = {process.pid for process in psutil.Process(run.process.pid).children(recursive=True)}
    found = []
    for process in psutil.process_iter(["pid", "name", "cmdline", "ppid"]):
        title = " ".join(process.info["cmdline"] or [])
        if "RankActor" in title and (process.info["pid"] in own or process.info["ppid"] in own):
            found.append(process)
    return found


@pytest.mark.faults
@pytest.mark.timeout(400)
def test_a_killed_rank_costs_the_steps_since_the_checkpoint(start: Callable[..., ClusterProcess]) -> None:
    run = start(settings=SETTINGS)
    run.until(lambda s: s["status"]["step"] >= 60 and any(run.run_dir.glob("checkpoints/0*/manifest.json")),
              START_S, "a checkpoint")
    (rank,) = ranks_of(run)
    os.kill(rank.pid, signal.SIGKILL)
    run.until(lambda s: "rank 1 ended" in run.text, 60, "the loss to be seen")
    # Status and newest checkpoint may be of the lost group until its successor has said where it begins.
    run.until(lambda s: run.resumed_steps(), START_S, "a successor")
    step = run.newest_checkpoint()[0]
    run.until(lambda s: run.newest_checkpoint()[0] > step, START_S, "learning on")
    (other,) = ranks_of(run)
    assert other.pid != rank.pid
    assert run.check_games() > 100
    assert run.stop() == 143
    run.until_nothing_is_left(60)
