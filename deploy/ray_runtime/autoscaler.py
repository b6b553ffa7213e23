"""Ray's autoscaler: how far it may let the cluster grow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from shusaku.common.config.schema import ClusterConfig

MONITOR = "monitor.py"  # Ray's program of the autoscaler, on the head
CONFIG = "--autoscaling-config="
GCS = "--gcs-address="


def growing_cpus(config: ClusterConfig, address: str) -> float:
    """CPUs that the autoscaler of the cluster at `address` may bring in all: what the user says, else what it says."""
    return config.autoscaler_cpus or configured_cpus(address)


def configured_cpus(address: str) -> float:
    """CPUs that the autoscaler of the cluster at `address` (HOST:PORT of its head) may bring in all; 0 without one.

    Known on the head alone, where the autoscaler runs beside its configuration: with `ray up`, and with `ray start
    --autoscaling-config`.  In Kubernetes it runs in another container.
    """
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(word.endswith(MONITOR) for word in words) and f"{GCS}{address}" in words:
            files = [word.removeprefix(CONFIG) for word in words if word.startswith(CONFIG)]
            return cpus_of(_read(Path(files[-1]))) if files else 0.0
    return 0.0


def cpus_of(config: Mapping[str, Any]) -> float:
    """CPUs of the head and of as many workers as a cluster configuration of Ray allows, the largest ones first.

    https://docs.ray.io/en/latest/cluster/vms/references/ray-cluster-configuration.html
    """
    types, head = config.get("available_node_types") or {}, config.get("head_node_type")
    left = int(config.get("max_workers") or 0)
    cpus = {name: float((node.get("resources") or {}).get("CPU") or 0) for name, node in types.items()}
    total = cpus.get(str(head), 0.0)
    for name in sorted(cpus, key=lambda name: -cpus[name]):
        count = min(left, int(types[name].get("max_workers", left) if name != head else 0))
        total, left = total + count * cpus[name], left - count
    return total


def _read(file: Path) -> Mapping[str, Any]:
    """Empty if it is not readable: it may be another user's."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}
