"""The inference server: who is answered with whom, and what happens to those who are not."""

import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from inference_fixtures import CODEC, GAME, Scripted, ask, eventually, hammer, leaves_of, serving, weights

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.actors.evaluators.simulated_gpu import SimulatedGpu
from shusaku.actors.inference.protocol import (
    AnswerLateError,
    EvaluationFailedError,
    NoWeightsError,
    QueueFullError,
    ServerClosedError,
)
from shusaku.actors.inference.server import InferenceServer, Spare
from shusaku.actors.inference.stats import HISTORY
from shusaku.common.codec import CodecError
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.device_failure import DeviceFailedError
from shusaku.common.leaves_codec import to_half
from shusaku.common.messages import Evaluation, Leaves, Weights
from shusaku.common.network.weights import random_weights

REQUEST = CODEC.encode(leaves_of(8))


class FailsWithNewWeights(Scripted):
    """A device that is lost when it takes the second version."""

    def load(self, weights: Weights) -> None:
        if weights.version > 1:
            raise RuntimeError("CUDA error: unspecified launch failure")
        super().load(weights)


# --- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 8, 64, 150])
def test_an_answer_is_that_of_the_evaluator(rows: int) -> None:
    """A request larger than the largest size is answered, too."""
    leaves = leaves_of(rows)
    with serving(version=3) as (server, _):
        answer = ask(server, leaves)
    local = PseudoRandomEvaluator(GAME, rows)(leaves)
    np.testing.assert_array_equal(answer.logits, to_half(local.logits).astype(np.float32))
    assert answer.version == 3
    assert answer.values.tolist() == [3 / 1024] * rows


def test_requests_are_laid_into_one_batch_and_every_caller_gets_its_own_answer() -> None:
    with serving(sizes=(8, 64)) as (server, evaluators), ThreadPoolExecutor(12) as pool:
        small, large = evaluators[8], evaluators[64]
        small.free.clear()
        first = pool.submit(ask, server, leaves_of(3), 0)
        assert small.entered.wait(10)  # while this batch runs, the others gather
        requests = [leaves_of(1 + n, seed=n) for n in range(9)]  # 45 positions
        answers = [pool.submit(ask, server, leaves, client) for client, leaves in enumerate(requests)]
        assert eventually(lambda: server.stats().waiting == 9)
        small.free.set()
        for leaves, answer in zip(requests, answers, strict=True):
            expected = to_half(PseudoRandomEvaluator(GAME, 9)(leaves).logits).astype(np.float32)
            np.testing.assert_array_equal(answer.result(10).logits, expected)
        assert len(first.result(10).values) == 3
        assert (small.asked, large.asked) == ([3], [45])
        assert small.threads == large.threads == {server._thread.ident}
        stats = server.stats()
        assert (stats.rows, stats.batches, stats.clients) == (48, 2, 9)


def test_a_batch_is_never_larger_than_the_largest_size() -> None:
    with serving(sizes=(8, 16)) as (server, evaluators), ThreadPoolExecutor(12) as pool:
        evaluators[8].free.clear()
        calls = [pool.submit(ask, server, leaves_of(2))]
        assert evaluators[8].entered.wait(10)
        calls += [pool.submit(ask, server, leaves_of(7, seed=n), n) for n in range(10)]
        assert eventually(lambda: server.stats().waiting == 10)
        evaluators[8].free.set()
        for call in calls:
            call.result(10)
        assert evaluators[16].asked == [14] * 5


def test_every_size_has_answered_before_the_server_answers() -> None:
    with serving(sizes=(8, 16, 32), version=-1) as (server, evaluators):
        assert server.version == -1
        assert [evaluator.asked for evaluator in evaluators.values()] == [[], [], []]
        server.load(weights(7))
        assert server.version == 7
        assert {size: evaluator.asked for size, evaluator in evaluators.items()} == {8: [8], 16: [16], 32: [32]}


def test_a_single_client_never_waits_for_the_deadline() -> None:
    with serving(deadline_ms=5000) as (server, _):
        begin = time.monotonic()
        for _ in range(20):
            server.infer(0, REQUEST, 10)
        assert time.monotonic() - begin < 2.5


def test_dead_clients_cost_the_deadline_once() -> None:
    """Thirty clients were heard of, one goes on: it waits for the others once, for they will never come."""
    with serving(deadline_ms=50) as (server, _), ThreadPoolExecutor(30) as pool:
        for call in [pool.submit(server.infer, client, REQUEST, 10) for client in range(30)]:
            call.result(10)
        assert server.stats().clients == 30
        waits = []
        for _ in range(10):
            begin = time.monotonic()
            server.infer(0, REQUEST, 10)
            waits.append(time.monotonic() - begin)
        assert waits[0] >= 0.045  # it did wait for the others
        assert np.median(waits[1:]) < 0.025


