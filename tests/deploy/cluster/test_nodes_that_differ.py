"""Clusters with one node that is not as the others: `doctor` and `status` name it, `train` refuses what cannot work."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from cluster_process import ClusterProcess
from preloaded import WallClock
from two_machines import TwoMachines
from two_nodes import TwoNodes

from shusaku.common import _core
from shusaku.replay.stream.server import find_binary

ROOT = Path(_core.__file__).resolve().parents[1]
HOUR = 3600
# Takes away the finder of the editable installation, so that the copy beside this file is imported.
OTHER_WHEEL = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
"""
Cluster = Callable[..., TwoNodes]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    started: list[TwoNodes] = []

    def start(**options: dict[str, str]) -> TwoNodes:
        started.append(TwoNodes(**options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for one in started:
        one.close()


def shusaku(nodes: TwoNodes, run_dir: Path, *words: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **nodes.variables, "RAY_ADDRESS": nodes.address}
    return subprocess.run([sys.executable, "-m", "shusaku", *words, "experiment=tic_tac_toe", f"run.dir={run_dir}"],
                          env=variables, capture_output=True, text=True, timeout=200, check=False)


def findings(nodes: TwoNodes, run_dir: Path) -> list[tuple[str, str]]:
    """Level and text of what doctor says of the nodes."""
    result = json.loads(shusaku(nodes, run_dir, "doctor", "--json").stdout.splitlines()[-1])
    return [(check["level"], check["text"]) for check in result["checks"] if check["name"] == "nodes"]


def with_other_wheel(folder: Path) -> dict[str, str]:
    """Variables of a node that has a wheel of its own, of the same version, one line of which differs."""
    package = folder / "shusaku"
    skip = shutil.ignore_patterns("core", "__pycache__", "node_modules")
    for name in ("actors", "common", "configs", "deploy", "learner", "replay"):
        shutil.copytree(ROOT / name, package / name, ignore=skip)
    shutil.copy(ROOT / "deploy/api/shusaku/__init__.py", package)
    with (package / "common" / "errors.py").open("a") as file:
        file.write("# changed\n")
    (folder / "sitecustomize.py").write_text(OTHER_WHEEL)
    return {"PYTHONPATH": str(folder)}


def assert_refused(done: subprocess.CompletedProcess[str], run_dir: Path, *words: str) -> None:
    """Exit code 2 and one last line with these words; nothing of the run is left."""
    assert done.returncode == 2, done.stdout + done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert all(word in last for word in words), last
    deadline = time.monotonic() + 10
    while left := processes_with(str(run_dir)):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def processes_with(word: str) -> list[list[str]]:
    """Command lines that hold it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if word in " ".join(process.cmdline()):
                found.append(process.cmdline())
    return found


@pytest.mark.nodes
@pytest.mark.timeout(400)
def test_a_node_with_another_wheel_is_named_and_refused(cluster: Cluster, tmp_path: Path) -> None:
    nodes = cluster(second=with_other_wheel(tmp_path / "site"))
    ((level, text),) = findings(nodes, tmp_path / "run")
    assert level == "FAIL"
    assert "has another wheel: Shusaku" in text
    assert_refused(shusaku(nodes, tmp_path / "run", "train"), tmp_path / "run", "node ", "another wheel", "submit")


@pytest.mark.nodes
@pytest.mark.timeout(400)
def test_a_node_whose_clock_is_an_hour_ahead_is_named_and_plays_on(cluster: Cluster, tmp_path: Path) -> None:
    clock = WallClock(tmp_path)
    clock.jump(HOUR)
    nodes = cluster(second=clock.for_python)
    ((level, text),) = findings(nodes, tmp_path / "run")
    assert level == "FAIL"
    assert "s ahead of this node's" in text
    run = ClusterProcess(tmp_path / "run", "actors.count=2", "replay.encryption=tls",
                         environment={**nodes.variables, "RAY_ADDRESS": nodes.address})
    try:
        state = run.until(lambda s: s["alive_actors"] == 2 and s["status"]["step"] > 20
                          and "its clock is 3,600 s ahead" in str(s["status"]["troubles"]), 200, "the line")
        assert sum("its clock" in line for line in state["status"]["troubles"]) == 1
        assert "its clock is 3,600 s ahead" in " ".join(run.command("status").stdout.split())
        games = state["totals"]["games"]
        clock.jump(-24 * HOUR)
        run.until(lambda s: s["totals"]["games"] > games + 50
                  and "86,400 s behind" in str(s["status"]["troubles"]), 60, "games")
        clock.jump(0)
        run.until(lambda s: "its clock" not in str(s["status"]["troubles"]), 30, "the line to go")
        assert all(worker["incarnation"] == 0 for worker in run.status()["processes"].values())
        run.check_games()
    finally:
        run.close()


@pytest.mark.nodes
@pytest.mark.timeout(400)
def test_a_node_with_another_token_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """Its raylet began with the right one; the processes that it starts read the file again."""
    own, other = tmp_path / "own", tmp_path / "other"
    for path in (own, other):
        path.write_text("a" * 64)
        path.chmod(0o600)
    login = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(own)}
    nodes = cluster(login=login, second={"RAY_AUTH_TOKEN_PATH": str(other)})
    assert [level for level, _ in findings(nodes, tmp_path / "run")] == ["ok"]
    other.write_text("b" * 64)
    ((level, text),) = findings(nodes, tmp_path / "run")
    assert level == "FAIL"
    assert "node " in text
    assert "token" in text
    assert "b" * 64 not in text
    assert_refused(shusaku(nodes, tmp_path / "run", "train"), tmp_path / "run", "node ", "token")


@pytest.mark.nodes
@pytest.mark.timeout(400)
def test_a_node_without_a_route_to_the_replay_server_is_named_and_refused() -> None:
    """Two machines of namespaces; the server listens at an address of the first that the second has no route to."""
    machines = TwoMachines(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_raylet_start_wait_time_s="120")
    ray = str(Path(sys.executable).with_name("ray"))
    common = ("--num-cpus=1", "--object-store-memory=150000000")
    head, other = machines.addresses
    try:
        started = machines.run(0, ray, "start", "--head", f"--node-ip-address={head}", "--port=6379",
                               "--include-dashboard=false", *common)
        assert started.returncode == 0, started.stderr
        started = machines.run(1, ray, "start", f"--address={head}:6379", f"--node-ip-address={other}", *common)
        assert started.returncode == 0, started.stderr
        machines.add_address(0, "10.78.9.1")
        machines.start(0, find_binary(), "--bind", "10.78.9.1", "--port", "7000", "--protected-mode", "no",
                       "--save", "", "--dir", str(machines.shared), "--maxmemory-policy", "noeviction")
        run_dir, words = machines.shared / "run", ("replay.url=redis://10.78.9.1:7000/0", "experiment=tic_tac_toe")
        command = (sys.executable, "-m", "shusaku")
        address = {"RAY_ADDRESS": f"{head}:6379"}
        done = machines.run(0, *command, "doctor", "--json", *words, f"run.dir={run_dir}", **address)
        (found,) = [check for check in json.loads(done.stdout.splitlines()[-1])["checks"] if check["name"] == "nodes"]
        assert found["level"] == "FAIL"
        assert f"node {other} (machine1" in found["text"]
        assert "does not reach the replay server" in found["text"]
        refused = machines.run(0, *command, "train", *words, f"run.dir={run_dir}", **address)
        assert_refused(refused, run_dir, f"node {other}", "does not reach the replay server", "firewall")
    finally:
        machines.close()
