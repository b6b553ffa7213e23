"""Keeps as many workers alive as are wanted: starts, replaces, ends, and gives up with a diagnosis.

Plain logic over two small protocols; `deploy/cluster/driver.py` implements them with Ray actors.
Time is the caller's clock.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from shusaku.common.errors import RunFailed

STUCK_SECONDS = 30.0  # since a worker was heard from last
STOP_SECONDS = 10.0  # that a surplus worker has to end by itself
BACKOFF_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)  # before the first, second, … restart in a row; the last for ever
GIVE_UP = 6  # failures of one worker in a row that are its own, or before anybody of its crew was ever heard
HEALTHY_SECONDS = 60.0  # alive so long: its failures are counted from nothing again


class Worker(Protocol):
    """One incarnation of one worker."""

    def ended(self) -> str | None:
        """Why it no longer runs; None while it does.  Never blocks."""
        ...

    def raised(self) -> bool:
        """Whether it ended by an exception of its own: its successor will most likely do the same."""
        ...

    def heard(self) -> float | None:
        """Seconds since it was heard from; None before the first time, or while nobody could have heard.  Never blocks.
        """
        ...

    def stop(self) -> None:
        """Asks it to end by itself."""
        ...

    def kill(self) -> None:
        """Ends it at once; it is never heard from again."""
        ...


class Role(Protocol):
    """One kind of worker."""

    @property
    def name(self) -> str: ...
    @property
    def start_seconds(self) -> float: ...  # a worker that was not heard from by then counts as stuck
    @property
    def is_vital(self) -> bool: ...  # the run cannot go on without it

    def start(self, index: int, incarnation: int) -> Worker:
        """A new worker; every earlier incarnation of this index is fenced from now on.  Never blocks."""
        ...


@dataclass
class Slot:
    """The place of one worker: at most one incarnation of it lives."""

    index: int
    incarnation: int = -1
    worker: Worker | None = None
    started: float = 0.0
    was_heard: bool = False
    stopping: float | None = None  # since when it has been asked to end
    failures: int = 0  # in a row
    raised: int = 0  # of these, by an exception of its own
    next_start: float = 0.0
    reason: str = ""  # of the last death
    last: Worker | None = None  # the one that died last


@dataclass
class Crew:
    """The workers of one role."""

    role: Role
    desired: int
    slots: dict[int, Slot] = field(default_factory=dict)
    restarts: int = 0
    was_heard: bool = False  # anybody of it, ever
    is_deaf: bool = False  # nobody of it can be heard now, through no fault of theirs

    @property
    def alive(self) -> int:
        """Workers that were heard from and run."""
        return sum(1 for slot in self.slots.values() if slot.worker and slot.was_heard and slot.stopping is None)


@dataclass(frozen=True)
class Event:
    """Something that happened to a worker, for the user."""

    role: str
    index: int
    text: str


class Supervisor:
    """Reconciles desired with alive whenever `reconcile` is called; never blocks, and has no thread.

    Incarnations begin at 0 in each life of the driver: its epoch tells lives apart.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.crews: dict[str, Crew] = {}
        self._clock = clock
        self._events: list[Event] = []

    def employ(self, role: Role, desired: int) -> None:
        """From now on `desired` workers of this role are kept alive."""
        self.crews[role.name] = Crew(role, desired)

    def scale(self, name: str, desired: int) -> None:
        self.crews[name].desired = desired

    def worker(self, name: str, index: int = 0) -> Worker | None:
        """The living worker of this place, if there is one."""
        crew = self.crews.get(name)
        slot = crew.slots.get(index) if crew else None
        return slot.worker if slot else None

    def workers(self, name: str) -> list[tuple[Slot, Worker]]:
        """All that run and were not asked to end."""
        crew = self.crews.get(name)
        slots = crew.slots.values() if crew else ()
        return [(slot, slot.worker) for slot in slots if slot.worker is not None and slot.stopping is None]

    @property
    def restarts(self) -> int:
        return sum(crew.restarts for crew in self.crews.values())

    def events(self) -> list[Event]:
        """What happened since the last call."""
        events, self._events = self._events, []
        return events

    def reconcile(self) -> None:
        """One look at every worker.  RunFailed, with the reason, when one cannot be brought to life."""
        now = self._clock()
        for crew in self.crews.values():
            for slot in list(crew.slots.values()):
                self._look(crew, slot, now)
            for index in range(crew.desired):
                slot = crew.slots.setdefault(index, Slot(index))
                if slot.worker is None and now >= slot.next_start:
                    self._start(crew, slot, now)

    def set_deaf(self, name: str, is_deaf: bool) -> None:
        """Whether workers of this role cannot be heard now: nobody is then taken for stuck."""
        self.crews[name].is_deaf = is_deaf

    def stop_all(self, names: tuple[str, ...] = ()) -> None:
        """Asks all workers, or those of these roles, to end; none of them is started again."""
        for name, crew in self.crews.items():
            if not names or name in names:
                crew.desired = 0
                for slot in crew.slots.values():
                    self._ask_to_stop(slot, self._clock())

    def all_ended(self, names: tuple[str, ...] = ()) -> bool:
        """Whether none of them runs any more."""
        crews = [crew for name, crew in self.crews.items() if not names or name in names]
        return all(slot.worker is None or slot.worker.ended() is not None for c in crews for slot in c.slots.values())

    def kill_all(self) -> None:
        for crew in self.crews.values():
            for slot in crew.slots.values():
                if slot.worker is not None:
                    slot.worker.kill()

    def _look(self, crew: Crew, slot: Slot, now: float) -> None:
        worker = slot.worker
        if worker is None:
            return
        reason = worker.ended()
        heard = worker.heard()
        slot.was_heard |= heard is not None
        crew.was_heard |= slot.was_heard
        if crew.is_deaf and not slot.was_heard:
            slot.started = now  # its time to come to life stands still
        if reason is None and slot.stopping is None and slot.index >= crew.desired:
            self._ask_to_stop(slot, now)
        if slot.stopping is not None:
            if reason is not None or now - slot.stopping > STOP_SECONDS:
                worker.kill()
                slot.worker, slot.stopping = None, None  # the slot stays: its incarnations must go on counting
            return
        if reason is None:
            if heard is not None and heard > STUCK_SECONDS:
                reason = f"not heard from for {heard:.0f} s"
            elif not slot.was_heard and now - slot.started > crew.role.start_seconds:
                reason = f"did not come to life in {crew.role.start_seconds:.0f} s"
        if reason is not None:
            self._bury(crew, slot, reason, now)

    def _bury(self, crew: Crew, slot: Slot, reason: str, now: float) -> None:
        assert slot.worker is not None
        slot.worker.kill()
        has_raised = slot.worker.raised()
        slot.last, slot.worker = slot.worker, None
        slot.reason = reason
        if slot.was_heard and now - slot.started > HEALTHY_SECONDS:
            slot.failures = slot.raised = 0
        slot.failures += 1
        slot.raised += has_raised
        crew.restarts += 1
        # A node that went away, or a CPU that somebody else took, may come back: only what never worked is hopeless.
        is_hopeless = slot.raised >= GIVE_UP or (slot.failures >= GIVE_UP and not crew.was_heard)
        if is_hopeless and crew.role.is_vital:
            raise RunFailed(f"{crew.role.name} {slot.index} failed {slot.failures} times in a row: {reason}")
        pause = BACKOFF_SECONDS[min(slot.failures - 1, len(BACKOFF_SECONDS) - 1)]
        slot.next_start = now + pause
        again = f"it is started again in {pause:.0f} s" if pause else "it is started again"
        self._events.append(Event(crew.role.name, slot.index, f"ended: {reason}; {again}"))

    def _start(self, crew: Crew, slot: Slot, now: float) -> None:
        slot.incarnation += 1
        slot.started = now
        slot.was_heard = False
        slot.stopping = None
        slot.worker = crew.role.start(slot.index, slot.incarnation)

    def _ask_to_stop(self, slot: Slot, now: float) -> None:
        if slot.worker is not None and slot.stopping is None:
            slot.stopping = now
            slot.worker.stop()
