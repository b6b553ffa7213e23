"""Clusters that change under a run: nodes that Ray's autoscaler brings and takes, and one that loses its cable.

On machines of namespaces (root), for `ray start` and its autoscaler end processes of other Rays.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_process import SMALL
from two_machines import TwoMachines

from shusaku.deploy.cluster.supervisor import SILENT_SECONDS

pytestmark = [pytest.mark.nodes, pytest.mark.timeout(500)]
SHUSAKU = (sys.executable, "-m", "shusaku")
RAY = str(Path(sys.executable).with_name("ray"))
STORE = "--object-store-memory=150000000"
FAKE_HEAD = "f" * 51 + "00000"  # ray/autoscaler/_private/fake_multi_node/node_provider.py: FAKE_HEAD_NODE_ID
AUTOSCALER: dict[str, Any] = {  # https://docs.ray.io/en/latest/cluster/vms/user-guides/large-cluster-best-practices.html
    "cluster_name": "fake", "max_workers": 4, "head_node_type": "ray.head.default",  # the provider's own name
    # All its nodes have one address, and none has a shell by which Ray would set it up.
    "provider": {"type": "fake_multinode", "use_node_id_as_ip": True, "disable_node_updaters": True},
    "upscaling_speed": 1.0, "idle_timeout_minutes": 0.2, "auth": {"ssh_user": "root"}, "docker": {},
    **{name: [] for name in ("initialization_commands", "setup_commands", "head_setup_commands",
                             "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands",
                             "cluster_synced_files", "rsync_exclude", "rsync_filter")},
    "file_mounts": {}, "file_mounts_sync_continuously": False,
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "cpu": {"resources": {"CPU": 1, "object_store_memory": 100 << 20}, "node_config": {}, "min_workers": 0,
                "max_workers": 3},
    },
}


class Run:
    """A `shusaku train` on the first machine, asked from there."""

    def __init__(self, machines: TwoMachines, *overrides: str) -> None:
        self._machines, self.dir = machines, machines.shared / "run"
        self._variables = {"RAY_ADDRESS": f"{machines.addresses[0]}:6379"}
        command = [*SHUSAKU, "train", *SMALL, f"run.dir={self.dir}", *overrides]
        self.process = machines.start(0, "bash", "-c", 'exec "$@" > "$0" 2>&1', str(self.dir) + ".log", *command,
                                      **self._variables)

    @property
    def text(self) -> str:
        return Path(str(self.dir) + ".log").read_text(errors="replace")

    def command(self, *words: str, seconds: float = 100.0) -> Any:
        done = self._machines.run(0, *SHUSAKU, *words, "--json", f"run.dir={self.dir}", seconds=seconds,
                                  **self._variables)
        return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}

    def until(self, condition: Callable[[dict[str, Any]], bool], seconds: float, what: str) -> float:
        """Waits for a status; the seconds that it took."""
        begun, state = time.monotonic(), {}
        while time.monotonic() - begun < seconds:
            assert self.process.poll() is None, f"the run ended with {self.process.poll()}:\n{self.text[-3000:]}"
            state = self.command("status")
            if state and condition(state):
                return time.monotonic() - begun
        raise AssertionError(f"not within {seconds:.0f} s: {what}\n{json.dumps(state)[:2000]}\n{self.text[-3000:]}")


@pytest.fixture
def machines() -> Iterator[TwoMachines]:
    two = TwoMachines(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_raylet_start_wait_time_s="120")
    yield two
    two.close()


def start_ray(machines: TwoMachines, machine: int, *words: str, **variables: str) -> None:
    head = machines.addresses[0]
    role = ("--head", "--port=6379", "--include-dashboard=false") if machine == 0 else (f"--address={head}:6379",)
    started = machines.run(machine, RAY, "start", *role, f"--node-ip-address={machines.addresses[machine]}", STORE,
                           *words, **variables)
    assert started.returncode == 0, started.stderr


def test_a_head_without_cpus_gets_nodes_and_lets_them_go(machines: TwoMachines) -> None:
    """Ray's own autoscaler, whose provider for tests starts nodes on the same machine."""
    config = machines.shared / "cluster.yaml"
    config.write_text(json.dumps(AUTOSCALER), encoding="utf-8")
    start_ray(machines, 0, "--num-cpus=0", f"--autoscaling-config={config}",
              RAY_FAKE_CLUSTER="1", RAY_CLOUD_INSTANCE_ID=FAKE_HEAD, RAY_OVERRIDE_NODE_ID_FOR_TESTING=FAKE_HEAD)
    run = Run(machines, "actors.count=3")
    run.until(lambda s: s["waiting_actors"] == 3, 120, "actors that wait for nodes")
    run.until(lambda s: s["alive_actors"] == 3 and s["max_actors"] == 3, 200, "nodes for three actors")
    assert "ended: " not in run.text, "who waits for a node is not dead"
    refused = machines.run(0, *SHUSAKU, "scale", "4", f"run.dir={run.dir}")
    assert refused.returncode == 2
    assert "takes 3 at most" in refused.stderr + refused.stdout
    assert run.command("scale", "1")["alive"] == 1
    count = ("import ray; ray.init('auto', log_to_driver=False, logging_level='ERROR'); "
             "print(sum(n['Alive'] for n in ray.nodes()))")
    begun = time.monotonic()
    while int(machines.run(0, sys.executable, "-c", count, RAY_ADDRESS=f"{machines.addresses[0]}:6379"
                           ).stdout.split()[-1]) > 2:
        assert time.monotonic() - begun < 60, "two of the nodes stay"
    assert run.command("stop")


