"""A run on a cluster of two nodes that was started before, one of which goes away and comes back."""

import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster_process import ClusterProcess, doubled
from two_nodes import TwoNodes


@pytest.fixture
def nodes() -> Iterator[TwoNodes]:
    cluster = TwoNodes()
    yield cluster
    cluster.close()


@pytest.fixture
def run(nodes: TwoNodes, tmp_path: Path) -> Iterator[ClusterProcess]:
    """With an actor on each node."""
    variables = {**nodes.variables, "RAY_ADDRESS": nodes.address}
    run = ClusterProcess(tmp_path / "run", "actors.count=2", "inference.precision=fp32", environment=variables)
    try:
        state = run.until(lambda s: s["alive_actors"] == 2 and s["status"]["step"] > 20, 120, "actors on both nodes")
        here = [name for name, process in state["processes"].items() if name.startswith("self_play") and process["pid"]]
        assert len(here) == 1, "one actor a node"
        yield run
    finally:
        run.close()


def lose_node(nodes: TwoNodes, run: ClusterProcess) -> None:
    nodes.tell("kill")
    state = run.until(lambda s: s["alive_actors"] == 1, 90, "the loss of a node to be noticed")
    step = state["status"]["step"]
    run.until(lambda s: s["status"]["step"] > step + 20, 60, "learning to go on with one actor")


@pytest.mark.timeout(400)
def test_a_run_goes_on_without_a_node(nodes: TwoNodes, run: ClusterProcess) -> None:
    lose_node(nodes, run)
    assert doubled(run.games()) == [], "an actor that survived its node was fenced"
    assert run.stop() == 143


@pytest.mark.nodes
@pytest.mark.timeout(400)
def test_a_node_that_goes_away_and_comes_back(nodes: TwoNodes, run: ClusterProcess) -> None:
    lose_node(nodes, run)
    time.sleep(5)
    nodes.tell("add")
    run.until(lambda s: s["alive_actors"] == 2, 120, "the second actor to come back")
    assert doubled(run.games()) == []
    assert run.stop() == 143


def learners() -> list[psutil.Process]:
    """The learners of all runs, by the name that Ray gives their processes."""
    return [process for process in psutil.process_iter(["cmdline"])
            if "LearnerActor" in " ".join(process.info["cmdline"] or ())]


@pytest.mark.nodes
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
            # The step alone may be the last one of the killed learner.
            run.until(lambda s: s["status"]["step"] > saved + 20 and s["processes"]["learner 0"]["incarnation"] == 1
                      and run.resumed_steps(), 120, "another learner to go on")
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
