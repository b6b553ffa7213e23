"""The nodes of the cluster that Ray is connected to."""

from typing import Any

import ray


def living_nodes() -> list[dict[str, Any]]:
    """As Ray describes those that are not lost."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