def test_a_batch_runs_at_once_when_no_more_can_come() -> None:
    """Ten clients of one request at a time: when all of them wait, the deadline would gain nothing."""
    with serving(sizes=(512,), deadline_ms=3000) as (server, evaluators), ThreadPoolExecutor(10) as pool:
        evaluators[512].free.clear()
        first = pool.submit(server.infer, 0, REQUEST, 10)
        assert evaluators[512].entered.wait(10)
        calls = [pool.submit(server.infer, client, REQUEST, 10) for client in range(1, 10)]
        assert eventually(lambda: server.stats().waiting == 9)
        begin = time.monotonic()
        evaluators[512].free.set()
        assert first.result(10)
        pool.submit(server.infer, 0, REQUEST, 10).result(10)
        for call in calls:
            call.result(10)
        assert time.monotonic() - begin < 1.5
        assert evaluators[512].asked[0] == 8
        assert sum(evaluators[512].asked) == 8 * 11


def test_a_network_answers_through_the_buckets_as_it_does_alone() -> None:
    network = NetworkConfig(filters=8, blocks=1)
    inference = InferenceConfig(runtime="openvino", precision="fp32")
    loaded = random_weights(GAME, network, 1)
    alone = make_evaluator(GAME, inference, network, 16)
    alone.load(loaded)
    server = InferenceServer(
        GAME, lambda size: make_evaluator(GAME, inference, network, size), sizes=[4, 16], deadline_ms=1
    )
    try:
        server.load(loaded)
        for rows in (1, 4, 9, 16, 30):
            leaves = leaves_of(rows)
            answer, expected = ask(server, leaves), alone(leaves)
            np.testing.assert_allclose(answer.logits, expected.logits, atol=2e-3)
            np.testing.assert_allclose(answer.values, expected.values, atol=2e-3)
            assert answer.version == loaded.version
    finally:
        server.close()


def test_a_batch_is_full_once_no_further_request_like_the_newest_fits() -> None:
    """A third client could still send, and the deadline is far: with requests of 3 for 8 rows it is not waited for."""
    with serving(sizes=(8,), deadline_ms=5000) as (server, _), ThreadPoolExecutor(3) as pool:
        for client in range(3):
            ask(server, leaves_of(1), client)
        begin = time.monotonic()
        for answer in [pool.submit(ask, server, leaves_of(3), client) for client in range(2)]:
            answer.result(10)
        assert time.monotonic() - begin < 2
        waiting = [pool.submit(ask, server, leaves_of(2), client) for client in range(2)]
        assert eventually(lambda: server.queue.waiting == 2)
        time.sleep(0.2)
        assert not any(answer.done() for answer in waiting), "a request of 2 would fit"
        ask(server, leaves_of(2), 2)
        for answer in waiting:
            answer.result(2)


# --- refusals ------------------------------------------------------------------------------------------------------


def test_a_bad_payload_fails_its_own_caller_only() -> None:
    with serving() as (server, evaluators), ThreadPoolExecutor(8) as pool:
        evaluators[64].free.clear()
        good = [pool.submit(ask, server, leaves_of(2)) for _ in range(3)]
        for payload in (b"", REQUEST[:-1], b"x" * 2000, REQUEST + b"\0"):
            with pytest.raises(CodecError):
                server.infer(5, payload, 10)
        evaluators[64].free.set()
        assert [len(answer.result(10).values) for answer in good] == [2, 2, 2]
        assert server.stats().refused == 4
        assert sum(evaluators[64].asked) == 6


def test_the_queue_is_bounded() -> None:
    with serving(max_waiting=4) as (server, evaluators), ThreadPoolExecutor(8) as pool:
        evaluators[64].free.clear()
        running = pool.submit(server.infer, 0, REQUEST, 10)
        assert evaluators[64].entered.wait(10)
        waiting = [pool.submit(server.infer, n, REQUEST, 10) for n in range(4)]
        assert eventually(lambda: server.stats().waiting == 4)
        begin = time.monotonic()
        with pytest.raises(QueueFullError, match="4 requests"):
            server.infer(9, REQUEST, 10)
        assert time.monotonic() - begin < 1
        evaluators[64].free.set()
        assert all(call.result(10) for call in [running, *waiting])


