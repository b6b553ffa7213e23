"""What only a GPU can show: graphs, streams, memory that runs out, two processes.  Skipped without one."""

import multiprocessing
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from inference_fixtures import leaves_of

from shusaku.actors.evaluators.buckets import make_buckets
from shusaku.actors.evaluators.cuda import DEPTH, CudaEvaluator, DeviceNetwork
from shusaku.actors.evaluators.evaluator import BatchTooLargeError
from shusaku.common._core import Game
from shusaku.common.config.schema import LearnerConfig, NetworkConfig
from shusaku.common.hardware import Precision
from shusaku.common.messages import Evaluation
from shusaku.common.network.network import Network, named_tensors
from shusaku.common.network.targets import make_targets
from shusaku.common.network.weights import random_weights, tower_shape
from shusaku.learner.learner import Learner
from shusaku.replay.buffer import Batch, PackedPlanes

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]
GAME = Game("go", {"size": 9})
NETWORK = NetworkConfig(filters=32, blocks=2)
SIZE = 64
CONTEXT = multiprocessing.get_context("spawn")


def evaluator_on(device: str, precision: str = "fp32", size: int = SIZE, memory_share: float = 0.0) -> CudaEvaluator:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    network = DeviceNetwork(GAME, tower_shape(GAME, NETWORK), Precision(precision, "for the test"), device,
                            memory_share)
    return CudaEvaluator(network, size)


def assert_close(found: Evaluation, expected: Evaluation, tolerance: float) -> None:
    np.testing.assert_allclose(found.logits, expected.logits, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.values, expected.values, rtol=tolerance, atol=tolerance)


def copied(evaluation: Evaluation) -> Evaluation:
    """The evaluator's own arrays are valid until the next answer."""
    return replace(evaluation, logits=evaluation.logits.copy(), values=evaluation.values.copy())


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("bf16", 0.05)])
def test_the_captured_graph_answers_as_the_cpu(precision: str, tolerance: float) -> None:
    """Full batches, and smaller ones behind them, whose rows are stale."""
    gpu, cpu = evaluator_on("cuda", precision), evaluator_on("cpu")
    weights = random_weights(GAME, NETWORK, 3, version=1)
    gpu.load(weights)
    cpu.load(weights)
    for rows in (SIZE, 5, SIZE, 1):
        leaves = leaves_of(rows, rows, GAME)
        assert_close(gpu(leaves), cpu(leaves), tolerance)


def test_the_graph_is_the_eager_network() -> None:
    evaluator = evaluator_on("cuda")
    evaluator.load(random_weights(GAME, NETWORK, 3, version=1))
    leaves = leaves_of(SIZE, 2, GAME)
    graph = copied(evaluator(leaves))
    for lane in evaluator._lanes:
        lane.run = evaluator._forward("eager", lane)
    assert_close(evaluator(leaves), graph, 1e-5)


