"""What a worker says of itself: since when it works on one thing, what took longest, and what is a wait."""

from shusaku.common.activity import ActivityClock


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_work_begins_anew_each_time_and_the_slowest_is_kept() -> None:
    clock = Clock()
    activity = ActivityClock(clock)
    assert activity.heartbeat().activity == "starting"
    for seconds in (1.0, 7.0, 3.0):
        activity.begin("a step")
        clock.now += seconds
    heartbeat = activity.heartbeat()
    assert (heartbeat.activity, heartbeat.seconds, heartbeat.is_wait) == ("a step", 3.0, False)
    assert heartbeat.slowest["a step"] == 7.0, "the one that goes on has not ended"
    activity.begin("loading weights")
    clock.now += 2
    activity.begin("a step")
    assert activity.heartbeat().slowest == {"a step": 7.0, "loading weights": 2.0}


def test_a_wait_goes_on_under_one_name_and_counts_as_no_work() -> None:
    clock = Clock()
    activity = ActivityClock(clock)
    activity.begin("a step")
    clock.now += 4
    for _ in range(3):
        activity.wait("waiting for an inference server", "inference")
        clock.now += 10
    heartbeat = activity.heartbeat()
    assert (heartbeat.seconds, heartbeat.is_wait, heartbeat.waits_for) == (30.0, True, "inference")
    assert heartbeat.slowest == {"a step": 4.0}
    activity.begin("a step")
    heartbeat = activity.heartbeat()
    assert (heartbeat.seconds, heartbeat.is_wait, heartbeat.waits_for) == (0.0, False, "")
    assert heartbeat.slowest == {"a step": 4.0}, "a wait is no slow work"


def test_ready_and_troubles_travel_with_it() -> None:
    activity = ActivityClock(Clock())
    assert not activity.heartbeat().is_ready
    activity.set_ready()
    heartbeat = activity.heartbeat(["the replay has taken nothing for 9 s"])
    assert heartbeat.is_ready
    assert heartbeat.troubles == ("the replay has taken nothing for 9 s",)
