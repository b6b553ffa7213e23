"""A larger network that computes what a smaller one does, so that training goes on in it (Chen et al. 2016, "Net2Net").

A run that begins small learns fast at first, for its games are many; a larger network goes further later.

    wider    further filters begin untrained and see everything, but nothing that was there before sees them yet: those
             weights are zero, and learn
    deeper   further blocks come before the heads and add nothing at first: the scale of their last norm is zero

    further layers of a plain tower, which has no sums, copy their input

What reaches a further block or layer is never negative, so the ReLU behind it leaves it as it is.
"""

from collections.abc import Container
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from shusaku.common.config.schema import NetworkConfig
from shusaku.common.network.tower import Tensors

Array = NDArray[np.float32]

# Two halves, of which each grows: squeeze and excitation answers with a factor and a summand for each filter.
_HALVES = (".excite.weight", ".excite.bias")


def too_small(own: NetworkConfig, wanted: NetworkConfig, ignored: Container[str] = ()) -> list[str]:
    """The settings in which `wanted` cannot go on with an `own` network; none that begins with an `ignored` word."""
    return [name for name, value in asdict(own).items() if name.partition("_")[0] not in ignored
            and not _may_become(name, value, getattr(wanted, name))]


def _may_become(name: str, value: int | str, wanted: int | str) -> bool:
    if isinstance(value, str) or isinstance(wanted, str) or (name == "squeeze" and value == 0):
        return value == wanted
    return value <= wanted


def grow(tensors: Tensors, untrained: Tensors) -> Tensors:
    """`tensors` in a network that begins as `untrained`; heads that only one of the two has are left out or untrained.

    Sizes and names are those of two networks of which the second is not `too_small` for the first.
    """
    return {name: _placed(name, tensors[name], wanted) if name in tensors else _added(name, wanted)
            for name, wanted in untrained.items()}


def _placed(name: str, own: Array, wanted: Array) -> Array:
    if name.endswith(_HALVES):
        return np.concatenate([_corner(*parts) for parts in zip(np.split(own, 2), np.split(wanted, 2), strict=True)])
    return _corner(own, wanted)


def _corner(own: Array, wanted: Array) -> Array:
    """Outputs that were there read inputs that were there; the inputs of a flattened layer go channel by channel."""
    grown = wanted.copy()
    outputs = len(own)
    if own.ndim > 1:
        grown[:outputs, own.shape[1]:] = 0
        grown[:outputs, :own.shape[1]] = own
    else:
        grown[:outputs] = own
    return grown


def _added(name: str, wanted: Array) -> Array:
    """Of a new block, or a new head."""
    if name.startswith("layers.") and wanted.ndim > 1:
        copying = np.zeros_like(wanted)
        copying[range(len(wanted)), range(len(wanted)), wanted.shape[2] // 2, wanted.shape[3] // 2] = 1
        return copying
    adds_nothing = name.startswith("blocks.") and name.endswith((".second.norm.weight", *_HALVES))
    return np.zeros_like(wanted) if adds_nothing else wanted
