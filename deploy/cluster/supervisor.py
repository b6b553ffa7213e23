"""Keeps the desired number of workers alive.

This file and workers.py tell what happens when a worker dies, in order:

1. Missed: `Supervisor.reconcile` runs several times a second and polls every worker.  A worker is healthy while its
   `run` goes on and its newest heartbeat is younger than `STUCK_SECONDS`.  Self-play actors send their heartbeats
   through the replay, the other workers answer `report` (`RayWorker.poll`).
2. Declared dead: `_handle_failure` kills the process, counts the failure and plans the next start, after a pause that
   grows.  If the worker is vital and failed `GIVE_UP` times in a row, it raises RunError with the reason.
3. Fenced: before the next start, `Role.fence` makes the replay refuse games of all earlier incarnations, which may
   still arrive from a machine that only lost its network for a while.
4. Replaced: `Role.start` starts the next incarnation.

Plain logic over two small protocols; workers.py implements them with Ray actors.  The caller owns the clock.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from shusaku.common.errors import RunError

STUCK_SECONDS = 30.0  # without a heartbeat: the worker is declared dead
STOP_SECONDS = 10.0  # for a surplus worker to end by itself
BACKOFF_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)  # before the first, second, … restart in a row; the last repeats
GIVE_UP = 6  # exceptions of one worker in a row, or failures in a row of a group that never worked
HEALTHY_SECONDS = 60.0  # of life after which earlier failures of a worker no longer count


class Worker(Protocol):
    """One incarnation of one worker."""

    def poll(self) -> None:
        """Collects what the worker sent since the last call and sends the next health check.  Never blocks."""

    def exit_reason(self) -> str | None:
        """Why the worker ended, as of the last poll; None while it runs."""

    def has_raised(self) -> bool:
        """Whether the worker ended by an exception of its own: its successor will most likely do the same."""

    def last_heartbeat(self) -> float | None:
        """Seconds since the newest heartbeat, as of the last poll; None before the first and while none can arrive."""

    def stop(self) -> None:
        """Asks the worker to end by itself."""

    def kill(self) -> None:
        """Ends the worker at once."""


class Role(Protocol):
    """One kind of worker."""

    name: str  # of the group of these workers
    start_seconds: float  # to the first heartbeat, after which a worker without one is declared dead
    is_vital: bool  # the run cannot go on without such a worker

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
    has_heartbeat: bool = False  # this incarnation sent one
    failures: int = 0  # in a row
    exceptions: int = 0  # failures of these that the worker raised itself


@dataclass
class WorkerGroup:
    """The workers of one role."""

    role: Role
    desired: int
    replicas: dict[int, Replica] = field(default_factory=dict)
    restarts: int = 0
    has_worked: bool = False  # some worker of it sent a heartbeat once
    is_unreachable: bool = False  # no heartbeat can arrive now, through no fault of the workers

    @property
    def alive(self) -> int:
        """Number of workers that run and have sent a heartbeat."""
        return sum(1 for r in self.replicas.values() if r.worker and r.has_heartbeat and r.stop_requested_at is None)


class Supervisor:
    """Reconciles desired with alive whenever `reconcile` is called; never blocks, and has no thread.

    Incarnations begin at 0 in each term of the driver; the epoch tells terms apart.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.groups: dict[str, WorkerGroup] = {}
        self._clock = clock
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

    @property
    def restarts(self) -> int:
        """Restarts of all workers in this term of the driver."""
        return sum(group.restarts for group in self.groups.values())

    def take_events(self) -> list[str]:
        """What happened to workers since the last call, in a line each for the user."""
        events, self._events = self._events, []
        return events

    def set_unreachable(self, name: str, is_unreachable: bool) -> None:
        """Whether no heartbeat of this group can arrive now: none of its workers then counts as stuck."""
        self.groups[name].is_unreachable = is_unreachable

    def reconcile(self) -> None:
        """Checks every worker and starts the missing ones; RunError, with the reason, if a vital one keeps failing."""
        now = self._clock()
        for group in self.groups.values():
            for replica in list(group.replicas.values()):
                self._check_health(group, replica, now)
            for index in range(group.desired):
                replica = group.replicas.setdefault(index, Replica(index))
                if replica.worker is None and now >= replica.next_start:
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
        reason = worker.exit_reason()
        if worker.last_heartbeat() is not None:
            replica.has_heartbeat = group.has_worked = True
        if group.is_unreachable and not replica.has_heartbeat:
            replica.started_at = now  # the time for its start stands still
        if reason is None and replica.index >= group.desired:
            self._request_stop(replica, now)
        if replica.stop_requested_at is not None:
            if reason is not None or now - replica.stop_requested_at > STOP_SECONDS:
                worker.kill()
                # The replica stays, so that its incarnations go on counting.
                replica.worker, replica.stop_requested_at = None, None
            return
        reason = reason or _missed_heartbeat(group.role, replica, worker, now)
        if reason is not None:
            self._handle_failure(group, replica, reason, now)

    def _handle_failure(self, group: WorkerGroup, replica: Replica, reason: str, now: float) -> None:
        """Declares the worker dead: kills it, and plans its replacement or gives up."""
        assert replica.worker is not None
        replica.worker.kill()
        replica.previous_worker, replica.worker = replica.worker, None
        if replica.has_heartbeat and now - replica.started_at > HEALTHY_SECONDS:
            replica.failures = replica.exceptions = 0
        replica.failures += 1
        replica.exceptions += replica.previous_worker.has_raised()
        group.restarts += 1
        # A lost node may come back, and so may a CPU that another job took: only what never worked is hopeless.
        is_hopeless = replica.exceptions >= GIVE_UP or (replica.failures >= GIVE_UP and not group.has_worked)
        if is_hopeless and group.role.is_vital:
            raise RunError(f"{group.role.name} {replica.index} failed {replica.failures} times in a row: {reason}")
        pause = BACKOFF_SECONDS[min(replica.failures - 1, len(BACKOFF_SECONDS) - 1)]
        replica.next_start = now + pause
        restart = f"it is started again in {pause:.0f} s" if pause else "it is started again"
        self._events.append(f"{group.role.name} {replica.index} ended: {reason}; {restart}")

    def _start(self, group: WorkerGroup, replica: Replica, now: float) -> None:
        """Starts the next incarnation, after all earlier ones are fenced."""
        replica.incarnation += 1
        replica.started_at = now
        replica.has_heartbeat = False
        replica.stop_requested_at = None
        group.role.fence(replica.index, replica.incarnation)
        replica.worker = group.role.start(replica.index, replica.incarnation)

    def _request_stop(self, replica: Replica, now: float) -> None:
        if replica.worker is not None and replica.stop_requested_at is None:
            replica.stop_requested_at = now
            replica.worker.stop()


def _missed_heartbeat(role: Role, replica: Replica, worker: Worker, now: float) -> str | None:
    """Why a worker that has not ended counts as dead; None if it is healthy."""
    age = worker.last_heartbeat()
    if age is not None and age > STUCK_SECONDS:
        return f"no heartbeat for {age:.0f} s"
    if not replica.has_heartbeat and now - replica.started_at > role.start_seconds:
        return f"no first heartbeat within {role.start_seconds:.0f} s"
    return None
