"""When a batch runs: the rule alone, with the time as a number; and which clients can send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shusaku.common._core import FireRule, LiveClients

MOST_CLIENTS = 65_536


@pytest.mark.parametrize(
    ("positions", "able", "prompt", "waited", "busy", "left"),
    [
        (64, 9, 9, 0.0, 0.0, 0.0),  # full
        (64, 9, 9, 0.0, 0.5, 0.0),  # also while the device is busy
        (63, 9, 9, 0.0, 0.0, 0.002),
        (1, 0, 0, 0.0, 0.0, 0.0),  # no more can come
        (1, 0, 0, 0.0, 0.5, 0.0),
        (1, 1, 1, 0.0015, 0.0, 0.0005),
        (1, 1, 1, 0.002, 0.0, 0.0),  # the deadline
        (1, 1, 1, 9.0, 0.0, 0.0),
        (1, 1, 1, 9.0, 0.5, 0.5),  # an earlier start gains nothing
        (1, 1, 1, 0.0, 0.0005, 0.002),
        (1, 1, 1, 0.0, -3.0, 0.002),  # the device is free since then
        (1, 1, 0, 0.0, 0.0, 0.0),  # all that could come were late: an idle device waits for none of them again
        (1, 1, 0, 0.0, 0.0005, 0.0005),  # a busy one has the time
    ],
)
def test_when_a_batch_runs(
    positions: int, able: int, prompt: int, waited: float, busy: float, left: float
) -> None:
    rule = FireRule(64, 0.002)
    assert rule.seconds_left(positions, able, prompt, waited, busy) == pytest.approx(left, abs=1e-9)


@given(st.integers(1, 2000), st.integers(0, 500), st.integers(0, 500), st.floats(0, 10), st.floats(-1, 1))
def test_a_request_waits_for_the_deadline_or_the_device_and_no_longer(
    positions: int, able: int, late: int, waited: float, busy: float
) -> None:
    rule, prompt = FireRule(512, 0.003), max(0, able - late)
    left = rule.seconds_left(positions, able, prompt, waited, busy)
    assert 0 <= left <= max(0.0, 0.003 - waited, busy) + 1e-12
    if rule.is_missed(positions, prompt, waited):
        assert left == 0 or busy > 0, "a deadline that passed holds up no idle device"


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.floats(0, 3)), max_size=80))
def test_clients_are_live_and_able_as_a_slow_list_says(events: list[tuple[int, bool, float]]) -> None:
    live, now = LiveClients(5.0), 100.0
    times: dict[int, float] = {}
    in_flight: dict[int, int] = {}
    for client, is_request, pause in events:
        now += pause
        for old in [one for one, at in times.items() if now - at > 5.0 and in_flight[one] == 0]:
            del times[old], in_flight[old]
        assert live.count(now) == len(times)
        if is_request:
            live.record_request(client, now)
            times[client] = now
            in_flight[client] = in_flight.get(client, 0) + 1
        else:
            live.record_answer(client, now)
            if client in times:
                times[client] = now
                in_flight[client] = max(0, in_flight[client] - 1)
        assert sum(number == 0 for number in in_flight.values()) <= live.able(now) <= len(times)
        assert live.prompt(now) == live.able(now), "none was late"


def test_a_client_waits_when_it_has_as_many_in_flight_as_ever() -> None:
    live = LiveClients(5.0)
    live.record_request(7, 0.0)
    assert live.able(0.0) == 0, "a new client is not known to have more than one in flight"
    live.record_request(7, 0.0)
    assert live.able(0.0) == 0
    live.record_answer(7, 0.1)
    assert live.able(0.0) == 1, "it has had two in flight, so another may come"
    live.record_request(7, 0.0)
    assert live.able(0.0) == 0
    live.record_answer(7, 0.1)
    for _ in range(40):  # from now on one at a time
        live.record_answer(7, 0.1)
        live.record_request(7, 0.1)
    assert live.able(0.1) == 0, "that it once had two is forgotten"


def test_a_client_that_is_late_is_waited_for_again_after_its_next_request() -> None:
    live = LiveClients(5.0)
    for client in (1, 2):
        live.record_request(client, 0.0)
        live.record_answer(client, 0.0)
    assert (live.able(0.0), live.prompt(0.0)) == (2, 2)
    live.record_request(1, 0.1)
    live.record_deadline()
    assert (live.able(0.1), live.prompt(0.1)) == (1, 0), "2 is late"
    live.record_answer(1, 0.2)
    assert (live.able(0.2), live.prompt(0.2)) == (2, 1), "1 was not"
    live.record_request(2, 0.3)
    live.record_answer(2, 0.3)
    assert (live.able(0.3), live.prompt(0.3)) == (2, 2)
    live.record_deadline()
    assert live.prompt(9.0) == live.able(9.0) == live.count(9.0) == 0, "one that is forgotten is counted nowhere"


def test_live_clients_are_bounded() -> None:
    live = LiveClients(5.0)
    for client in range(MOST_CLIENTS + 100):
        live.record_request(client, 0.0)
        live.record_answer(client, 0.0)
    assert live.count(1.0) == MOST_CLIENTS
    assert live.count(5.1) == 0
    assert live.able(5.1) == 0
