"""Prefetching changes when batches are made, never which."""

import threading
import time

import pytest

from shusaku.learner.batches import Prefetcher, batch_seed

RUN_SEED = 11


def expected(begin: int, end: int) -> list[int]:
    return [batch_seed(RUN_SEED, index) for index in range(begin, end)]


def test_seeds_differ_between_batches_and_runs() -> None:
    seeds = {batch_seed(run, index) for run in range(20) for index in range(200)}
    assert len(seeds) == 4000


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_batches_come_in_order(depth: int) -> None:
    batches = Prefetcher(lambda seed: seed, RUN_SEED, depth)
    assert [batches.next() for _ in range(20)] == expected(0, 20)
    assert batches.index == 20
    batches.stop()
    assert batches.next() is None


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_nothing_is_lost_between_stop_and_resume(depth: int) -> None:
    taken: list[int | None] = []
    index = 0
    for count in (5, 1, 7):
        batches = Prefetcher(lambda seed: seed, RUN_SEED, depth, index)
        taken += [batches.next() for _ in range(count)]
        time.sleep(0.01)  # it runs ahead, and drops what it made
        batches.stop()
        index = batches.index
    assert taken == expected(0, 13)


@pytest.mark.parametrize("depth", [1, 4])
def test_no_more_than_depth_are_made_ahead(depth: int) -> None:
    made: list[int] = []

    def sample(seed: int) -> int:
        made.append(seed)
        return seed

    batches = Prefetcher(sample, RUN_SEED, depth)
    batches.next()
    wait_until(lambda: len(made) == 1 + depth)
    time.sleep(0.05)
    assert made == expected(0, 1 + depth)
    batches.stop()


@pytest.mark.parametrize("depth", [0, 2])
def test_nothing_beyond_the_bound_is_sampled(depth: int) -> None:
    made: list[int] = []

    def sample(seed: int) -> int:
        made.append(seed)
        return seed

    batches = Prefetcher(sample, RUN_SEED, depth, end=0)
    assert batches.next() is None
    for begin, end in ((0, 3), (3, 4), (4, 9)):
        batches.allow(end)
        assert [batches.next() for _ in range(end - begin)] == expected(begin, end)
        assert batches.next() is None
        assert made == expected(0, end)
    batches.stop()


@pytest.mark.parametrize("depth", [0, 2])
def test_a_dry_source_is_asked_again_for_the_same_batch(depth: int) -> None:
    wet = threading.Event()
    batches = Prefetcher(lambda seed: seed if wet.is_set() else None, RUN_SEED, depth)
    assert batches.next() is None
    assert batches.next() is None
    assert batches.index == 0
    wet.set()
    assert [batches.next() for _ in range(5)] == expected(0, 5)
    batches.stop()


@pytest.mark.parametrize("depth", [0, 2])
def test_an_error_of_the_source_reaches_the_consumer(depth: int) -> None:
    def sample(seed: int) -> int:
        if seed == batch_seed(RUN_SEED, 2):
            raise ValueError("no rows")
        return seed

    batches = Prefetcher(sample, RUN_SEED, depth)
    assert [batches.next(), batches.next()] == expected(0, 2)
    with pytest.raises(ValueError, match="no rows"):
        batches.next()
    batches.stop()


def test_stop_wakes_a_consumer_and_ends_the_thread() -> None:
    release = threading.Event()

    def sample(seed: int) -> int:
        release.wait(5)
        return seed

    batches = Prefetcher(sample, RUN_SEED, 1)
    answers: list[int | None] = []
    consumer = threading.Thread(target=lambda: answers.append(batches.next()))
    consumer.start()
    threading.Timer(0.05, release.set).start()
    batches.stop()
    consumer.join(5)
    assert answers == [None]
    assert batches.index == 0
    assert not [t for t in threading.enumerate() if t.name == "prefetch"]


def wait_until(holds: object) -> None:
    deadline = time.monotonic() + 5
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.002)
