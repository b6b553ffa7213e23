"""The supervisor against a model: whatever dies, hangs or is scaled, the desired workers come back, each under a new
incarnation, and never two of one replica live at once."""

from collections.abc import Callable

import pytest
from fake_workers import Clock, FakeRole, FakeWorker
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shusaku.common.activity import Heartbeat
from shusaku.common.errors import RunError
from shusaku.deploy.cluster.supervisor import (
    BACKOFF_SECONDS,
    GIVE_UP,
    HEALTHY_SECONDS,
    SILENT_SECONDS,
    STOP_SECONDS,
    STUCK_FACTOR,
    STUCK_SECONDS,
    Supervisor,
)


def make_group(
    desired: int, prepare: Callable[[FakeWorker], None] = FakeWorker.send_heartbeat
) -> tuple[Supervisor, FakeRole, Clock]:
    clock = Clock()
    supervisor, role = Supervisor(clock), FakeRole(clock, prepare)
    supervisor.register(role, desired)
    supervisor.reconcile()
    return supervisor, role, clock


def test_a_dead_worker_is_replaced_at_once_under_the_next_incarnation() -> None:
    supervisor, role, _ = make_group(2)
    role.started[0].reason = "exit code 137"
    supervisor.reconcile()
    assert [(w.index, w.incarnation) for w in role.running()] == [(1, 0), (0, 1)]
    assert supervisor.take_events() == ["player 0 ended: exit code 137; it is started again"]
    assert supervisor.take_events() == []
    assert supervisor.restarts == 1


def test_a_silent_worker_is_killed_and_replaced() -> None:
    supervisor, role, clock = make_group(1)
    supervisor.reconcile()
    role.started[0].is_hung = True
    clock.now += SILENT_SECONDS - 1
    supervisor.reconcile()
    assert len(role.started) == 1
    clock.now += 2
    supervisor.reconcile()
    assert role.started[0].was_killed
    assert [w.incarnation for w in role.running()] == [1]


def test_waiting_is_never_a_hang_and_work_is_one_after_its_deadline() -> None:
    """An inference server that needs an hour to come back costs no actor; a step that never ends costs one."""
    supervisor, role, _ = make_group(1)
    role.started[0].beat = Heartbeat("waiting for an inference server", 3600.0, is_wait=True, waits_for="inference")
    supervisor.reconcile()
    role.started[0].beat = Heartbeat("a step", STUCK_SECONDS)
    supervisor.reconcile()
    assert supervisor.restarts == 0
    role.started[0].beat = Heartbeat("a step", STUCK_SECONDS + 1)
    supervisor.reconcile()
    assert role.started[0].was_killed
    assert supervisor.take_events() == [
        "player 0 ended: a step has taken 301 s, and 0 s at most before; the next worker may take 3010 s "
        "(cluster.stuck_seconds is the least); it is started again"]


def test_the_deadline_of_work_follows_the_slowest_of_any_worker() -> None:
    """Batches of 35 s are slow, not stuck; and what a worker took too long for is no hang in its successor."""
    supervisor, role, _ = make_group(2)
    role.started[0].beat = Heartbeat("a batch", 1.0, slowest={"a batch": 50.0})
    supervisor.reconcile()
    role.started[1].beat = Heartbeat("a batch", STUCK_FACTOR * 50)
    supervisor.reconcile()
    assert supervisor.restarts == 0
    role.started[1].beat = Heartbeat("a batch", STUCK_FACTOR * 50 + 1)
    supervisor.reconcile()
    assert supervisor.restarts == 1
    supervisor.reconcile()
    role.started[2].beat = Heartbeat("a batch", STUCK_FACTOR * (STUCK_FACTOR * 50 + 1))
    supervisor.reconcile()
    assert supervisor.restarts == 1
    role.started[2].beat = Heartbeat("another step", STUCK_SECONDS + 1)
    supervisor.reconcile()
    assert supervisor.restarts == 2, "each kind of work has a deadline of its own"


def test_a_setting_is_the_least_deadline() -> None:
    clock = Clock()
    supervisor, role = Supervisor(clock, stuck_seconds=1000), FakeRole(clock, FakeWorker.send_heartbeat)
    supervisor.register(role, 1)
    supervisor.reconcile()
    role.started[0].beat = Heartbeat("a step", 999)
    supervisor.reconcile()
    assert supervisor.restarts == 0
    role.started[0].beat = Heartbeat("a step", 1001)
    supervisor.reconcile()
    assert supervisor.restarts == 1