def test_batches_in_flight_keep_their_versions_while_weights_are_swapped() -> None:
    """A hundred versions; each answer is that of the weights under which its batch was begun."""
    gpu, cpu = evaluator_on("cuda"), evaluator_on("cpu")
    batches = [leaves_of(1 + seed * 7 % SIZE, seed, GAME) for seed in range(8)]
    answers: dict[tuple[int, int], Evaluation] = {}
    versions = {version: random_weights(GAME, NETWORK, version, version=version) for version in range(100)}
    in_flight: deque[tuple[int, int]] = deque()
    for step in range(400):
        if step % 4 == 0:
            gpu.load(versions[step // 4])
        if len(in_flight) == DEPTH:
            answers[in_flight.popleft()] = copied(gpu.finish())
        gpu.begin(batches[step % 8])
        in_flight.append((step // 4, step % 8))
    while in_flight:
        answers[in_flight.popleft()] = copied(gpu.finish())
    for (version, batch), found in answers.items():
        assert found.version == version
        if cpu.version != version:
            cpu.load(versions[version])
        assert_close(found, cpu(batches[batch]), 1e-4)


def test_no_graph_writes_over_an_answer_that_is_still_copied() -> None:
    """Large answers of two sizes, whose graphs share their memory: each is bit for bit that of a batch alone."""
    game = Game("go", {"size": 19})
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    network = DeviceNetwork(game, tower_shape(game, NETWORK), Precision("fp32", "for the test"), "cuda", 0.0)
    sizes = (1024, 960)
    evaluators = [CudaEvaluator(network, size) for size in sizes]
    evaluators[0].load(random_weights(game, NETWORK, 3, version=1))
    batches = [leaves_of(size, seed, game) for seed, size in enumerate(sizes)]
    alone = [copied(evaluator(leaves)) for evaluator, leaves in zip(evaluators, batches, strict=True)]
    in_flight: deque[int] = deque()
    for step in range(400):
        which = step % 3 % 2  # 0, 1, 0, 0, 1, 0: the same size twice in a row, too
        if len(in_flight) == DEPTH:
            done = in_flight.popleft()
            found = evaluators[done].finish()
            np.testing.assert_array_equal(found.logits, alone[done].logits)
            np.testing.assert_array_equal(found.values, alone[done].values)
        evaluators[which].begin(batches[which])
        in_flight.append(which)
    while in_flight:
        done = in_flight.popleft()
        np.testing.assert_array_equal(evaluators[done].finish().values, alone[done].values)


def test_out_of_memory_at_each_size_leaves_the_smaller_ones() -> None:
    evaluator = evaluator_on("cuda", size=8)
    evaluator.load(random_weights(GAME, NETWORK, 3, version=1))
    sizes = [8, 64, 512, 4096, 32_768]
    memory = torch.cuda.get_device_properties(0).total_memory
    counts = []
    try:
        for megabytes in (40, 100, 400, 2000):
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(min(1.0, megabytes * 2**20 / memory))
            try:
                made, text = make_buckets(lambda size: CudaEvaluator(evaluator._network, size), sizes)
            except BatchTooLargeError as error:
                made, text = {}, str(error)
            counts.append(len(made))
            assert bool(text) == (len(made) < len(sizes))
            for size, one in made.items():
                assert len(one(leaves_of(min(size, 64), 1, GAME)).values) == min(size, 64)
            made.clear()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    assert len(evaluator(leaves_of(8, 1, GAME)).values) == 8, "what was made before still answers"


def packed_batch(seed: int, rows: int = 32) -> Batch:
    random = np.random.default_rng(seed)
    ones = np.ones(rows, np.float32)
    planes = PackedPlanes(
        random.integers(0, 256, (rows, GAME.packed_bytes), dtype=np.uint8),
        random.random((rows, GAME.num_uniform_planes), np.float32),
        random.integers(0, GAME.num_symmetries, rows, dtype=np.uint8))
    return Batch(
        observations=planes, policy=random.dirichlet(np.ones(GAME.num_actions), rows).astype(np.float32),
        outcome=random.integers(-1, 2, rows).astype(np.float32), root_values=ones, weight=ones, plies_left=ones,
        versions=np.ones(rows, np.uint32), rows=np.arange(rows))


def learner_of(*, gpus: float = 0.0, program: str = "eager", **options: Any) -> Learner:
    config = LearnerConfig(device="cuda", precision="fp32", batch_size=32, warmup_steps=4, gpus=gpus,
                           gpu_program=program)
    network = Network(GAME.observation_shape, GAME.num_actions, NETWORK, make_targets(config), 3)
    return Learner(network, GAME, config, **options)


def test_captured_steps_are_those_that_wait() -> None:
    """One of them is not finite: it changes nothing, and is counted."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    queued, waiting = learner_of(), learner_of(waits=True)
    for step in range(20):
        batch = packed_batch(step)
        if step == 9:
            batch = replace(batch, outcome=np.full(32, np.nan, np.float32))
        queued.step(batch)
        waiting.step(batch)
    assert queued._queue is not None
    found, expected = queued.metrics(), waiting.metrics()
    assert queued._queue._graph is not None
    assert found["loss/total"] == pytest.approx(expected["loss/total"], rel=1e-2)
    assert (queued.step_count, queued.skipped_steps) == (waiting.step_count, waiting.skipped_steps) == (19, 1)
    one, other = dict(named_tensors(queued.network)), dict(named_tensors(waiting.network))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=2e-2, atol=2e-3)


def test_compiled_steps_are_the_eager_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the faster of the two is found out first: that leaves the network as it was."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    eager, compiled, chosen = (learner_of(program=program) for program in ("eager", "compiled", "auto"))
    for learner in (eager, compiled, chosen):
        for step in range(8):
            learner.step(packed_batch(step))
        assert learner.metrics()["loss/total"] > 0
    assert "steps" not in eager.description
    assert "by rows/s (eager" in chosen.description
    expected = dict(named_tensors(eager.network))
    for learner in (compiled, chosen):
        for name, tensor in named_tensors(learner.network):
            torch.testing.assert_close(tensor, expected[name], rtol=2e-2, atol=2e-3)


def test_a_checkpoint_of_captured_steps_goes_on() -> None:
    whole, resumed = learner_of(), learner_of()
    for step in range(8):
        whole.step(packed_batch(step))
    resumed.step(packed_batch(99))
    resumed.restore(whole.state())
    for learner in (whole, resumed):
        for step in range(8, 16):
            learner.step(packed_batch(step))
        assert learner.metrics()["loss/total"] > 0
    assert resumed.step_count == whole.step_count == 16
    one, other = dict(named_tensors(whole.network)), dict(named_tensors(resumed.network))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=2e-2, atol=2e-3)


def _learn(begin: Any, end: Any, answers: Any) -> None:
    learner, steps = learner_of(gpus=0.5), 0
    assert "at most 50 % of its memory" in learner.description
    for step in range(8):  # libraries are loaded, and the step is captured
        learner.step(packed_batch(step))
    learner.metrics()
    begin.wait()
    while not end.is_set():
        learner.step(packed_batch(steps % 16))
        steps += 1
    answers.put(("learner", steps, learner.metrics()["loss/total"]))


def _evaluate(begin: Any, end: Any, answers: Any) -> None:
    gpu, cpu = evaluator_on("cuda", memory_share=0.25), evaluator_on("cpu")
    assert "at most 25 % of its memory" in gpu.description
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(torch.cuda.get_device_properties(0).total_memory // 2, dtype=torch.uint8, device="cuda")
    weights, leaves = random_weights(GAME, NETWORK, 3, version=1), leaves_of(SIZE, 1, GAME)
    gpu.load(weights)
    cpu.load(weights)
    expected, worst, batches = cpu(leaves), 0.0, 0
    gpu(leaves)
    begin.wait()
    while not end.is_set():
        worst = max(worst, float(np.abs(gpu(leaves).logits - expected.logits).max()))
        batches += 1
    answers.put(("evaluator", batches, worst))


def test_two_processes_share_one_gpu() -> None:
    """Both go on within their shares of the memory, and neither disturbs the other's numbers."""
    begin, end, answers = CONTEXT.Barrier(3), CONTEXT.Event(), CONTEXT.Queue()
    processes = [CONTEXT.Process(target=target, args=(begin, end, answers)) for target in (_learn, _evaluate)]
    for process in processes:
        process.start()
    try:
        begin.wait(120)
        end.wait(5)
        end.set()
        found = {name: (count, number) for name, count, number in (answers.get(timeout=60) for _ in processes)}
    finally:
        end.set()
        for process in processes:
            process.join(30)
            process.kill()
    assert found["learner"][0] > 20
    assert np.isfinite(found["learner"][1])
    assert found["evaluator"][0] > 20
    assert found["evaluator"][1] < 1e-3
