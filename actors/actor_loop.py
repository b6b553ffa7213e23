"""One self-play actor's loop: load new weights, play a step, hand finished games over, pause when told.

No Ray and no Redis in this file: `actors.remote` wraps it, and the writer is whatever takes finished games.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

import msgpack
import psutil

from shusaku.common.messages import Control, GameRecord, Weights
from shusaku.common.stage_timer import StageTimer

PAUSE_SECONDS = 0.05  # between two looks at the control while there is nothing to do
# Between two looks while it plays, unless a step takes longer or so many games have ended: a look costs 10 us where the
# network has just run, and games that are handed over together are sent together.
LOOK_SECONDS, LOOK_GAMES = 0.1, 64
MOST_TEXT = 250  # characters of what evaluates
FIGURES_SECONDS = 0.5  # between two statements of the figures that travel with the heartbeat


class Plays(Protocol):
    """SelfPlay, or two overlapping groups of it."""

    def step(self) -> list[GameRecord]: ...

    def counters(self) -> dict[str, int]: ...


class Writes(Protocol):
    """Where finished games go: `replay.stream.writer.AsyncWriter`."""

    metrics: bytes  # msgpack; travels with the next heartbeat

    @property
    def control(self) -> Control: ...  # newest reply

    def put_all(self, records: Iterable[GameRecord]) -> int: ...  # how many it takes; offer the others again later


class ActorLoop:
    """`run` belongs to one thread; the other methods may be called by any.

    Memory is bounded: finished games wait in the writer's spool, and while that is full nobody plays.
    """

    def __init__(
        self,
        player: Plays,
        writer: Writes,
        load: Callable[[Weights], None],
        *,
        epoch: int,
        runtime: Callable[[], str] = lambda: "",
        more_figures: Callable[[], dict[str, int | float | str]] = dict,
        timer: StageTimer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`load` gives new weights to the evaluator; `more_figures` go with the heartbeat's others; `timer` is the
        player's.

        Nothing is played before the first weights, or before `set_ready`.
        """
        self._player, self._writer, self._load, self._epoch = player, writer, load, epoch
        self._is_ready, self._runtime, self._clock = False, runtime, clock
        self._more_figures, self._timer = more_figures, timer or StageTimer()
        self._waiting: list[GameRecord] = []  # games since the last look, or that the spool did not take yet
        self._offered: Weights | None = None
        self._version = -1
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        # Seconds: throttled or with a full spool, without weights, and all others.
        self._seconds = {"playing": 0.0, "paused": 0.0, "starved": 0.0}
        self._stated_at = float("-inf")
        self._ticks = 0  # rounds of the loop: whoever stands still is stuck

    def offer(self, weights: Weights) -> None:
        """Newer weights, to be loaded between two steps; only the newest offer is kept."""
        with self._lock:
            if self._offered is None or weights.version > self._offered.version:
                self._offered = weights

    def set_ready(self) -> None:
        """Whoever evaluates has its weights already."""
        self._is_ready = True

    def stop(self) -> None:
        """Makes `run` return after the running step; its open games are lost."""
        self._stopping.set()

    def run(self) -> str:
        """Plays until it is told to stop; why it ended."""
        before, activity = self._clock(), "starved"
        while not self._stopping.is_set():
            self._ticks += 1
            now = self._clock()
            self._seconds[activity] += now - before
            before = now
            self._state_figures(now)
            control = self._writer.control
            if control.epoch != self._epoch:
                return f"another driver took over (epoch {control.epoch}, mine is {self._epoch})"
            if control.stop:
                return "the run was stopped, or this actor has a successor"
            self._load_offered()
            if not self._is_ready:
                activity = "starved"
                self._stopping.wait(PAUSE_SECONDS)
                self._timer.charge("wait")
            elif self._waiting or control.throttle:
                activity = "paused"
                self._stopping.wait(PAUSE_SECONDS)
                self._timer.charge("wait")
                self._hand_over()
            else:
                activity = "playing"
                try:
                    self._play(now + LOOK_SECONDS)
                finally:  # what has ended is safe, whatever a step raises
                    self._hand_over()
        return "the actor was stopped"

    def _play(self, until: float) -> None:
        while True:
            self._waiting.extend(self._player.step())
            if len(self._waiting) >= LOOK_GAMES or self._clock() >= until or self._stopping.is_set():
                return

    def _load_offered(self) -> None:
        with self._lock:
            weights, self._offered = self._offered, None
        if weights is not None and weights.version > self._version:
            self._load(weights)
            self._version = weights.version
            self._is_ready = True
            self._timer.charge("load")

    def _hand_over(self) -> None:
        if self._waiting:
            del self._waiting[: self._writer.put_all(self._waiting)]
        self._timer.charge("record")

    def _state_figures(self, now: float) -> None:
        if now - self._stated_at < FIGURES_SECONDS:
            return
        self._stated_at = now
        self._writer.metrics = msgpack.packb({
            **self._player.counters(),
            **self._timer.counters(),
            "version": self._version,
            "ticks": self._ticks,
            **{f"{name}_ms": round(seconds * 1000) for name, seconds in self._seconds.items()},
            "pid": os.getpid(),
            "resident_mb": round(psutil.Process().memory_info().rss / 1e6),
            "runtime": self._runtime()[:MOST_TEXT],
            **self._more_figures(),
        })