def test_before_weights_callers_wait_and_are_then_answered_or_refused() -> None:
    with serving(version=-1) as (server, _), ThreadPoolExecutor(2) as pool:
        begin = time.monotonic()
        with pytest.raises(NoWeightsError):
            server.infer(0, REQUEST, 0.1)
        assert 0.1 <= time.monotonic() - begin < 2
        assert server.stats().waiting == 0
        call = pool.submit(ask, server, leaves_of(4))
        assert eventually(lambda: server.stats().waiting == 1)
        server.load(weights(5))
        assert call.result(10).version == 5


def test_a_client_that_gives_up_is_not_computed_for() -> None:
    with serving() as (server, evaluators), ThreadPoolExecutor(2) as pool:
        evaluators[64].free.clear()
        running = pool.submit(server.infer, 0, REQUEST, 0.3)  # gives up while its batch runs
        assert evaluators[64].entered.wait(10)
        with pytest.raises(AnswerLateError):
            server.infer(1, REQUEST, 0.1)  # gives up in the queue
        with pytest.raises(AnswerLateError):
            running.result(10)
        assert server.stats().waiting == 0
        evaluators[64].free.set()
        assert len(ask(server, leaves_of(3), 2).values) == 3
        assert evaluators[64].asked == [8, 3]
        assert server.stats().refused == 2


def test_a_failure_of_the_evaluator_is_told_to_its_callers_and_the_server_goes_on() -> None:
    with serving() as (server, evaluators), ThreadPoolExecutor(4) as pool:
        evaluator = evaluators[64]
        evaluator.free.clear()
        first = pool.submit(server.infer, 0, REQUEST, 10)
        assert evaluator.entered.wait(10)
        calls = [pool.submit(server.infer, n, REQUEST, 10) for n in range(3)]
        assert eventually(lambda: server.stats().waiting == 3)
        evaluator.error = RuntimeError("out of memory")
        evaluator.free.set()
        with pytest.raises(EvaluationFailedError, match="RuntimeError: out of memory"):
            first.result(10)
        assert all(call.result(10) for call in calls)
        assert server.stats().failed == 1


def test_an_answer_of_the_wrong_shape_is_a_failure() -> None:
    class Short(Scripted):
        def __call__(self, leaves: Leaves) -> Evaluation:
            evaluation = super().__call__(leaves)
            if self.version < 2:
                return evaluation
            return Evaluation(evaluation.logits[:-1], evaluation.values, evaluation.version)

    server = InferenceServer(GAME, Short, sizes=[8], deadline_ms=1)
    server.load(weights(1))
    server.infer(0, REQUEST, 10)
    server.load(weights(2))
    with pytest.raises(EvaluationFailedError, match="logits"):
        server.infer(0, REQUEST, 10)
    server.close()


def test_answers_that_are_not_finite_are_counted_and_passed_on() -> None:
    with serving() as (server, evaluators):
        evaluators[64].bad_rows = [0, 1]
        leaves = leaves_of(8)
        answer = ask(server, leaves)
        assert np.flatnonzero(np.isnan(answer.logits)).tolist() == leaves.offsets[[0, 1]].tolist()
        assert eventually(lambda: server.stats().non_finite == 2)


