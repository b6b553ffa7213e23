"""The predictions of a network that learns, by torch's kernels or by those of its compiler, also in the backward pass.

On a GPU both are timed once, forward and backward in one captured graph: `common.network.gpu_program`.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property

import torch
from torch import Tensor

from shusaku.common.device_failure import first_line, is_device_failure
from shusaku.common.network.gpu_program import choose_program, compiled_for_graphs
from shusaku.common.network.network import Network

TIMED_SECONDS = 1.0  # for each program that is tried
WARM_UPS = 3  # passes before the graph is captured: libraries choose their kernels in them
UNIT = "rows/s"
Predict = Callable[[Tensor], dict[str, Tensor]]


class StepProgram:
    """Planes -> {target: prediction} of one network, for batches of one size."""

    def __init__(self, network: Network, name: str, *, is_bf16: bool) -> None:
        """`name`: eager | compiled; auto: the faster one on a GPU, found out by `settle`."""
        self._network, self._name, self._is_bf16 = network, name, is_bf16
        self._device = next(network.parameters()).device
        self._predict: Predict | None = None
        self.description = ""  # of the choice, once it is made

    @property
    def is_settled(self) -> bool:
        """Whether the program is chosen."""
        return self._predict is not None

    def settle(self, planes: Tensor, stream: "torch.cuda.Stream | None") -> None:
        """Chooses by batches like this one [B, C, H, W]; the network is as before.  Later calls do nothing."""
        if self._predict is not None:
            return
        if self._name == "auto" and stream is not None:
            about = (torch.cuda.get_device_name(self._device), torch.__version__, torch.version.cuda, self._is_bf16,
                     asdict(self._network.config), sorted(self._network.heads), list(planes.shape), "learner")
            choice = choose_program(lambda name: self._rate_of(name, planes, stream), *about, unit=UNIT)
            self._name, self.description = choice.name, f"; steps {choice}"
            if choice.name == "compiled":
                self._check(planes)
        self._predict = self._made(self._name)

    def _check(self, planes: Tensor) -> None:
        """Leaves the compiled program if it was chosen on another day and cannot be made now."""
        try:
            with self._kept():
                self._differentiate(self._compiled, planes)
        except RuntimeError as error:
            if is_device_failure(error):
                raise
            self._name = "eager"
            self.description += f", which could not be made: {first_line(error)}; so eager"

    def __call__(self, planes: Tensor) -> dict[str, Tensor]:
        """[B, C, H, W] -> predictions, under autocast if they are bf16."""
        return self._run(self._network if self._predict is None else self._predict, planes)

    def _made(self, name: str) -> Predict:
        return self._compiled if name == "compiled" else self._network

    @cached_property
    def _compiled(self) -> Predict:
        # To try kernels for the two backward passes of each convolution took over two minutes on an H200.
        compiled: Predict = compiled_for_graphs(self._network, tries_kernels=False)
        return compiled

    def _run(self, predict: Predict, planes: Tensor) -> dict[str, Tensor]:
        # Casts that are kept between steps would be stale in a graph.
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._is_bf16, cache_enabled=False):
            return predict(planes)

    def _rate_of(self, name: str, planes: Tensor, stream: "torch.cuda.Stream") -> float:
        """Rows a second of forward and backward pass."""
        predict = self._made(name)
        with self._kept():
            return len(planes) * _runs_per_s(lambda: self._differentiate(predict, planes), stream)

    def _differentiate(self, predict: Predict, planes: Tensor) -> None:
        self._network.zero_grad(set_to_none=True)
        predictions = self._run(predict, planes)
        loss = torch.stack([each.float().square().mean() for each in predictions.values()]).sum()
        loss.backward()  # type: ignore[no-untyped-call]

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Statistics are afterwards as before, and there are no gradients."""
        statistics = list(self._network.buffers())
        saved = [tensor.clone() for tensor in statistics]
        try:
            yield
        finally:
            self._network.zero_grad(set_to_none=True)
            torch._foreach_copy_(statistics, saved)
            if self._device.type == "cuda":
                torch.cuda.empty_cache()  # what a graph held


def _runs_per_s(compute: Callable[[], None], stream: "torch.cuda.Stream") -> float:
    """Of this computation as a captured graph: by the fastest run, as another process may use the GPU, too."""
    for _ in range(WARM_UPS):
        compute()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        compute()
    graph.replay()
    stream.synchronize()
    fastest, end = math.inf, time.perf_counter() + TIMED_SECONDS
    while fastest == math.inf or time.perf_counter() < end:
        begin = time.perf_counter()
        graph.replay()
        stream.synchronize()
        fastest = min(fastest, time.perf_counter() - begin)
    return 1 / fastest
