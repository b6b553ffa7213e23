"""The network on a GPU: packed positions go in, logits of legal actions come out, and two batches are in flight.

    pinned memory ─► packed bits, uniform values, indices ─► planes ─► network ─► logits of legal actions ─► pinned
                                       └──── one CUDA graph for each size and batch in flight ────┘

Everything is queued without waiting, on three streams: the copies of the next batch in and of the previous batch out
overlap the computation of the current one, while the host prepares another.  On the CPU the same code runs
synchronously and without graphs, so that it is tested without a GPU.
Sources: PyTorch's notes "CUDA semantics" (graphs; pinned memory, non_blocking); KataGo, cpp/neuralnet/cudabackend.cpp
(features expanded on the GPU); open_spiel#1154 for the cost of not doing so.
"""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shusaku.actors.evaluators.evaluator import LARGEST_BATCH, NO_VERSION, BatchTooLargeError
from shusaku.actors.evaluators.timed_rate import timed_rate
from shusaku.common._core import BatchInputs, Game
from shusaku.common.device_failure import first_line, is_device_failure
from shusaku.common.device_memory import is_out_of_memory, limit_memory
from shusaku.common.errors import UsageError
from shusaku.common.hardware import Precision
from shusaku.common.leaves_codec import concat_evaluations, slice_leaves
from shusaku.common.messages import Evaluation, Leaves, Weights
from shusaku.common.network.gpu_program import Program, choose_program, make_program
from shusaku.common.network.packed_bits import PackedBits
from shusaku.common.network.torch_tower import TorchTower
from shusaku.common.network.tower import TowerShape

DEPTH = 2  # batches in flight: one is computed while the host prepares the other
TIMED_SECONDS = 0.6  # for each program that is tried, in so many
LOOKS = 3
# Seconds of a batch, from which a thread that waits for it sleeps: to be woken takes long beside a small network.
SLEEPS_FROM = 0.001
LEAST_TRIED = 0.5  # of the largest size, from which cuDNN tries its kernels: for all 70 sizes that took a minute
WARM_UPS = 3  # runs before a graph is captured: libraries choose their kernels in them


