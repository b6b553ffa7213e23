"""Positions in, logits and values out: one interface for networks, and for what stands in for them in tests.

Letters of the shapes: B positions of a batch, S positions that the runtime takes at once, A actions, C x H x W planes,
N legal actions of all positions end to end.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shusaku.actors.evaluators.channels_last import Inputs, channels_last
from shusaku.common import _core
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.hardware import choose_precision
from shusaku.common.messages import Evaluation, Leaves, Weights
from shusaku.common.network.weights import tower_shape
from shusaku.common.stage_timer import StageTimer

E = TypeVar("E", bound="Evaluator")
NO_VERSION = -1  # before the first weights
LADDER = (4, 16)  # batch sizes below the largest: at most 4 times too many rows, and half a second to compile each


class Evaluator(Protocol):
    """What a search asks.  One thread at a time uses it; the arrays that it returns hold until the next call."""

    @property
    def version(self) -> int: ...  # of the weights that answer
    @property
    def description(self) -> str: ...  # runtime, precision and why it was chosen, for people

    def __call__(self, leaves: Leaves) -> Evaluation: ...

    def load(self, weights: Weights) -> None:
        """Answers with these weights from the next call on; `description` may say something else then."""
        ...


class BatchTooLarge(UsageError):
    """The device has no memory for batches of this size; smaller ones may do."""


@runtime_checkable
class SplitEvaluator(Evaluator, Protocol):
    """One that works elsewhere: batches are begun and later finished, in the same order, `depth` of them under way."""

    depth: int

    def begin(self, leaves: Leaves) -> None: ...  # has done with the arrays when it returns

    def is_done(self) -> bool: ...  # whether `finish` would not wait

    def finish(self) -> Evaluation: ...


@runtime_checkable
class NetworkAlone(Evaluator, Protocol):
    """A network whose own speed can be measured."""

    size: int  # positions of a full batch

    @property
    def precision(self) -> str: ...  # fp32 | bf16 | int8, that answers now

    def run_raw(self, batches: int) -> None: ...  # so many full batches that are ready


class Runtime(Protocol):
    """A compiled network: fill `inputs`, `run`, read `policy` and `values`.  The arrays stay the same for ever."""

    @property
    def inputs(self) -> Inputs: ...  # [S, H, W, C]
    @property
    def precision(self) -> str: ...  # fp32 | bf16 | int8, that answers now
    @property
    def policy(self) -> NDArray[np.float32]: ...  # [S, A] logits of all actions
    @property
    def values(self) -> NDArray[np.float32]: ...  # [S] for the player to move
    @property
    def description(self) -> str: ...  # runtime, precision and why it was chosen

    def load(self, weights: Weights) -> None: ...

    def run(self, rows: int) -> None:
        """Evaluates at least the first `rows` inputs; the GIL is released meanwhile."""
        ...


class _Answer:
    """Buffers that grow to the largest batch seen."""

    def __init__(self, batch_size: int, game: _core.Game) -> None:
        self._logits = np.empty(batch_size * game.max_legal_actions, np.float32)
        self._values = np.empty(batch_size, np.float32)

    def of(self, leaves: Leaves) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits [N] and values [B] to be written."""
        if len(leaves.actions) > len(self._logits):
            self._logits = np.empty(2 * len(leaves.actions), np.float32)
        if len(leaves) > len(self._values):
            self._values = np.empty(2 * len(leaves), np.float32)
        return self._logits[: len(leaves.actions)], self._values[: len(leaves)]


