"""What each node of a cluster could run: platform, Python, Ray and packages.

`shusaku submit` sends the text of this file as a job of its own, before a wheel is sent: a node may have no Shusaku, or
another one.  So it imports nothing of ours.  It prints one line: `MARK`, and a JSON list with one object a node.
"""

import importlib
import importlib.metadata
import json
import logging
import platform
import sys
from typing import Any

MARK = "shusaku-nodes"
WHEEL_FLAGS = frozenset({"avx2", "bmi2", "fma"})  # of x86-64-v3, for which wheels are built
NODE_SECONDS = 60.0  # for a process to start there and to answer


def describe_node(packages: list[str], tags: list[str]) -> dict[str, Any]:
    """Of the machine that runs it: the versions of `packages`, and which of a wheel's `tags` its Python takes."""
    from packaging.markers import default_environment
    from packaging.tags import sys_tags

    versions, is_editable = {}, False
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        origin = importlib.metadata.distribution("shusaku").read_text("direct_url.json") or "{}"
        is_editable = bool(json.loads(origin).get("dir_info", {}).get("editable"))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        pass
    return {
        "platform": f"{platform.system()} {platform.machine()}", "python": platform.python_version(),
        "glibc": platform.libc_ver()[1] if platform.libc_ver()[0] == "glibc" else "", "versions": versions,
        "tags": sorted(set(tags) & {str(tag) for tag in sys_tags()}), "lacking_flags": lacking_flags(),
        "is_editable": is_editable, "environment": default_environment(),
    }


def lacking_flags() -> list[str]:
    """Instruction sets that a wheel needs and this processor lacks; none if the machine does not say."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line.split(":")[1].split() for line in file if line.startswith("flags")), [])
    except OSError:
        flags = []
    return sorted(WHEEL_FLAGS - set(flags)) if flags and platform.machine() == "x86_64" else []


def describe_cluster(packages: list[str], tags: list[str]) -> list[dict[str, Any]]:
    """Of all living nodes; `silence` says why a node did not answer."""
    ray: Any = importlib.import_module("ray")  # whatever version is there
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(log_to_driver=False, logging_level=logging.ERROR)
    make_task = ray.remote(describe_node)
    asked = {}
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            name = f"{node['NodeManagerAddress']} ({node['NodeManagerHostname']})"
            task = make_task.options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            asked[task.remote(packages, tags)] = name
    ray.wait(list(asked), num_returns=len(asked), timeout=NODE_SECONDS)
    found = []
    for answer, name in asked.items():
        try:
            found.append({"name": name, **ray.get(answer, timeout=0.1)})
        except Exception as error:  # whatever it is, the user is told
            found.append({"name": name, "silence": str(error).strip().splitlines()[-1][:200]})
    return found


if __name__ == "__main__":
    print(MARK, json.dumps(describe_cluster(*json.loads(sys.argv[1]))), flush=True)