GAMES = """
import json, sys
from collections import Counter
from shusaku.common.codec import decode_record
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import server_url
from pathlib import Path
directory = Path(sys.argv[1])
client = connect(server_url(directory / "redis"), 5.0)
entries = client.xrange(RunKeys.of(RunIdentity.of(directory).run_id).games)
ids = Counter(decode_record(fields[b"d"]).game_id for _, fields in entries)
print(json.dumps({"games": len(ids), "doubled": sum(count > 1 for count in ids.values()),
                  "moved": sum(game.actor == int(sys.argv[2]) for game in ids)}))
"""


@pytest.mark.parametrize("fault", ["unplugged", "partitioned", "hung"])
def test_actors_of_a_node_that_is_lost_play_on_the_other(machines: TwoMachines, fault: str) -> None:
    """What they still send when the node is back is refused: no game is there twice."""
    start_ray(machines, 0, "--num-cpus=2")
    start_ray(machines, 1, "--num-cpus=1")
    run = Run(machines, "actors.count=2")
    run.until(lambda s: s["alive_actors"] == 2 and s["status"]["step"] > 20, 200, "actors on both machines")
    before = run.command("status")
    moved = [name for name, process in before["processes"].items() if "self_play" in name and process["pid"] is None]
    assert len(moved) == 1, "one of them plays on the other machine"
    games = before["totals"]["games"]
    {"unplugged": machines.unplug, "partitioned": machines.cut, "hung": machines.freeze}[fault](1)
    seconds = run.until(lambda s: s["alive_actors"] == 2 and s["processes"].get(moved[0], {}).get("pid"),
                        SILENT_SECONDS, "both actors on the first machine")
    assert seconds <= 20, f"after {seconds:.0f} s"
    assert run.command("status")["processes"][moved[0]]["incarnation"] == 1
    if fault != "unplugged":
        (machines.mend if fault == "partitioned" else machines.thaw)(1)
        time.sleep(15)  # what the old one holds arrives now
    run.until(lambda s: s["totals"]["games"] > games + 50, 60, "games go on")
    found = machines.run(0, sys.executable, "-c", GAMES, str(run.dir), moved[0].split()[-1])
    assert json.loads(found.stdout.splitlines()[-1])["doubled"] == 0, found.stderr
    assert run.command("stop")
