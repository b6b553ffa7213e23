"""A gradient step that never waits for the host: on a GPU one CUDA graph, from packed planes to the average.

Whether a step is finite is decided on the device: if it is not, the optimizer leaves the parameters (`found_inf`, as
GradScaler does), the statistics of the batch norms go back, and counters say so, which the host reads now and then.
Mini-batches travel from pinned memory on a stream of their own while the step before is computed.  On the CPU the same
code runs synchronously and without a graph, so that it is tested without a GPU.
Sources: PyTorch's notes "CUDA semantics" (whole-network capture; pinned memory), torch/amp/grad_scaler.py.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shusaku.common._core import Game
from shusaku.common.network.network import Network
from shusaku.common.network.packed_bits import PackedBits
from shusaku.common.network.target import Target, step_metrics, total_loss
from shusaku.learner.ema import Average
from shusaku.learner.optimizers import take_step
from shusaku.learner.step_program import StepProgram
from shusaku.replay.buffer import Batch, PackedPlanes, cell_tables

WARM_UPS = 3  # steps before the graph is captured: libraries choose their kernels in them
STAGES = 2  # mini-batches under way to the device


class Counts(NamedTuple):
    """What the steps up to now have come to."""

    made: int
    skipped: int  # because the loss or the gradient was not finite
    skipped_in_a_row: int  # up to now
    most_in_a_row: int  # since they were read the last time


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What of the configuration decides a step."""

    max_grad_norm: float  # 0: gradients are not clipped
    is_bf16: bool
    program: str  # of the network, see `StepProgram`


