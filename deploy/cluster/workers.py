"""The supervisor's workers as Ray actors: how each role is started, polled, stopped and killed.

Calls are watched as futures, which Ray settles when the answer is there: looking at one asks no process, so the driver
can look at those of many workers in each turn.
"""

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shusaku.common.activity import Heartbeat
from shusaku.common.errors import ResumeError, UsageError
from shusaku.common.remote_worker import CONTROL, CONTROL_THREADS
from shusaku.deploy.ray_runtime.node_check import clock_offset
from shusaku.deploy.ray_runtime.worker_logs import last_output
from shusaku.replay.stream.client import ReplayUnavailable

POLL_SECONDS = 0.5  # between two heartbeats, and two calls of a worker's `report`
GAP_SECONDS = 5.0  # between two polls; after a longer gap the driver itself was suspended
CUT_OFF_SECONDS = 8.0  # without news by any way of a worker on another machine
AVOIDED_SECONDS = 60.0  # no actor goes to a node that was cut off; Ray knows after half a minute whether it is lost
# Calls that a worker may answer at once beside `run` and its heartbeats.  Ray starts a thread for each, and all of them
# get calls in turn; a thread keeps about 0.1 MB from its first call on.
THREADS = 8

# In the errors of Ray: the constructor of an actor raised, such as by an import; the process died without an exception.
FAILED_CREATION = "an error raised in its creation task"
DEAD_PROCESS = re.compile(r"died unexpectedly.*\bpid: (\d+)", re.DOTALL)


