"""Batches are bounded by time: a client gives up after some seconds, so a slow device gets smaller ones."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from inference_fixtures import GAME, ask, leaves_of, weights

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.inference import pipeline as pipeline_module
from shusaku.actors.inference.protocol import SERVER_SECONDS
from shusaku.actors.inference.server import InferenceServer
from shusaku.common.leaves_codec import to_half
from shusaku.common.messages import Evaluation, Leaves

BATCH_SECONDS = 0.2
SIZES = (8, 16, 32, 64)


class Slow(PseudoRandomEvaluator):
    """Takes its time for each batch and each row of it, as all of its sizes do."""

    batch_s, row_s, first_s = 0.0, 0.0, 0.0  # first_s: more for the first batch of each size

    def __init__(self, size: int) -> None:
        super().__init__(GAME, size, -1)
        self.asked: list[int] = []

    def __call__(self, leaves: Leaves) -> Evaluation:
        time.sleep(self.batch_s + self.row_s * len(leaves) + (0.0 if self.asked else self.first_s))
        self.asked.append(len(leaves))
        return super().__call__(leaves)


@contextmanager
def a_slow_server(sizes: Sequence[int] = SIZES) -> Iterator[tuple[InferenceServer, dict[int, Slow]]]:
    evaluators: dict[int, Slow] = {}
    server = InferenceServer(GAME, lambda size: evaluators.setdefault(size, Slow(size)), sizes=sizes, deadline_ms=1)
    try:
        server.load(weights(1))
        yield server, evaluators
    finally:
        server.close()


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pipeline_module.BATCH_SECONDS == SERVER_SECONDS / 4
    monkeypatch.setattr(pipeline_module, "BATCH_SECONDS", BATCH_SECONDS)
    monkeypatch.setattr(Slow, "batch_s", 0.0)
    monkeypatch.setattr(Slow, "row_s", 0.0)


def ask_at_once(server: InferenceServer, clients: int, rows: int) -> None:
    """Each client asks once; the answers are right."""
    with ThreadPoolExecutor(clients) as pool:
        requests = [leaves_of(rows, seed=client) for client in range(clients)]
        answers = [pool.submit(ask, server, leaves, client) for client, leaves in enumerate(requests)]
        for leaves, answer in zip(requests, answers, strict=True):
            expected = to_half(PseudoRandomEvaluator(GAME, rows)(leaves).logits).astype(np.float32)
            np.testing.assert_array_equal(answer.result(10).logits, expected)


def test_a_slow_device_gets_batches_that_it_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none of the sizes behind the first one that takes too long, twice."""
    monkeypatch.setattr(Slow, "row_s", 0.008)
    with a_slow_server() as (server, evaluators):
        assert [evaluators[size].asked for size in SIZES] == [[8], [16], [32, 32], []]
        ask_at_once(server, 8, 4)
        assert evaluators[64].asked == []
        assert evaluators[32].asked == [32, 32]
        assert server.description.endswith("; batches of at most 16, because larger ones take too long")


def test_a_request_larger_than_the_bound_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slow, "row_s", 0.008)
    with a_slow_server() as (server, evaluators):
        monkeypatch.setattr(Slow, "row_s", 0.0)
        ask_at_once(server, 1, 40)
        assert evaluators[64].asked == []


def test_the_bound_follows_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was busy with other work, it is free, and it is busy again; one slow batch alone changes nothing."""
    monkeypatch.setattr(Slow, "row_s", 0.08)
    with a_slow_server((1, 2, 4)) as (server, _):
        assert server._pipeline.update_largest() == 2
        monkeypatch.setattr(Slow, "row_s", 0.0)
        ask_at_once(server, 1, 2)
        ask_at_once(server, 1, 4)
        assert "at most" not in server.description
        for seconds, largest in [(0.08, 4), (0.0, 4), (0.08, 4), (0.08, 2), (0.0, 4)]:
            monkeypatch.setattr(Slow, "row_s", seconds)
            ask_at_once(server, 1, server._pipeline.largest)
            ask_at_once(server, 1, 1)
            assert server._pipeline.largest == largest, seconds


def test_what_the_first_batch_compiles_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slow, "first_s", 0.3)
    with a_slow_server() as (server, evaluators):
        assert [evaluators[size].asked for size in SIZES] == [[size, size] for size in SIZES]
        assert "at most" not in server.description


def test_smaller_batches_that_take_as_long_gain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device that other processes use: each batch waits for its turn."""
    monkeypatch.setattr(Slow, "batch_s", 0.3)
    with a_slow_server() as (server, evaluators):
        assert "at most" not in server.description
        for _ in range(3):
            ask_at_once(server, 2, 32)
        assert server._pipeline.update_largest() == 64
        assert evaluators[64].asked
