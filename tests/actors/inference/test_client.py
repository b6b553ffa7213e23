"""The client against servers that swap weights, fail, are late, or die."""

import threading
import time
from collections import deque
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_fixtures import GAME, Scripted, ThreadTransport, encode_evaluation, leaves_of, weights

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.inference.client import EvaluationStoppedError, RemoteEvaluator
from shusaku.actors.inference.protocol import ServerUnavailableError
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.pipelined_self_play import PipelinedSelfPlay
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common.codec import CodecError
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.leaves_codec import LeavesCodec, to_half
from shusaku.common.messages import Evaluation, Leaves, RowKind

SMALL = 300  # bytes of a request: some ten positions


def expected(leaves: Leaves) -> np.ndarray:
    return to_half(PseudoRandomEvaluator(GAME, len(leaves))(leaves).logits).astype(np.float32)


class ScriptedTransport:
    """Answers at once, or does what the script says next: each entry is of one `send` or one `receive`.

    "ok", "refuse" (send: ServerUnavailableError), "lose" (receive: ServerUnavailableError), "late" (receive:
    TimeoutError once), or a number: the version of all answers from then on.
    """

    slots = 2

    def __init__(
        self, script: list[str | int] | None = None, version: int = 1, max_bytes: int = SMALL
    ) -> None:
        self.max_bytes = max_bytes
        self.script = deque(script or [])
        self.evaluator = Scripted()
        self.evaluator.version = version
        self.codec = LeavesCodec(GAME)
        self.in_flight = self.most_in_flight = self.sent = 0
        self.order: list[int] = []  # tickets as they were received

    def _act(self, *mine: str) -> str:
        while self.script and isinstance(self.script[0], int):
            self.evaluator.version = int(self.script.popleft())
        if self.script and self.script[0] in mine:
            return str(self.script.popleft())
        if self.script and self.script[0] == "ok":
            self.script.popleft()
        return "ok"

    def send(self, payload: bytes) -> tuple[int, bytes]:
        if self._act("refuse") == "refuse":
            raise ServerUnavailableError("refused")
        self.sent += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        return self.sent, encode_evaluation(self.evaluator(self.codec.decode(payload)))

    def receive(self, ticket: tuple[int, bytes], timeout: float) -> bytes:
        action = self._act("lose", "late")
        if action == "late":
            raise TimeoutError
        self.in_flight -= 1
        if action == "lose":
            raise ServerUnavailableError("lost")
        self.order.append(ticket[0])
        return ticket[1]


@pytest.fixture
def server() -> Iterator[InferenceServer]:
    server = InferenceServer(GAME, Scripted, sizes=[8, 64], deadline_ms=1)
    server.load(weights(1))
    yield server
    server.close()


def test_a_call_is_answered_as_by_the_evaluator(server: InferenceServer) -> None:
    transport = ThreadTransport(3, server)
    evaluate = RemoteEvaluator(transport, 3, GAME)
    assert evaluate.version == -1
    for seed in range(5):
        leaves = leaves_of(20, seed)
        answer = evaluate(leaves)
        np.testing.assert_array_equal(answer.logits, expected(leaves))
        assert answer.values.tolist() == [1 / 1024] * 20
        assert answer.version == evaluate.version == 1
    transport.close()


def test_what_was_begun_first_is_finished_first_and_arrays_may_change_meanwhile(server: InferenceServer) -> None:
    transport = ThreadTransport(3, server)
    evaluate = RemoteEvaluator(transport, 3, GAME)
    first, second = leaves_of(60, 1), leaves_of(7, 2)
    wanted = expected(first), expected(second)
    evaluate.begin(first)
    evaluate.begin(second)
    for column in (first.packed, first.uniform, first.offsets, first.actions, second.packed, second.actions):
        column.fill(0)  # as the next select() would
    for logits in wanted:
        np.testing.assert_array_equal(evaluate.finish().logits, logits)
    assert transport.most_in_flight == 2
    transport.close()


