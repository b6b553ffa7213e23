"""Which program computes a network on a GPU: torch's kernels one by one, or those that its compiler makes.

The compiler fuses and tries several kernels for each layer, which takes a minute; whether that wins depends on GPU and
network.  So both are timed once, on real planes and as captured graphs, and the answer is kept in the user's cache.
To play, only batches of LARGEST_BATCH positions are compiled: a server that is busy has no others.
Source: torch.compile, mode "max-autotune-no-cudagraphs"; graphs are captured by those who run the program.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from shusaku.common.device_failure import is_device_failure
from shusaku.common.device_memory import is_out_of_memory
from shusaku.common.measured_choices import MeasuredChoice, choose_fastest, find_choice, keep_choice, key_of, user_cache
from shusaku.common.network.torch_tower import TorchTower

Program = Callable[[Tensor], tuple[Tensor, Tensor]]  # planes -> logits, values, as TorchTower
PROGRAMS = ("eager", "compiled")  # the first one is taken unless another is worth it
UNIT = "positions/s"
FILE = "gpu_program.json"  # in the user's cache


def make_program(name: str, tower: TorchTower) -> Program:
    """The tower as this program; new weights in its tensors are those of the program, too."""
    if name == "eager":
        return tower
    compiled: Program = compiled_for_graphs(tower.__call__, tries_kernels=True)
    return compiled


def compiled_for_graphs(function: Callable[..., Any], *, tries_kernels: bool) -> Any:
    """What torch's compiler makes of it, for one shape of its inputs; RuntimeError, when it is called, if it fails.

    `tries_kernels`: of its own for convolutions and products, which takes a minute for a few shapes.
    """
    mode = "max-autotune-no-cudagraphs" if tries_kernels else None
    return torch.compile(function, mode=mode, dynamic=False, fullgraph=True)


def choose_program(
    rate_of: Callable[[str], float], *depends_on: object, unit: str = UNIT,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> MeasuredChoice:
    """The cached answer for what the measurement `depends_on`, or `rate_of` each program, in `unit`.

    A program whose measurement raises RuntimeError is left out: the compiler may lack what it needs on this machine.
    Without memory for it, which may be there another time, the answer is not kept.
    """
    key = key_of(*depends_on)
    kept = find_choice(user_cache(FILE), key)
    if kept is not None and kept.name in PROGRAMS:
        return kept
    rates: dict[str, float] = {}
    is_lasting = True
    for name in PROGRAMS:
        try:
            rates[name] = rate_of(name)
        except RuntimeError as error:
            if name == PROGRAMS[0] or is_device_failure(error):
                raise
            is_lasting = not is_out_of_memory(error)
    choice = choose_fastest(rates, PROGRAMS[0], unit, now=clock())
    if is_lasting:
        keep_choice(user_cache(FILE), key, choice)
    return choice
