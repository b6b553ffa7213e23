"""A run on a cluster of two nodes that was started before, one of which goes away and comes back."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster_process import ClusterProcess, doubled

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=1, num_gpus=int(sys.argv[1]))
print(cluster.address, flush=True)
for command in sys.stdin:
    if command.strip() == "kill":
        node.all_processes["raylet"][0].process.kill()
    else:
        node = cluster.add_node(num_cpus=1)
    print("done", flush=True)
cluster.shutdown()
"""


class TwoNodes:
    def __init__(self, gpus: int = 0) -> None:
        """`gpus`: that Ray believes to be on the second node."""
        variables = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        self.variables = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, str(gpus)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**variables, **self.variables}, start_new_session=True,
        )
        self.address = self._line()

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        assert self._line() == "done"

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _line(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "done" or (":" in line and line.split(":")[-1].strip().isdigit()):
                return line.strip()
        raise AssertionError("the cluster ended")


@pytest.fixture
def nodes() -> Iterator[TwoNodes]:
    cluster = TwoNodes()
    yield cluster
    cluster.close()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_node_that_goes_away_and_comes_back(nodes: TwoNodes, tmp_path: Path) -> None:
    variables = {**nodes.variables, "RAY_ADDRESS": nodes.address}
    run = ClusterProcess(tmp_path / "run", "actors.count=2", environment=variables)
    try:
        state = run.until(lambda s: s["alive_actors"] == 2 and s["status"]["step"] > 20, 120, "actors on both nodes")
        here = [name for name, process in state["processes"].items() if name.startswith("self_play") and process["pid"]]
        assert len(here) == 1, "one actor a node"
        nodes.tell("kill")
        state = run.until(lambda s: s["alive_actors"] == 1, 90, "the loss of a node to be noticed")
        step = state["status"]["step"]
        run.until(lambda s: s["status"]["step"] > step + 20, 60, "learning to go on with one actor")
        time.sleep(5)
        assert doubled(run.games()) == [], "an actor that survived its node was fenced"
        nodes.tell("add")
        run.until(lambda s: s["alive_actors"] == 2, 120, "the second actor to come back")
        assert doubled(run.games()) == []
        assert run.stop() == 143
    finally:
        run.close()


def learners() -> list[psutil.Process]:
    """The learners of all runs, by the name that Ray gives their processes."""
    return [process for process in psutil.process_iter(["cmdline"])
            if "LearnerActor" in " ".join(process.info["cmdline"] or ())]


@pytest.mark.faults
@pytest.mark.timeout(400)
def test_a_learner_follows_its_gpu_to_another_node(tmp_path: Path) -> None:
    """It has no run directory there; that of the driver has each checkpoint, also for the learner that comes after."""
    cluster = TwoNodes(gpus=1)
    overrides = ("actors.count=1", "learner.device=cpu", "learner.gpus=1", "inference.device=cpu",
                 "run.checkpoint_seconds=2")
    variables = {**cluster.variables, "RAY_ADDRESS": cluster.address}
    try:
        run = ClusterProcess(tmp_path / "run", *overrides, environment=variables)
        try:
            state = run.until(lambda s: s["status"]["step"] > 20 and run.newest_checkpoint()[0], 150, "a checkpoint")
            assert state["processes"]["learner 0"]["pid"] is None, "it is not on the node of the driver"
            assert "the learner on another machine" in run.text
            before = {process.pid for process in learners()}
            saved = run.newest_checkpoint()[0]
            for process in learners():
                process.send_signal(signal.SIGKILL)
            run.until(lambda s: s["status"]["step"] > saved + 20 and s["processes"]["learner 0"]["incarnation"] == 1,
                      120, "another learner to go on")
            assert before.isdisjoint(process.pid for process in learners())
            assert run.resumed_steps()[-1] >= saved
            assert run.stop() == 143
            last = run.newest_checkpoint()[0]
        finally:
            run.close()
        again = ClusterProcess(tmp_path / "run", *overrides, environment=variables)
        try:
            again.until(lambda s: s["status"]["step"] > last, 150, "learning to go on")
            assert doubled(again.games()) == []
            assert again.stop() == 143
        finally:
            again.close()
    finally:
        cluster.close()
    left = list(Path(tempfile.gettempdir()).glob("shusaku-learner-*"))
    assert not left, "the next one removes what a killed one left"