def test_what_the_factory_raises_is_raised_by_the_constructor() -> None:
    def make(size: int) -> PseudoRandomEvaluator:
        raise LookupError(f"no device for {size}")

    before = threading.active_count()
    with pytest.raises(LookupError, match="no device for 16"):
        InferenceServer(GAME, make, sizes=[16, 8], deadline_ms=1)
    assert eventually(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("error", [
    DeviceFailedError("the simulated GPU failed after 3 batches"),
    RuntimeError("CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be reported later"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
])
def test_a_device_that_fails_is_left_for_good(error: RuntimeError) -> None:
    """Whoever asked is told to ask again, and the spare evaluators answer with the newest weights."""
    spare: dict[int, Scripted] = {}
    with serving(version=3, spare=Spare(lambda size: spare.setdefault(size, Scripted(size)), (8, 32))) as (
            server, evaluators):
        evaluators[64].error = error
        with pytest.raises(EvaluationFailedError, match=str(error).partition("\n")[0]):
            ask(server, leaves_of(4))
        asked = len(evaluators[64].asked)
        for version in (3, 4):
            if version == 4:
                server.load(weights(4))
            answer = ask(server, leaves_of(40, seed=version))
            assert answer.version == version
            assert answer.values[0] == pytest.approx(version / 1024)
        assert len(evaluators[64].asked) == asked, "nothing more is asked of it"
        assert spare.keys() == {8, 32}
        assert server.trouble == f"the device failed and was left: {str(error).partition(chr(10))[0]}"
        assert server.description.endswith(server.trouble)
        assert server.is_alive


@pytest.mark.parametrize("error", [
    RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), RuntimeError("CUDA error: out of memory"),
    RuntimeError("shapes differ"), ValueError("CUDA error"),
])
def test_an_error_of_a_batch_is_no_failure_of_the_device(error: Exception) -> None:
    with serving(spare=Spare(Scripted, (8,))) as (server, evaluators):
        evaluators[64].error = error
        with pytest.raises(EvaluationFailedError):
            ask(server, leaves_of(4))
        assert len(ask(server, leaves_of(4)).values) == 4
        assert server.trouble == ""
        assert len(evaluators[64].asked) == 2


def test_a_device_that_fails_while_it_takes_weights_is_left_and_the_weights_are_not_lost() -> None:
    server = InferenceServer(GAME, FailsWithNewWeights, sizes=(8,), deadline_ms=1, spare=Spare(Scripted, (8,)))
    try:
        for version in (1, 2):
            server.load(weights(version))
            assert ask(server, leaves_of(4)).version == version
        assert server.trouble == "the device failed and was left: CUDA error: unspecified launch failure"
    finally:
        server.close()


def test_versions_never_go_back_while_one_is_loaded() -> None:
    """Version 6 is being loaded when 5 arrives; after a version that does not fit, an older one may come again."""
    entered, free = threading.Event(), threading.Event()

    class Slow(Scripted):
        def load(self, weights: Weights) -> None:
            if weights.version == 6:
                entered.set()
                assert free.wait(10)
            super().load(weights)

    server = InferenceServer(GAME, Slow, sizes=(8,), deadline_ms=1)
    try:
        server.load(weights(4))
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(server.load, weights(6))
            assert entered.wait(10)
            server.load(weights(5))
            free.set()
            loading.result(10)
        assert ask(server, leaves_of(4)).version == 6
        assert server.stats().stale_weights == 1
        with pytest.raises(ValueError, match="another network"):
            server.load(replace(weights(9), step=-1))
        server.load(weights(7))
        assert ask(server, leaves_of(4)).version == 7
    finally:
        free.set()
        server.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # its thread ends by it
def test_a_spare_that_cannot_be_made_is_told_to_those_who_wait_for_weights() -> None:
    def no_spare(size: int) -> Scripted:
        raise MemoryError("no memory for a spare")

    server = InferenceServer(GAME, FailsWithNewWeights, sizes=(8,), deadline_ms=1, spare=Spare(no_spare, (8,)))
    server.load(weights(1))
    with pytest.raises(MemoryError, match="no memory for a spare"):
        server.load(weights(2), timeout=10)
    assert eventually(lambda: not server.is_alive)
    server.close()


def test_all_batches_in_flight_go_with_the_device() -> None:
    """Two of them, in a pretended device that lasts for one; the server outlives it, however long the spare is made."""

    def slow_spare(size: int) -> Scripted:
        time.sleep(0.3)
        return Scripted(size)

    spare = Spare(slow_spare, (64,))
    SimulatedGpu._begun = 0
    server = InferenceServer(GAME, lambda size: SimulatedGpu(GAME, size, 0.05, lasts=3), sizes=(8,), deadline_ms=1,
                             spare=spare)
    try:
        server.load(weights(1))  # evaluates once
        with ThreadPoolExecutor(6) as pool:
            calls = [pool.submit(ask, server, leaves_of(8, seed=client), client) for client in range(6)]
            failed = [call for call in calls if call.exception(30) is not None]
        assert 1 <= len(failed) < 6
        assert all(isinstance(call.exception(), EvaluationFailedError) for call in failed)
        assert server.trouble == "the device failed and was left: the simulated GPU failed after 3 batches"
        assert server.stats().failed == len(failed)
        assert server.queue.waiting == 0
        assert server.is_alive
        assert len(ask(server, leaves_of(8)).values) == 8
    finally:
        server.close()


def test_a_device_that_fails_before_it_answers_is_left() -> None:
    """As a GPU does: what fails is not the call that began the batch."""

    class FailsLate(SimulatedGpu):
        def finish(self) -> Evaluation:
            answer = super().finish()
            if len(finished) == 2:
                raise DeviceFailedError("CUDA error: unspecified launch failure")
            finished.append(answer.version)
            return answer

    finished: list[int] = []
    server = InferenceServer(GAME, lambda size: FailsLate(GAME, size, 0.01), sizes=(8,), deadline_ms=1,
                             spare=Spare(Scripted, (8,)))
    try:
        server.load(weights(1))  # evaluates once
        assert len(ask(server, leaves_of(8)).values) == 8
        with pytest.raises(EvaluationFailedError, match="unspecified launch failure"):
            ask(server, leaves_of(8))
        assert len(ask(server, leaves_of(8)).values) == 8
        assert server.trouble == "the device failed and was left: CUDA error: unspecified launch failure"
        assert server.stats().failed == 1
    finally:
        server.close()


# --- the end -------------------------------------------------------------------------------------------------------


def test_closing_frees_every_caller_at_once() -> None:
    """Those in the queue, those in the batch that runs, and whoever loads weights."""
    threads = threading.active_count()
    with serving() as (server, evaluators), ThreadPoolExecutor(8) as pool:
        evaluators[64].free.clear()
        calls = [pool.submit(server.infer, 0, REQUEST, 60)]
        assert evaluators[64].entered.wait(10)
        calls += [pool.submit(server.infer, n, REQUEST, 60) for n in range(5)]
        load = pool.submit(server.load, weights(2))
        assert eventually(lambda: server.stats().waiting == 5 and server._publication is not None)
        begin = time.monotonic()
        server.close(timeout=0.1)  # the evaluator does not come back
        for call in [*calls, load]:
            with pytest.raises(ServerClosedError):
                call.result(5)
        assert time.monotonic() - begin < 3
        for refused in (lambda: server.infer(0, REQUEST, 60), lambda: server.load(weights(3))):
            with pytest.raises(ServerClosedError):
                refused()
    assert eventually(lambda: threading.active_count() <= threads)


class EndsItsThread(PseudoRandomEvaluator):
    """Two batches are in flight; the older one ends with an error that cannot be put into words."""

    depth = 2

    def __init__(self, size: int) -> None:
        super().__init__(GAME, size, -1)
        self.begun = 0
        self.free = threading.Event()

    def begin(self, leaves: Leaves) -> None:
        self.begun += 1

    def finish(self) -> Evaluation:
        assert self.free.wait(30)

        class WordlessError(Exception):
            def __str__(self) -> str:
                raise LookupError("no words")

        raise WordlessError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # its thread ends by it
def test_the_end_of_the_answering_thread_is_told_to_all_in_flight() -> None:
    evaluator = EndsItsThread(8)
    server = InferenceServer(GAME, lambda size: evaluator, sizes=(8,), deadline_ms=1)
    server.load(weights(1))
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(server.infer, client, REQUEST, 20) for client in range(2)]
        assert eventually(lambda: evaluator.begun == 2)
        begin = time.monotonic()
        evaluator.free.set()
        for call in calls:
            with pytest.raises(ServerClosedError, match="the thread that answers"):
                call.result(30)
        assert time.monotonic() - begin < 10
    assert eventually(lambda: not server.is_alive)
    assert server._answerer is not None
    server._answerer.join(10)
    gc.collect()  # what was in flight is gone
    server.close()