ACTIONS = st.one_of(st.sampled_from(("ok", "ok", "ok", "refuse", "lose", "late")), st.integers(0, 9))


@given(st.lists(ACTIONS, max_size=25), st.lists(st.integers(1, 60), min_size=1, max_size=4))
@settings(deadline=None, max_examples=150)
def test_whatever_happens_on_the_way_every_answer_is_right_and_of_one_version(
    script: list[str | int], sizes: list[int]
) -> None:
    transport = ScriptedTransport(script)
    evaluate = RemoteEvaluator(transport, 1, GAME)
    evaluate._wait = lambda: None  # type: ignore[method-assign]
    asked: deque[Leaves] = deque()
    told = -1
    for number, size in enumerate(sizes):
        asked.append(leaves_of(size, number))
        evaluate.begin(asked[-1])
        while len(asked) == 2 or (asked and number == len(sizes) - 1):
            answer, leaves = evaluate.finish(), asked.popleft()
            np.testing.assert_array_equal(answer.logits, expected(leaves))
            assert answer.values.tolist() == [answer.version / 1024] * len(leaves)
            assert evaluate.version >= max(told, answer.version)  # it never goes back
            told = evaluate.version
    assert transport.most_in_flight <= transport.slots
    assert transport.in_flight == 0


def test_parts_of_two_versions_are_asked_again() -> None:
    """Five requests; the weights are swapped after the third was computed."""
    transport = ScriptedTransport(["ok", "ok", "ok", "ok", 2])
    evaluate = RemoteEvaluator(transport, 1, GAME)
    leaves = leaves_of(50)
    parts = len(LeavesCodec(GAME, SMALL).split(leaves))
    answer = evaluate(leaves)
    assert answer.version == 2
    assert answer.values.tolist() == [2 / 1024] * 50
    assert 1 <= evaluate.resent == transport.sent - parts < parts


def test_an_older_server_may_take_over() -> None:
    """The one with version 5 died: those that live have 4, and are asked for all."""
    transport = ScriptedTransport(["ok", "ok", 4], version=5)
    evaluate = RemoteEvaluator(transport, 1, GAME)
    answer = evaluate(leaves_of(50))
    assert answer.version == 4
    assert evaluate.version == 5  # the newest that it knows of


def test_it_pauses_longer_each_time_up_to_a_bound() -> None:
    transport = ScriptedTransport(["refuse"] * 5)
    evaluate = RemoteEvaluator(transport, 1, GAME)
    pauses: list[float] = []
    evaluate._never.wait = lambda timeout: pauses.append(timeout) or time.sleep(timeout)  # type: ignore
    begin = time.monotonic()
    evaluate(leaves_of(2))
    assert 0.1 < time.monotonic() - begin < 3
    assert max(pauses) <= 0.2
    assert pauses[0] <= 0.02


def test_a_request_without_answer_is_sent_again() -> None:
    transport = ScriptedTransport(["ok", "late", "late", "late"])
    evaluate = RemoteEvaluator(transport, 1, GAME, timeout=0.0)
    evaluate(leaves_of(2))
    assert evaluate.resent == 3
    transport = ScriptedTransport(["ok", "late", "late", "late"])
    evaluate = RemoteEvaluator(transport, 1, GAME, timeout=60.0)
    evaluate(leaves_of(2))
    assert evaluate.resent == 0  # it was late, not lost


def test_it_stops_when_told_and_can_go_on(server: InferenceServer) -> None:
    stop = threading.Event()
    dead = ThreadTransport(1)
    dead.servers = [server]
    evaluate = RemoteEvaluator(dead, 1, GAME, should_stop=stop.is_set)
    gone = InferenceServer(GAME, Scripted, sizes=[8], deadline_ms=1)
    gone.close()
    dead.servers = [gone]
    leaves = leaves_of(9)
    evaluate.begin(leaves)
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(EvaluationStoppedError):
        evaluate.finish()
    assert 0.25 < time.monotonic() - begin < 2
    stop.clear()
    dead.servers = [server]
    np.testing.assert_array_equal(evaluate.finish().logits, expected(leaves))
    dead.close()


