"""The core's 8-bit tower, loaded from weights: small towers on processors with AVX-512 VNNI and BF16, or with AMX.

A position of connect four (32 filters x 4) takes 3.9 us of one core by AMX, where OpenVINO takes 7.2, one of Go 9x9 8.2
instead of 17.1; by VNNI 8.4 instead of 11.4, and 18.0 instead of 22.2, on a Zen 5.  By VNNI OpenVINO is as fast with 64
filters, and faster on large boards.  New weights take one to five milliseconds instead of 42 to 71, and a batch that is
not full takes as long as its rows (`python -m benchmarks.speed.core_towers int8`).
"""

from typing import Any

import numpy as np

from shusaku.actors.evaluators.channels_last import Inputs
from shusaku.actors.evaluators.core_layers import core_sizes, number_tensors, policy_tensors
from shusaku.common._core import Int8Tower, int8_ways
from shusaku.common.network.rounding import INPUT_STEPS, rounded_kernel
from shusaku.common.network.tower import Tensors, TowerShape, quantised_layers

WAY = next(iter(int8_ways()), "")  # the fastest; empty: none
MOST_FILTERS = {"amx": 128, "vnni": 48}  # of the core's loops, as far as they are faster than OpenVINO


class CoreInt8Tower:
    """Computes what `learner.quantisation` describes, for a residual tower with no heads beside policy and value."""

    def __init__(self, core: Int8Tower, tower: TowerShape) -> None:
        self._core, self._tower = core, tower

    @classmethod
    def make(cls, tower: TowerShape) -> "CoreInt8Tower | None":
        """None where the core has none for such a tower, or for this processor."""
        sizes = core_sizes(tower)
        if sizes is None or tower.heads or sizes.filters > MOST_FILTERS.get(WAY, 0):
            return None
        core = Int8Tower.make(WAY, sizes)
        return None if core is None else cls(core, tower)

    def load(self, constants: Tensors, scales: dict[str, float]) -> None:
        """The folded tensors of `common.network.tower`, and the scale of each quantised layer."""
        layers = quantised_layers(self._tower)
        steps = [INPUT_STEPS / scales[layer] for layer in layers]
        self._core.set_stem(constants["stem.weight"], constants["stem.bias"], steps[0])
        for number, layer in enumerate(layers):
            kernel, bias = constants[f"{layer}.weight"], constants[f"{layer}.bias"]
            integers, step = rounded_kernel(kernel)
            slope = step.reshape(-1) / np.float32(steps[number])  # [F]
            is_first = number % 2 == 0
            # The first layer of a block hands only steps to the second; that adds to the skip in units.
            unit = np.float32(steps[number + 1] if is_first else 1)
            after = 0.0 if is_first else steps[number + 1] if number + 1 < len(layers) else 1.0
            self._core.set_layer(number, integers, slope * unit, bias * unit, after)
        self._core.set_policy(*policy_tensors(constants))
        self._core.set_value(*number_tensors(constants, "value"))

    def run(self, inputs: Inputs, rows: int, policy: Any, values: Any) -> None:
        """Planes [S, H, W, C] -> logits [S, A] and values [S] of the first rows; the GIL is released."""
        self._core.run(inputs, rows, policy, values)
