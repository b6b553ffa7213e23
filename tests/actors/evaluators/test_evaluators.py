"""Every evaluator says what the network says, whatever the batch, and answers for the legal actions only."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from evaluator_fixtures import CONFIG, assert_same, expected, inference_of, leaves_of, trained_network
from network_fixtures import weights_of
from scripted_evaluator import ScriptedEvaluator

from shusaku.actors.evaluators import float_tower
from shusaku.actors.evaluators.buckets import BucketedEvaluator, make_buckets
from shusaku.actors.evaluators.channels_last import channels_last
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator, UniformEvaluator
from shusaku.actors.evaluators.evaluator import Evaluator
from shusaku.actors.evaluators.factory import make_bucketed_evaluator, make_evaluator
from shusaku.actors.evaluators.network import NetworkEvaluator
from shusaku.common import hardware
from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.hardware import choose_precision, cpu_flags, cpu_has_bf16
from shusaku.common.messages import Evaluation, Leaves, Weights
from shusaku.common.network.weights import random_weights
from shusaku.deploy.bench.raw_rate import raw_rate

GAMES = ("tic_tac_toe", "connect_four")
RUNTIMES = ("openvino", "torch", "core")
SIZE = 8  # of the compiled batch


pytestmark = pytest.mark.usefixtures("one_thread")


def evaluator_of(runtime: str, game: Game, size: int = SIZE, config: NetworkConfig = CONFIG) -> NetworkEvaluator:
    with pytest.MonkeyPatch.context() as patched:
        return make_evaluator(game, inference_of(runtime, patched), config, size)


@pytest.mark.parametrize("count", [1, 5, SIZE, SIZE + 1, 3 * SIZE + 2])
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", GAMES)
def test_a_runtime_agrees_with_the_training_network(name: str, runtime: str, count: int) -> None:
    """Batches that are smaller than the compiled size, equal, and larger."""
    game = Game(name)
    network = trained_network(game)
    evaluator = evaluator_of(runtime, game)
    evaluator.load(weights_of(network, game, version=4, step=0))
    leaves = leaves_of(game, count)
    assert len(leaves) == count
    evaluation = evaluator(leaves)
    assert evaluation.version == evaluator.version == 4
    assert_same(evaluation, *expected(network, game, leaves))
    assert np.std(evaluation.values) > 1e-4 or count == 1


@pytest.mark.parametrize("config", [NetworkConfig(4, 0, 1, 1, 4), NetworkConfig(32, 3, 5, 3, 7)])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_sizes_of_the_network(runtime: str, config: NetworkConfig) -> None:
    game = Game("connect_four")
    network = trained_network(game, config)
    evaluator = evaluator_of(runtime, game, config=config)
    evaluator.load(weights_of(network, game, 1, 0))
    leaves = leaves_of(game, 6)
    assert_same(evaluator(leaves), *expected(network, game, leaves))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", ["chess", "hex"])
def test_a_policy_by_cells(name: str, runtime: str) -> None:
    game, config = Game(name), NetworkConfig(8, 1, 4, 1, 4, policy_head="planes")
    network = trained_network(game, config)
    evaluator = evaluator_of(runtime, game, config=config)
    evaluator.load(weights_of(network, game, 1, 0))
    leaves = leaves_of(game, 6)
    assert_same(evaluator(leaves), *expected(network, game, leaves))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_rows_do_not_touch_each_other(runtime: str) -> None:
    """What stands in a row, or in the padding behind the batch, changes no other row."""
    game = Game("connect_four")
    evaluator = evaluator_of(runtime, game)
    evaluator.load(weights_of(trained_network(game), game, 1, 0))
    leaves = leaves_of(game, 3)
    first = evaluator(leaves)
    logits, values = first.logits.copy(), first.values.copy()
    inputs = evaluator.runtime.inputs
    inputs[...] = channels_last(np.full((SIZE, *game.observation_shape), 1e6, np.float32), inputs)
    again = evaluator(leaves)
    assert np.array_equal(again.logits, logits)
    assert np.array_equal(again.values, values)
    evaluator(leaves_of(game, SIZE, seed=9))
    assert np.array_equal(evaluator(leaves).values, values)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_new_weights_answer_from_the_next_call_on(runtime: str) -> None:
    """Many swaps in a row, with the memory of the old networks freed and used again in between."""
    game = Game("connect_four")
    networks = [trained_network(game, seed=seed) for seed in (1, 2, 3)]
    evaluator = evaluator_of(runtime, game)
    leaves = leaves_of(game, SIZE)
    for version in range(24):
        network = networks[version % 3]
        evaluator.load(weights_of(network, game, version, 0))
        junk = [np.full(100_000, np.nan, np.float32) for _ in range(5)]
        evaluation = evaluator(leaves)
        assert evaluation.version == version
        assert_same(evaluation, *expected(network, game, leaves))
        del junk


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_weights_that_do_not_fit_are_refused_and_the_old_ones_stay(runtime: str) -> None:
    game = Game("connect_four")
    evaluator = evaluator_of(runtime, game)
    with pytest.raises(RuntimeError, match="load"):
        evaluator(leaves_of(game, 2))
    evaluator.load(random_weights(game, CONFIG, seed=1, version=1))
    before = evaluator(leaves_of(game, 2)).logits.copy()
    for other in (random_weights(game, NetworkConfig(8, 2), 1, 2), random_weights(Game("tic_tac_toe"), CONFIG, 1, 2)):
        with pytest.raises(ValueError, match="must have shape"):
            evaluator.load(other)
    assert evaluator.version == 1
    assert np.array_equal(evaluator(leaves_of(game, 2)).logits, before)


def test_openvino_swaps_weights_without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a swap takes four times as long: this version of OpenVINO keeps its constants in another form."""
    from shusaku.actors.evaluators import openvino

    game = Game("connect_four")
    evaluator = evaluator_of("openvino", game)
    monkeypatch.setattr(openvino, "build_graph", None)  # to be called for a graph that is compiled
    evaluator.load(weights_of(trained_network(game), game, 1, 0))
    assert evaluator.version == 1