class NetworkEvaluator:
    """Expands packed positions into the runtime's own input and picks the logits of the legal actions.

    Batches larger than the runtime's are cut; a smaller one leaves stale rows behind it, which nobody reads.
    """

    def __init__(self, game: _core.Game, runtime: Runtime, timer: StageTimer | None = None) -> None:
        self.runtime = runtime
        self.size = len(runtime.inputs)
        self._timer = timer or StageTimer()
        self._game = game
        self._answer = _Answer(len(runtime.inputs), game)
        self._version = NO_VERSION

    @property
    def version(self) -> int:
        return self._version

    @property
    def description(self) -> str:
        return self.runtime.description

    @property
    def precision(self) -> str:
        return self.runtime.precision

    def run_raw(self, batches: int) -> None:
        """The network alone, so many full batches that are ready."""
        for _ in range(batches):
            self.runtime.run(self.size)

    def load(self, weights: Weights) -> None:
        """ValueError when the weights do not fit the game and the network that this was made for."""
        self.runtime.load(weights)
        self._version = weights.version

    def __call__(self, leaves: Leaves) -> Evaluation:
        if self._version == NO_VERSION:
            raise RuntimeError("an evaluator was asked before it had weights; call load() first")
        logits, values = self._answer.of(leaves)
        if len(leaves) <= self.size:
            self._evaluate(leaves, logits, values)
        else:
            for begin in range(0, len(leaves), self.size):
                part, first = _part(leaves, begin, begin + self.size)
                self._evaluate(part, logits[first : first + len(part.actions)], values[begin : begin + len(part)])
        return Evaluation(logits, values, self._version)

    def _evaluate(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """One batch: writes logits [N] and values [B]."""
        self._game.expand_channels_last(leaves.packed, leaves.uniform, self.runtime.inputs)
        self._timer.charge("encode")
        self.runtime.run(len(leaves))
        self._timer.charge("network")
        _core.gather_logits(self.runtime.policy, leaves.offsets, leaves.actions, logits)
        values[:] = self.runtime.values[: len(leaves)]
        self._timer.charge("expand")


def _part(leaves: Leaves, begin: int, end: int) -> tuple[Leaves, int]:
    """Positions `begin` to `end`, and where their first legal action was."""
    offsets = leaves.offsets[begin : end + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    actions = leaves.actions[first:last]
    return Leaves(leaves.packed[begin:end], leaves.uniform[begin:end], offsets - first, actions), first


class _StandIn(ABC):
    """Answers without a network."""

    def __init__(self, game: _core.Game, batch_size: int, version: int = 0) -> None:
        self._answer = _Answer(batch_size, game)
        self.version = version
        self.description = type(self).__name__

    def load(self, weights: Weights) -> None:
        """Takes the version only."""
        self.version = weights.version

    def __call__(self, leaves: Leaves) -> Evaluation:
        logits, values = self._answer.of(leaves)
        self._fill(leaves, logits, values)
        return Evaluation(logits, values, self.version)

    @abstractmethod
    def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """Writes logits [N] and values [B]."""


class UniformEvaluator(_StandIn):
    """Every legal action alike, every position even."""

    def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        logits.fill(0)
        values.fill(0)


class PseudoRandomEvaluator(_StandIn):
    """A hash of position and action, nearly free: what the speed of a search is measured with."""

    def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        _core.pseudo_random_evaluate(leaves.packed, leaves.uniform, leaves.offsets, leaves.actions, logits, values)


Script = Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], float]]


