"""Which program computes full batches on a GPU: torch's kernels one by one, or those that its compiler makes.

The compiler fuses and tries several kernels for each layer, which takes a minute; whether that wins depends on GPU and
network.  So both are timed once, on real planes and as captured graphs, and the answer is kept in the user's cache.
Only batches of LARGEST_BATCH positions are compiled: a server that is busy has no others.
Source: torch.compile, mode "max-autotune-no-cudagraphs"; the graph is captured by the evaluator itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import torch
from torch import Tensor

from shusaku.common.device_failure import is_device_failure
from shusaku.common.device_memory import is_out_of_memory
from shusaku.common.measured_choices import find_choice, keep_choice, key_of, user_cache
from shusaku.common.network.torch_tower import TorchTower

Program = Callable[[Tensor], tuple[Tensor, Tensor]]  # planes -> logits, values, as TorchTower
PROGRAMS = ("eager", "compiled")  # the first one is taken unless another is worth it
WORTH = 1.03  # times the rate of the eager one: less is within the noise
FILE = "gpu_program.json"  # in the user's cache


@dataclass(frozen=True)
class ProgramChoice:
    """The program of full batches, and the measurement behind it."""

    name: str  # eager | compiled
    rates: Mapping[str, float]  # positions a second in full batches; a program that failed has none
    measured_on: str  # a date

    def __str__(self) -> str:
        others = ", ".join(f"{name} {rate:,.0f}" for name, rate in self.rates.items())
        return f"{self.name} by positions/s ({others}; measured on {self.measured_on})"


def make_program(name: str, tower: TorchTower) -> Program:
    """The tower as this program; new weights in its tensors are those of the program, too."""
    if name == "eager":
        return tower
    compiled: Program = torch.compile(
        tower.__call__, mode="max-autotune-no-cudagraphs", dynamic=False, fullgraph=True)
    return compiled


def choose_program(
    rate_of: Callable[[str], float], *depends_on: object, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> ProgramChoice:
    """The cached answer for what the measurement `depends_on`, or `rate_of` each program in positions a second.

    A program whose measurement raises RuntimeError is left out: the compiler may lack what it needs on this machine.
    Without memory for it, which may be there another time, the answer is not kept.
    """
    key = key_of(*depends_on)
    kept = find_choice(user_cache(FILE), key)
    if kept is not None and kept.get("name") in PROGRAMS and isinstance(kept.get("rates"), dict):
        return ProgramChoice(kept["name"], kept["rates"], str(kept.get("measured_on")))
    rates: dict[str, float] = {}
    is_lasting = True
    for name in PROGRAMS:
        try:
            rates[name] = rate_of(name)
        except RuntimeError as error:
            if name == PROGRAMS[0] or is_device_failure(error):
                raise
            is_lasting = not is_out_of_memory(error)
    fastest = max(rates, key=lambda name: rates[name])
    name = fastest if rates[fastest] > WORTH * rates[PROGRAMS[0]] else PROGRAMS[0]
    choice = ProgramChoice(name, rates, f"{clock():%Y-%m-%d}")
    if is_lasting:
        keep_choice(user_cache(FILE), key, asdict(choice))
    return choice
