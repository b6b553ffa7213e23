"""What the core's towers take: their sizes, and the tensors of their heads."""

from typing import Any, NamedTuple

import numpy as np

from shusaku.common.network.tower import Tensors, TowerShape


class CoreSizes(NamedTuple):
    """What the core's towers are made of."""

    planes: int
    height: int
    width: int
    actions: int
    filters: int
    blocks: int
    policy_filters: int
    value_filters: int
    value_hidden: int
    is_policy_by_cell: bool


def core_sizes(tower: TowerShape) -> CoreSizes | None:
    """None for what no tower of the core computes: other than residual blocks without squeeze."""
    n = tower.network
    if tower.is_plain or n.squeeze or not n.blocks:
        return None
    return CoreSizes(*tower.planes, tower.num_actions, n.filters, n.blocks, n.policy_filters, n.value_filters,
                     n.value_hidden, n.policy_head == "planes")


def policy_tensors(constants: Tensors) -> list[Any]:
    """What `set_policy` takes, of the folded tensors of `common.network.tower`."""
    return _layer_tensors(constants, "heads.policy", "features", "output")


def number_tensors(constants: Tensors, head: str) -> list[Any]:
    """What `set_value` and `set_score` take, in the same way."""
    return _layer_tensors(constants, f"heads.{head}", "features", "hidden", "output")


def _layer_tensors(constants: Tensors, head: str, *layers: str) -> list[Any]:
    """Weights and bias of each layer of a head."""
    return [np.ascontiguousarray(constants[f"{head}.{layer}.{part}"])
            for layer in layers for part in ("weight", "bias")]
