"""`ray up` with deploy/ray-up.yaml, over sshd, to two machines of namespaces; then a run on both."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from oracles import missing
from two_machines import TwoMachines

ROOT = Path(__file__).resolve().parents[3]
SSHD = shutil.which("sshd", path="/usr/sbin")
BIN = Path(sys.executable).parent
# A home of its own, which is where sshd puts a user; sshd drops its rights to a user and a folder of its own.
MACHINE = """
set -e
mkdir -p /tmp/home/.ssh /run/sshd && chmod 700 /tmp/home /tmp/home/.ssh
cp "$1/key" /tmp/home/.ssh/id && chmod 600 /tmp/home/.ssh/id && cp "$1/key.pub" /tmp/home/.ssh/authorized_keys
{ echo root:x:0:0::/tmp/home:/bin/bash; grep -v ^root: /etc/passwd; } > /tmp/passwd
mount --bind /tmp/passwd /etc/passwd
ssh-keygen -q -t ed25519 -N '' -f /tmp/host_key
exec /usr/sbin/sshd -D -e -f /dev/null -h /tmp/host_key -o UsePAM=no -o PidFile=none
"""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[TwoMachines]:
    if SSHD is None or shutil.which("rsync") is None:
        missing("sshd and rsync are not here: Debian's openssh-server and rsync")
    machines = TwoMachines()
    yield machines
    machines.close()


def config(machines: TwoMachines) -> dict[str, Any]:
    """The file, for these machines; they have the same files as this one, so nothing is installed."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "ray-up.yaml").read_text(encoding="utf-8"))
    head, *workers = machines.addresses
    found["provider"] |= {"head_ip": head, "worker_ips": workers}
    found["auth"] = {"ssh_user": "root", "ssh_private_key": "~/.ssh/id"}
    del found["file_mounts"]["~/wheels"]
    assert "pip install" in found["setup_commands"][1]
    return found | {"setup_commands": [f"ln -sfn {BIN.parent} ~/.shusaku", *found["setup_commands"][2:]]}


@pytest.mark.nodes
@pytest.mark.timeout(400)
def test_ray_up_starts_a_cluster_on_which_a_run_learns(machines: TwoMachines) -> None:
    """More actors than one machine has CPUs; the token has come to the second machine with the files."""
    ray, file = str(BIN / "ray"), machines.shared / "ray-up.yaml"
    file.write_text(yaml.safe_dump(config(machines)))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", machines.shared / "key"], check=True)
    for machine in (0, 1):
        machines.start(machine, "bash", "-c", MACHINE, "_", str(machines.shared))
    home = {"HOME": "/tmp/home"}
    assert machines.run(0, ray, "get-auth-token", "--generate", **home).returncode == 0

    started = machines.run(0, ray, "up", "--yes", "--no-config-cache", str(file), **home)
    assert started.returncode == 0, started.stdout + started.stderr
    joined = {**home, "RAY_ADDRESS": "auto", "RAY_AUTH_MODE": "token"}
    deadline, found = time.monotonic() + 120, ""
    while "1 others, with the same wheel, versions, token" not in found:
        assert time.monotonic() < deadline, found
        done = machines.run(0, str(BIN / "shusaku"), "doctor", "--json", **joined)
        checks = json.loads(done.stdout.splitlines()[-1])["checks"]
        found = " ".join(check["text"] for check in checks if check["name"] == "nodes")
        time.sleep(1)

    count = len(os.sched_getaffinity(0)) + 1
    command = ("RAY_ADDRESS=auto RAY_AUTH_MODE=token shusaku train experiment=tic_tac_toe "
               f"run.dir=/tmp/home/run run.minutes=0.2 actors.count={count} replay.minimum=200 strength.enabled=false "
               "strength.final=false rater.enabled=false")
    run = machines.run(0, ray, "exec", "--no-config-cache", str(file), command, **home)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{count} actors of" in run.stdout
    lines = machines.run(0, "tail", "-n", "1", "/tmp/home/run/metrics.jsonl").stdout
    assert json.loads(lines)["step"] > 0

    ended = machines.run(0, ray, "down", "--yes", str(file), **home)
    assert ended.returncode == 0, ended.stdout + ended.stderr
