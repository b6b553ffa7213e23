"""The network on a GPU: packed positions go in, logits of legal actions come out, and two batches are under way.

    pinned memory ─► packed bits, uniform values, indices ─► planes ─► network ─► logits of legal actions ─► pinned
                                                            └─ one CUDA graph a size ─┘

Everything is queued without waiting, on three streams: copies of the next batch in and of the one before out run
beside the computation of this one, and meanwhile the host lays out another.
On the CPU the same code runs at once and without graphs, so that it is tested where no card is.
Sources: PyTorch's notes "CUDA semantics" (graphs; pinned memory, non_blocking); KataGo, cpp/neuralnet/cudabackend.cpp
(features expanded on the card); open_spiel#1154 for what it costs not to.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shusaku.actors.evaluators.evaluator import BatchTooLarge
from shusaku.common._core import Game
from shusaku.common.errors import UsageError
from shusaku.common.hardware import Precision
from shusaku.common.leaves_codec import positions
from shusaku.common.messages import Evaluation, Leaves, Weights
from shusaku.common.network.torch_tower import TorchTower
from shusaku.common.network.tower import TowerShape

DEPTH = 2  # batches under way: one computes, one is laid out
WARM_UPS = 3  # eager runs before a graph is captured: libraries choose their kernels then


def is_out_of_memory(error: RuntimeError) -> bool:
    """Pinned memory, cuBLAS, cuDNN and a graph's capture say so in plain RuntimeErrors of their own."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or any(
        text in str(error) for text in ("out of memory", "ALLOC_FAILED"))


