"""What the core's towers take: their sizes, and the tensors of their heads."""

from typing import Any, NamedTuple

import numpy as np

from shusaku.common.network.tower import Tensors, TowerShape


class CoreSizes(NamedTuple):
    """The arguments of the core's towers, in their order."""

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
    """None for what no tower of the core computes: other than residual blocks, and heads beside policy and value."""
    n = tower.network
    if tower.is_plain or n.squeeze or tower.heads or not n.blocks:
        return None
    return CoreSizes(*tower.planes, tower.num_actions, n.filters, n.blocks, n.policy_filters, n.value_filters,
                     n.value_hidden, n.policy_head == "planes")


def head_tensors(constants: Tensors) -> tuple[list[Any], list[Any]]:
    """What `set_policy` and `set_value` take, of the folded tensors of `common.network.tower`."""
    return (_of(constants, "heads.policy", "features", "output"),
            _of(constants, "heads.value", "features", "hidden", "output"))


def _of(constants: Tensors, head: str, *layers: str) -> list[Any]:
    """Weights and bias of each layer of a head."""
    return [np.ascontiguousarray(constants[f"{head}.{layer}.{part}"])
            for layer in layers for part in ("weight", "bias")]
