"""The network in floats by the core: residual towers on processors with AVX2 and without AVX-512.

Its convolutions are Winograd's (`common/core/network/winograd.h`), which need two fifths to a quarter of the products.
On one core of an AMD EPYC of the first generation a position of connect four takes 105 us (32 filters x 4), where
OpenVINO takes 167 and torch 200, and one of Go 9x9 176 instead of 334.  Nothing is compiled: new weights take one to
three milliseconds, and a batch that is not full takes as long as its rows.  With AVX-512 it has not been measured.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.channels_last import Inputs
from shusaku.actors.evaluators.core_layers import core_sizes, number_tensors, policy_tensors
from shusaku.common._core import FloatTower
from shusaku.common.hardware import Precision, core_floats_are_fastest
from shusaku.common.messages import Weights
from shusaku.common.network.tower import SCORE_SCALE, TowerShape
from shusaku.common.network.weights import folded_tensors

FILTERS = 16  # of which a tower has a multiple


class CoreFloatRuntime:
    """A residual tower for batches of at most `batch_size`; see `actors.evaluators.evaluator.Runtime`."""

    runtime_name = "core"
    has_fixed_batch = False
    precision = "fp32"

    def __init__(self, core: FloatTower, tower: TowerShape, batch_size: int, precision: Precision) -> None:
        self.description = f"core, fp32 ({precision.reason})"
        self._core, self._tower = core, tower
        c, h, w = tower.planes
        self.inputs: Inputs = np.zeros((batch_size, h, w, c), np.float32)
        self.policy: NDArray[np.float32] = np.zeros((batch_size, tower.num_actions), np.float32)
        self.values: NDArray[np.float32] = np.zeros(batch_size, np.float32)
        self.heads: dict[str, NDArray[np.float32]] = {
            head: np.zeros(shape, np.float32) for head, shape in tower.head_shapes(batch_size).items()}

    def load(self, weights: Weights) -> None:
        """Uses these weights from now on; ValueError, and no change, if they belong to another tower."""
        constants = folded_tensors(weights, self._tower)
        for number, layer in enumerate(["stem", *self._tower.layers]):
            self._core.set_layer(number, constants[f"{layer}.weight"], constants[f"{layer}.bias"])
        self._core.set_policy(*policy_tensors(constants))
        self._core.set_value(*number_tensors(constants, "value"))
        if "ownership" in self.heads:
            self._core.set_ownership(constants["heads.ownership.output.weight"],
                                     constants["heads.ownership.output.bias"])
        if "score" in self.heads:
            self._core.set_score(*number_tensors(constants, "score"))

    def run(self, rows: int) -> None:
        """Evaluates the first `rows` inputs in the calling thread; the GIL is released."""
        scores = self.heads.get("score")
        self._core.run(self.inputs, rows, self.policy, self.values, self.heads.get("ownership"), scores)
        if scores is not None:
            scores[:rows] *= np.float32(SCORE_SCALE)


def core_float_runtimes(tower: TowerShape, precision: Precision) -> Callable[[int], CoreFloatRuntime] | None:
    """Makes runtimes of several batch sizes; None where the core has none for such a tower, or for this processor."""
    sizes = core_sizes(tower)
    if precision.name != "fp32" or not core_floats_are_fastest() or sizes is None or sizes.filters % FILTERS:
        return None
    return lambda batch_size: CoreFloatRuntime(FloatTower(sizes), tower, batch_size, precision)
