"""The predictions of a network that learns, by torch's kernels or by those of its compiler, also in the backward pass.

On a GPU both are timed once, forward and backward in one captured graph: `common.network.gpu_program`.
"""

import time
from collections.abc import Callable
from dataclasses import asdict

import torch
from torch import Tensor

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

    def settle(self, planes: Tensor, stream: "torch.cuda.Stream | None") -> None:
        """Chooses by batches like this one [B, C, H, W]; the network is as before.  Later calls do nothing."""
        if self._predict is not None:
            return
        if self._name == "auto" and stream is not None:
            about = (torch.cuda.get_device_name(self._device), torch.__version__, torch.version.cuda, self._is_bf16,
                     asdict(self._network.config), sorted(self._network.heads), list(planes.shape), "learner")
            choice = choose_program(lambda name: self._rate_of(name, planes, stream), *about, unit=UNIT)
            self._name, self.description = choice.name, f"; steps {choice}"
        self._predict = self._made(self._name)

    def __call__(self, planes: Tensor) -> dict[str, Tensor]:
        """[B, C, H, W] -> predictions, under autocast if they are bf16."""
        return self._run(self._network if self._predict is None else self._predict, planes)

    def _made(self, name: str) -> Predict:
        if name != "compiled":
            return self._network
        # To try kernels for the two backward passes of each convolution took over two minutes on an H200.
        compiled: Predict = compiled_for_graphs(self._network, tries_kernels=False)
        return compiled

    def _run(self, predict: Predict, planes: Tensor) -> dict[str, Tensor]:
        # Casts that are kept between steps would be stale in a graph.
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._is_bf16, cache_enabled=False):
            return predict(planes)

    def _rate_of(self, name: str, planes: Tensor, stream: "torch.cuda.Stream") -> float:
        """Rows a second of forward and backward pass; statistics and gradients are as before."""
        predict, statistics = self._made(name), list(self._network.buffers())
        saved = [tensor.clone() for tensor in statistics]

        def compute() -> None:
            self._network.zero_grad(set_to_none=True)
            predictions = self._run(predict, planes)
            torch.stack([each.float().square().mean() for each in predictions.values()]).sum().backward()  # type: ignore[no-untyped-call]

        try:
            return len(planes) * _runs_per_s(compute, stream)
        finally:
            self._network.zero_grad(set_to_none=True)
            torch._foreach_copy_(statistics, saved)
            torch.cuda.empty_cache()  # what the graph held


def _runs_per_s(compute: Callable[[], None], stream: "torch.cuda.Stream") -> float:
    """Of this computation as a captured graph."""
    for _ in range(WARM_UPS):
        compute()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        compute()
    graph.replay()
    stream.synchronize()
    runs, begin = 0, time.perf_counter()
    while runs == 0 or time.perf_counter() - begin < TIMED_SECONDS:
        graph.replay()
        stream.synchronize()
        runs += 1
    return runs / (time.perf_counter() - begin)
