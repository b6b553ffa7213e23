"""Whose 3x3 convolutions a learning network takes on a CPU, the core's or torch's: what is faster on this processor.

Both are timed once for each layer's sizes, forward and backward.  The answer is kept in the user's cache, and with the
learner's state, so that a run goes on as it began.  Layers so small that the time of a step is elsewhere are not timed.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from shusaku.common.hardware import core_floats_are_fastest, processor_name
from shusaku.common.measured_choices import (
    CORE_LOOPS,
    MeasuredChoice,
    choose_fastest,
    find_choice,
    keep_choice,
    key_of,
    user_cache,
)
from shusaku.common.network.core_convolution import WAY, convolve_by_core

FILE = "convolutions.json"  # in the user's cache
UNIT = "boards/s"
LEAST_WORK = 3 * 10**7  # multiplications of a layer; below it the answer is a rule
TIMED_WORK = 3 * 10**8  # of a layer that is timed, on fewer boards if they are many
LEAST_BOARDS = 8  # for each thread
ROUNDS = 3  # in turns; the best of each: disturbances only make one slower

Convolve = Callable[[Tensor, Tensor], Tensor]  # x, kernels of float -> y of the type of x


class Convolution(NamedTuple):
    """The sizes of a layer in a step."""

    inputs: int
    outputs: int
    height: int
    width: int
    boards: int
    threads: int
    dtype: torch.dtype  # float32 | bfloat16

    @property
    def work_of_board(self) -> int:
        """Multiplications."""
        return 9 * self.inputs * self.outputs * self.height * self.width


_answers: dict[str, bool] = {}  # of this process: key of a layer -> whether the core computes it
_measured: dict[str, MeasuredChoice] = {}  # the measurements behind those that no run had brought along


def answers() -> dict[str, bool]:
    """Of the layers that this process has computed, or was told of: key -> whether it is the core's."""
    return dict(_answers)


def adopt(of_run: Mapping[str, bool]) -> None:
    """Takes the answers of a run that goes on here; a layer on another processor has another key."""
    _answers.update(of_run)


def description() -> str:
    """The newest answer that was measured or cached, for the user; empty if a run brought all of them along."""
    newest = list(_measured.values())[-1:]
    return f"; 3x3 convolutions: {newest[0]}" if newest else ""


def is_core_faster(asked: Convolution) -> bool:
    """Whether the core computes this layer faster than torch."""
    if asked.dtype not in (torch.float32, torch.bfloat16):
        return False
    if asked.boards * asked.work_of_board < LEAST_WORK:  # with AVX-512 torch's, which has not been measured
        return asked.dtype is torch.float32 and core_floats_are_fastest()
    boards = max(LEAST_BOARDS * asked.threads, TIMED_WORK // asked.work_of_board)
    timed = asked._replace(boards=min(asked.boards, boards))
    key = _key(timed)
    if key not in _answers:
        _measured[key] = find_choice(user_cache(FILE), key) or _measure(timed, key)
        _answers[key] = _measured[key].name != "torch"
    return _answers[key]


@cache
def _key(timed: Convolution) -> str:
    return key_of(
        processor_name(), torch.__version__, metadata.version("shusaku"), CORE_LOOPS, WAY[timed.dtype], *timed)


def _measure(timed: Convolution, key: str) -> MeasuredChoice:
    """Ranks of one learner measure at once; the one that was first is right for all."""
    return keep_choice(user_cache(FILE), key, choose_fastest(_rates(timed), "torch", UNIT), replaces=False)


def _rates(timed: Convolution) -> dict[str, float]:
    """Boards a second of torch's and of the core's way, forward and backward."""
    generator = torch.Generator().manual_seed(1)
    x, gradient = (
        torch.randn((timed.boards, channels, timed.height, timed.width), generator=generator)
        .to(timed.dtype).contiguous(memory_format=torch.channels_last)
        for channels in (timed.inputs, timed.outputs))
    kernels = torch.randn((timed.outputs, timed.inputs, 3, 3), generator=generator) / (9 * timed.inputs) ** 0.5
    kernels = kernels.contiguous(memory_format=torch.channels_last).requires_grad_()
    ways: dict[str, Convolve] = {"torch": _by_torch, WAY[timed.dtype]: convolve_by_core}
    seconds = {name: float("inf") for name in ways}
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        for _ in range(ROUNDS):
            for name, way in ways.items():
                own = x.detach().requires_grad_()
                begin = time.perf_counter()
                torch.autograd.grad(way(own, kernels), (own, kernels), gradient)
                seconds[name] = min(seconds[name], time.perf_counter() - begin)
    return {name: timed.boards / spent for name, spent in seconds.items()}


def _by_torch(x: Tensor, kernels: Tensor) -> Tensor:
    return F.conv2d(x, kernels.to(x.dtype), padding=1)
