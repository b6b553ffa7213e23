"""What `make soak` counts: a soak that finds nothing must be able to find something."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.reliability.slopes import Sample, slope_of
from benchmarks.reliability.soak import StreamReader, check_stream, count_missing, read_ledger
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import EmbeddedServer

ROOT = Path(__file__).resolve().parents[1]

APPEND = """
import sys
from shusaku.replay.stream.append import Appender, EncodedGame
appender = Appender(sys.argv[1], "run-1", actor=4, epoch=int(sys.argv[2]), incarnation=2)
print(appender.append([EncodedGame(sequence, 1, bytes(100)) for sequence in (0, 1, 2)]).appended)
appender.append([])
"""


def samples(processes: int, growth: float, warm_up: float = 20.0, noise: float = 0.2) -> list[Sample]:
    """Processes that follow each other for ten minutes each; memory rises at first, and by `growth` an hour."""
    random = np.random.default_rng(3)
    found = []
    for number in range(processes):
        for age in np.arange(5, 600, 10.0):
            time = 600.0 * number + age
            memory = 100 + warm_up * min(1.0, age / 100) + growth * time / 3600 + noise * random.standard_normal()
            found.append(Sample("actor", number, time, age, memory, 12 + int(growth > 5), 4))
    return found


def test_memory_that_rises_with_the_age_of_a_process_is_no_growth() -> None:
    slope = slope_of(samples(6, growth=0.0), "megabytes")
    assert slope is not None
    assert slope.low < 0 < slope.high
    assert abs(slope.value) < 0.5
    assert slope_of(samples(6, growth=0.0), "threads") is not None


@pytest.mark.parametrize("growth", [3.0, 30.0])
def test_growth_from_process_to_process_is_found(growth: float) -> None:
    slope = slope_of(samples(6, growth), "megabytes")
    assert slope is not None
    assert slope.value == pytest.approx(growth, rel=0.15)
    assert 0 < slope.low < growth * 1.1
    assert slope.high > growth * 0.9


def test_growth_of_one_process_that_lives_long_is_found() -> None:
    one = [Sample("driver", 1, age, age, 100 + 6 * age / 3600, 20 + int(age // 400), 9) for age in range(5, 3600, 10)]
    slope, descriptors, threads = (slope_of(one, what) for what in ("megabytes", "descriptors", "threads"))
    assert slope is not None
    assert slope.value == pytest.approx(6, rel=0.01)
    assert descriptors is not None
    assert descriptors.low > 0
    assert threads is not None
    assert (threads.value, threads.low, threads.high) == (0, 0, 0)


def test_what_cannot_be_compared_has_no_slope() -> None:
    assert slope_of([], "megabytes") is None
    assert slope_of(samples(1, 0.0)[:3], "megabytes") is None


def reader(seen: dict[int, tuple[int, ...]], **counters: int) -> StreamReader:
    made = StreamReader(Path("run"))
    made.games, made.boots = seen, {"b"}
    made.counters = {"games": len(seen), "number": len(seen)} | counters
    return made


def test_a_lost_and_a_doubled_game_are_found() -> None:
    one, two, three = (0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2)
    assert check_stream(reader({1: one, 2: two}), {one, two}) == []
    assert "lost, such as" in check_stream(reader({1: one, 2: two}), {one, three})[0]
    assert "there twice" in check_stream(reader({1: one, 2: two, 3: two}), {one})[0]
    assert "Redis counts" in check_stream(reader({1: one}, games=2, number=2), {one})[0]
    assert "not valid" in check_stream(reader({1: one}, invalid=1), {one})[0]
    lost_window = reader({1: one})
    lost_window.boots = {"b", "c"}
    assert "the window was lost" in check_stream(lost_window, {one})[0]


def test_games_that_a_log_dropped_are_not_lost() -> None:
    before = [(0, 0, 0, number) for number in range(5)]
    assert count_missing(before, [*before[2:], (0, 0, 0, 5)]) == 0
    assert count_missing(before, [before[2], before[4]]) == 1
    assert count_missing(before, []) == 5


def test_the_ledger_has_what_redis_acknowledged_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    server = EmbeddedServer(tmp_path / "redis", max_megabytes=16)
    server.start()
    try:
        RedisControl(server.url, "run-1").begin(3, capacity=10, max_bytes=1 << 20, actors=1)
        hook = str(ROOT / "benchmarks" / "reliability" / "ledger")
        environment = {**os.environ, "PYTHONPATH": hook, "SOAK_LEDGER": str(tmp_path / "ledger")}
        for epoch, appended in (("3", "3"), ("2", "0"), ("3", "0")):  # new, of an earlier term, again
            done = subprocess.run([sys.executable, "-c", APPEND, server.url, epoch], capture_output=True, text=True,
                                  check=False, env=environment)
            assert done.stdout.strip() == appended, done.stderr
    finally:
        server.stop()
    assert read_ledger(tmp_path / "ledger") == {(3, 4, 2, 0), (3, 4, 2, 1), (3, 4, 2, 2)}
