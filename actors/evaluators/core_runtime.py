"""The network on a CPU: by the core if the weights have the scales of 8 bits, else by another runtime."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.channels_last import Inputs
from shusaku.actors.evaluators.evaluator import Runtime
from shusaku.actors.evaluators.int8_tower import CoreInt8Tower
from shusaku.common.hardware import Precision
from shusaku.common.messages import Weights
from shusaku.common.network.tower import TowerShape
from shusaku.common.network.weights import folded_tensors


class CoreRuntime:
    """A small tower in 8 bits; see `actors.evaluators.evaluator.Runtime`.

    Weights without scales are computed by `otherwise`, whose arrays both read and write.
    """

    has_fixed_batch = True  # as the other one has

    def __init__(self, core: CoreInt8Tower, tower: TowerShape, wanted: Precision, otherwise: Runtime) -> None:
        self._core, self._tower, self._wanted, self._otherwise = core, tower, wanted, otherwise
        self._is_core = False  # whether the core has the weights that are in use
        self.inputs: Inputs = otherwise.inputs  # [S, H, W, C]
        self.policy: NDArray[np.float32] = otherwise.policy  # [S, A]
        self.values: NDArray[np.float32] = otherwise.values  # [S]
        self.heads: Mapping[str, NDArray[np.float32]] = otherwise.heads

    @property
    def runtime_name(self) -> str:
        """Which runtime computes the network now: core | openvino."""
        return "core" if self._is_core else self._otherwise.runtime_name

    @property
    def precision(self) -> str:
        """The precision that is in use now."""
        return "int8" if self._is_core else self._otherwise.precision

    @property
    def description(self) -> str:
        """Runtime, the precision that is in use now, and why."""
        return f"core, int8 ({self._wanted.reason})" if self._is_core else self._otherwise.description

    def load(self, weights: Weights) -> None:
        """Uses these weights from now on; ValueError, and no change, if they belong to another tower."""
        if weights.scales:
            self._core.load(folded_tensors(weights, self._tower), weights.scales)
        else:
            self._otherwise.load(weights)
        self._is_core = bool(weights.scales)

    def run(self, rows: int) -> None:
        """Evaluates at least the first `rows` inputs in the calling thread; the GIL is released."""
        if self._is_core:
            self._core.run(self.inputs, rows, self.policy, self.values)
        else:
            self._otherwise.run(rows)


def with_core(make: Callable[[int], Runtime], tower: TowerShape, precision: Precision) -> Callable[[int], Runtime]:
    """Runtimes of several batch sizes that compute by the core what it is made for; else those of `make`."""
    def make_runtime(size: int) -> Runtime:
        otherwise = make(size)
        # What follows the tower reads its inputs in bf16, as the core does.
        may = precision.name == "int8" and otherwise.precision == "bf16"
        core = CoreInt8Tower.make(tower) if may else None
        return otherwise if core is None else CoreRuntime(core, tower, precision, otherwise)

    return make_runtime