def test_work_goes_on_ageing_between_two_heartbeats() -> None:
    supervisor, role, clock = make_group(1)
    role.started[0].beat, role.started[0].is_hung = Heartbeat("a step", STUCK_SECONDS - 10), True
    clock.now += 9
    supervisor.reconcile()
    assert supervisor.restarts == 0
    clock.now += 2
    supervisor.reconcile()
    assert supervisor.restarts == 1


def test_failures_in_an_outage_of_another_part_do_not_count() -> None:
    """Redis is away for minutes while a learner starts, and fails, again and again."""
    def fail(worker: FakeWorker) -> None:
        worker.reason = "Error: the replay does not answer"

    supervisor, role, clock = make_group(1, fail)
    supervisor.has_outage = True
    for _ in range(1000):
        clock.now += 1
        supervisor.reconcile()
    assert len(role.started) > 2 * GIVE_UP
    supervisor.has_outage = False

    def go_on() -> None:
        for _ in range(1000):
            clock.now += 1
            supervisor.reconcile()

    with pytest.raises(RunError, match="failed"):
        go_on()


def test_restarts_in_a_row_come_slower() -> None:
    supervisor, role, clock = make_group(1)
    pauses = []
    for _ in range(4):
        role.running()[0].reason = "crashed"
        died = clock.now
        supervisor.reconcile()
        while not role.running():
            clock.now += 0.25
            supervisor.reconcile()
        pauses.append(clock.now - died)
        supervisor.reconcile()
    assert pauses == list(BACKOFF_SECONDS[:4])
    clock.now += HEALTHY_SECONDS + 1
    supervisor.reconcile()
    role.running()[0].reason = "crashed"
    supervisor.reconcile()
    assert role.running(), "after a healthy while it is replaced at once again"


def test_gives_up_with_the_reason_when_nothing_ever_lives() -> None:
    def die(worker: FakeWorker) -> None:
        worker.reason = "No module named shogi"

    supervisor, role, clock = make_group(1, die)

    def go_on() -> None:
        for _ in range(1000):
            clock.now += 1
            supervisor.reconcile()

    with pytest.raises(RunError, match=r"player 0 failed 6 times in a row: No module named shogi"):
        go_on()
    assert len(role.started) == GIVE_UP


def test_a_worker_without_a_cpu_is_waited_for_while_others_play() -> None:
    """64 actors, a node goes away: its actors wait for CPUs, and the others are no worse for it."""
    supervisor, role, clock = make_group(2)
    supervisor.reconcile()
    role.prepare = lambda worker: None  # from now on no worker finds a CPU
    role.started[0].reason = "node died"
    for _ in range(2000):
        clock.now += 1
        for worker in role.running():
            if worker.index == 1:
                worker.send_heartbeat()
        supervisor.reconcile()
    assert [worker.index for worker in role.running() if worker.heartbeat_at is not None] == [1]
    role.prepare = FakeWorker.send_heartbeat
    for _ in range(200):
        clock.now += 1
        supervisor.reconcile()
    assert sorted(worker.index for worker in role.running() if worker.heartbeat_at is not None) == [0, 1]


def test_gives_up_on_exceptions_in_a_row_though_heartbeats_came() -> None:
    supervisor, role, clock = make_group(1)

    def go_on() -> None:
        for _ in range(1000):
            clock.now += 1
            supervisor.reconcile()
            for worker in role.running():
                worker.reason = "Error: CUDA out of memory"

    with pytest.raises(RunError, match=r"player 0 failed 6 times in a row: Error: CUDA out of memory"):
        go_on()


def test_gives_up_on_a_worker_that_takes_long_to_begin_and_fails_then() -> None:
    """An inference server compiles for 80 s, is ready, and its first batch fails."""
    clock = Clock()

    def build(worker: FakeWorker) -> None:
        worker.beat = Heartbeat("compiling", 0.0, is_ready=False)
        worker.send_heartbeat()

    supervisor, role = Supervisor(clock), FakeRole(clock, build)
    supervisor.register(role, 1)

    def go_on() -> None:
        for _ in range(2000):
            clock.now += 1
            supervisor.reconcile()
            for worker in role.running():
                if worker.beat.is_ready:
                    worker.reason = "Error: out of memory"
                elif clock.now - worker.started_at > HEALTHY_SECONDS + 20:
                    worker.beat = Heartbeat("a step", 0.0)

    with pytest.raises(RunError, match="player 0 failed 6 times in a row"):
        go_on()


