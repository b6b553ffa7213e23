"""The weights of the inference server: swapped between batches, never for older ones."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from inference_fixtures import ask, eventually, hammer, leaves_of, serving, weights

from shusaku.actors.inference.protocol import AnswerLateError


def test_weights_are_swapped_between_batches_while_eight_threads_ask() -> None:
    stop = threading.Event()
    with serving(sizes=(4, 8, 16, 64), version=0) as (server, _), ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(hammer, server, stop, client) for client in range(8)]
        for version in range(1, 300):
            server.load(weights(version))
            assert server.version == version
        stop.set()
        for call in calls:
            versions = call.result(10)
            assert versions == sorted(versions)
            assert len(set(versions)) > 10


def test_after_load_returns_no_older_weights_answer() -> None:
    with serving(sizes=(4, 64)) as (server, _):
        for version in range(2, 60):
            server.load(weights(version))
            assert ask(server, leaves_of(1 + version % 9)).version == version


def test_older_weights_are_ignored_and_counted() -> None:
    with serving(version=5) as (server, _):
        for version in (4, 5, 0):
            server.load(weights(version))
            assert ask(server, leaves_of(2)).version == server.version == 5
        assert server.stats().stale_weights == 2


def test_weights_that_do_not_fit_leave_the_old_ones() -> None:
    with serving(version=5) as (server, _):
        wrong = weights(6)
        object.__setattr__(wrong, "step", -1)
        with pytest.raises(ValueError, match="another network"):
            server.load(wrong)
        assert ask(server, leaves_of(2)).version == server.version == 5
        server.load(weights(7))
        assert ask(server, leaves_of(2)).version == 7


def test_weights_that_wait_are_overtaken_by_newer_ones() -> None:
    with serving() as (server, evaluators), ThreadPoolExecutor(8) as pool:
        evaluators[64].free.clear()
        call = pool.submit(ask, server, leaves_of(2))
        assert evaluators[64].entered.wait(10)
        loads: list[Future[None]] = []
        for version in (2, 3, 4):
            loads.append(pool.submit(server.load, weights(version)))
            assert eventually(lambda: server._publication is not None
                              and server._publication.weights.version == version)  # noqa: B023
        with pytest.raises(AnswerLateError):
            server.load(weights(9), timeout=0.05)
        assert server.version == 1
        evaluators[64].free.set()
        assert call.result(10).version == 1
        for load in loads:
            load.result(10)
        assert eventually(lambda: server.version == 9)