def test_threads_with_an_evaluator_each() -> None:
    game = Game("connect_four")
    network = trained_network(game)
    weights = weights_of(network, game, 1, 0)
    failures: list[str] = []

    def play(seed: int) -> None:
        evaluator = evaluator_of("openvino", game)
        leaves = leaves_of(game, SIZE, seed)
        logits, values = expected(network, game, leaves)
        for _ in range(20):
            evaluator.load(weights)
            evaluation = evaluator(leaves)
            if np.abs(evaluation.logits - logits).max() + np.abs(evaluation.values - values).max() > 1e-3:
                failures.append(f"thread {seed}")

    threads = [threading.Thread(target=play, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("name", GAMES)
def test_stand_ins(name: str) -> None:
    game = Game(name)
    leaves = leaves_of(game, 5)
    uniform = UniformEvaluator(game, 2)(leaves)
    assert not uniform.logits.any()
    assert not uniform.values.any()

    random = PseudoRandomEvaluator(game, 2)
    once = random(leaves)
    logits, values = once.logits.copy(), once.values.copy()
    assert np.array_equal(random(leaves).logits, logits)
    assert np.abs(values).max() <= 1
    assert len(np.unique(logits)) > 5

    own_number = np.arange(game.num_actions, dtype=np.float32)
    scripted = ScriptedEvaluator(game, lambda planes: (own_number, planes.sum() / 99))
    evaluation = scripted(leaves)
    assert np.array_equal(evaluation.logits, leaves.actions)
    planes = np.zeros((5, *game.observation_shape), np.float32)
    game.expand(leaves.packed, leaves.uniform, planes)
    np.testing.assert_allclose(evaluation.values, planes.sum((1, 2, 3)) / 99, rtol=1e-6)

    evaluators: list[Evaluator] = [UniformEvaluator(game, 2), random, scripted]
    for evaluator in evaluators:
        evaluator.load(Weights(12, 0, {}, {}, name, {}))
        assert evaluator(leaves).version == 12


def test_the_raw_rate_is_positive() -> None:
    game = Game("tic_tac_toe")
    evaluator = evaluator_of("openvino", game)
    with pytest.raises(RuntimeError):
        raw_rate(evaluator, 0.01)
    evaluator.load(random_weights(game, CONFIG, 1))
    assert raw_rate(evaluator, 0.05) > 0


def test_precision_follows_the_processor() -> None:
    auto = choose_precision("auto", "cpu", "inference.precision")
    assert auto.name == ("bf16" if cpu_has_bf16() else "fp32")
    assert "bf16" in auto.reason
    assert choose_precision("fp32", "cpu", "k").name == "fp32"
    assert choose_precision("auto", "cuda", "k").name == "bf16"
    assert choose_precision("int8", "cuda", "k") == ("bf16", "k=int8 is for CPUs; the cuda device computes in bf16")
    assert choose_precision("fp16", "cuda", "k") == ("fp16", "k=fp16")
    assert choose_precision("fp16", "cpu", "k") == (auto.name, f"k=fp16 is for GPUs; {auto.reason}")


@pytest.mark.parametrize(("capability", "player", "learner"), [((7, 5), "fp16", "fp32"), ((8, 0), "bf16", "bf16")])
def test_a_gpu_that_would_emulate_bf16_computes_in_fp16(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], player: str, learner: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(hardware, "gpu_has_bf16", hardware.gpu_has_bf16.__wrapped__)
    assert choose_precision("auto", "cuda", "k").name == player
    assert choose_precision("auto", "cuda", "k", half="fp32").name == learner


@pytest.mark.parametrize(("flags", "wanted", "name", "reason"), [
    ({"avx512f"}, "bf16", "fp32", "k=bf16 would be slow on this"),
    ({"avx512f"}, "int8", "fp32", "k=int8 would be slow on this"),
    ({"avx512f", "avx512_bf16"}, "int8", "bf16", "k=int8 would be slow on this"),
    ({"avx512f", "avx512_vnni"}, "int8", "int8", "k=int8"),
    ({"avx512f", "avx512_vnni"}, "auto", "fp32", "this CPU does not compute in bf16"),
    ({"amx_bf16", "amx_int8"}, "auto", "bf16", "the CPU computes in bf16"),
])
def test_what_the_processor_lacks_is_replaced_and_said(
    monkeypatch: pytest.MonkeyPatch, flags: set[str], wanted: str, name: str, reason: str
) -> None:
    monkeypatch.setattr(hardware, "cpu_flags", lambda: frozenset(flags))
    for cached in (hardware.cpu_has_bf16, hardware.cpu_has_int8):
        monkeypatch.setattr(hardware, cached.__name__, cached.__wrapped__)
    chosen = choose_precision(wanted, "cpu", "k")
    assert chosen.name == name
    assert chosen.reason.startswith(reason)


def test_without_openvino_torch_computes_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    game = Game("tic_tac_toe")
    monkeypatch.setattr("shusaku.actors.evaluators.factory.find_spec", lambda name: None)
    monkeypatch.setattr(float_tower, "core_floats_are_fastest", lambda: False)
    monkeypatch.setattr(hardware, "cpu_has_int8", lambda: True)  # else int8 is not chosen at all
    for precision in ("fp32", "int8"):
        evaluator = make_evaluator(game, InferenceConfig(precision=precision), CONFIG, 8)
        assert evaluator.description.startswith("torch ")
        assert "the package openvino is not installed, which is faster on a CPU" in evaluator.description
    assert "int8 needs OpenVINO" in evaluator.description


def test_openvino_sends_no_usage_data() -> None:
    """Its telemetry forks from a thread at import, and an engine that reads stdin then never ends."""
    script = ("import sys, threading, shusaku.actors.evaluators.openvino; "
              "print(sys.modules['openvino_telemetry'], threading.active_count())")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "1"]


def test_openvino_and_linux_agree_on_bf16() -> None:
    import openvino as ov

    if cpu_flags():
        assert cpu_has_bf16() == ("BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"))


