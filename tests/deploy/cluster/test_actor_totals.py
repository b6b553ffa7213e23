"""Counters that only grow, whoever dies; and silence that is nobody's fault."""

import msgpack

from shusaku.deploy.cluster.actor_totals import GAP_SECONDS, ActorTotals
from shusaku.replay.stream.control import ActorMetrics


def heard(incarnation: int, age_s: float = 0.1, **figures: object) -> ActorMetrics:
    return ActorMetrics(incarnation, age_s, msgpack.packb(figures))


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_what_a_dead_actor_did_still_counts() -> None:
    totals = ActorTotals()
    totals.update({0: heard(0, searches=100), 1: heard(0, searches=50, runtime="openvino")}, {"games": 7})
    assert totals.total == {"searches": 150}
    totals.update({0: heard(1, searches=3), 1: heard(0, searches=60)}, {"games": 9, "inserted": 40})
    assert totals.total == {"searches": 163}
    totals.update({0: heard(1, searches=5), 1: heard(0, searches=60)}, {"games": 9, "inserted": 40})
    assert totals.total == {"searches": 165}
    assert (totals.accepted, totals.rows) == (9, 40)


def test_an_actor_that_vanishes_from_the_figures_keeps_its_last_ones() -> None:
    totals = ActorTotals()
    totals.update({0: heard(0, searches=100), 1: heard(0, searches=50)}, {})
    totals.update({0: heard(0, searches=110)}, {})
    assert totals.total == {"searches": 160}
    assert list(totals.living) == [0]


def test_silence_counts_by_our_clock_and_only_while_somebody_listens() -> None:
    clock = Clock()
    totals = ActorTotals(clock)
    assert totals.heard(0, 0) is None
    clock.now += 20
    totals.update({0: heard(0, age_s=900.0, ticks=1)}, {})
    assert totals.heard(0, 0) == 0, "the ages of the server's clock count for nothing"
    for _ in range(3):
        clock.now += 1
        totals.update({0: heard(0, ticks=1)}, {})
    assert totals.heard(0, 0) == 3, "the heartbeats of a loop that stands still are no life"
    assert totals.heard(0, 1) is None, "its successor was not heard yet"
    clock.now += 1
    totals.update({0: heard(0, ticks=2)}, {})
    assert totals.heard(0, 0) == 0
    totals.miss()
    assert totals.heard(0, 0) is None
    clock.now += 100
    totals.update({0: heard(0, ticks=2)}, {})
    assert totals.heard(0, 0) == 0
    clock.now += 4
    totals.update({0: heard(0, ticks=2)}, {})
    assert totals.heard(0, 0) == 4
    clock.now += 60
    totals.update({0: heard(0, ticks=2)}, {})
    assert totals.heard(0, 0) == 0, "the driver itself was away (suspended, stopped)"


def test_a_driver_that_looks_late_but_in_time_has_looked() -> None:
    clock = Clock()
    totals = ActorTotals(clock)
    totals.update({0: heard(0, ticks=1)}, {})
    clock.now += GAP_SECONDS
    totals.update({0: heard(0, ticks=1)}, {})
    assert totals.heard(0, 0) == GAP_SECONDS
    clock.now += GAP_SECONDS + 0.1
    totals.update({0: heard(0, ticks=1)}, {})
    assert totals.heard(0, 0) == 0


def test_an_actor_that_vanished_grows_silent() -> None:
    clock = Clock()
    totals = ActorTotals(clock)
    totals.update({0: heard(0, ticks=1)}, {})
    for _ in range(40):
        clock.now += 1
        totals.update({}, {})
    assert totals.heard(0, 0) == 40


def test_an_actor_is_heard_when_its_loop_speaks() -> None:
    totals = ActorTotals()
    totals.update({0: ActorMetrics(0, 0.1, b"")}, {})
    assert totals.heard(0, 0) is None, "its writer sends heartbeats before it has built anything"


def test_nothing_is_counted_before_something_happened() -> None:
    totals = ActorTotals()
    assert (totals.accepted, totals.rows, totals.total) == (0, 0, {})
    totals.update({}, {})
    assert (totals.accepted, totals.rows, totals.total) == (0, 0, {})


def test_games_go_on_counting_when_the_replay_forgot() -> None:
    totals = ActorTotals()
    totals.update({}, {"games": 1000, "inserted": 9000})
    totals.update({}, {})
    totals.update({}, {"games": 5, "inserted": 40})
    assert (totals.accepted, totals.rows) == (1005, 9040)


def test_figures_that_are_none_of_ours_are_ignored() -> None:
    totals = ActorTotals()
    for data in (b"", b"\xc1", b"\x93\x01\x02\x03", msgpack.packb({"a": [1] * 9}), b"\x81" * 5000,
                 msgpack.packb({"call_p99_ms": "x", "playing_ms": None, "runtime": 7}),
                 msgpack.packb({str(k): k for k in range(65)}), msgpack.packb({"a": 1, "runtime": "x" * 257}),
                 msgpack.packb({"a": True}), msgpack.packb({"a": b"1"})):
        totals.update({0: ActorMetrics(0, 0.1, data)}, {})
        assert totals.total == {}
    most = {str(k): k for k in range(63)} | {"runtime": "x" * 256}
    totals.update({0: ActorMetrics(0, 0.1, msgpack.packb(most))}, {})
    assert totals.living[0] == most