def test_one_that_fails_for_ever_is_missed_while_others_work() -> None:
    """One of two GPUs has gone: its server finds none, at every start."""
    supervisor, role, clock = make_group(2)
    for _ in range(1000):
        clock.now += 1
        supervisor.reconcile()
        for worker in role.running():
            if worker.index == 1 and clock.now > 1000 + 2 * HEALTHY_SECONDS:
                worker.reason = "Error: there is no GPU"
    assert len([worker for worker in role.started if worker.index == 1]) > GIVE_UP
    assert supervisor.groups["player"].has_lasted
    assert [worker.incarnation for worker in role.running() if worker.index == 0] == [0]


def test_a_worker_that_may_be_missing_ends_nothing() -> None:
    supervisor, role, clock = make_group(1)
    role.is_vital = False
    for _ in range(500):
        clock.now += 1
        supervisor.reconcile()
        for worker in role.running():
            worker.reason = "Error: again"
    assert len(role.started) > GIVE_UP


def test_stop_all_ends_all_workers_and_starts_none_again() -> None:
    supervisor, role, clock = make_group(2)
    role.started[1].is_hung = True
    supervisor.stop_all(("player",))
    assert not supervisor.all_ended(("player",))
    assert supervisor.all_ended(("unknown",))
    role.started[1].kill()
    assert supervisor.all_ended()
    for _ in range(100):
        clock.now += 1
        supervisor.reconcile()
    assert len(role.started) == 2, "a stopped worker is not started again"


def test_a_worker_that_never_answers_is_replaced() -> None:
    supervisor, role, clock = make_group(1, lambda worker: None)
    clock.now += role.start_seconds + 1
    supervisor.reconcile()
    assert role.started[0].was_killed
    assert role.running()[0].incarnation == 1


def test_scaling_down_and_up_never_uses_an_incarnation_twice() -> None:
    supervisor, role, clock = make_group(3)
    supervisor.scale("player", 1)
    supervisor.reconcile()
    supervisor.reconcile()
    assert [w.index for w in role.running()] == [0]
    supervisor.scale("player", 3)
    clock.now += 1
    supervisor.reconcile()
    assert sorted((w.index, w.incarnation) for w in role.running()) == [(0, 0), (1, 1), (2, 1)]
    assert supervisor.restarts == 0, "what was asked for is no restart"


def test_a_surplus_worker_that_does_not_stop_is_killed() -> None:
    supervisor, role, clock = make_group(2)
    role.started[1].is_hung = True
    supervisor.scale("player", 1)
    supervisor.reconcile()
    assert role.started[1].is_running
    clock.now += STOP_SECONDS + 1
    supervisor.reconcile()
    assert role.started[1].was_killed


def test_which_workers_count_as_alive() -> None:
    supervisor, role, _ = make_group(3, lambda worker: None)
    supervisor.reconcile()
    assert supervisor.groups["player"].alive == 0, "started is not alive"
    assert len(supervisor.workers("player")) == 3
    for worker in role.started[:2]:
        worker.send_heartbeat()
    supervisor.reconcile()
    assert supervisor.groups["player"].alive == 2
    role.started[1].is_hung = True
    supervisor.scale("player", 1)
    supervisor.reconcile()
    assert supervisor.groups["player"].alive == 1, "a worker that was asked to end is not"
    assert [replica.index for replica, _ in supervisor.workers("player")] == [0]
    assert supervisor.worker("player", 1) is role.started[1], "though it has not stopped yet"
    assert supervisor.worker("player", 7) is None
    assert supervisor.worker("unknown") is None
    assert supervisor.workers("unknown") == []


def test_a_worker_that_is_desired_again_while_it_ends_is_waited_for() -> None:
    supervisor, role, clock = make_group(2)
    role.started[1].is_hung = True
    supervisor.scale("player", 1)
    supervisor.reconcile()
    supervisor.scale("player", 2)
    clock.now += STOP_SECONDS - 1
    supervisor.reconcile()
    assert len(role.started) == 2, "two of one replica never live at once"
    clock.now += 2
    supervisor.reconcile()
    assert role.started[1].was_killed
    assert (role.running()[-1].index, role.running()[-1].incarnation) == (1, 1)
    assert supervisor.take_events() == []
    assert supervisor.restarts == 0