def test_a_bucketed_evaluator_takes_the_smallest_that_holds_the_positions() -> None:
    game = Game("connect_four")
    asked: list[tuple[int, int]] = []

    class Bucket(UniformEvaluator):
        def __call__(self, leaves: Leaves) -> Evaluation:
            asked.append((self.size, len(leaves)))
            return super().__call__(leaves)

    buckets: dict[int, Evaluator] = {}
    for size in (16, 2, 8):
        buckets[size] = Bucket(game, size)
        buckets[size].size = size  # type: ignore[attr-defined]
    bucketed = BucketedEvaluator(buckets)
    bucketed.load(random_weights(game, CONFIG, 1, version=5))
    assert bucketed.version == 5
    for count in (1, 2, 3, 8, 9, 16, 40):
        evaluation = bucketed(leaves_of(game, count))
        assert (len(evaluation.values), evaluation.version) == (count, 5)
    assert asked == [(2, 1), (2, 2), (8, 3), (8, 8), (16, 9), (16, 16), (16, 40)]
    with pytest.raises(ValueError, match="needs at least one evaluator"):
        BucketedEvaluator({})


def test_every_rung_says_the_same() -> None:
    game = Game("connect_four")
    weights = random_weights(game, CONFIG, 1, version=1)
    bucketed = make_bucketed_evaluator(game, InferenceConfig(precision="fp32"), CONFIG, 20)
    single = make_evaluator(game, InferenceConfig(precision="fp32"), CONFIG, 20)
    for evaluator in (bucketed, single):
        evaluator.load(weights)
    for count in (1, 4, 5, 16, 17, 33):
        leaves = leaves_of(game, count)
        logits = bucketed(leaves).logits.copy()
        assert np.allclose(logits, single(leaves).logits, atol=1e-5)


@pytest.mark.parametrize(("runtime", "sizes"), [("openvino", [1, 4, 6]), ("torch", [6]), ("core", [6])])
def test_smaller_batches_have_an_evaluator_only_where_that_saves_time(runtime: str, sizes: list[int]) -> None:
    """OpenVINO computes all of a batch, the others the rows that are asked for."""
    made, _ = make_buckets(lambda size: evaluator_of(runtime, Game("tic_tac_toe"), size), [1, 4, 6])
    assert list(made) == sizes
