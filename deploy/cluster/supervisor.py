"""Keeps the desired number of workers alive.

This file and workers.py tell what happens when a worker dies, in order:

1. Missed: `Supervisor.reconcile` runs several times a second and polls every worker.  A worker is healthy while its
   `run` goes on, its newest heartbeat is younger than `SILENT_SECONDS`, its node is not cut off, and the work that it
   names there has not passed its deadline: the larger one of a setting and a multiple of the slowest that any worker of
   its role has ended.  Waiting has no deadline (`common.activity`).
2. Declared dead: `_handle_failure` kills the process, counts the failure and plans the next start, after a pause that
   grows.  If the worker is vital and failed `GIVE_UP` times in a row while no other one of its role works, it raises
   RunError with the reason.  Failures during an outage of another part of the run do not count.
3. Fenced: before the next start, `Role.fence` makes the replay refuse games of all earlier incarnations, which may
   still arrive from a machine that only lost its network for a while.
4. Replaced: `Role.start` starts the next incarnation, once `Role.has_room`.  Until then it waits for a node.

Plain logic over two small protocols; workers.py implements them with Ray actors.  The caller owns the clock.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from shusaku.common.activity import Heartbeat
from shusaku.common.errors import RunError

SILENT_SECONDS = 30.0  # without a heartbeat: the worker is declared dead
STUCK_SECONDS = 300.0  # that a piece of work may take in any case, unless the caller says otherwise,
STUCK_FACTOR = 10.0  # and that many times as long as the slowest one seen
STOP_SECONDS = 10.0  # for a surplus worker to end by itself
BACKOFF_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)  # before the first, second, … restart in a row; the last repeats
GIVE_UP = 6  # exceptions of one worker in a row, or failures in a row of a group that never worked
HEALTHY_SECONDS = 60.0  # of work after which earlier failures of a worker no longer count


class Worker(Protocol):
    """One incarnation of one worker."""

    def poll(self) -> None:
        """Collects what the worker sent since the last call and sends the next health check.  Never blocks."""

    def exit_reason(self) -> str | None:
        """Why the worker ended, as of the last poll; None while it runs."""

    def has_raised(self) -> bool:
        """Whether the worker ended by an exception of its own: its successor will most likely do the same."""

    def heartbeat(self) -> Heartbeat | None:
        """The newest one, as of the last poll; None before the first."""

    def silent_seconds(self) -> float:
        """Since the newest heartbeat, or since the worker was started."""

    def is_cut_off(self) -> bool:
        """Whether it runs on another machine from which nothing comes any more, by any way."""

    def is_waiting(self) -> bool:
        """Whether it has no process yet, because no node has what it claims."""

    def stop(self) -> None:
        """Asks the worker to end by itself."""

    def kill(self) -> None:
        """Ends the worker at once."""


class Role(Protocol):
    """One kind of worker."""

    name: str  # of the group of these workers
    start_seconds: float  # for the process to start and import, after which one without a heartbeat is declared dead
    is_vital: bool  # the run cannot go on without such a worker

    def has_room(self) -> bool:
        """Whether a node has room for one more worker."""

    def fence(self, index: int, incarnation: int) -> None:
        """Makes results of all earlier incarnations of this worker be refused.  Never blocks for long."""

    def start(self, index: int, incarnation: int) -> Worker:
        """Starts one incarnation of this worker.  Never blocks."""


@dataclass
class Replica:
    """One place in a worker group: at most one incarnation of it lives at a time."""

    index: int
    incarnation: int = -1
    worker: Worker | None = None
    previous_worker: Worker | None = None  # the one that failed last
    started_at: float = 0.0
    next_start: float = 0.0
    stop_requested_at: float | None = None
    ready_at: float | None = None  # when this incarnation began its work
    is_waiting: bool = False  # for a node
    failures: int = 0  # in a row
    own_failures: int = 0  # of these, while nothing else of the run was missing,
    exceptions: int = 0  # and that the worker raised itself

    @property
    def is_ready(self) -> bool:
        """Whether this incarnation has begun its work."""
        return self.ready_at is not None

    def is_healthy(self, now: float) -> bool:
        """Whether it has worked for so long that earlier failures do not count."""
        return self.ready_at is not None and now - self.ready_at > HEALTHY_SECONDS


@dataclass
class WorkerGroup:
    """The workers of one role."""

    role: Role
    desired: int
    replicas: dict[int, Replica] = field(default_factory=dict)
    restarts: int = 0
    has_worked: bool = False  # some worker of it was ready once,
    has_lasted: bool = False  # and healthy
    slowest: dict[str, float] = field(default_factory=dict)  # activity -> seconds of the longest of any worker

    @property
    def alive(self) -> int:
        """Number of workers that run and are ready."""
        return sum(1 for r in self.replicas.values() if r.worker and r.is_ready and r.stop_requested_at is None)


class Supervisor:
    """Reconciles desired with alive whenever `reconcile` is called; never blocks, and has no thread.

    Incarnations begin at 0 in each term of the driver; the epoch tells terms apart.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, stuck_seconds: float = STUCK_SECONDS) -> None:
        """`stuck_seconds`: that a piece of work may take in any case."""
        self.groups: dict[str, WorkerGroup] = {}
        self.has_outage = False  # a part of the run is missing that workers need: their failures are not their own
        self._clock, self._stuck_seconds = clock, stuck_seconds
        self._events: list[str] = []

    def register(self, role: Role, desired: int) -> None:
        """From now on `desired` workers of this role are kept alive."""
        self.groups[role.name] = WorkerGroup(role, desired)

    def scale(self, name: str, desired: int) -> None:
        """Changes the desired number of workers of a group."""
        self.groups[name].desired = desired

    def worker(self, name: str, index: int = 0) -> Worker | None:
        """The running worker of this place, if there is one."""
        group = self.groups.get(name)
        replica = group.replicas.get(index) if group else None
        return replica.worker if replica else None

    def workers(self, name: str) -> list[tuple[Replica, Worker]]:
        """All workers of a group that run and were not asked to end."""
        group = self.groups.get(name)
        replicas = group.replicas.values() if group else ()
        return [(r, r.worker) for r in replicas if r.worker is not None and r.stop_requested_at is None]

    def waiting(self, name: str, seconds: float = 0.0) -> int:
        """Number of workers of a group that wait for a node, sent there so many seconds ago at least."""
        group, now = self.groups[name], self._clock()
        return sum(1 for r in group.replicas.values()
                   if r.is_waiting and r.index < group.desired and now - r.started_at >= seconds)

    @property
    def restarts(self) -> int:
        """Restarts of all workers in this term of the driver."""
        return sum(group.restarts for group in self.groups.values())

    def take_events(self) -> list[str]:
        """What happened to workers since the last call, in a line each for the user."""
        events, self._events = self._events, []
        return events

    def reconcile(self) -> None:
        """Checks every worker and starts the missing ones; RunError, with the reason, if a vital one keeps failing."""
        now = self._clock()
        for group in self.groups.values():
            for replica in list(group.replicas.values()):
                self._check_health(group, replica, now)
            for index in range(group.desired):
                replica = group.replicas.setdefault(index, Replica(index))
                if replica.worker is None and now >= replica.next_start:
                    replica.is_waiting = not group.role.has_room()
                    if not replica.is_waiting:
                        self._start(group, replica, now)

    def poll(self) -> None:
        """Polls every worker and replaces none, for the end of a run."""
        for worker in self._started():
            worker.poll()

    def stop_all(self, names: tuple[str, ...] = ()) -> None:
        """Asks the workers of all groups, or of these, to end; none of them is started again."""
        for name, group in self.groups.items():
            if not names or name in names:
                group.desired = 0
                for replica in group.replicas.values():
                    self._request_stop(replica, self._clock())

    def all_ended(self, names: tuple[str, ...] = ()) -> bool:
        """Whether all workers of all groups, or of these, had ended at the last poll."""
        return all(worker.exit_reason() is not None for worker in self._started(names))

    def kill_all(self) -> None:
        """Ends all workers at once."""
        for worker in self._started():
            worker.kill()

    def _started(self, names: tuple[str, ...] = ()) -> list[Worker]:
        """The workers of all groups, or of these, whatever they were asked."""
        groups = [group for name, group in self.groups.items() if not names or name in names]
        return [r.worker for group in groups for r in group.replicas.values() if r.worker is not None]

    def _check_health(self, group: WorkerGroup, replica: Replica, now: float) -> None:
        worker = replica.worker
        if worker is None:
            return
        worker.poll()
        reason, heartbeat = worker.exit_reason(), worker.heartbeat()
        replica.is_waiting = reason is None and heartbeat is None and worker.is_waiting()
        if heartbeat is not None:
            if heartbeat.is_ready and not replica.is_ready:
                replica.ready_at, group.has_worked = now, True
            group.has_lasted |= replica.is_healthy(now)
            for activity, seconds in heartbeat.slowest.items():
                group.slowest[activity] = max(seconds, group.slowest.get(activity, 0.0))
        if reason is None and replica.index >= group.desired:
            self._request_stop(replica, now)
        if replica.stop_requested_at is not None:
            if reason is not None or now - replica.stop_requested_at > STOP_SECONDS:
                worker.kill()
                # The replica stays, so that its incarnations go on counting.
                replica.worker, replica.stop_requested_at = None, None
            return
        reason = reason or self._hang(group, worker)
        if reason is not None:
            self._handle_failure(group, replica, reason, now)

    def _hang(self, group: WorkerGroup, worker: Worker) -> str | None:
        """Why a worker that has not ended counts as dead; None if it is healthy."""
        heartbeat, silence = worker.heartbeat(), worker.silent_seconds()
        if heartbeat is None:
            limit = group.role.start_seconds
            is_late = silence > limit and not worker.is_waiting()
            return f"no first heartbeat within {limit:.0f} s" if is_late else None
        if worker.is_cut_off():
            return f"nothing has come from its node for {silence:.0f} s"
        if silence > SILENT_SECONDS:
            return f"no heartbeat for {silence:.0f} s"
        activity, seconds = heartbeat.activity, heartbeat.seconds + silence
        slowest = group.slowest.get(activity, 0.0)
        if heartbeat.is_wait or seconds <= max(self._stuck_seconds, STUCK_FACTOR * slowest):
            return None
        # If it was no hang but a slow machine, the successor gets more time.
        group.slowest[activity] = seconds
        return (f"{activity} has taken {seconds:.0f} s, and {slowest:.0f} s at most before; "
                f"the next worker may take {STUCK_FACTOR * seconds:.0f} s (cluster.stuck_seconds is the least)")

    def _handle_failure(self, group: WorkerGroup, replica: Replica, reason: str, now: float) -> None:
        """Declares the worker dead: kills it, and plans its replacement or gives up."""
        assert replica.worker is not None
        replica.worker.kill()
        replica.previous_worker, replica.worker = replica.worker, None
        if replica.is_healthy(now):
            replica.failures = replica.own_failures = replica.exceptions = 0
        replica.failures += 1
        replica.own_failures += not self.has_outage
        replica.exceptions += not self.has_outage and replica.previous_worker.has_raised()
        group.restarts += 1
        # A lost node may come back, and so may a CPU that another job took: only what never worked is hopeless.
        is_hopeless = replica.exceptions >= GIVE_UP or (replica.own_failures >= GIVE_UP and not group.has_worked)
        do_others_work = any(other.worker and other.is_healthy(now) for other in group.replicas.values())
        if is_hopeless and group.role.is_vital and not do_others_work:
            raise RunError(f"{group.role.name} {replica.index} failed {replica.failures} times in a row: {reason}")
        pause = BACKOFF_SECONDS[min(replica.failures - 1, len(BACKOFF_SECONDS) - 1)]
        replica.next_start = now + pause
        restart = f"it is started again in {pause:.0f} s" if pause else "it is started again"
        self._events.append(f"{group.role.name} {replica.index} ended: {reason}; {restart}")

    def _start(self, group: WorkerGroup, replica: Replica, now: float) -> None:
        """Starts the next incarnation, after all earlier ones are fenced."""
        replica.incarnation += 1
        replica.started_at = now
        replica.ready_at = None
        replica.stop_requested_at = None
        group.role.fence(replica.index, replica.incarnation)
        replica.worker = group.role.start(replica.index, replica.incarnation)

    def _request_stop(self, replica: Replica, now: float) -> None:
        if replica.worker is not None and replica.stop_requested_at is None:
            replica.stop_requested_at = now
            replica.worker.stop()