def test_closing_under_load() -> None:
    stop = threading.Event()
    for _ in range(5):
        with serving(sizes=(8, 64)) as (server, _), ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(hammer, server, stop, client) for client in range(8)]
            assert eventually(lambda: server.stats().batches > 20)
            server.close()
            for call in calls:
                with pytest.raises(ServerClosedError):
                    call.result(5)
            server.close()  # again


def test_memory_is_flat_over_many_calls() -> None:
    with serving(sizes=(8, 16, 32)) as (server, evaluators), ThreadPoolExecutor(4) as pool:

        def call(client: int) -> None:
            for _ in range(5_000):
                server.infer(client, REQUEST, 10)

        def blocks() -> int:
            for evaluator in evaluators.values():
                evaluator.asked.clear()
            gc.collect()
            return sys.getallocatedblocks()

        list(pool.map(call, range(4)))
        assert server.stats().batches > HISTORY  # so far the figures look back
        before = blocks()
        list(pool.map(call, range(4)))
        assert blocks() - before < 500
        stats = server.stats()
        assert stats.rows == 40_000 * 8
        assert 0 < stats.wait_p50_ms <= stats.wait_p99_ms < 1000
        assert 0 <= stats.idle_share < 1
        assert stats.rows_per_s > 0
        assert 8 <= stats.rows_per_batch <= 32
