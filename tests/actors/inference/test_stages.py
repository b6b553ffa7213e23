"""Batches that are laid into memory of the device: nothing touches it before the device has read it."""

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from inference_fixtures import GAME, ask, eventually, leaves_of, weights
from numpy.typing import NDArray

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.evaluators.evaluator import StagedEvaluator
from shusaku.actors.inference.server import InferenceServer
from shusaku.common._core import BatchInputs
from shusaku.common.messages import Evaluation, Leaves

BATCH_S = 0.003


@dataclass
class Arrays:
    columns: tuple[NDArray[np.generic], ...]
    inputs: BatchInputs


class LateReader(PseudoRandomEvaluator):
    """Reads a batch when it is finished, as a device may; two are in flight."""

    depth = 2

    def __init__(self, size: int, worth_rows: int = 0) -> None:
        super().__init__(GAME, size, -1)
        self.size, self.worth_rows = size, worth_rows or size
        self.stages: list[Arrays] = []
        self._in_flight: deque[tuple[Arrays, int, int, float]] = deque()

    def new_stage(self, rows: int) -> Arrays:
        columns = (np.zeros((rows, GAME.packed_bytes), np.uint8), np.zeros((rows, GAME.num_uniform_planes), np.float32),
                   np.zeros(rows + 1, np.int32), np.zeros(rows * GAME.max_legal_actions, np.uint16))
        places = np.zeros(rows * GAME.max_legal_actions, np.int32)
        self.stages.append(Arrays((*columns, places), BatchInputs(*columns, places)))
        return self.stages[-1]

    def begin_staged(self, stage: Arrays, rows: int, actions: int) -> None:
        self._in_flight.append((stage, rows, actions, time.monotonic() + BATCH_S))

    def begin(self, leaves: Leaves) -> None:
        raise AssertionError("what was laid into a stage is read from there")

    def finish(self) -> Evaluation:
        stage, rows, actions, done_at = self._in_flight.popleft()
        time.sleep(max(0.0, done_at - time.monotonic()))
        packed, uniform, offsets, legal, places = stage.columns
        leaves = Leaves(packed[:rows], uniform[:rows], offsets[: rows + 1], legal[:actions])
        assert places[:actions].tolist() == [
            row * GAME.num_actions + action for row in range(rows)
            for action in legal[offsets[row] : offsets[row + 1]].tolist()]
        return self(leaves)


@pytest.mark.parametrize("sizes", [[8], [8, 24]])
def test_no_batch_is_laid_over_one_that_is_under_way(sizes: list[int]) -> None:
    """Of many clients at once; each gets the answer to its own positions."""
    made: dict[int, LateReader] = {}
    server = InferenceServer(GAME, lambda size: made.setdefault(size, LateReader(size)), sizes=sizes, deadline_ms=0.1)
    try:
        server.load(weights(1))
        assert isinstance(made[sizes[-1]], StagedEvaluator)
        stages = {size: len(evaluator.stages) for size, evaluator in made.items()}
        assert stages == dict.fromkeys(sizes, 0) | {sizes[-1]: 3}

        def play(client: int) -> None:
            for step in range(20):
                leaves = leaves_of(1 + (client + step) % 8, seed=100 * client + step)
                expected = PseudoRandomEvaluator(GAME, 64)(leaves)
                answer = ask(server, leaves, client)
                np.testing.assert_array_equal(answer.values, expected.values.astype(np.float16))
                np.testing.assert_array_equal(answer.logits, expected.logits.astype(np.float16))

        with ThreadPoolExecutor(6) as pool:
            for future in [pool.submit(play, client) for client in range(6)]:
                future.result(60)
        assert server.stats().failed == 0
    finally:
        server.close()


def test_a_batch_larger_than_any_stage_is_cut() -> None:
    server = InferenceServer(GAME, LateReader, sizes=[8], deadline_ms=0.1)
    try:
        server.load(weights(1))
        leaves = leaves_of(20)
        expected = PseudoRandomEvaluator(GAME, 64)(leaves)
        np.testing.assert_array_equal(ask(server, leaves).values, expected.values.astype(np.float16))
    finally:
        server.close()


def test_batches_that_a_full_one_overtakes_run_in_the_full_size() -> None:
    """The largest size alone is compiled: from 12 of its 24 rows on it is faster than the other sizes are."""
    sizes = [4, 8, 12, 16, 20, 24]
    server = InferenceServer(GAME, lambda size: LateReader(size, 12 if size == 24 else 0), sizes=sizes, deadline_ms=0.1)
    try:
        assert server._pipeline.sizes == [4, 8, 12, 24]
        server.load(weights(1))
        for rows in (1, 11, 13, 24):
            leaves = leaves_of(rows)
            expected = PseudoRandomEvaluator(GAME, 64)(leaves)
            np.testing.assert_array_equal(ask(server, leaves).values, expected.values.astype(np.float16))
    finally:
        server.close()


class Held(PseudoRandomEvaluator):
    """Two batches are in flight; none is done before the test says so."""

    depth = 2

    def __init__(self, size: int) -> None:
        super().__init__(GAME, size, -1)
        self.begun: list[int] = []  # rows of each batch
        self.done = threading.Semaphore(1)  # the first one: of the first weights
        self._in_flight: deque[Evaluation] = deque()

    def __call__(self, leaves: Leaves) -> Evaluation:
        self.begin(leaves)
        return self.finish()

    def begin(self, leaves: Leaves) -> None:
        answer = super().__call__(leaves)
        self.begun.append(len(leaves))
        self._in_flight.append(Evaluation(answer.logits.copy(), answer.values.copy(), answer.version))

    def finish(self) -> Evaluation:
        assert self.done.acquire(timeout=30)
        return self._in_flight.popleft()


def test_a_batch_for_which_there_is_no_room_is_filled_until_there_is() -> None:
    """Two are in flight; a third is laid as soon as it is full, and nothing of it is lost while it waits."""
    held = Held(8)
    server = InferenceServer(GAME, lambda size: held, sizes=[8], deadline_ms=0.1)
    try:
        server.load(weights(1))
        with ThreadPoolExecutor(5) as pool:
            calls = []
            for client, waiting in [(0, 0), (1, 0), (2, 1), (3, 0), (4, 1)]:
                calls.append(pool.submit(ask, server, leaves_of(4, seed=client), client))
                assert eventually(lambda waiting=waiting: server.queue.waiting == waiting)  # type: ignore[misc]
                time.sleep(0.05)
                assert server.queue.waiting == waiting
            assert held.begun[1:] == [4, 4]
            for _ in calls:
                held.done.release()
            for client, call in enumerate(calls):
                expected = PseudoRandomEvaluator(GAME, 8)(leaves_of(4, seed=client))
                np.testing.assert_array_equal(call.result(30).values, expected.values.astype(np.float16))
        assert held.begun[1:] == [4, 4, 8, 4]
    finally:
        for _ in range(9):
            held.done.release()
        server.close()
