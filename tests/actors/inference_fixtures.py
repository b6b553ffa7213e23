"""For the tests of the inference server and of its client: leaves, evaluators with a switch, a transport of threads."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from shusaku.actors.evaluators.evaluator import PseudoRandomEvaluator
from shusaku.actors.inference.server import InferenceServer
from shusaku.common._core import Game, GameBatch
from shusaku.common.config.schema import SearchConfig, SelfPlayConfig
from shusaku.common.config.search_options import search_options, self_play_options
from shusaku.common.leaves_codec import LeavesCodec, decode_evaluation, to_half
from shusaku.common.messages import Evaluation, Leaves, Weights

GAME = Game("connect_four")
CODEC = LeavesCodec(GAME)


def leaves_of(rows: int, seed: int = 1, game: Game = GAME) -> Leaves:
    """Positions a few plies into different games."""
    options = search_options(SearchConfig(cache=0), symmetries=True)
    batch = GameBatch(game, options, rows, seed, self_play_options(SelfPlayConfig(random_plies=6)))
    leaves = batch.select(0)
    return Leaves(*(np.array(column) for column in leaves))


def weights(version: int) -> Weights:
    return Weights(version, version, {}, {}, GAME.name, GAME.params)


class Scripted(PseudoRandomEvaluator):
    """Pseudo-random logits, and values that name the version: version / 1024.  Remembers what it was asked."""

    def __init__(self, size: int = 64) -> None:
        super().__init__(GAME, size, -1)
        self.size = size
        self.asked: list[int] = []  # positions of each batch
        self.free = threading.Event()  # a batch waits for it
        self.free.set()
        self.entered = threading.Event()
        self.threads: set[int] = set()
        self.error: Exception | None = None  # raised by the next batch
        self.bad_rows: list[int] = []  # whose answer is not finite

    def load(self, weights: Weights) -> None:
        if weights.step < 0:
            raise ValueError("these weights belong to another network")
        super().load(weights)

    def __call__(self, leaves: Leaves) -> Evaluation:
        self.asked.append(len(leaves))
        self.threads.add(threading.get_ident())
        self.entered.set()
        assert self.free.wait(30)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        evaluation = super().__call__(leaves)
        evaluation.values.fill(self.version / 1024)
        for row in self.bad_rows:
            evaluation.logits[leaves.offsets[row]] = np.nan
        return evaluation


@contextmanager
def serving(
    *, sizes: tuple[int, ...] = (64,), deadline_ms: float = 1.0, version: int = 1, max_waiting: int = 512
) -> Iterator[tuple[InferenceServer, dict[int, Scripted]]]:
    """A server with weights, and its evaluators by size."""
    evaluators: dict[int, Scripted] = {}

    def make(size: int) -> Scripted:
        return evaluators.setdefault(size, Scripted(size))

    server = InferenceServer(GAME, make, sizes=sizes, deadline_ms=deadline_ms, max_waiting=max_waiting)
    try:
        if version >= 0:
            server.load(weights(version))
            for evaluator in evaluators.values():
                evaluator.asked.clear()
                evaluator.entered.clear()
        yield server, evaluators
    finally:
        for evaluator in evaluators.values():
            evaluator.free.set()
        server.close()
    assert not server._thread.is_alive()


def ask(server: InferenceServer, leaves: Leaves, client: int = 0, timeout: float = 10.0) -> Evaluation:
    return decode_evaluation(server.infer(client, CODEC.encode(leaves), timeout), len(leaves), len(leaves.actions))


def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    end, pause = time.monotonic() + seconds, threading.Event()
    while not holds() and time.monotonic() < end:
        pause.wait(0.002)
    return holds()


def hammer(server: InferenceServer, stop: threading.Event, client: int) -> list[int]:
    """Versions of the answers, each checked against what that version would say."""
    versions, leaves = [], leaves_of(1 + client, seed=client)
    logits = to_half(PseudoRandomEvaluator(GAME, 9)(leaves).logits).astype(np.float32)
    while not stop.is_set():
        answer = ask(server, leaves, client)
        assert set(answer.values.tolist()) == {answer.version / 1024}
        np.testing.assert_array_equal(answer.logits, logits)
        versions.append(answer.version)
    return versions


class ThreadTransport:
    """Two threads that call one server at a time; several servers are taken in turn when one fails."""

    def __init__(self, client: int, *servers: InferenceServer, timeout: float = 5.0) -> None:
        self.servers, self._client, self._timeout = list(servers), client, timeout
        self._pool = ThreadPoolExecutor(2)
        self.in_flight = self.most_in_flight = 0

    def send(self, payload: bytes) -> "Future[bytes]":
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        return self._pool.submit(self.servers[0].infer, self._client, payload, self._timeout)

    def receive(self, ticket: Any, timeout: float) -> bytes:
        try:
            answer: bytes = ticket.result(timeout)
        except TimeoutError:
            raise
        except Exception:
            self.in_flight -= 1
            self.servers.append(self.servers.pop(0))
            raise
        self.in_flight -= 1
        return answer

    def close(self) -> None:
        self._pool.shutdown()
