"""The path of a GPU, on CPU tensors: what goes in packed comes out as the network says it, two batches under way."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from evaluator_fixtures import CONFIG, assert_same, expected, trained_network
from evaluator_fixtures import leaves_of as random_leaves
from inference_fixtures import CODEC, GAME, ask, leaves_of, weights
from network_fixtures import weights_of

from shusaku.actors.evaluators.cuda import DEPTH, CudaEvaluator, DeviceNetwork
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.evaluators.evaluator import LARGEST_BATCH, BatchTooLargeError, Evaluator
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.simulated_gpu import SimulatedGpu
from shusaku.actors.inference.pipeline import BatchPipeline
from shusaku.actors.inference.protocol import ServerClosedError
from shusaku.actors.inference.server import InferenceServer
from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.hardware import Precision
from shusaku.common.leaves_codec import LeavesCodec, decode_evaluation
from shusaku.common.messages import Weights
from shusaku.common.network.weights import random_weights, tower_shape
from shusaku.deploy.bench.raw_rate import raw_rate

pytestmark = pytest.mark.usefixtures("one_thread")
GAMES = [
    ("tic_tac_toe", {}, "linear"), ("connect_four", {}, "linear"), ("go", {"size": 5}, "linear"),
    ("chess", {}, "planes"), ("minishogi", {}, "linear"),
]


def device_network(game: Game, config: NetworkConfig = CONFIG) -> DeviceNetwork:
    return DeviceNetwork(game, tower_shape(game, config), Precision("fp32", "for the test"), "cpu")


@pytest.mark.parametrize(("name", "params", "head"), GAMES)
@pytest.mark.parametrize("count", [1, 7, 8, 19])
def test_it_agrees_with_the_training_network(name: str, params: dict[str, int], head: str, count: int) -> None:
    """Games with uniform planes and without, sizes that fill the last byte and do not, batches that must be cut."""
    game = Game(name, params)
    config = NetworkConfig(filters=8, blocks=1, policy_head=head)
    network = trained_network(game, config)
    evaluator = CudaEvaluator(device_network(game, config), 8)
    evaluator.load(weights_of(network, game, version=4, step=0))
    leaves = random_leaves(game, count)
    evaluation = evaluator(leaves)
    assert evaluation.version == evaluator.version == 4
    assert_same(evaluation, *expected(network, game, leaves))


@pytest.mark.parametrize(("precision", "error"), [("bf16", 0.05), ("fp16", 0.01)])
def test_half_of_the_bits_stray_little(precision: str, error: float) -> None:
    network = trained_network(GAME)
    evaluator = CudaEvaluator(DeviceNetwork(GAME, tower_shape(GAME, CONFIG), Precision(precision, ""), "cpu"), 8)
    evaluator.load(weights_of(network, GAME, version=1, step=0))
    leaves = random_leaves(GAME, 8)
    answer, (logits, values) = evaluator(leaves), expected(network, GAME, leaves)
    assert answer.logits.dtype == answer.values.dtype == np.float32
    np.testing.assert_allclose(answer.logits, logits, rtol=error, atol=error * np.ptp(logits))
    np.testing.assert_allclose(answer.values, values, atol=error)


def test_two_batches_are_under_way_and_keep_their_versions() -> None:
    network = trained_network(GAME)
    evaluator = CudaEvaluator(device_network(GAME), 8)
    evaluator.load(weights_of(network, GAME, version=1, step=0))
    first, second = random_leaves(GAME, 8, seed=1), random_leaves(GAME, 5, seed=2)
    evaluator.begin(first)
    other = trained_network(GAME, seed=2)
    evaluator.load(weights_of(other, GAME, version=2, step=1))
    evaluator.begin(second)
    answers = [evaluator.finish(), evaluator.finish()]
    assert [answer.version for answer in answers] == [1, 2]
    assert_same(answers[0], *expected(network, GAME, first))
    assert_same(answers[1], *expected(other, GAME, second))


def test_a_small_batch_reads_nothing_of_the_large_one_that_lay_in_its_stage() -> None:
    """Stages are of the largest size; evaluators of all sizes read them."""
    game = Game("othello")  # whose positions have fewer legal actions than the most there may be
    network = trained_network(game)
    shared = DeviceNetwork(game, tower_shape(game, CONFIG), Precision("fp32", ""), "cpu")
    server = InferenceServer(game, lambda size: CudaEvaluator(shared, size), sizes=[4, 64], deadline_ms=0.1)
    try:
        server.load(weights_of(network, game, version=1, step=0))
        for rows in (64, 64, 64, 64, 3, 4, 2, 1, 50, 4, 3):
            leaves = random_leaves(game, rows, seed=rows)
            answer = decode_evaluation(server.infer(0, LeavesCodec(game).encode(leaves), 10), rows, len(leaves.actions))
            logits, values = expected(network, game, leaves)
            np.testing.assert_allclose(answer.logits, logits, rtol=2e-3, atol=2e-3)
            np.testing.assert_allclose(answer.values, values, rtol=2e-3, atol=2e-3)
    finally:
        server.close()


def test_weights_are_prepared_by_another_thread_while_a_batch_runs() -> None:
    """What was prepared is what is loaded; other weights, or none, are prepared by `load` itself."""
    evaluator, network = CudaEvaluator(device_network(GAME), 8), evaluator_network()
    first, second = trained_network(GAME), trained_network(GAME, seed=2)
    leaves = random_leaves(GAME, 8)
    evaluator.load(weights_of(first, GAME, version=1, step=0))
    evaluator.begin(leaves)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(evaluator.prepare, weights_of(second, GAME, version=2, step=1)).result(10)
        with pytest.raises(ValueError, match="another game or network"):
            pool.submit(evaluator.prepare, network).result(10)
    assert evaluator.version == 1
    assert_same(evaluator.finish(), *expected(first, GAME, leaves))
    evaluator.load(weights_of(second, GAME, version=2, step=1))
    assert_same(evaluator(leaves), *expected(second, GAME, leaves))
    evaluator.load(weights_of(first, GAME, version=3, step=2))
    assert_same(evaluator(leaves), *expected(first, GAME, leaves))


def evaluator_network() -> Weights:
    return random_weights(GAME, NetworkConfig(filters=32, blocks=2), 1, version=4)


def test_finish_says_why_a_device_failed() -> None:
    class Lost:
        def synchronize(self) -> None:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    evaluator = CudaEvaluator(device_network(GAME), 8)
    evaluator.load(random_weights(GAME, CONFIG, 1, version=1))
    evaluator.begin(random_leaves(GAME, 8))
    evaluator._in_flight[0].answer.done = Lost()  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="illegal memory access"):
        evaluator.finish()


def test_sizes_share_one_network() -> None:
    network = device_network(GAME)
    small, large = CudaEvaluator(network, 4), CudaEvaluator(network, 16)
    small.load(random_weights(GAME, CONFIG, 1, version=3))
    assert large.version == 3
    leaves = random_leaves(GAME, 4)
    np.testing.assert_allclose(small(leaves).logits, large(leaves).logits, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="they belong to another game or network"):
        large.load(random_weights(GAME, NetworkConfig(filters=32, blocks=2), 1, version=4))
    assert small.version == 3
    assert raw_rate(small, 0.02) > 0


class NoRoom(PseudoRandomEvaluator):
    """A GPU whose memory ends at 32 positions."""

    def __init__(self, size: int) -> None:
        if size > 32:
            raise BatchTooLargeError(f"a batch of {size} positions does not fit into the GPU's memory: 2 GiB more")
        super().__init__(GAME, size, -1)


@pytest.mark.parametrize("error", [
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore lines"),
    RuntimeError("CUDA error: out of memory"), RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
])
def test_no_room_on_the_card_is_said_as_such(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(evaluator: CudaEvaluator, rows: int, *, on_device: bool) -> None:
        raise error

    monkeypatch.setattr(CudaEvaluator, "_new_inputs", refuse)
    with pytest.raises(BatchTooLargeError, match="a batch of 8 positions does not fit") as refusal:
        CudaEvaluator(device_network(GAME), 8)
    assert "\n" not in str(refusal.value)


def test_another_error_of_the_card_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(evaluator: CudaEvaluator, rows: int, *, on_device: bool) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(CudaEvaluator, "_new_inputs", refuse)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        CudaEvaluator(device_network(GAME), 8)


def test_where_memory_ends_smaller_batches_do() -> None:
    server = InferenceServer(GAME, NoRoom, sizes=[8, 16, 32, 64, 128], deadline_ms=1.0)
    try:
        server.load(weights(1))
        assert server.description == ("NoRoom; batches of at most 32: a batch of 64 positions does not fit into the "
                                      "GPU's memory: 2 GiB more")
        leaves = leaves_of(100)
        answer = ask(server, leaves)
        np.testing.assert_array_equal(answer.values, PseudoRandomEvaluator(GAME, 100)(leaves).values.astype(np.float16))
    finally:
        server.close()
    with pytest.raises(BatchTooLargeError):
        BatchPipeline(GAME, NoRoom, [64, 128])


def test_the_next_batch_is_queued_before_the_first_is_done() -> None:
    """So a GPU that takes 100 ms a batch answers a batch each 100 ms, whatever the host does between."""
    service = 0.1

    def make(size: int) -> Evaluator:
        return SimulatedGpu(GAME, size, service)

    server = InferenceServer(GAME, make, sizes=[64], deadline_ms=0.1)
    try:
        server.load(weights(1))
        payload, settled = CODEC.encode(leaves_of(4)), []

        def ask(client: int) -> None:
            server.infer(client, payload, 10)
            settled.append(time.monotonic())

        with ThreadPoolExecutor(2) as pool:
            begin = time.monotonic()
            pool.submit(ask, 0)
            time.sleep(service / 4)
            pool.submit(ask, 1)
            time.sleep(service / 2)
            assert settled == []
            assert server.queue.waiting == 0, "the GPU has both"
        assert len(settled) == 2
        assert settled[0] - begin >= service
        assert settled[1] - settled[0] < 1.75 * service, "the second waited for nothing but the GPU"
    finally:
        server.close()


def test_two_batches_in_flight_do_not_mix_their_answers() -> None:
    """The next batch is laid into the arrays of the one before, which is not answered yet."""
    game = Game("othello")  # whose positions have different numbers of legal actions
    codec = LeavesCodec(game)
    server = InferenceServer(game, lambda size: SimulatedGpu(game, size, 0.003), sizes=[8, 64], deadline_ms=0.1)
    server.load(weights(1))
    leaves = [leaves_of(1 + 3 * client, seed=client, game=game) for client in range(8)]
    alone = [PseudoRandomEvaluator(game, len(one))(one) for one in leaves]

    def ask_often(client: int) -> None:
        for _ in range(60):
            data = server.infer(client, codec.encode(leaves[client]), 10)
            answer = decode_evaluation(data, len(leaves[client]), len(leaves[client].actions))
            np.testing.assert_array_equal(answer.logits, alone[client].logits.astype(np.float16).astype(np.float32))
            np.testing.assert_array_equal(answer.values, alone[client].values.astype(np.float16).astype(np.float32))

    try:
        with ThreadPoolExecutor(len(leaves)) as pool:
            list(pool.map(ask_often, range(len(leaves))))
    finally:
        server.close()


def test_closing_answers_what_is_under_way_with_a_refusal() -> None:
    def make(size: int) -> Evaluator:
        return SimulatedGpu(GAME, size, 0.2)

    server = InferenceServer(GAME, make, sizes=[64], deadline_ms=0.1)
    server.load(weights(1))
    with ThreadPoolExecutor(3) as pool:
        calls = []
        for client in range(3):
            calls.append(pool.submit(server.infer, client, CODEC.encode(leaves_of(4)), 10))
            time.sleep(0.01)
        server.close()
        for call in calls:
            with pytest.raises(ServerClosedError):
                call.result(10)


def test_a_client_reaches_the_network_behind_the_server() -> None:
    """Requests of several sizes, through the buckets, answered as by the network alone."""
    network = trained_network(GAME)
    device = device_network(GAME)
    server = InferenceServer(GAME, lambda size: CudaEvaluator(device, size), sizes=[8, 16, 32], deadline_ms=0.5)
    try:
        server.load(weights_of(network, GAME, version=1, step=0))
        for count in (3, 8, 20, 32, 50):
            leaves = random_leaves(GAME, count, seed=count)
            logits, values = expected(network, GAME, leaves)
            answer = ask(server, leaves)
            np.testing.assert_allclose(answer.logits, logits, rtol=2e-3, atol=2e-3)  # the answer travels as half floats
            np.testing.assert_allclose(answer.values, values, rtol=2e-3, atol=2e-3)
    finally:
        server.close()


def test_a_request_larger_than_any_batch_waits_for_what_is_under_way() -> None:
    """After a GPU had no room for the larger sizes: such a one goes in parts, behind the batches before it."""
    def make(size: int) -> Evaluator:
        return SimulatedGpu(GAME, size, 0.05)

    server = InferenceServer(GAME, make, sizes=[8], deadline_ms=0.1)
    try:
        server.load(weights(1))
        small, large = leaves_of(4, seed=1), leaves_of(20, seed=2)
        with ThreadPoolExecutor(3) as pool:
            answers = [pool.submit(ask, server, leaves, client) for client, leaves in enumerate((small, large, small))]
            for leaves, answer in zip((small, large, small), answers, strict=True):
                expected = PseudoRandomEvaluator(GAME, 32)(leaves)
                np.testing.assert_array_equal(answer.result(10).values, expected.values.astype(np.float16))
        assert server.stats().failed == 0
    finally:
        server.close()


def test_memory_comes_back_from_a_batch_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as there are lanes and answers, and more; then as many batches are under way as ever."""
    network = trained_network(GAME)
    evaluator = CudaEvaluator(device_network(GAME), 8)
    evaluator.load(weights_of(network, GAME, version=1, step=0))
    leaves = random_leaves(GAME, 8)

    def fail() -> None:
        raise RuntimeError("no kernel image is available")

    with monkeypatch.context() as patch:
        for lane in evaluator._lanes:
            patch.setattr(lane, "run", fail)
        for _ in range(2 * DEPTH + 1):
            with pytest.raises(RuntimeError, match="no kernel image"):
                evaluator.begin(leaves)
    for _ in range(DEPTH):
        evaluator.begin(leaves)
    for _ in range(DEPTH):
        assert_same(evaluator.finish(), *expected(network, GAME, leaves))


def test_a_program_that_was_chosen_but_cannot_be_made_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of another day says compiled, and the compiler is gone."""
    shared = device_network(GAME)

    def choose(rate_of: object, size: int) -> str:
        shared.worth_rows = 100
        return "compiled"

    def make(evaluator: CudaEvaluator, program: str, lane: object) -> object:
        if program == "compiled":
            raise RuntimeError("InductorError: no C compiler is found\nmore")
        return evaluator._forward(program, lane)  # type: ignore[arg-type]

    monkeypatch.setattr(shared, "choose_program", choose)
    monkeypatch.setattr(CudaEvaluator, "_made", make)
    evaluator = CudaEvaluator(shared, LARGEST_BATCH, "auto")
    assert evaluator.worth_rows == LARGEST_BATCH
    assert evaluator.description.endswith("could not be made: InductorError: no C compiler is found; so eager")
    with pytest.raises(RuntimeError, match="no C compiler"):
        CudaEvaluator(shared, LARGEST_BATCH, "compiled")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_that_is_said() -> None:
    with pytest.raises(ValueError, match=r"torch finds no GPU that it can use; use inference\.device=cpu"):
        make_evaluator(GAME, InferenceConfig(device="cuda", precision="fp32"), CONFIG, 8)