class Card:
    """One network on one device, with its stream: the evaluators of all sizes share it.  Used by one thread."""

    def __init__(self, game: Game, tower: TowerShape, precision: Precision, device: str) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise UsageError("inference.device=cuda: torch finds no GPU that it can use; use inference.device=cpu")
        self.device = torch.device(device)
        self.game, self.tower = game, tower
        self.is_cuda = self.device.type == "cuda"
        name = torch.cuda.get_device_name(self.device) if self.is_cuda else "cpu"
        self.description = f"torch {torch.__version__} on {name}, {precision.name} ({precision.reason})"
        self.stream, self.inward, self.outward = (
            torch.cuda.Stream(self.device) if self.is_cuda else None  # type: ignore[no-untyped-call]
            for _ in range(3)
        )
        self.network = TorchTower(tower, precision.name, self.device)
        self.precision = precision.name
        self.version = -1
        self._bits = torch.arange(8, dtype=torch.uint8, device=self.device)

    def load(self, weights: Weights) -> None:
        """Behind the batches that are queued already.  ValueError when they are not this tower's."""
        if weights.version == self.version:
            return  # another size has loaded them
        with torch.cuda.stream(self.stream):
            self.network.load(weights)
        self.version = weights.version

    def synchronize(self) -> None:
        """Waits for everything that was queued."""
        for stream in (self.inward, self.stream, self.outward):
            if stream is not None:
                stream.synchronize()

    def forward(self, packed: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Packed bits [S, P], least significant first, and uniform planes [S, U] -> logits [S, A], values [S]."""
        c, h, w = self.tower.planes
        size, uniforms = uniform.shape
        bits = (packed.unsqueeze(2) >> self._bits) & 1  # [S, P, 8]
        binary = bits.view(size, -1)[:, : (c - uniforms) * h * w].view(size, c - uniforms, h, w)
        planes = torch.cat([binary.to(self.network.type),
                            uniform.to(self.network.type)[:, :, None, None].expand(size, uniforms, h, w)], dim=1)
        logits, values = self.network(planes.contiguous(memory_format=torch.channels_last))
        return logits, values.squeeze(1)


class _Inputs(NamedTuple):
    """What a batch is made of, on the host (pinned, so that copies need no detour) or on the card."""

    packed: Tensor  # [S, P] u1
    uniform: Tensor  # [S, U] f4
    places: Tensor  # [S x most legal actions] i4: row x A + action

    def copy_(self, other: "_Inputs", rows: int, actions: int) -> None:
        self.packed[:rows].copy_(other.packed[:rows], non_blocking=True)
        self.uniform[:rows].copy_(other.uniform[:rows], non_blocking=True)
        self.places[:actions].copy_(other.places[:actions], non_blocking=True)


class _Buffers(NamedTuple):
    """One batch on its way in and out."""

    laid: _Inputs  # by the host
    arrived: _Inputs  # on the card
    logits: Tensor  # [S x most legal actions] f4, on the host
    values: Tensor  # [S] f4, on the host


class _UnderWay(NamedTuple):
    buffers: _Buffers
    rows: int
    actions: int
    version: int
    done: "torch.cuda.Event | None"  # None on the CPU: it is done when it was begun


class CardEvaluator:
    """Batches of at most `size` positions; up to DEPTH may be begun before the first is finished."""

    depth = DEPTH

    def __init__(self, card: Card, size: int) -> None:
        """BatchTooLarge where the card has no room for it."""
        self._card, self._game, self.size = card, card.game, size
        self._under_way: deque[_UnderWay] = deque()
        try:
            with torch.cuda.stream(card.stream):
                self._free = deque(self._new_buffers() for _ in range(DEPTH))
                self._inputs = self._new_inputs(on_card=True)  # the graph reads these alone
                self._run = self._captured() if card.is_cuda else self._forward
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            torch.cuda.empty_cache()
            raise BatchTooLarge(f"a batch of {size} positions does not fit into the GPU's memory: "
                                f"{str(error).splitlines()[0]}") from None

    @property
    def version(self) -> int:
        return self._card.version

    @property
    def description(self) -> str:
        return self._card.description

    @property
    def precision(self) -> str:
        return self._card.precision

    def load(self, weights: Weights) -> None:
        """Of all sizes of the card; batches that were begun are answered by the old ones."""
        self._card.load(weights)

    def __call__(self, leaves: Leaves) -> Evaluation:
        """Any number of positions; nothing may be under way."""
        assert not self._under_way, "finish() what was begun first"
        if len(leaves) <= self.size:
            self.begin(leaves)
            return self.finish()
        answers = [self(positions(leaves, begin, min(begin + self.size, len(leaves))))
                   for begin in range(0, len(leaves), self.size)]
        return Evaluation(np.concatenate([answer.logits for answer in answers]),
                          np.concatenate([answer.values for answer in answers]), self.version)

    @torch.inference_mode()
    def begin(self, leaves: Leaves) -> None:
        """Queues a batch; the arrays of the leaves are free when this returns."""
        assert self.version >= 0, "an evaluator was asked before it had weights; call load() first"
        buffers, rows, actions = self._free.popleft(), len(leaves), len(leaves.actions)
        try:
            self._under_way.append(self._queued(buffers, leaves, rows, actions))
        except BaseException:
            self._card.synchronize()
            self._free.append(buffers)
            raise

    def _queued(self, buffers: _Buffers, leaves: Leaves, rows: int, actions: int) -> _UnderWay:
        laid, card = buffers.laid, self._card
        laid.packed[:rows].numpy()[...] = leaves.packed
        laid.uniform[:rows].numpy()[...] = leaves.uniform
        starts = np.arange(rows, dtype=np.int32) * np.int32(self._game.num_actions)
        np.add(np.repeat(starts, np.diff(leaves.offsets)), leaves.actions, out=laid.places[:actions].numpy())
        with torch.cuda.stream(card.inward):
            buffers.arrived.copy_(laid, rows, actions)
        with _behind(card.stream, card.inward):
            self._inputs.copy_(buffers.arrived, rows, actions)
            logits, values = self._run()
            chosen = logits.reshape(-1).index_select(0, self._inputs.places[:actions]).float()  # [N]
            values = values[:rows].clone()  # the next batch writes over the graph's own
        with _behind(card.outward, card.stream):
            buffers.logits[:actions].copy_(chosen, non_blocking=True)
            buffers.values[:rows].copy_(values, non_blocking=True)
            done = None
            if card.outward is not None:
                for tensor in (chosen, values):
                    tensor.record_stream(card.outward)
                done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # who waits leaves the core
                done.record(card.outward)
        return _UnderWay(buffers, rows, actions, self.version, done)

    def is_done(self) -> bool:
        """Whether `finish` would not wait."""
        done = self._under_way[0].done
        return done is None or bool(done.query())  # type: ignore[no-untyped-call]

    def finish(self) -> Evaluation:
        """The answer to what was begun first: new arrays."""
        way = self._under_way.popleft()
        try:
            if way.done is not None:
                way.done.synchronize()  # without the GIL
            logits = way.buffers.logits[: way.actions].numpy().copy()
            values = way.buffers.values[: way.rows].numpy().copy()
        finally:
            self._free.append(way.buffers)
        return Evaluation(logits, values, way.version)

    @torch.inference_mode()
    def run_raw(self, batches: int) -> None:
        """The network alone, so many full batches one behind the other: what everything else is compared to."""
        with torch.cuda.stream(self._card.stream):
            for _ in range(batches):
                self._run()
        if self._card.stream is not None:
            self._card.stream.synchronize()

    def _new_buffers(self) -> _Buffers:
        most, pinned = self.size * self._game.max_legal_actions, self._card.is_cuda
        return _Buffers(
            self._new_inputs(on_card=False), self._new_inputs(on_card=True),
            torch.zeros(most, pin_memory=pinned), torch.zeros(self.size, pin_memory=pinned),
        )

    def _new_inputs(self, on_card: bool) -> _Inputs:
        where: dict[str, Any] = {"device": self._card.device} if on_card else {"pin_memory": self._card.is_cuda}
        return _Inputs(
            torch.zeros((self.size, self._game.packed_bytes), dtype=torch.uint8, **where),
            torch.zeros((self.size, self._game.num_uniform_planes), **where),
            torch.zeros(self.size * self._game.max_legal_actions, dtype=torch.int32, **where),
        )

    def _forward(self) -> tuple[Tensor, Tensor]:
        return self._card.forward(self._inputs.packed, self._inputs.uniform)

    @torch.inference_mode()
    def _captured(self) -> Callable[[], tuple[Tensor, Tensor]]:
        """The forward pass as a CUDA graph: one launch for all of its kernels."""
        for _ in range(WARM_UPS):
            self._forward()
        torch.cuda.synchronize(self._card.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._card.stream):
            outputs = self._forward()

        def replay() -> tuple[Tensor, Tensor]:
            graph.replay()
            return outputs

        return replay


@contextmanager
def _behind(stream: "torch.cuda.Stream | None", other: "torch.cuda.Stream | None") -> Iterator[None]:
    """Queues on a stream what must wait for all that was queued on the other one; at once where there are none."""
    if stream is not None and other is not None:
        stream.wait_stream(other)
    with torch.cuda.stream(stream):
        yield
