"""`actors.count=auto` against a model of a learner that takes a fixed number of games."""

import pytest

from shusaku.deploy.cluster.actor_count import LOOK_S, ActorCount


def settle(count: ActorCount, *, wanted: float, most: int, minutes: int, idle_share: float | None = None) -> list[int]:
    """The numbers of actors, minute by minute, if `wanted` actors would play all the time."""
    seen, now = [], 0.0
    alive = count.count
    for _ in range(minutes):
        now += LOOK_S
        paused = max(0.0, 1 - wanted / alive)
        alive = count.decide(now, alive=alive, most=most, paused_share=paused, idle_share=idle_share)
        seen.append(alive)
    return seen


@pytest.mark.parametrize("wanted", [1.0, 2.5, 7.3, 30.0])
@pytest.mark.parametrize("start", [1, 8, 64])
def test_it_ends_where_few_pause_and_stays_there(wanted: float, start: int) -> None:
    seen = settle(ActorCount(start, 0.0), wanted=wanted, most=64, minutes=60)
    last = seen[-5:]
    assert len(set(last)) == 1, f"it swings: {seen}"
    assert wanted <= last[0] + 1e-9, f"the learner starves: {seen}"
    assert last[0] == 1 or 1 - wanted / last[0] <= 0.35, f"too many pause: {seen}"


def test_it_never_leaves_its_bounds() -> None:
    assert max(settle(ActorCount(1, 0.0), wanted=1000, most=12, minutes=40)) == 12
    assert min(settle(ActorCount(12, 0.0), wanted=0.01, most=12, minutes=40)) == 1


def test_busy_servers_get_no_more_clients() -> None:
    assert set(settle(ActorCount(4, 0.0), wanted=1000, most=64, minutes=10, idle_share=0.02)) == {4}
    assert settle(ActorCount(4, 0.0), wanted=1000, most=64, minutes=10, idle_share=0.5)[-1] > 16


def test_it_waits_for_actors_that_are_starting() -> None:
    count = ActorCount(4, 0.0)
    assert count.decide(LOOK_S, alive=3, most=64, paused_share=0.0, idle_share=None) == 4
    assert count.decide(LOOK_S, alive=4, most=64, paused_share=0.0, idle_share=None) == 5
    assert count.decide(LOOK_S + 1, alive=5, most=64, paused_share=0.0, idle_share=None) == 5, "once a minute"


def test_it_follows_a_cluster_that_shrinks() -> None:
    count = ActorCount(16, 0.0)
    assert count.decide(LOOK_S, alive=4, most=4, paused_share=0.2, idle_share=None) == 16, "they wait"