class ScriptedEvaluator(_StandIn):
    """A Python function of one observation [C, H, W] -> (logits [A] of all actions, value): for tests."""

    def __init__(self, game: _core.Game, script: Script, version: int = 0) -> None:
        super().__init__(game, 1, version)
        self._game, self._script = game, script

    def _fill(self, leaves: Leaves, logits: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        observations = np.empty((len(leaves), *self._game.observation_shape), np.float32)
        self._game.expand(leaves.packed, leaves.uniform, observations)
        policy = np.empty((len(leaves), self._game.num_actions), np.float32)  # [B, A]
        for row, observation in enumerate(observations):
            policy[row], values[row] = self._script(observation)
        _core.gather_logits(policy, leaves.offsets, leaves.actions, logits)


class LadderEvaluator:
    """Evaluators of several batch sizes behind one face: few positions go to a small one, and no large batch is wasted.

    All of them hold the same weights.
    """

    def __init__(self, evaluators: Mapping[int, Evaluator]) -> None:
        """`evaluators`: batch size -> evaluator; ValueError without any."""
        if not evaluators:
            raise ValueError("a ladder needs an evaluator")
        self._rungs = sorted(evaluators.items())

    @property
    def largest(self) -> Evaluator:
        return self._rungs[-1][1]

    @property
    def version(self) -> int:
        return self.largest.version

    @property
    def description(self) -> str:
        return self.largest.description

    @property
    def precision(self) -> str:
        """fp32 | bf16 | int8, that answers now; empty where no network does."""
        return self.largest.precision if isinstance(self.largest, NetworkAlone) else ""

    def load(self, weights: Weights) -> None:
        for _, evaluator in self._rungs:
            evaluator.load(weights)

    def __call__(self, leaves: Leaves) -> Evaluation:
        fitting = (evaluator for size, evaluator in self._rungs if size >= len(leaves))
        return next(fitting, self.largest)(leaves)


STAND_INS: dict[str, type[UniformEvaluator] | type[PseudoRandomEvaluator]] = {
    "uniform": UniformEvaluator, "pseudo_random": PseudoRandomEvaluator,
}  # values of inference.runtime that need no network: to measure everything else


def make_evaluator(
    game: _core.Game,
    inference: InferenceConfig,
    network: NetworkConfig,
    batch_size: int,
    timer: StageTimer | None = None,
) -> Evaluator:
    """The evaluator that the configuration asks for, without weights yet; UsageError where it is not to be had."""
    if inference.runtime == "simulated_card":
        from shusaku.actors.evaluators.simulated_gpu import SimulatedCard

        return SimulatedCard(game, batch_size, inference.service_ms / 1000)
    if inference.runtime in STAND_INS:
        return STAND_INS[inference.runtime](game, batch_size)
    return make_network_evaluator(game, inference, network, batch_size, timer)


def make_ladder(
    game: _core.Game, inference: InferenceConfig, network: NetworkConfig, most: int
) -> LadderEvaluator:
    """For batches that shrink as games end: a few sizes up to `most`; otherwise as `make_evaluator`."""
    make = evaluator_maker(game, inference, network)
    return LadderEvaluator(of_sizes(make, [*(size for size in LADDER if size < most), most])[0])


def of_sizes(make: Callable[[int], E], sizes: Sequence[int]) -> tuple[dict[int, E], str]:
    """One of each of the ascending sizes; where the device has no room for one, those below it, and what it said.

    BatchTooLarge where it has none for the smallest.
    """
    made: dict[int, E] = {}
    for size in sizes:
        try:
            made[size] = make(size)
        except BatchTooLarge as error:
            if not made:
                raise
            return made, str(error)
    return made, ""


def make_network_evaluator(
    game: _core.Game,
    inference: InferenceConfig,
    network: NetworkConfig,
    batch_size: int,
    timer: StageTimer | None = None,
) -> NetworkAlone:
    """The network that the configuration asks for, without weights yet; its `description` says what it is.

    `timer`: the caller's, to which encoding, network and expanding are charged as stages of their own.
    UsageError when the runtime, the device or the precision is not to be had on this machine.
    """
    if inference.device != "cpu":
        return network_maker(game, inference, network)(batch_size)
    name, why = choose_runtime(inference)
    precision = choose_precision(inference.precision, inference.device, "inference.precision")
    tower = tower_shape(game, network)
    runtime: Runtime
    if name == "openvino":
        from shusaku.actors.evaluators.openvino import OpenVINORuntime

        runtime = OpenVINORuntime(tower, batch_size, precision)
    else:
        if precision.name == "int8":
            precision = choose_precision("auto", "cpu", "inference.precision")
            precision = precision._replace(reason=f"int8 needs OpenVINO; {precision.reason}")
        from shusaku.actors.evaluators.torch_cpu import TorchRuntime

        if why:
            precision = precision._replace(reason=f"{precision.reason}; {why}")
        runtime = TorchRuntime(tower, batch_size, precision)
    return NetworkEvaluator(game, runtime, timer)


def network_maker(
    game: _core.Game, inference: InferenceConfig, network: NetworkConfig
) -> Callable[[int], NetworkAlone]:
    """Makes evaluators of several batch sizes; on a GPU they share one network and its streams."""
    if inference.device == "cpu":
        return partial(make_network_evaluator, game, inference, network)
    from shusaku.actors.evaluators.cuda import Card, CardEvaluator

    precision = choose_precision(inference.precision, inference.device, "inference.precision")
    card = Card(game, tower_shape(game, network), precision, inference.device)
    return partial(CardEvaluator, card)


def evaluator_maker(
    game: _core.Game, inference: InferenceConfig, network: NetworkConfig
) -> Callable[[int], Evaluator]:
    """The same of whatever the configuration asks for."""
    if inference.runtime in (*STAND_INS, "simulated_card"):
        return partial(make_evaluator, game, inference, network)
    return network_maker(game, inference, network)


def choose_runtime(inference: InferenceConfig) -> tuple[str, str]:
    """openvino | torch, and why it is not the one that was asked for; empty where it is."""
    if inference.runtime == "torch" or inference.device != "cpu":
        return "torch", ""
    if find_spec("openvino") is not None:
        return "openvino", ""
    return "torch", "the package openvino is not installed, which is faster on a CPU"


def raw_rate(evaluator: NetworkAlone, seconds: float) -> float:
    """Positions a second of the network alone, fed with full batches that are ready: what self-play is compared to.

    RuntimeError without weights.  Runs at least one batch after a warm-up of one.
    """
    if evaluator.version == NO_VERSION:
        raise RuntimeError("an evaluator was measured before it had weights; call load() first")
    if isinstance(evaluator, NetworkEvaluator):  # as many bits set as a game may have: zeros are no faster, but a doubt
        inputs = evaluator.runtime.inputs
        batch, h, w, c = inputs.shape
        bits = np.random.default_rng(0).integers(0, 2, (batch, c, h, w)).astype(np.float32)
        inputs[...] = channels_last(bits, inputs)
    evaluator.run_raw(1)
    begin = time.perf_counter()
    batches, together, spent = 0, 1, 0.0
    while batches == 0 or spent < seconds:
        evaluator.run_raw(together)  # several at once, so that a card never waits for us
        batches += together
        spent = time.perf_counter() - begin
        if spent < seconds / 4:
            together *= 2
    return batches * evaluator.size / spent
