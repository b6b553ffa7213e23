"""A run on two nodes whose replay server and inference server encrypt: it learns, and every command goes on working."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster_process import ClusterProcess
from two_nodes import TwoNodes

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(600)]
ENCRYPTED = ("replay.encryption=tls", "inference.encryption=tls", "inference.placement=server", "actors.count=2")


@pytest.fixture
def nodes() -> Iterator[TwoNodes]:
    cluster = TwoNodes()
    yield cluster
    cluster.close()


def relays() -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["name"]) if process.info["name"] == "shusaku-tls"]


def test_two_nodes_learn_over_tls(nodes: TwoNodes, tmp_path: Path) -> None:
    before = {process.pid for process in relays()}
    variables = {**nodes.variables, "RAY_ADDRESS": nodes.address}
    run = ClusterProcess(tmp_path / "run", *ENCRYPTED, environment=variables)
    try:
        state = run.until(lambda s: s["alive_actors"] == 2 and s["status"]["step"] > 20, 180, "actors on both nodes")
        state = run.until(lambda s: any("TCP" in line for line in s["status"]["runtimes"]), 60, "calls by TCP")
        own = [process for process in relays() if process.pid not in before]
        assert len(own) == 2, "one of the replay server, one of the inference server"
        text = (run.run_dir / "redis" / "redis.conf").read_text()
        assert re.search("^port 0$", text, re.M), "Redis itself has no port"
        assert json.loads(run.command("status", "--json").stdout)["alive_actors"] == 2
        assert "1 actors play" in run.command("scale", "1").stdout
        assert "2 actors play" in run.command("scale", "2").stdout
        for relay in own:
            relay.kill()
        step, games = state["status"]["step"], state["totals"]["games"]
        run.until(lambda s: s["alive_actors"] == 2 and s["status"]["step"] > step + 20
                  and s["totals"]["games"] > games + 200, 120, "games after the relays were killed")
        run.check_games()
        finding = next(line for line in run.command("doctor").stdout.splitlines() if "shusaku-tls" in line)
        assert "encrypted" in finding
        assert "CERTIFICATE" not in run.text
        files = [file for file in run.run_dir.rglob("*") if file.is_file()]
        assert not [file for file in files if b"PRIVATE KEY" in file.read_bytes()], "the key is nowhere on the disk"
        assert "the run has ended" in run.command("stop").stdout
        assert run.process.wait(30) == 0
    finally:
        run.close()
    again = ClusterProcess(tmp_path / "run", *ENCRYPTED, environment=variables)
    try:
        again.until(lambda s: s["alive_actors"] == 2 and s["status"]["step"] > step + 20, 180, "the same command")
        again.check_games()
        assert again.stop() == 143
    finally:
        again.close()
    with contextlib.suppress(psutil.Error):
        assert not [process for process in relays() if process.pid not in before], "no relay is left"
