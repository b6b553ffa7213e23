"""Counters only grow, whichever actor dies and whatever it sends."""

import msgpack

from shusaku.deploy.cluster.actor_totals import SILENT_SECONDS, ActorTotals
from shusaku.replay.stream.control import ActorMetrics


def heartbeat(incarnation: int, age_s: float = 0.1, **metrics: object) -> ActorMetrics:
    return ActorMetrics(incarnation, age_s, msgpack.packb(metrics))


def test_what_a_dead_actor_did_still_counts() -> None:
    totals = ActorTotals()
    totals.update({0: heartbeat(0, searches=100), 1: heartbeat(0, searches=50, runtime="openvino")}, {"games": 7})
    assert totals.total == {"searches": 150}
    totals.update({0: heartbeat(1, searches=3), 1: heartbeat(0, searches=60)}, {"games": 9, "inserted": 40})
    assert totals.total == {"searches": 163}
    totals.update({0: heartbeat(1, searches=5), 1: heartbeat(0, searches=60)}, {"games": 9, "inserted": 40})
    assert totals.total == {"searches": 165}
    assert (totals.accepted, totals.rows) == (9, 40)


def test_an_actor_that_vanishes_keeps_its_last_metrics() -> None:
    totals = ActorTotals()
    totals.update({0: heartbeat(0, searches=100), 1: heartbeat(0, searches=50)}, {})
    totals.update({0: heartbeat(0, searches=110)}, {})
    assert totals.total == {"searches": 160}
    assert list(totals.by_actor) == [0]


def test_an_actor_that_was_scaled_down_is_not_shown_any_more_and_counts() -> None:
    """Its last heartbeat stays in Redis until the next start."""
    totals = ActorTotals()
    totals.update({0: heartbeat(0, searches=100), 1: heartbeat(0, searches=50, resident_mb=300)}, {})
    totals.update({0: heartbeat(0, searches=110), 1: heartbeat(0, 20.0, searches=50)}, {})
    assert list(totals.by_actor) == [0, 1], "it may only be late"
    totals.update({0: heartbeat(0, searches=120), 1: heartbeat(0, SILENT_SECONDS, searches=50)}, {})
    assert list(totals.by_actor) == [0]
    assert totals.total == {"searches": 170}
    totals.update({0: heartbeat(0, searches=120), 1: heartbeat(1, searches=5)}, {})
    assert list(totals.by_actor) == [0, 1], "there are as many again"
    assert totals.total == {"searches": 175}


def test_a_heartbeat_without_metrics_changes_nothing() -> None:
    """The writer of an actor sends heartbeats before the actor has built anything."""
    totals = ActorTotals()
    totals.update({0: ActorMetrics(0, 0.1, b"")}, {})
    assert totals.by_actor == {}
    totals.update({0: heartbeat(0, searches=7)}, {})
    totals.update({0: ActorMetrics(1, 0.1, b"")}, {})
    assert totals.total == {"searches": 7}
    totals.update({0: heartbeat(1, searches=2)}, {})
    assert totals.total == {"searches": 9}


def test_nothing_is_counted_before_something_happened() -> None:
    totals = ActorTotals()
    assert (totals.accepted, totals.rows, totals.total) == (0, 0, {})
    totals.update({}, {})
    assert (totals.accepted, totals.rows, totals.total) == (0, 0, {})


def test_games_go_on_counting_when_the_replay_lost_its_data() -> None:
    totals = ActorTotals()
    totals.update({}, {"games": 1000, "inserted": 9000})
    totals.update({}, {})
    totals.update({}, {"games": 5, "inserted": 40})
    assert (totals.accepted, totals.rows) == (1005, 9040)


def test_games_go_on_counting_over_a_resume_whenever_the_replay_lost_its_data() -> None:
    first = ActorTotals()
    for counters in ({"games": 1000, "inserted": 9000}, {}, {"games": 5, "inserted": 40}):
        first.update({}, counters)
    second = ActorTotals(counted=first.counted, lost=first.lost)
    assert (second.accepted, second.rows) == (1005, 9040), "before the replay was asked"
    second.update({}, {"games": 7, "inserted": 60})
    assert (second.accepted, second.rows) == (1007, 9060)
    third = ActorTotals(counted=second.counted, lost=second.lost)
    third.update({}, {"games": 0, "inserted": 0})  # it lost them while no driver ran
    third.update({}, {"games": 2, "inserted": 10})
    assert (third.accepted, third.rows) == (1009, 9070)


def test_metrics_that_are_not_ours_are_ignored() -> None:
    totals = ActorTotals()
    for data in (b"", b"\xc1", b"\x93\x01\x02\x03", msgpack.packb({"a": [1] * 9}), b"\x81" * 5000,
                 msgpack.packb({"call_p99_ms": "x", "playing_ms": None, "runtime": 7}),
                 msgpack.packb({str(k): k for k in range(65)}), msgpack.packb({"a": 1, "runtime": "x" * 257}),
                 msgpack.packb({"a": True}), msgpack.packb({"a": b"1"})):
        totals.update({0: ActorMetrics(0, 0.1, data)}, {})
        assert totals.total == {}
    most = {str(k): k for k in range(63)} | {"runtime": "x" * 256}
    totals.update({0: ActorMetrics(0, 0.1, msgpack.packb(most))}, {})
    assert totals.by_actor[0] == most


def test_when_the_replay_last_heard_of_an_actor() -> None:
    now = [100.0]
    totals = ActorTotals(clock=lambda: now[0])
    assert totals.unheard_seconds(0) == 0, "it has never played"
    totals.update({0: ActorMetrics(0, 2.5, msgpack.packb({"games": 1}))}, {})
    now[0] += 10
    assert totals.unheard_seconds(0) == 12.5
    totals.update({0: ActorMetrics(1, 0.5, b"")}, {})
    assert totals.unheard_seconds(0) == 0.5
