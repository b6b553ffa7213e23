"""Asks a Ray cluster for its version and nodes, in a process of its own: Ray's client blocks for 40 s.

`python -m shusaku.deploy.ray_runtime.probe ADDRESS` prints one JSON object on its last line of output.
"""

import importlib
import json
import os
import platform
import socket
import subprocess
import sys
import time
from dataclasses import replace

from shusaku.common.errors import UsageError
from shusaku.deploy.ray_runtime.auth import LOOPBACK, MODE, TOKEN, TOKEN_PATH, Login, login_for_joining, ray_environment

ALIVE = 0  # of ray.rpc.GcsNodeInfo.GcsNodeState
DEADLINE = 15.0  # seconds of the whole probe, so that the user sees a line within 20 s


def probe_cluster(address: str, deadline: float = DEADLINE) -> Login:
    """Finds out how to log in at the cluster at `host:port`.

    UsageError if nothing or something else answers there, if its Ray or Python is not the same as ours, or if it
    refuses our token.  A cluster without tokens is joined without one: with one, this process would refuse the
    cluster's workers, and every actor would die at once.  The probe uses private names of Ray; a Ray without them is
    joined unprobed.
    """
    end = time.monotonic() + deadline
    login = login_for_joining()
    _check_port(address, min(5.0, deadline))
    answer = _ask(address, login, end - time.monotonic())
    if "unprobed" in answer:
        return replace(login, note=f"{address} is joined without a check: this Ray has no {answer['unprobed']}")
    if "failed" in answer:
        raise UsageError(f"RAY_ADDRESS={address}: {answer['failed']}")
    if "refused" in answer:
        raise login.refusal(f"RAY_ADDRESS={address}")
    theirs = f"Ray {answer['ray']} and Python {answer['python']}"
    ours = f"Ray {_ray_version()} and Python {platform.python_version()}"
    if theirs != ours:
        raise UsageError(f"RAY_ADDRESS={address}: that cluster runs {theirs}, this is {ours}; they must be the same, "
                         "so install here what runs there or the other way round")
    if not answer["is_node"]:  # Ray would look for its node here for a minute
        raise UsageError(f"RAY_ADDRESS={address}: this machine is no node of that cluster, whose nodes are "
                         f"{answer['nodes']}; make it one with `ray start --address={address}`, or run the command "
                         "there with `shusaku submit`")
    if answer["accepts"] == "every client" and login.has_token:
        if os.environ.get(MODE, "").lower() == "token":
            raise UsageError(f"RAY_ADDRESS={address}: that cluster asks for no token, against {MODE}=token; start it "
                             f"with one, or join it as it is with {MODE}=disabled")
        note = f"{address} asks for no token: every client that reaches it runs code there"
        login = Login({MODE: "disabled"}, note=note)
    if answer["nodes"].startswith("127."):  # one of `shusaku train`
        login = replace(login, variables={**login.variables, **LOOPBACK})
    return login


def host_and_port(address: str) -> tuple[str, int]:
    """Splits `host:port`; UsageError for anything else."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise UsageError(f"RAY_ADDRESS={address}: must be auto or HOST:PORT, such as 10.0.0.1:6379")
    return host.strip("[]"), int(port)


def _check_port(address: str, timeout: float) -> None:
    host, port = host_and_port(address)
    try:
        socket.create_connection((host, port), timeout).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"RAY_ADDRESS={address}: no Ray answers there ({reason}); start one with `ray start --head`, "
                         "or unset RAY_ADDRESS and one is started here") from None


def _ask(address: str, login: Login, timeout: float) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name not in (TOKEN, TOKEN_PATH)}
    try:
        done = subprocess.run([sys.executable, "-m", "shusaku.deploy.ray_runtime.probe", address],
                              env={**environ, **login.variables}, capture_output=True, text=True,
                              timeout=max(0.1, timeout), check=False,
                              start_new_session=True)  # which keeps a Ctrl-C from it
    except subprocess.TimeoutExpired:
        raise UsageError(f"RAY_ADDRESS={address}: something listens there but answers nothing of Ray's; is this the "
                         "port of the cluster's head (6379 unless told otherwise)?") from None
    lines = done.stdout.splitlines()
    if not lines:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return {"failed": f"Ray's client fails there: {reason}"}
    answer: dict[str, str] = json.loads(lines[-1])
    return answer


def _ray_version() -> str:
    import ray

    return str(ray.__version__)


def main(address: str) -> dict[str, str]:
    """The cluster's versions and nodes and whether it wants a token; first asked without that of the environment."""
    with ray_environment({MODE: "disabled"}):
        answer = _metadata(address)
    if "refused" in answer and os.environ.get(MODE) == "token":
        return {**_metadata(address), "accepts": "the token"}
    return {**answer, "accepts": "every client"}


def _metadata(address: str) -> dict[str, str]:
    from ray.exceptions import AuthenticationError

    try:
        get_cluster_metadata = importlib.import_module("ray._common.usage.usage_lib").get_cluster_metadata
        find_node_ids = importlib.import_module("ray._private.services").find_node_ids
        client = importlib.import_module("ray._raylet").GcsClient
    except (ImportError, AttributeError) as error:
        return {"unprobed": error.name or str(error)}
    try:
        asked = client(address=address)
        metadata = get_cluster_metadata(asked)
        own = set(find_node_ids())
        nodes = [node for node in asked.get_all_node_info(timeout=5).values() if node.state == ALIVE]
    except AuthenticationError:
        return {"refused": "yes"}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    if not metadata:
        return {"failed": "that cluster does not name its version of Ray"}
    return {"ray": metadata["ray_version"], "python": metadata["python_version"],
            "nodes": ", ".join(node.node_manager_address for node in nodes) or "dead",
            "is_node": "yes" if own & {node.node_id.hex() for node in nodes} else ""}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])), flush=True)