def test_it_moves_when_its_server_dies(server: InferenceServer) -> None:
    mortal = InferenceServer(GAME, Scripted, sizes=[8, 64], deadline_ms=1)
    mortal.load(weights(1))
    transport = ThreadTransport(1, mortal, server)
    evaluate = RemoteEvaluator(transport, 1, GAME)
    for seed in range(40):
        leaves = leaves_of(12, seed)
        evaluate.begin(leaves)
        if seed == 20:
            mortal.close()
        np.testing.assert_array_equal(evaluate.finish().logits, expected(leaves))
    assert evaluate.resent >= 1
    transport.close()


def test_nonsense_from_a_server_is_an_error_of_the_codec() -> None:
    class Nonsense(ScriptedTransport):
        def receive(self, ticket: tuple[int, bytes], timeout: float) -> bytes:
            return super().receive(ticket, timeout)[:-1]

    with pytest.raises(CodecError):
        RemoteEvaluator(Nonsense(), 1, GAME)(leaves_of(3))


# --- versions in games ---------------------------------------------------------------------------------------------


class SwappingTransport(ScriptedTransport):
    """Its weights change all the time, between two requests and between request and answer."""

    def __init__(self, seed: int, max_bytes: int) -> None:
        super().__init__(version=0, max_bytes=max_bytes)
        self._random = np.random.default_rng(seed)

    def send(self, payload: bytes) -> tuple[int, bytes]:
        if self._random.random() < 0.05:
            self.evaluator.version += 1
        return super().send(payload)


class Mislabelled(RemoteEvaluator):
    """What must not be: the answer is filed under the version that was expected instead of the one that it names."""

    def finish(self) -> Evaluation:
        expected = max(0, self.version)
        evaluation = super().finish()
        return Evaluation(evaluation.logits, evaluation.values, expected)


def rows_of_wrong_version(client: type[RemoteEvaluator], max_bytes: int, cache: int) -> tuple[int, int]:
    """Rows whose root was not evaluated by the weights that they name, and all rows.

    `raw_values` is what the network said of the root, from the cache or not: version / 1024.
    """
    wrong = total = 0
    transport = SwappingTransport(1, max_bytes)
    remote = client(transport, 1, GAME)
    remote._wait = lambda: None  # type: ignore[method-assign]
    config = PuctConfig(simulations=16, cache=cache)
    for player in (
        PipelinedSelfPlay(GAME, config, SelfPlayConfig(random_plies=4), remote, games=24, seed=1,
                           identity=ActorIdentity(0)),
        SelfPlay(GAME, config, SelfPlayConfig(random_plies=4), remote, games=24, seed=2, identity=ActorIdentity(0)),
    ):
        records = [record for _ in range(500) for record in player.step()]
        counters = player.counters()
        assert counters["cache_hits"] > 100 if cache else counters["cache_hits"] == 0
        while len(remote._in_flight):  # of the groups, before the next player asks
            remote.finish()
        for record in records:
            full = record.kind == RowKind.FULL
            wrong += int(np.count_nonzero(record.raw_values[full] * 1024 != record.versions[full]))
            total += int(np.count_nonzero(full))
    assert transport.evaluator.version > 20
    return wrong, total


@pytest.mark.parametrize("max_bytes", [SMALL, 96_000])
@pytest.mark.parametrize("cache", [0, 1 << 16])
def test_nothing_is_filed_under_weights_that_did_not_compute_it(max_bytes: int, cache: int) -> None:
    wrong, total = rows_of_wrong_version(RemoteEvaluator, max_bytes, cache)
    assert wrong == 0
    assert total > 500


def test_the_test_would_notice() -> None:
    wrong, _ = rows_of_wrong_version(Mislabelled, 96_000, 1 << 16)
    assert wrong > 20