class RayWorker:
    """One incarnation: `run` was called, and its end is the worker's end.  See `deploy.cluster.supervisor.Worker`."""

    def __init__(
        self, handle: Any, *, has_report: bool = True, run_seconds: Callable[[], float] = lambda: 0.0,
        log_directory: str = "", node: str = "", is_pending: Callable[[Any], bool] = lambda handle: False,
        unheard_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`has_report`: its state is to be asked for, too; `run_seconds`: training time of the run, told to the worker.

        `log_directory`: of Ray's logs on this node, which hold the last output of the worker; `node`: id of the one
        that it was sent to; `is_pending`: of this handle, whether Ray has no node for it yet;
        `unheard_seconds`: since it was last heard of by other ways than its calls.
        """
        self.handle = handle
        self.node = node  # id of the one that it runs on, or was sent to
        self.cut_off_at: float | None = None  # when it was first found cut off, monotonic
        self._is_pending, self._unheard_seconds = is_pending, unheard_seconds
        self.report: Any = None  # newest answer of `report`
        self.result: Any = None  # what `run` returned
        self.failure: BaseException | None = None  # what `run` raised, or why `give_up` was called
        self.pid: int | None = None  # of its process, once known and if that runs on this node
        self.clock_offset = 0.0  # seconds that its host's clock is ahead of ours at least, behind if negative
        self.delivery = Delivery(self)  # of weights, or of the servers that are ready
        self._log_directory = log_directory
        self._exit_reason: str | None = None
        self._is_given_up = self._is_elsewhere = False
        self._heartbeat: Heartbeat | None = None  # newest
        self._heard_at = self._polled_at = time.monotonic()
        self._heartbeats = Inquiry(lambda: handle.heartbeat.remote(run_seconds()))
        self._reports = Inquiry(lambda: handle.report.remote()) if has_report else None
        self._location_call: Future[Any] | None = handle.location.remote().future()
        self._run_call: Future[Any] = handle.run.remote().future()

    def poll(self) -> None:
        """Collects the results of all calls that have ended, and asks again."""
        now = time.monotonic()
        if now - self._polled_at > GAP_SECONDS:  # what the worker answered meanwhile was not heard
            self._heard_at = max(self._heard_at, now - GAP_SECONDS)
        self._polled_at = now
        if self.is_waiting():
            self._heard_at = now
        self._collect_location()
        self._collect_exit()
        if self._reports is not None:
            self.report = self._reports.poll() or self.report
        heartbeat = self._heartbeats.poll()
        if heartbeat is not None:
            self._heartbeat, self._heard_at = heartbeat, now
            if heartbeat.clock:
                wall = time.time()
                self.clock_offset = clock_offset(heartbeat.clock, wall - (now - self._heartbeats.asked_at), wall)

    def exit_reason(self) -> str | None:
        """Why the worker ended, in one line, as of the last poll; None while it runs."""
        return self._exit_reason

    def has_raised(self) -> bool:
        """Whether it ended by an exception of its own, not by the death of its process, nor for want of the replay."""
        has_raised = self._is_given_up or isinstance(self.failure, ray.exceptions.RayTaskError)
        return has_raised and not isinstance(self.failure, ReplayUnavailable)

    def heartbeat(self) -> Heartbeat | None:
        """The newest one; None before the first."""
        return self._heartbeat

    def silent_seconds(self) -> float:
        """Since the newest heartbeat, or since the worker was started; the driver's own pauses do not count."""
        return time.monotonic() - self._heard_at

    def is_cut_off(self) -> bool:
        """Whether nothing comes any more, by any way, from its machine, which is another one than the driver's."""
        if self._heartbeat is None or not self._is_elsewhere:
            return False
        is_cut = min(self.silent_seconds(), self._unheard_seconds()) > CUT_OFF_SECONDS
        if is_cut and self.cut_off_at is None:
            self.cut_off_at = time.monotonic()
        return is_cut

    def is_waiting(self) -> bool:
        """Whether it has no process yet, because no node has free what it claims."""
        return self._location_call is not None and self._heartbeat is None and self._is_pending(self.handle)

    def give_up(self, error: BaseException) -> None:
        """The process lives, but its calls fail: from now on it counts as ended by `error`."""
        self.failure, self._is_given_up = error, True
        self._exit_reason = first_line(error)

    def stop(self) -> None:
        """Asks the worker to end by itself."""
        self.handle.stop.remote()

    def kill(self) -> None:
        """Ends the worker at once; on this node by a signal, because a stopped process (SIGSTOP) takes no call."""
        self._collect_exit()
        if self.pid is not None and (self._is_given_up or self._exit_reason is None):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.pid = None
        ray.kill(self.handle, no_restart=True)

    def _collect_exit(self) -> None:
        if self._exit_reason is not None or not self._run_call.done():
            return
        try:
            self.result = self._run_call.result()
            self._exit_reason = str(getattr(self.result, "reason", self.result))
        except Exception as error:
            self.failure = error
            self._exit_reason = self._diagnosis(error)

    def _diagnosis(self, error: BaseException) -> str:
        """What happened, in one line; of a process that died without an exception, with its last output."""
        reason, process = first_line(error), DEAD_PROCESS.search(str(error))
        output = last_output(self._log_directory, int(process[1])) if process and self._log_directory else ""
        return f"{reason} Its last output: {output}" if output else reason

    def _collect_location(self) -> None:
        if self._location_call is None or not self._location_call.done():
            return
        with contextlib.suppress(Exception):
            self.node, pid = self._location_call.result()
            self._is_elsewhere = self.node != ray.get_runtime_context().get_node_id()
            if not self._is_elsewhere:
                self.pid = pid
        self._location_call = None


class Inquiry:
    """Asks a worker again and again, one call at a time and not too often."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        """`ask` makes the call; returns its reference."""
        self._ask = ask
        self._call: Future[Any] | None = None
        self.asked_at = float("-inf")  # when the newest answer was asked for, monotonic
        self._called_at = float("-inf")

    def poll(self) -> Any:
        """The answer, if one has come; None otherwise, also for a call that failed.  Asks again when it is time."""
        answer = None
        if self._call is not None and self._call.done():
            with contextlib.suppress(Exception):  # `exit_reason` tells what is wrong
                answer = self._call.result()
            self._call, self.asked_at = None, self._called_at
        now = time.monotonic()
        if self._call is None and now - self._called_at >= POLL_SECONDS:
            self._call, self._called_at = self._ask().future(), now
        return answer


class Delivery:
    """Hands the newest value to a worker, one call at a time: a slow worker never has a queue."""

    TRIES = 3  # failures in a row after which the worker counts as ended
    PAUSE_SECONDS = 1.0  # after a failure

    def __init__(self, worker: RayWorker) -> None:
        self._worker = worker
        self._delivered: Any = None  # key of the value that the worker has
        self._pending: tuple[Any, Future[Any]] | None = None  # key, and the call
        self._failures = 0
        self._failed_at = float("-inf")

    def offer(self, key: Any, method: Any, *arguments: Any) -> None:
        """Calls the actor's method unless the worker has `key` or has not finished the call before."""
        if self._pending is not None:
            key_sent, call = self._pending
            if not call.done():
                return
            self._pending = None
            try:
                call.result()
                self._delivered, self._failures = key_sent, 0
            except ray.exceptions.RayActorError:
                return  # it has died; `exit_reason` tells why
            except Exception as error:
                self._failures, self._failed_at = self._failures + 1, time.monotonic()
                if self._failures >= self.TRIES:
                    self._worker.give_up(error)
        if self._delivered != key and time.monotonic() - self._failed_at >= self.PAUSE_SECONDS:
            self._pending = (key, method.remote(*arguments).future())


@dataclass
class RayRole:
    """How the workers of one kind are made."""

    name: str
    actor_class: type
    arguments: Callable[[int, int], tuple[Any, ...]]  # index, incarnation -> of the constructor
    epoch: int = 0  # term of the driver: names of workers of two terms must differ
    cpus: float = 0.0
    gpus: float = 0.0
    node: str = ""  # id of the node that it must run on; empty: see `place`
    place: Callable[[], str | None] | None = None  # id of a node with room, None if there is none; no such: spread
    is_pending: Callable[[Any], bool] = lambda handle: False  # see `RayWorker`
    unheard_seconds: Callable[[int], float] = lambda index: 0.0  # see `RayWorker`
    start_seconds: float = 120.0  # a process on a busy machine imports everything
    is_vital: bool = True
    log_directory: str = ""  # of Ray, on this node
    threads: int = THREADS  # calls that it may answer at once
    has_report: bool = True  # the driver asks for its state
    run_seconds: Callable[[], float] = lambda: 0.0  # training time of the run
    fence: Callable[[int, int], None] = lambda index, incarnation: None  # see `deploy.cluster.supervisor.Role`

    def has_room(self) -> bool:
        """Whether a node has room for one more."""
        return self.place is None or self.place() is not None

    def start(self, index: int, incarnation: int) -> RayWorker:
        """Starts the Ray actor of one incarnation; never blocks."""
        node = self.node or (self.place() if self.place else "") or ""
        # Another job may have taken the CPUs there: then any node may do.
        strategy = NodeAffinitySchedulingStrategy(
            node, soft=not self.node, _spill_on_unavailable=not self.node) if node else "SPREAD"
        make_actor: Any = ray.remote  # Ray's types do not know this form
        actor_class = make_actor(concurrency_groups={CONTROL: CONTROL_THREADS})(self.actor_class).options(
            name=f"{self.name} {index} ({self.epoch}.{incarnation})", num_cpus=self.cpus, num_gpus=self.gpus,
            max_restarts=0,  # the supervisor restarts, under a new incarnation
            max_concurrency=self.threads,
            scheduling_strategy=strategy,
            # Ray would keep a record of each of the newest 100,000 calls: hundreds of megabytes of leaves' calls.
            enable_task_events=False,
        )
        handle = actor_class.remote(*self.arguments(index, incarnation))
        return RayWorker(handle, has_report=self.has_report, run_seconds=self.run_seconds,
                         log_directory=self.log_directory, node=node, is_pending=self.is_pending,
                         unheard_seconds=lambda: self.unheard_seconds(index))


def first_line(error: BaseException) -> str:
    """The line of a Ray error that tells what happened: the last of a worker's own traceback, the first otherwise."""
    if isinstance(error, UsageError | ResumeError):
        return " ".join(str(cause_of(error)).split())
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    has_traceback = isinstance(error, ray.exceptions.RayTaskError) or FAILED_CREATION in lines[0]
    return lines[-1] if has_traceback else lines[0]


def cause_of(error: BaseException) -> BaseException:
    """The exception that the worker itself raised."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error