class DeviceNetwork:
    """One network on one device with its streams; the evaluators of all sizes share it.  Used by one thread."""

    def __init__(
        self, game: Game, tower: TowerShape, precision: Precision, device: str, memory_share: float = 1.0
    ) -> None:
        """UsageError if the device is `cuda` and torch finds no GPU.

        `memory_share`: of the GPU's memory that this process may take; 0: all.
        """
        if device == "cuda" and not torch.cuda.is_available():
            raise UsageError("inference.device=cuda: torch finds no GPU that it can use; use inference.device=cpu")
        self.device = torch.device(device)
        self.game = game
        self.is_cuda = self.device.type == "cuda"
        name = torch.cuda.get_device_name(self.device) if self.is_cuda else "cpu"
        self.description = (f"torch {torch.__version__} on {name}{limit_memory(memory_share, self.device)}, "
                            f"{precision.name} ({precision.reason})")
        # Actors wait for these; a learner in the same process does not, so its stream has the usual, lower priority.
        self.stream, self.inward, self.outward = (
            torch.cuda.Stream(self.device, priority=-1) if self.is_cuda else None  # type: ignore[no-untyped-call]
            for _ in range(3)
        )
        # Graphs of all sizes share their memory: one runs at a time, and leaves nothing there that is read later.
        self.pool = torch.cuda.graph_pool_handle() if self.is_cuda else None
        self.precision = precision.name
        self.version = NO_VERSION
        self.worth_rows = LARGEST_BATCH  # see `CudaEvaluator`
        self.largest = 0  # size that was made first
        self._bits = PackedBits(tower.planes, self.device)
        self._tower = TorchTower(tower, precision.name, self.device)
        self._prepared: tuple[int, dict[str, Tensor]] = (NO_VERSION, {})
        self._loaded: dict[str, Tensor] = {}
        self._programs: dict[str, Program] = {}  # that a size has asked for
        self._depends_on = (name, torch.__version__, torch.version.cuda, asdict(tower), precision.name)

    def prepare(self, weights: Weights) -> None:
        """Makes the weights ready in pinned memory, in the caller's thread; ValueError if they are of another tower."""
        self._prepared = weights.version, self._tower.prepare(weights)

    def load(self, weights: Weights) -> None:
        """Loads the weights behind the batches that are queued already; ValueError if they belong to another tower.

        What was prepared is only queued: the stream goes on.
        """
        if weights.version == self.version:
            return  # the evaluator of another size has loaded them
        version, prepared = self._prepared
        if version != weights.version:
            prepared = self._tower.prepare(weights)
        with torch.cuda.stream(self.stream):
            self._tower.take(prepared)
        self._loaded, self.version = prepared, weights.version  # kept until the copies are done, by the next load

    def synchronize(self) -> None:
        """Waits for everything that was queued."""
        for stream in (self.inward, self.stream, self.outward):
            if stream is not None:
                stream.synchronize()

    def choose_program(self, rate_of: Callable[[str], float], size: int) -> str:
        """The program of batches of this size; what is known of this GPU and network is not measured again."""
        if not self.is_cuda:
            return "eager"
        if self.version == NO_VERSION:
            self._tower.fill_random()
        choice = choose_program(rate_of, *self._depends_on)
        self.description += f"; full batches {choice}"
        if choice.name == "compiled":
            self.worth_rows = int(size * choice.rates["eager"] / choice.rates["compiled"])
        return choice.name

    def leave_program(self, error: RuntimeError) -> None:
        """The chosen program cannot be made after all."""
        self.worth_rows = LARGEST_BATCH
        self.description += f", which could not be made: {first_line(error)}; so eager"
        if is_out_of_memory(error):
            torch.cuda.empty_cache()

    def forward(self, packed: Tensor, uniform: Tensor, program: str = "eager") -> tuple[Tensor, Tensor]:
        """Packed bits [S, P], least significant first, and uniform planes [S, U] -> logits [S, A], values [S]."""
        if program not in self._programs:
            self._programs[program] = make_program(program, self._tower)
        logits, values = self._programs[program](self._bits.expand(packed, uniform, self._tower.type))
        return logits, values.squeeze(1)


class _Inputs:
    """The inputs of a batch, on the host (pinned, so that copies are asynchronous) or on the device.

    They lie in one piece, so that a full batch travels by one copy: to queue a copy takes as long as the copy itself.
    """

    def __init__(self, rows: int, game: Game, **place: Any) -> None:
        """`place`: of the memory, as torch.zeros takes it."""
        uniforms = 4 * rows * game.num_uniform_planes
        packed = rows * game.packed_bytes
        self._before_places = _aligned(uniforms + packed)
        self._memory = torch.zeros(
            self._before_places + 4 * rows * game.max_legal_actions, dtype=torch.uint8, **place)
        self.uniform = self._memory[:uniforms].view(torch.float32).view(rows, game.num_uniform_planes)  # [S, U] f4
        self.packed = self._memory[uniforms : uniforms + packed].view(rows, game.packed_bytes)  # [S, P] u1
        self.places = self._memory[self._before_places :].view(torch.int32)  # [S x most legal] i4: row x A + action

    def copy_(self, other: "_Inputs", actions: int) -> None:
        """The first rows of `other`, as many as there are here, and so many places.

        No further ones: behind them `other` has places of a larger batch that lay there before.
        """
        rows = len(self.packed)
        if len(other.packed) == rows:
            size = self._before_places + 4 * actions
            self._memory[:size].copy_(other._memory[:size], non_blocking=True)
            return
        for mine, theirs in ((self.packed, other.packed), (self.uniform, other.uniform)):
            mine.copy_(theirs[:rows], non_blocking=True)
        self.places[:actions].copy_(other.places[:actions], non_blocking=True)


