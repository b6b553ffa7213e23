"""Since when nothing can be learned and why, and what is shown of workers that wait, work for long or are silent."""

from dataclasses import replace

from fake_workers import Clock, FakeRole, FakeWorker

from shusaku.common.activity import Heartbeat
from shusaku.deploy.cluster.outages import LONG_SECONDS, QUIET_SECONDS, SAID_SECONDS, Outage, is_well, list_troubles
from shusaku.deploy.cluster.supervisor import Supervisor

WORKING = Heartbeat("playing a step", 0.0)


def test_an_outage_is_timed_from_its_beginning_and_said_once() -> None:
    clock = Clock()
    outage = Outage(clock)
    assert outage.update({}) == ""
    assert outage.seconds == 0
    assert outage.update({"replay": "no answer"}) == ""
    clock.now += SAID_SECONDS
    line = outage.update({"replay": "no answer"})
    assert line.startswith("nothing can be learned (replay: no answer)")
    assert outage.seconds == SAID_SECONDS
    clock.now += 5
    assert outage.update({"learner": "none answers"}) == "", "another part is missing now, and still nothing is learned"
    assert outage.reason == "learner: none answers"
    assert outage.update({}) == "nothing is missing any more, after 15 s: training goes on"
    assert (outage.reason, outage.seconds, outage.total_seconds) == ("", 0, SAID_SECONDS + 5)


def test_a_short_outage_is_counted_and_not_said() -> None:
    clock = Clock()
    outage = Outage(clock)
    for _ in range(3):
        assert outage.update({"learner": "none answers"}) == ""
        clock.now += 2
        assert outage.update({}) == ""
    assert outage.total_seconds == 6


def workers_with(*beats: Heartbeat | None) -> tuple[Supervisor, list[FakeWorker], Clock]:
    clock = Clock()
    supervisor, role = Supervisor(clock), FakeRole(clock)
    supervisor.register(role, len(beats))
    supervisor.reconcile()
    for worker, beat in zip(role.started, beats, strict=True):
        if beat is not None:
            worker.beat, worker.heartbeat_at = beat, clock.now
    return supervisor, role.started, clock


def test_a_node_whose_clock_is_off_is_named_once() -> None:
    supervisor, workers, _ = workers_with(*(replace(WORKING, host=host) for host in ("w1", "w1", "w2", "w3")))
    for worker, offset in zip(workers, (3600.0, 3600.2, -86400.0, 4.0), strict=True):
        worker.clock_offset = offset  # type: ignore[attr-defined]
    assert list_troubles(supervisor) == [
        "node w1: its clock is 3,600 s ahead of the driver's; let a time service run on both",
        "node w2: its clock is 86,400 s behind the driver's; let a time service run on both"]


def test_many_that_wait_for_one_are_named_at_it() -> None:
    wait = Heartbeat("waiting for an inference server", 45.0, is_wait=True, waits_for="inference")
    assert list_troubles(workers_with(wait)[0]) == ["inference: player 0 waits for it, 45 s"]
    assert list_troubles(workers_with(*5 * [wait])[0]) == [
        "inference: player 0, player 1, player 2 and 2 more wait for it, 45 s"]
    usual = Heartbeat("waiting for rows", 4000.0, is_wait=True)
    short = Heartbeat("waiting for an inference server", QUIET_SECONDS, is_wait=True, waits_for="inference")
    assert list_troubles(workers_with(usual, short, None)[0]) == []


def test_workers_without_a_node_are_counted_once_they_have_waited() -> None:
    """A learner whose GPU another job holds; actors that wait are no trouble."""
    supervisor, (waiting, playing), clock = workers_with(None, WORKING)
    waiting.is_without_node = True
    supervisor.reconcile()
    assert list_troubles(supervisor) == [], "it has just been sent"
    clock.now += QUIET_SECONDS
    playing.send_heartbeat()
    assert list_troubles(supervisor) == [
        "player: 1 of 2 wait for a node that has free what they claim, which `shusaku plan` tells"]
    supervisor.groups["self_play"] = supervisor.groups.pop("player")
    assert list_troubles(supervisor) == []


def test_what_is_shown_of_each_worker() -> None:
    first = Heartbeat("playing a step", LONG_SECONDS + 1)
    slow = Heartbeat("a gradient step", LONG_SECONDS + 1, slowest={"a gradient step": 12.0})
    in_trouble = Heartbeat("playing a step", 0.1, troubles=("the replay has taken nothing for 75 s",))
    supervisor, workers, clock = workers_with(first, slow, in_trouble, WORKING)
    assert list_troubles(supervisor) == [
        "player 0: playing a step for 31 s, it is the first; fewer actors.games_per_actor or a smaller network make "
        "it shorter",
        "player 1: a gradient step for 31 s, the longest before took 12 s",
        "player 2: the replay has taken nothing for 75 s",
    ]
    for worker in workers:
        worker.is_hung = True
    clock.now += QUIET_SECONDS + 1
    assert list_troubles(supervisor)[3] == "player 3: no heartbeat for 6 s"


def test_which_worker_is_well() -> None:
    _, (building, ready, silent), clock = workers_with(Heartbeat("building", 1.0, is_ready=False), WORKING, None)
    assert [is_well(worker) for worker in (building, ready, silent)] == [False, True, False]
    clock.now += QUIET_SECONDS + 1
    assert not is_well(ready)
