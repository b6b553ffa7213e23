"""When nothing can be learned because a part of the run is missing: since when, why, and what a user is told."""

import time
from collections.abc import Callable, Mapping, Sequence

from shusaku.common.activity import Heartbeat
from shusaku.deploy.cluster.actor_places import GROUP as SELF_PLAY
from shusaku.deploy.cluster.supervisor import Supervisor, Worker

QUIET_SECONDS = 5.0  # that a worker may be silent or wait for another one before it is shown
LONG_SECONDS = 30.0  # that a piece of work may take before it is shown
SAID_SECONDS = 10.0  # that an outage lasts before it is logged
CLOCK_SECONDS = 5.0  # that a host's clock may differ from the driver's before it is shown
NAMED = 3  # workers of one role; the others are counted


class Outage:
    """The present outage of the run, if there is one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.reason = ""  # empty: everything is there
        self.total_seconds = 0.0  # of all that have ended
        self._clock, self._since, self._is_said = clock, 0.0, False

    @property
    def seconds(self) -> float:
        """Since the present outage began; 0 without one."""
        return self._clock() - self._since if self.reason else 0.0

    def update(self, missing: Mapping[str, str]) -> str:
        """Takes in which parts are missing (role -> why); a line for the user, or nothing."""
        reason = "; ".join(f"{role}: {why}" for role, why in missing.items())
        if not reason:
            seconds, was_said = self.seconds, self._is_said
            self.total_seconds += seconds
            self.reason, self._is_said = "", False
            return f"nothing is missing any more, after {seconds:.0f} s: training goes on" if was_said else ""
        self._since = self._since if self.reason else self._clock()
        self.reason = reason
        if self._is_said or self.seconds < SAID_SECONDS:
            return ""
        self._is_said = True
        return f"nothing can be learned ({reason}): the training clock stands still until this is over"


def is_well(worker: Worker) -> bool:
    """Whether it works, and has been heard from a moment ago."""
    heartbeat = worker.heartbeat()
    return heartbeat is not None and heartbeat.is_ready and worker.silent_seconds() <= QUIET_SECONDS


def list_troubles(supervisor: Supervisor) -> list[str]:
    """What is wrong with workers now, in a line each; a worker that many wait for is named once."""
    troubles: list[str] = []
    clocks: dict[str, float] = {}  # host -> seconds that its clock is ahead
    waiting: dict[str, dict[str, float]] = {}  # role -> worker that waits for it -> seconds
    for role, group in supervisor.groups.items():
        # Actors that wait are no trouble: they are counted beside those that play.
        if role != SELF_PLAY and (missing := supervisor.waiting(role, QUIET_SECONDS)):
            troubles.append(f"{role}: {missing} of {group.desired} wait for a node that has free what they claim, "
                            "which `shusaku plan` tells")
        for replica, worker in supervisor.workers(role):
            name, heartbeat, silence = f"{role} {replica.index}", worker.heartbeat(), worker.silent_seconds()
            if heartbeat is None:
                continue
            if silence > QUIET_SECONDS:
                troubles.append(f"{name}: no heartbeat for {silence:.0f} s")
                continue
            troubles += [f"{name}: {trouble}" for trouble in heartbeat.troubles]
            if abs(offset := getattr(worker, "clock_offset", 0.0)) > CLOCK_SECONDS:
                clocks[heartbeat.host] = offset
            if heartbeat.waits_for and heartbeat.seconds > QUIET_SECONDS:
                waiting.setdefault(heartbeat.waits_for, {})[name] = heartbeat.seconds
            elif not heartbeat.is_wait and heartbeat.seconds > LONG_SECONDS:
                troubles.append(f"{name}: {_long_work(heartbeat)}")
    for host, offset in clocks.items():
        troubles.append(f"node {host}: its clock is {abs(offset):,.0f} s {'ahead of' if offset > 0 else 'behind'} the "
                        "driver's; let a time service run on both")
    for role, waits in waiting.items():
        verb = "waits" if len(waits) == 1 else "wait"
        troubles.append(f"{role}: {_some(list(waits))} {verb} for it, {max(waits.values()):.0f} s")
    return troubles


def _long_work(heartbeat: Heartbeat) -> str:
    slowest = heartbeat.slowest.get(heartbeat.activity, 0.0)
    compared = f"the longest before took {slowest:.0f} s" if slowest else "it is the first"
    hint = ""
    if heartbeat.activity in ("playing a step", "computing a batch"):
        hint = "; fewer actors.games_per_actor or a smaller network make it shorter"
    return f"{heartbeat.activity} for {heartbeat.seconds:.0f} s, {compared}{hint}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