class DeviceStep:
    """The step of one network, optimizer and average for mini-batches of one size.  Used by one thread."""

    def __init__(
        self, network: Network, average: Average, optimizer: torch.optim.Optimizer, targets: Sequence[Target],
        columns: Sequence[str], game: Game, device: torch.device, settings: StepSettings,
    ) -> None:
        """`columns`: of a `Batch`, that the targets read."""
        self._network, self._average, self._optimizer, self._targets = network, average, optimizer, targets
        self._columns, self._device, self._settings = columns, device, settings
        self._expand = PlanesOnDevice(game, device)
        self._predict = StepProgram(network, settings.program, is_bf16=settings.is_bf16)
        self._parameters = list(network.parameters())
        self._statistics = list(network.buffers())
        self._saved_statistics = [tensor.clone() for tensor in self._statistics]
        self._is_cuda = device.type == "cuda"
        if self._is_cuda:
            torch.backends.cudnn.benchmark = True  # all mini-batches have one size
        self._stream, self._inward = (
            torch.cuda.Stream(device) if self._is_cuda else None  # type: ignore[no-untyped-call]
            for _ in range(2))
        self._graph: torch.cuda.CUDAGraph | None = None
        self._run_count = 0
        self._is_begun = False  # whether the last step may have changed the statistics
        self._inputs: dict[str, Tensor] = {}  # of the graph
        self._stages = [_Stage() for _ in range(STAGES)]
        # Fused optimizers read a float on a GPU; on the CPU they take the number itself.
        self._rate = torch.zeros((), device=device, dtype=torch.float32 if self._is_cuda else torch.float64)
        self._weight, self._not_finite = (torch.zeros((), device=device) for _ in range(2))
        self._counts = torch.zeros(4, dtype=torch.int64, device=device)
        self._sums: dict[str, Tensor] = {}  # of each metric over the finite steps since they were read

    @property
    def is_settled(self) -> bool:
        """Whether the program of the network is chosen: the first step does that, which may take a minute."""
        return self._predict.is_settled

    @property
    def description(self) -> str:
        """How the program of the network was chosen; empty before the first step, or if none was."""
        return self._predict.description

    def run(self, batch: Batch, rate: float, decay: float) -> None:
        """Queues a step at this learning rate, with this decay of the average; RuntimeError if memory is short."""
        self._is_begun = False
        if self._run_count == 0:
            self._begin_momentum()
        for stream in (self._stream, self._inward):
            if stream is not None:  # the owner has loaded, cleared or made tensors on its own stream
                stream.wait_stream(torch.cuda.current_stream(self._device))
        stage = self._stages[self._run_count % STAGES]
        stage.fill(self._tensors_of(batch), self._device, self._inward)
        with _on(self._stream):
            if self._stream is not None and self._inward is not None:
                self._stream.wait_stream(self._inward)
            for name, tensor in stage.on_device.items():
                if name not in self._inputs:
                    self._inputs[name] = torch.empty_like(tensor)
                self._inputs[name].copy_(tensor, non_blocking=True)
            stage.record_use(self._stream)
            self._rate.fill_(rate)
            self._weight.fill_(1 - decay)
            if self._run_count == 0:
                self._predict.settle(self._expand(self._inputs), self._stream)
            if self._graph is None and self._is_cuda and self._run_count >= WARM_UPS:
                self._graph = self._capture()
            if self._graph is not None:
                self._graph.replay()
            else:
                self._is_begun = True
                self._compute()
        self._run_count += 1

    def read(self) -> Counts:
        """Waits for all steps; how many were made and skipped since this object was made."""
        self.wait()
        counts = Counts(*map(int, self._counts.tolist()))
        self._counts[3].zero_()
        return counts

    def metrics(self) -> dict[str, float]:
        """Sums over the finite steps since the last call, and under `steps` their number; waits."""
        self.wait()
        names = list(self._sums)
        values = torch.stack([self._sums[name] for name in names]).tolist() if names else []
        for name in names:
            self._sums[name].zero_()
        return dict(zip(names, values, strict=True))

    def wait(self) -> None:
        """Waits until everything that was queued is done: the network may be read then."""
        if self._stream is not None:
            self._stream.synchronize()

    def begin_anew(self) -> None:
        """Before network, optimizer or average are loaded: no step before counts, and no graph holds their memory."""
        self.wait()
        self._graph, self._run_count = None, 0
        self._counts.zero_()
        self._sums = {}

    def undo(self) -> None:
        """After an error in `run`: statistics as before the step, and the optimizer free for steps of another kind."""
        self.wait()
        if self._is_begun:
            torch._foreach_copy_(self._statistics, self._saved_statistics)
        self._optimizer.zero_grad(set_to_none=True)
        self._optimizer.__dict__.pop("found_inf", None)

    def _begin_momentum(self) -> None:
        """As zeros, with which a first step is the usual one; torch's own buffer is never written if it is skipped."""
        for group in self._optimizer.param_groups:
            for parameter in group["params"] if group.get("momentum") else ():
                self._optimizer.state[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter))

    def _capture(self) -> "torch.cuda.CUDAGraph":
        """Captures the step; nothing is computed by that."""
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            self._compute()
        return graph

    def _compute(self) -> None:
        torch._foreach_copy_(self._saved_statistics, self._statistics)
        self._optimizer.zero_grad(set_to_none=True)
        labels = {name: self._inputs[name] for name in self._columns}
        predictions = self._predict(self._expand(self._inputs))
        loss, losses = total_loss(predictions, labels, self._targets)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._settings.max_grad_norm or float("inf"))
        with torch.no_grad():
            is_finite = torch.isfinite(loss) & torch.isfinite(norm)
            self._not_finite.copy_(~is_finite)
            self._step(is_finite)
            self._count(is_finite)
            self._sum_up(is_finite, {
                "steps": torch.ones_like(loss), "grad_norm": norm,
                **step_metrics(loss, losses, predictions, labels, self._targets)})

    def _step(self, is_finite: Tensor) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate
        self._optimizer.found_inf = self._not_finite  # type: ignore[attr-defined]
        take_step(self._optimizer)
        for tensor, saved in zip(self._statistics, self._saved_statistics, strict=True):
            tensor.copy_(torch.where(is_finite, tensor, saved))
        weight = self._weight * is_finite
        for own, tensor in zip(self._average.own.values(), self._average.live.values(), strict=True):
            own.lerp_(tensor, weight)

    def _count(self, is_finite: Tensor) -> None:
        made, skipped, in_a_row, most = self._counts.unbind()
        made += is_finite
        skipped += ~is_finite
        in_a_row += 1
        in_a_row *= ~is_finite
        most.copy_(torch.maximum(most, in_a_row))

    def _sum_up(self, is_finite: Tensor, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            if name not in self._sums:
                self._sums[name] = torch.zeros((), device=self._device)
            self._sums[name] += torch.where(is_finite, value.detach().float(), 0.0)

    def _tensors_of(self, batch: Batch) -> dict[str, Tensor]:
        planes = batch.observations
        arrays = ({"packed": planes.packed, "uniform": planes.uniform, "symmetry": planes.symmetry}
                  if isinstance(planes, PackedPlanes) else {"observations": planes})
        return {name: torch.from_numpy(array) for name, array in
                {**arrays, **{name: getattr(batch, name) for name in self._columns}}.items()}


class PlanesOnDevice:
    """Expands `PackedPlanes` where the network is."""

    def __init__(self, game: Game, device: torch.device) -> None:
        self._bits = PackedBits(game.observation_shape, device)
        self._cells = torch.from_numpy(cell_tables(game).astype(np.int64)).to(device)  # [S, H x W]

    def __call__(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """[B, C, H, W] float32 in channels-last order, of packed, uniform and symmetry, or of observations."""
        if "observations" in inputs:
            return inputs["observations"].contiguous(memory_format=torch.channels_last)
        cells = self._cells[inputs["symmetry"].long()]  # [B, H x W]
        return self._bits.expand(inputs["packed"], inputs["uniform"], torch.float32, cells)


class _Stage:
    """A mini-batch on its way: pinned memory on the host, and memory of the device."""

    def __init__(self) -> None:
        self._pinned: dict[str, Tensor] = {}
        self.on_device: dict[str, Tensor] = {}
        self._used: Any = None  # when the device has read it

    def fill(self, tensors: Mapping[str, Tensor], device: torch.device, stream: "torch.cuda.Stream | None") -> None:
        """Begins the copy; waits for the step that read this stage before."""
        if stream is None:
            self.on_device = dict(tensors)
            return
        if self._used is not None:
            self._used.synchronize()
        for name, tensor in tensors.items():
            if name not in self._pinned:
                self._pinned[name] = torch.empty_like(tensor, pin_memory=True)
                self.on_device[name] = torch.empty_like(tensor, device=device)
            self._pinned[name].copy_(tensor)
        with torch.cuda.stream(stream):
            for name, pinned in self._pinned.items():
                self.on_device[name].copy_(pinned, non_blocking=True)

    def record_use(self, stream: "torch.cuda.Stream | None") -> None:
        """What was queued on this stream up to now has read the stage."""
        if stream is not None:
            self._used = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._used.record(stream)


def _on(stream: "torch.cuda.Stream | None") -> Any:
    return nullcontext() if stream is None else torch.cuda.stream(stream)
