"""The supervisor's workers as Ray actors: how each role is started, asked, stopped and killed."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shusaku.common.errors import ResumeError, UsageError

ASK_SECONDS = 0.5  # between two questions to a worker
THREADS = 8  # calls that a worker may answer at once beside `run`


class RayWorker:
    """One incarnation: `run` was called, and its end is the worker's end.  See `deploy.cluster.supervisor.Worker`."""

    def __init__(self, handle: Any, incarnation: int, *, asks: bool, heard: Callable[[], float | None] | None = None):
        """`asks`: `report` is called all the time, and its answers are what is heard; else `heard` says it."""
        self.handle = handle
        self.incarnation = incarnation
        self.answer: Any = None  # newest of `report`
        self.result: Any = None  # what `run` returned
        self.failure: BaseException | None = None  # what `run` raised, or why it was given up
        self._heard_elsewhere = heard
        self._asks = asks
        self._asked: Any = None
        self._asked_at = self._answered_at = float("-inf")
        self._ticks: Any = None  # of the newest answer: who answers without going on is stuck
        self._is_given_up = False
        self._where: Any = handle.where.remote()
        self._pid_here: int | None = None
        self._run = handle.run.remote()

    def ended(self) -> str | None:
        if self._is_given_up:
            assert self.failure is not None
            return first_line(self.failure)
        ready, _ = ray.wait([self._run], timeout=0)
        if not ready:
            return None
        try:
            self.result = ray.get(self._run)
            return str(getattr(self.result, "reason", self.result))
        except Exception as error:
            self.failure = error
            return first_line(error)

    def raised(self) -> bool:
        return self._is_given_up or isinstance(self.failure, ray.exceptions.RayTaskError)

    def give_up(self, error: BaseException) -> None:
        """It lives, but what it is asked to do fails: it counts as ended by `error` from now on."""
        self.failure, self._is_given_up = error, True

    def heard(self) -> float | None:
        self._find_pid()
        if not self._asks:
            return self._heard_elsewhere() if self._heard_elsewhere else None
        now = time.monotonic()
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            with contextlib.suppress(Exception):  # `ended` says what is wrong
                self.answer = ray.get(self._asked)
                ticks = getattr(self.answer, "ticks", now)
                if ticks != self._ticks:
                    self._ticks, self._answered_at = ticks, now
            self._asked = None
        if self._asked is None and now - self._asked_at >= ASK_SECONDS:
            self._asked, self._asked_at = self.handle.report.remote(), now
        return now - self._answered_at if self._answered_at > 0 else None

    def stop(self) -> None:
        self.handle.stop.remote()

    def kill(self) -> None:
        """A stopped process (SIGSTOP) takes no call, so on this node the signal goes to it directly."""
        if self._pid_here is not None and (self._is_given_up or self.ended() is None):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid_here, signal.SIGKILL)
            self._pid_here = None
        ray.kill(self.handle, no_restart=True)

    def _find_pid(self) -> None:
        if self._where is None or not ray.wait([self._where], timeout=0)[0]:
            return
        with contextlib.suppress(Exception):
            node, pid = ray.get(self._where)
            if node == ray.get_runtime_context().get_node_id():
                self._pid_here = pid
        self._where = None

    @property
    def pid(self) -> int | None:
        """Of its process, where that runs on this node and has answered."""
        return self._pid_here


class Delivery:
    """Hands the newest of something to a worker, one call at a time: a slow worker never has a queue."""

    TRIES = 3  # failures in a row after which a worker that lives is given up
    PAUSE_SECONDS = 1.0  # after a failure

    def __init__(self, worker: RayWorker) -> None:
        self._worker = worker
        self._delivered: Any = None  # key of what the worker has
        self._pending: tuple[Any, Any] | None = None  # key, reference of the call
        self._failures = 0
        self._failed_at = float("-inf")

    def offer(self, key: Any, method: Any, *arguments: Any) -> None:
        """Calls the actor's method unless the worker has `key` or is still busy with the one before."""
        if self._pending is not None:
            under_way, reference = self._pending
            if not ray.wait([reference], timeout=0)[0]:
                return
            self._pending = None
            try:
                ray.get(reference)
                self._delivered, self._failures = under_way, 0
            except ray.exceptions.RayActorError:
                return  # it has died; `ended` says why
            except Exception as error:
                self._failures, self._failed_at = self._failures + 1, time.monotonic()
                if self._failures >= self.TRIES:
                    self._worker.give_up(error)
        if self._delivered != key and time.monotonic() - self._failed_at >= self.PAUSE_SECONDS:
            self._pending = (key, method.remote(*arguments))


@dataclass
class RayRole:
    """How workers of one kind are made."""

    name: str
    actor_class: type
    arguments: Callable[[int, int], tuple[Any, ...]]  # index, incarnation -> of the constructor
    epoch: int = 0  # life of the driver: names of two lives must differ
    cpus: float = 0.0
    gpus: float = 0.0
    node: str = ""  # id of the node that it must run on; empty: spread over all
    asks: bool = True
    start_seconds: float = 60.0
    is_vital: bool = True
    heard: Callable[[int, int], float | None] | None = None  # index, incarnation
    before_start: Callable[[int, int], None] = field(default=lambda index, incarnation: None)

    def start(self, index: int, incarnation: int) -> RayWorker:
        self.before_start(index, incarnation)
        strategy: Any = "SPREAD"
        if self.node:
            strategy = NodeAffinitySchedulingStrategy(self.node, soft=False)
        options: dict[str, Any] = {
            "name": f"{self.name} {index} ({self.epoch}.{incarnation})",
            "num_cpus": self.cpus,
            "num_gpus": self.gpus,
            "max_restarts": 0,  # the supervisor restarts, under a new incarnation
            "max_concurrency": THREADS if self.name != "inference" else 1000,
            "scheduling_strategy": strategy,
            # Ray would keep a record of each of the newest 100,000 calls: hundreds of megabytes of leaves' calls.
            "enable_task_events": False,
        }
        handle: Any = ray.remote(self.actor_class).options(**options).remote(*self.arguments(index, incarnation))
        heard = self.heard
        elsewhere = (lambda: heard(index, incarnation)) if heard is not None else None
        return RayWorker(handle, incarnation, asks=self.asks, heard=elsewhere)


def first_line(error: BaseException) -> str:
    """The line of a Ray error that says what happened: the last of a worker's own traceback, the first otherwise."""
    if isinstance(error, UsageError | ResumeError):
        return " ".join(str(cause_of(error)).split())
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if isinstance(error, ray.exceptions.RayTaskError):
        return lines[-1] if lines else type(error).__name__
    return lines[0] if lines else type(error).__name__


def cause_of(error: BaseException) -> BaseException:
    """What the worker itself raised."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error
