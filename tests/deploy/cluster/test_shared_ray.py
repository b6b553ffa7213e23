"""A run on a Ray cluster of others: its head starts again, and its object store is full of what others keep there."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from cluster_process import ClusterProcess
from two_nodes import TwoNodes

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(400)]
STORE = 80 << 20  # bytes a node, about the smallest that Ray takes
AWAY_S = 8.0  # of Ray's head; less than deploy.ray_runtime.ray_parts.HEAD_PATIENCE_S

FILL = """
import sys, numpy as np, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
held = [ray.put(np.full(8 << 20, number, np.uint8)) for number in range(12)]  # 96 MiB, each wanted for ever
print("full", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[TwoNodes, ClusterProcess]]]:
    begun: list[TwoNodes | ClusterProcess] = []

    def start_one(*overrides: str, store: int | None = None, **variables: str) -> tuple[TwoNodes, ClusterProcess]:
        nodes = TwoNodes(store=store, variables=variables)
        begun.append(nodes)
        run = ClusterProcess(tmp_path / "run", "actors.count=2", *overrides,
                             environment={**nodes.variables, "RAY_ADDRESS": nodes.address})
        begun.append(run)
        return nodes, run

    yield start_one
    for one in reversed(begun):
        one.close()


def test_a_head_that_keeps_its_tables_is_killed_and_comes_back(
    start: Callable[..., tuple[TwoNodes, ClusterProcess]], tmp_path: Path
) -> None:
    """With Ray's storage on disk a new GCS knows the actors of the old one: none is restarted, and new ones start."""
    (tmp_path / "gcs").mkdir()
    nodes, run = start(RAY_gcs_storage="rocksdb", RAY_gcs_storage_path=str(tmp_path / "gcs"))
    state = run.until(lambda s: s["alive_actors"] == 2 and s["status"]["step"] > 40, 150, "both nodes play")
    nodes.tell("kill GCS")
    step, games = run.status()["status"]["step"], run.counters()["games"]
    time.sleep(AWAY_S)
    assert run.status()["status"]["step"] > step, "it learns meanwhile"
    assert run.counters()["games"] > games
    nodes.tell("start GCS")
    step = run.status()["status"]["step"]
    after = run.until(lambda s: s["status"]["step"] > step + 40 and s["alive_actors"] == 2, 60, "learning to go on")
    assert {role: process["incarnation"] for role, process in after["processes"].items()} == {
        role: process["incarnation"] for role, process in state["processes"].items()}
    here = next(role for role, process in after["processes"].items() if role.startswith("self_play") and process["pid"])
    run.hurt(here)
    run.until(lambda s: s["processes"].get(here, {}).get("incarnation", 0) > after["processes"][here]["incarnation"]
              and s["alive_actors"] == 2, 60, "the new head starts an actor")
    run.check_games()
    assert run.stop() == 143


@pytest.mark.parametrize("spills", [True, False])
def test_an_object_store_full_of_others(start: Callable[..., tuple[TwoNodes, ClusterProcess]], spills: bool) -> None:
    """New weights reach the actors all the same; Ray puts what has no room on a disk."""
    nodes, run = start(store=STORE, RAY_automatic_object_spilling_enabled=str(int(spills)))
    state = run.until(lambda s: s["alive_actors"] == 2 and s["status"]["version"] >= 2, 150, "both nodes play")
    hog = subprocess.Popen([sys.executable, "-c", FILL, nodes.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           env={**psutil.Process().environ(), **nodes.variables})
    try:
        assert hog.stdout is not None
        assert hog.stdout.readline() == b"full\n"
        version = run.status()["status"]["version"]
        after = run.until(lambda s: s["status"]["version"] >= version + 3, 60, "later weights")
        newest = run.control.newest_version()
        run.until(lambda _: max(map(int, list(run.records().values())[-1].versions)) >= newest, 60, "games with them")
        assert after["alive_actors"] == 2
        assert {role: process["incarnation"] for role, process in after["processes"].items()} == {
            role: process["incarnation"] for role, process in state["processes"].items()}
    finally:
        hog.kill()
        hog.wait()
    run.check_games()
    assert run.stop() == 143