def test_failures_of_long_ago_do_not_count() -> None:
    """A worker that fails once an hour is replaced for ever."""
    supervisor, role, clock = make_group(1)
    for _ in range(5 * GIVE_UP):
        role.running()[0].reason = "Error: once in a while"
        supervisor.reconcile()
        for _ in range(round(HEALTHY_SECONDS) + 2):
            clock.now += 1
            supervisor.reconcile()
    assert supervisor.restarts == 5 * GIVE_UP
    assert all("it is started again" in event for event in supervisor.take_events())


def test_all_are_killed_at_the_end_whatever_they_do() -> None:
    supervisor, role, _ = make_group(2)
    role.started[0].is_hung = True
    supervisor.stop_all()
    supervisor.kill_all()
    assert all(worker.was_killed for worker in role.started)
    assert supervisor.all_ended()


class AnyFaults(RuleBasedStateMachine):
    """Anything may happen to any worker at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.role = FakeRole(self.clock, FakeWorker.send_heartbeat)
        self.supervisor = Supervisor(self.clock)
        self.desired = 2
        self.supervisor.register(self.role, self.desired)

    @rule(seconds=st.sampled_from([0.2, 1.0, 7.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds
        self.supervisor.reconcile()

    @precondition(lambda self: self.role.running())
    @rule(data=st.data())
    def worker_dies(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.role.running())).reason = "crashed"

    @precondition(lambda self: self.role.running())
    @rule(data=st.data())
    def worker_hangs(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.role.running())).is_hung = True

    @rule(desired=st.integers(0, 5))
    def scale(self, desired: int) -> None:
        self.desired = desired
        self.supervisor.scale("player", desired)

    @invariant()
    def one_replica_has_one_running_worker(self) -> None:
        indices = [worker.index for worker in self.role.running()]
        assert len(indices) == len(set(indices))
        names = [(worker.index, worker.incarnation) for worker in self.role.started]
        assert len(names) == len(set(names))

    def teardown(self) -> None:
        for _ in range(400):
            self.clock.now += 1
            self.supervisor.reconcile()
        assert sorted(worker.index for worker in self.role.running()) == list(range(self.desired))


TestAnyFaults = AnyFaults.TestCase
TestAnyFaults.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_who_finds_no_room_waits_and_is_started_when_there_is_some() -> None:
    clock = Clock()
    role, supervisor = FakeRole(clock), Supervisor(clock)
    role.room = 1
    supervisor.register(role, 3)
    for _ in range(1000):
        clock.now += 1.0
        role.started[0].send_heartbeat() if role.started else None
        supervisor.reconcile()
    group = supervisor.groups["player"]
    assert (len(role.started), supervisor.waiting("player"), group.restarts) == (1, 2, 0)
    role.room = 2
    supervisor.reconcile()
    assert (len(role.started), supervisor.waiting("player")) == (2, 1)
    supervisor.scale("player", 2)
    assert supervisor.waiting("player") == 0


def test_a_worker_without_a_node_is_not_taken_for_dead() -> None:
    clock = Clock()
    role, supervisor = FakeRole(clock), Supervisor(clock)
    supervisor.register(role, 1)
    supervisor.reconcile()
    role.started[0].is_without_node = True
    for _ in range(100):
        clock.now += FakeRole.start_seconds
        supervisor.reconcile()
    group = supervisor.groups["player"]
    assert (len(role.started), group.restarts, supervisor.waiting("player")) == (1, 0, 1)


def test_a_worker_of_a_lost_node_is_replaced_before_the_silence_is_long() -> None:
    clock = Clock()
    role, supervisor = FakeRole(clock), Supervisor(clock)
    supervisor.register(role, 1)
    supervisor.reconcile()
    role.started[0].send_heartbeat()
    role.started[0].is_hung = True
    clock.now += SILENT_SECONDS / 2
    supervisor.reconcile()
    assert len(role.started) == 1
    role.started[0].is_on_cut_off_node = True
    supervisor.reconcile()
    supervisor.reconcile()
    assert len(role.started) == 2
    assert "nothing has come from its node for 15 s" in supervisor.take_events()[0]
