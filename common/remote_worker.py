"""What every worker on Ray has: heartbeats from a thread of its own, a place, and a way to be stopped."""

import os
import platform
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import ray

from shusaku.common.activity import ActivityClock, Heartbeat

CONTROL = "control"  # the concurrency group of the short calls, which no other call can hold up
CONTROL_THREADS = 2


class RemoteWorker:
    """A threaded Ray actor: `run` takes one thread until the end, so that its caller sees every end.

    Ray answers the methods of the control group in threads of their own, whatever the others wait for.
    """

    def __init__(self) -> None:
        self.activity = ActivityClock()
        self.run_seconds = 0.0  # training time of the run, as the driver said last
        self._stopping = threading.Event()

    @ray.method(concurrency_group=CONTROL)
    def heartbeat(self, run_seconds: float) -> Heartbeat:
        """What the worker does now; `run_seconds`: training time of the run, which stands still in an outage."""
        self.run_seconds = run_seconds
        return replace(self.activity.heartbeat(self.troubles()), host=platform.node(), clock=time.time())

    @ray.method(concurrency_group=CONTROL)
    def location(self) -> tuple[str, int]:
        """Node id and process id."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    @ray.method(concurrency_group=CONTROL)
    def stop(self) -> None:
        """Asks `run` to end; what can be saved is saved."""
        self._stopping.set()
        self.on_stop()

    def troubles(self) -> Sequence[str]:
        """What is wrong with this worker now, in a line each.  Never waits."""
        return ()

    def on_stop(self) -> None:
        """Passes a request to stop on.  Never waits."""