def _aligned(size: int) -> int:
    """So many bytes, or a few more: numbers of 4 bytes may lie behind them."""
    return -(-size // 16) * 16


class PinnedStage:
    """Pinned memory that an inference server lays a batch into, so that it travels as it lies there."""

    def __init__(self, host: _Inputs, rows: int, actions: int) -> None:
        self.host = host
        self.inputs = BatchInputs(host.packed.numpy(), host.uniform.numpy(), np.zeros(rows + 1, np.int32),
                                  np.zeros(actions, np.uint16), host.places.numpy())


class _Outputs:
    """The answer of a batch, on the device or on the host, in one piece.

    On the device it is not in the memory that graphs share: the next one runs while this is copied to the host.
    """

    def __init__(self, rows: int, actions: int, **place: Any) -> None:
        self._memory = torch.zeros(rows + actions, **place)
        self.values = self._memory[:rows]  # [S] f4
        self.logits = self._memory[rows:]  # [S x most legal actions] f4, at the places

    def copy_(self, other: "_Outputs", actions: int) -> None:
        """All values, and the logits of so many actions."""
        size = len(self.values) + actions
        self._memory[:size].copy_(other._memory[:size], non_blocking=True)


Run = Callable[[], None]  # from the inputs of a lane to its outputs


class _Lane:
    """What one batch in flight has on the device: inputs, outputs, and the graph from these to those."""

    def __init__(self, host: _Inputs, inputs: _Inputs, outputs: _Outputs) -> None:
        self.host, self.inputs, self.outputs = host, inputs, outputs  # `host`: for a batch that lies in no stage
        self.run: Run
        self.arrived, self.computed = (
            torch.cuda.Event() if inputs.packed.is_cuda else None  # type: ignore[no-untyped-call]
            for _ in range(2))


class _Answer:
    """Host memory of one answer."""

    def __init__(self, rows: int, actions: int, *, is_cuda: bool, sleeps: bool) -> None:
        """`sleeps`: whether a thread that waits for it sleeps, or looks again and again."""
        self.outputs = _Outputs(rows, actions, pin_memory=is_cuda)
        self.done = torch.cuda.Event(blocking=sleeps) if is_cuda else None  # type: ignore[no-untyped-call]


class _InFlight(NamedTuple):
    lane: _Lane
    answer: _Answer
    rows: int
    actions: int
    version: int


class CudaEvaluator:
    """Batches of at most `size` positions; up to DEPTH may be begun before the first is finished."""

    depth = DEPTH
    runtime_name = "torch"

    def __init__(self, network: DeviceNetwork, size: int, program: str = "eager") -> None:
        """BatchTooLargeError if the device has no memory for it.

        `program`: of a full batch, see `common.network.gpu_program`; `auto` measures which one.
        """
        self._network, self._game, self.size = network, network.game, size
        self._in_flight: deque[_InFlight] = deque()
        self._read: _Answer | None = None  # by the caller, until the next `finish`
        actions = size * self._game.max_legal_actions
        try:
            with torch.cuda.stream(network.stream):
                network.largest = network.largest or size
                self._lanes = deque(self._new_lane() for _ in range(DEPTH))
                self._is_compiled = self._make_graphs(program if size == LARGEST_BATCH else "eager") == "compiled"
                sleeps = network.is_cuda and self._seconds_of_a_batch() > SLEEPS_FROM
                self._answers = deque(
                    _Answer(size, actions, is_cuda=network.is_cuda, sleeps=sleeps) for _ in range(DEPTH + 1))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            torch.cuda.empty_cache()
            raise BatchTooLargeError(f"a batch of {size} positions does not fit into the GPU's memory: "
                                     f"{first_line(error)}") from None

    @property
    def worth_rows(self) -> int:
        """Batches of at least so many rows are computed here no slower than by the smaller evaluator they would fit."""
        return self._network.worth_rows if self._is_compiled else self.size

    @property
    def version(self) -> int:
        """The version of the weights."""
        return self._network.version

    @property
    def description(self) -> str:
        """Runtime, device, precision and why it was chosen."""
        return self._network.description

    @property
    def precision(self) -> str:
        """The precision that is in use: fp32 | bf16."""
        return self._network.precision

    def prepare(self, weights: Weights) -> None:
        """Makes ready what `load` takes, for all sizes of the device; any thread may call this while batches run."""
        self._network.prepare(weights)

    def load(self, weights: Weights) -> None:
        """Loads the weights for all sizes of the device; the old ones answer the batches that were begun before."""
        self._network.load(weights)

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Evaluates any number of positions; no batch may be in flight."""
        assert not self._in_flight, "finish() the batches that were begun before"
        if len(leaves) <= self.size:
            self.begin(leaves)
            return self.finish()
        parts = (self(slice_leaves(leaves, begin, min(begin + self.size, len(leaves))))
                 for begin in range(0, len(leaves), self.size))
        # The next part overwrites the arrays.
        return concat_evaluations([replace(part, logits=part.logits.copy(), values=part.values.copy())
                                   for part in parts])

    def begin(self, leaves: Leaves) -> None:
        """Queues a batch; the arrays of the leaves are free when this returns."""
        host, rows, actions = self._lanes[0].host, len(leaves), len(leaves.actions)
        host.packed[:rows].numpy()[...] = leaves.packed
        host.uniform[:rows].numpy()[...] = leaves.uniform
        starts = np.arange(rows, dtype=np.int32) * np.int32(self._game.num_actions)
        np.add(np.repeat(starts, np.diff(leaves.offsets)), leaves.actions, out=host.places[:actions].numpy())
        self._begin(host, rows, actions)

    def new_stage(self, rows: int) -> PinnedStage:
        """Pinned memory for batches of so many positions, which the evaluators of all sizes read."""
        return PinnedStage(self._new_inputs(rows, on_device=False), rows, rows * self._game.max_legal_actions)

    def begin_staged(self, stage: PinnedStage, rows: int, actions: int) -> None:
        """Queues a batch that lies in `stage`, which stays untouched until the batch is finished."""
        self._begin(stage.host, rows, actions)

    @torch.inference_mode()
    def _begin(self, host: _Inputs, rows: int, actions: int) -> None:
        assert self.version >= 0, "an evaluator was asked before it had weights; call load() first"
        lane, answer = self._lanes.popleft(), self._answers.popleft()
        try:
            self._queue(host, lane, answer, actions)
        except BaseException:
            self._lanes.append(lane)
            self._answers.append(answer)
            with suppress(RuntimeError):  # the device itself has failed
                self._network.synchronize()
            raise
        self._in_flight.append(_InFlight(lane, answer, rows, actions, self.version))

    def _queue(self, host: _Inputs, lane: _Lane, answer: _Answer, actions: int) -> None:
        """Few calls: a small network computes a batch in a third of a millisecond.

        What the lane had before is done: its answer was waited for.
        """
        network = self._network
        before = torch.cuda.current_stream(network.device) if network.is_cuda else None
        try:
            _use(network.inward)
            lane.inputs.copy_(host, actions)
            _record(lane.arrived, network.inward)
            _use(network.stream)
            _wait(network.stream, lane.arrived)
            lane.run()
            _record(lane.computed, network.stream)
            _use(network.outward)
            _wait(network.outward, lane.computed)
            answer.outputs.copy_(lane.outputs, actions)
            _record(answer.done, network.outward)
        finally:
            _use(before)

    def finish(self) -> Evaluation:
        """Waits for the oldest batch in flight; the arrays of its answer are valid until the next call.

        Another thread than that of `begin` may call this.
        """
        lane, answer, rows, actions, version = self._in_flight.popleft()
        if self._read is not None:
            self._answers.append(self._read)
        self._read = answer
        try:
            if answer.done is not None:
                answer.done.synchronize()  # without the GIL
        finally:
            self._lanes.append(lane)
        outputs = answer.outputs
        return Evaluation(outputs.logits[:actions].numpy(), outputs.values[:rows].numpy(), version)

    def fill_inputs(self, random: np.random.Generator) -> None:
        """Prepares a full batch for `run_raw`, half of whose bits are set."""
        self._fill(self._lanes[0].inputs, random)

    @torch.inference_mode()
    def run_raw(self, batches: int) -> None:
        """Runs the network alone on this many full batches that are already prepared."""
        self._repeat(self._lanes[0].run, batches)

    @torch.inference_mode()
    def _fill(self, inputs: _Inputs, random: np.random.Generator) -> None:
        packed = random.integers(0, 256, inputs.packed.shape, dtype=np.uint8)
        with torch.cuda.stream(self._network.stream):
            inputs.packed.copy_(torch.from_numpy(packed))

    def _repeat(self, run: Run, times: int) -> None:
        with torch.cuda.stream(self._network.stream):
            for _ in range(times):
                run()
        if self._network.stream is not None:
            self._network.stream.synchronize()

    def _new_inputs(self, rows: int, *, on_device: bool) -> _Inputs:
        network = self._network
        place: dict[str, Any] = {"device": network.device} if on_device else {"pin_memory": network.is_cuda}
        return _Inputs(rows, self._game, **place)

    def _new_lane(self) -> _Lane:
        rows, device = self.size, self._network.device
        outputs = _Outputs(rows, rows * self._game.max_legal_actions, device=device)
        return _Lane(self._new_inputs(rows, on_device=False), self._new_inputs(rows, on_device=True), outputs)

    def _make_graphs(self, program: str) -> str:
        """Returns the program that all lanes have from now on; without `auto` an error of it is raised."""
        name = program
        if program == "auto":
            name = self._network.choose_program(self._rate_of, self.size)
        try:
            for lane in self._lanes:
                lane.run = self._made(name, lane)
        except RuntimeError as error:  # it was chosen on another day, and the compiler lacks something now
            if program != "auto" or name == "eager" or is_device_failure(error):
                raise
            self._network.leave_program(error)
            return self._make_graphs("eager")
        return name

    def _rate_of(self, program: str) -> float:
        """Positions a second of this program: the best of several looks, as another process may use the GPU, too."""
        lane = self._lanes[0]
        run = self._made(program, lane)
        self._fill(lane.inputs, np.random.default_rng(0))
        return max(timed_rate(lambda times: self._repeat(run, times), self.size, TIMED_SECONDS / LOOKS)
                   for _ in range(LOOKS))

    def _seconds_of_a_batch(self) -> float:
        run = self._lanes[0].run
        self._repeat(run, 1)
        begin = time.perf_counter()
        self._repeat(run, 2)
        return (time.perf_counter() - begin) / 2

    def _made(self, program: str, lane: _Lane) -> Run:
        forward = self._forward(program, lane)
        return self._capture(forward) if self._network.is_cuda else forward

    def _forward(self, program: str, lane: _Lane) -> Run:
        inputs, outputs = lane.inputs, lane.outputs

        @torch.inference_mode()
        def forward() -> None:
            logits, values = self._network.forward(inputs.packed, inputs.uniform, program)
            # All places: those behind the actions of this batch are of earlier ones of this size, and not read.
            outputs.logits.copy_(logits.reshape(-1).index_select(0, inputs.places))
            outputs.values.copy_(values)

        return forward

    def _capture(self, forward: Run) -> Run:
        """Captures the forward pass as a CUDA graph: one launch for all of its kernels."""
        before = torch.backends.cudnn.benchmark  # of the process, in which a learner may be as well
        torch.backends.cudnn.benchmark = self.size >= LEAST_TRIED * self._network.largest
        try:
            for _ in range(WARM_UPS):
                forward()
        finally:
            torch.backends.cudnn.benchmark = before
        torch.cuda.synchronize(self._network.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._network.pool, stream=self._network.stream):
            forward()
        return graph.replay


def _use(stream: "torch.cuda.Stream | None") -> None:
    """Queues what follows on this stream; a context for each of three streams would cost more than the copies."""
    if stream is not None:
        torch.cuda.set_stream(stream)


def _record(event: "torch.cuda.Event | None", stream: "torch.cuda.Stream | None") -> None:
    if event is not None:
        event.record(stream)


def _wait(stream: "torch.cuda.Stream | None", event: "torch.cuda.Event | None") -> None:
    """Queues a wait, without waiting."""
    if stream is not None and event is not None:
        stream.wait_event(event)
