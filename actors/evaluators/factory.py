"""Which evaluator the configuration asks for."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec

from shusaku.actors.evaluators.buckets import BucketedEvaluator, make_buckets
from shusaku.actors.evaluators.core_runtime import with_core
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator, UniformEvaluator
from shusaku.actors.evaluators.evaluator import Evaluator, MeasurableEvaluator, Runtime
from shusaku.actors.evaluators.float_tower import core_float_runtimes
from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.actors.evaluators.simulated_gpu import SimulatedGpu
from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.hardware import choose_precision
from shusaku.common.network.weights import tower_shape
from shusaku.common.stage_timer import StageTimer

# Below the largest: at most 4 times too many rows, and each takes half a second to compile.
BUCKET_SIZES = (4, 16)

# Values of inference.runtime that need no network.
DUMMIES: dict[str, Callable[[Game, InferenceConfig, int], Evaluator]] = {
    "uniform": lambda game, _, size: UniformEvaluator(game, size),
    "pseudo_random": lambda game, _, size: PseudoRandomEvaluator(game, size),
    "simulated_gpu": lambda game, inference, size: SimulatedGpu(
        game, size, inference.simulated_gpu_batch_ms / 1e3, inference.simulated_gpu_row_us / 1e6,
        inference.simulated_gpu_batches),
}


def make_evaluator(
    game: Game, inference: InferenceConfig, network: NetworkConfig, batch_size: int, timer: StageTimer | None = None
) -> Evaluator:
    """The evaluator that the configuration asks for, without weights yet.

    `timer`: the caller's; encoding, network and expanding are charged to it as stages of their own.
    UsageError if the runtime, the device or the precision is not available on this machine.
    """
    return evaluator_maker(game, inference, network, timer)(batch_size)


def evaluator_maker(
    game: Game, inference: InferenceConfig, network: NetworkConfig, timer: StageTimer | None = None,
    heads: tuple[str, ...] = (),
) -> Callable[[int], Evaluator]:
    """Makes evaluators of several batch sizes, as `make_evaluator` makes one."""
    if inference.runtime in DUMMIES:
        return partial(DUMMIES[inference.runtime], game, inference)
    return network_maker(game, inference, network, timer, heads)


def make_bucketed_evaluator(
    game: Game, inference: InferenceConfig, network: NetworkConfig, largest: int, *,
    sizes: Sequence[int] = BUCKET_SIZES, heads: tuple[str, ...] = (), timer: StageTimer | None = None,
) -> BucketedEvaluator:
    """For batches of changing size: a few sizes up to `largest`; otherwise as `make_evaluator`.

    `heads`, of `common.network.tower.HEADS`, are answered beside policy and value; on a GPU they are not.
    """
    make = evaluator_maker(game, inference, network, timer, heads)
    return BucketedEvaluator(make_buckets(make, [*(size for size in sizes if size < largest), largest])[0])


def network_maker(
    game: Game, inference: InferenceConfig, network: NetworkConfig, timer: StageTimer | None = None,
    heads: tuple[str, ...] = (),
) -> Callable[[int], MeasurableEvaluator]:
    """Makes evaluators of the network, of several batch sizes; on a GPU they share one network and its streams."""
    tower = tower_shape(game, network, () if inference.is_on_gpu else heads)
    device = inference.chosen_device
    precision = choose_precision(inference.precision, device, "inference.precision")
    if inference.is_on_gpu:
        from shusaku.actors.evaluators.cuda import CudaEvaluator, DeviceNetwork

        on_gpu = DeviceNetwork(game, tower, precision, device, inference.gpus_per_server)
        return partial(CudaEvaluator, on_gpu, program=inference.gpu_program)
    name, why = choose_runtime(inference)
    if name == "torch" and precision.name == "int8":
        precision = choose_precision("auto", "cpu", "inference.precision")
        precision = precision._replace(reason=f"int8 needs OpenVINO; {precision.reason}")
    make_runtime: Callable[[int], Runtime]
    core = core_float_runtimes(tower, precision) if inference.runtime == "auto" else None
    if core is not None:
        make_runtime = core
    elif name == "openvino":
        from shusaku.actors.evaluators.openvino import OpenVINORuntime

        def make_openvino(size: int) -> Runtime:
            return OpenVINORuntime(tower, size, precision)

        make_runtime = with_core(make_openvino, tower, precision) if inference.runtime == "auto" else make_openvino
    else:
        from shusaku.actors.evaluators.torch_cpu import TorchRuntime

        if why:
            precision = precision._replace(reason=f"{precision.reason}; {why}")

        def make_torch(size: int) -> Runtime:
            return TorchRuntime(tower, size, precision)

        make_runtime = make_torch
    return lambda size: NetworkEvaluator(game, make_runtime(size), timer)


def choose_runtime(inference: InferenceConfig) -> tuple[str, str]:
    """The runtime (openvino | torch), and why it is not the one that was asked for; empty if it is."""
    if inference.runtime == "torch" or inference.is_on_gpu:
        return "torch", ""
    if find_spec("openvino") is not None:
        return "openvino", ""
    return "torch", "the package openvino is not installed, which is faster on a CPU"
