"""When a batch runs: the rule alone, with the time as a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shusaku.actors.inference.batching import MAX_CLIENTS, FireRule, LiveClients, smallest_fitting


@pytest.mark.parametrize(
    ("positions", "requests", "clients", "waited", "left"),
    [
        (64, 1, 30, 0.0, 0.0),  # full
        (63, 1, 30, 0.0, 0.002),
        (8, 10, 30, 0.0, 0.0),  # a third of the clients
        (8, 9, 30, 0.0, 0.002),
        (1, 1, 1, 0.0, 0.0),  # nobody else could come
        (1, 1, 0, 0.0, 0.0),  # the client itself was forgotten
        (1, 1, 5, 0.0, 0.0),
        (1, 1, 6, 0.0015, 0.0005),
        (1, 1, 6, 0.002, 0.0),  # the deadline
        (1, 1, 6, 9.0, 0.0),
    ],
)
def test_when_a_batch_runs(positions: int, requests: int, clients: int, waited: float, left: float) -> None:
    assert FireRule(64, 0.002).seconds_left(positions, requests, clients, waited) == pytest.approx(left, abs=1e-9)


@pytest.mark.parametrize(("requests", "when_idle", "when_busy"), [(4, 0.002, 0.002), (5, 0, 0.002), (10, 0, 0)])
def test_while_a_card_is_busy_more_are_waited_for(requests: int, when_idle: float, when_busy: float) -> None:
    rule = FireRule(1024, 0.002)
    assert rule.seconds_left(8 * requests, requests, 16, 0.0) == when_idle
    assert rule.seconds_left(8 * requests, requests, 16, 0.0, is_busy=True) == when_busy
    assert rule.seconds_left(1024, 1, 16, 0.0, is_busy=True) == 0
    assert rule.seconds_left(8, 1, 1, 0.0, is_busy=True) == 0, "a single client is not waited for"


@given(st.integers(1, 2000), st.integers(1, 500), st.integers(0, 500), st.floats(0, 10), st.booleans())
def test_nobody_waits_beyond_the_deadline(
    positions: int, requests: int, clients: int, waited: float, is_busy: bool
) -> None:
    left = FireRule(512, 0.003).seconds_left(positions, requests, clients, waited, is_busy=is_busy)
    assert 0 <= left <= max(0.0, 0.003 - waited) + 1e-12


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 3)), max_size=60))
def test_live_clients_are_those_with_a_recent_request(events: list[tuple[int, float]]) -> None:
    live, heard, now = LiveClients(5.0), dict[int, float](), 100.0
    for client, pause in events:
        now += pause
        live.record(client, now)
        heard[client] = now
        assert live.count(now + 1) == sum(now + 1 - at <= 5.0 for at in heard.values())


def test_live_clients_are_bounded() -> None:
    live = LiveClients(5.0)
    for client in range(MAX_CLIENTS + 100):
        live.record(client, 0.0)
    assert live.count(1.0) == MAX_CLIENTS
    assert live.count(5.1) == 0


def test_the_smallest_size_that_fits() -> None:
    assert [smallest_fitting([8, 32, 64], n) for n in (1, 8, 9, 32, 33, 64, 65)] == [8, 8, 32, 32, 64, 64, 64]
