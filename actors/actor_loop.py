"""One self-play actor's loop: load new weights, play a step, hand over finished games, pause when throttled.

There is no Ray and no Redis in this file: `actors.remote` wraps it, and any writer takes the finished games.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

import msgpack
import psutil

from shusaku.actors.open_games import OpenGames
from shusaku.common.activity import ActivityClock
from shusaku.common.messages import Control, GameRecord, Weights
from shusaku.common.stage_timer import StageTimer

PAUSE_SECONDS = 0.05  # between two checks of the control while the actor does not play
# Between two checks while it plays, unless a step takes longer or this many games have ended: a check costs 10 us after
# the network has run, and games that are handed over in one call are sent in one message.
CHECK_SECONDS, CHECK_GAMES = 0.1, 64
MAX_RUNTIME_TEXT = 250  # characters
METRICS_SECONDS = 0.5  # between two updates of the metrics that travel with the heartbeat


class GamePlayer(Protocol):
    """SelfPlay or PipelinedSelfPlay."""

    @property
    def resign_value(self) -> float:
        """A player to move who sees less resigns."""

    def step(self) -> list[GameRecord]:
        """Plays one step; the games that ended."""

    def counters(self) -> dict[str, int]:
        """Totals of games, rows, evaluations and the like."""


class GameWriter(Protocol):
    """Takes finished games: `replay.stream.writer.AsyncWriter`."""

    metrics: bytes  # msgpack; travels with the next heartbeat

    @property
    def control(self) -> Control:
        """The newest reply of the replay."""

    @property
    def failures(self) -> int:
        """Calls to the replay without an answer."""

    def put_all(self, records: Iterable[GameRecord]) -> int:
        """How many of the games it takes; the caller offers the others again later."""


class ActorLoop:
    """`run` belongs to one thread; the other methods may be called by any.

    Memory is bounded: finished games wait in the writer's send queue, and the actor pauses while that is full.
    """

    def __init__(
        self, player: GamePlayer, writer: GameWriter, load: Callable[[Weights], None], *, epoch: int,
        runtime: Callable[[], str] = lambda: "",
        more_metrics: Callable[[], dict[str, int | float | str]] = dict,
        timer: StageTimer | None = None, clock: Callable[[], float] = time.monotonic,
        open_games: OpenGames | None = None, activity: ActivityClock | None = None,
    ) -> None:
        """`load` gives new weights to the evaluator; `more_metrics` are added to the heartbeat's metrics.

        `timer`: the player's; `open_games`: of the player, saved and restored; None: they are lost with the actor;
        `activity`: told what the loop does.  Nothing is played before the first weights, or before `set_ready`.
        """
        self._activity = activity or ActivityClock()
        self._player, self._writer, self._load, self._epoch = player, writer, load, epoch
        self._is_ready, self._runtime, self._clock = False, runtime, clock
        self._more_metrics, self._timer = more_metrics, timer or StageTimer()
        self._open_games = open_games
        self._waiting: list[GameRecord] = []  # finished games that the writer has not taken yet
        self._offered: Weights | None = None
        self._version = -1
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        # Seconds: paused: throttled or with a full send queue; starved: without weights.
        self._seconds = {"playing": 0.0, "paused": 0.0, "starved": 0.0}
        self._published_at = float("-inf")

    def offer(self, weights: Weights) -> None:
        """Keeps the newest weights that were offered, to be loaded between two steps."""
        with self._lock:
            if self._offered is None or weights.version > self._offered.version:
                self._offered = weights

    def set_ready(self) -> None:
        """Starts to play without own weights, because an inference server has them."""
        self._is_ready = True

    def stop(self) -> None:
        """Makes `run` return after the current step."""
        self._stopping.set()

    def run(self) -> str:
        """Plays until it is told to stop; the reason why it ended."""
        reason = self._play_until_told()
        self.save_open_games()
        return reason

    def save_open_games(self) -> None:
        """Puts the open games behind all finished ones; for the thread of `run`, after its end."""
        self._activity.begin("saving the open games")
        self._hand_over()
        if self._open_games is not None:
            self._open_games.save()

    def _play_until_told(self) -> str:
        before, part = self._clock(), "starved"
        self._activity.set_ready()
        while not self._stopping.is_set():
            now = self._clock()
            self._seconds[part] += now - before
            before = now
            self._publish_metrics(now)
            control = self._writer.control
            if control.epoch != self._epoch:
                return f"another driver took over (epoch {control.epoch}, mine is {self._epoch})"
            if control.stop:
                return "the run was stopped, or this actor has a successor"
            self._load_offered()
            if not self._is_ready:
                part = "starved"
                self._activity.wait("waiting for the first weights", "learner")
                self._stopping.wait(PAUSE_SECONDS)
                self._timer.charge("wait")
            elif self._open_games is not None and not self._open_games.restore():
                part = "starved"
                self._activity.wait("waiting for its open games", "replay")
                self._stopping.wait(PAUSE_SECONDS)
                self._timer.charge("wait")
            elif self._waiting or control.throttle:
                part = "paused"
                self._activity.wait("pausing until the learner needs more games")
                self._stopping.wait(PAUSE_SECONDS)
                self._timer.charge("wait")
                self._hand_over()
                self._save_if_due()  # else the games of an actor that only pauses count as those that ended it
            else:
                part = "playing"
                try:
                    self._play(now + CHECK_SECONDS)
                finally:  # finished games are kept, even if a step raises
                    self._hand_over()
                self._save_if_due()
        return "the actor was stopped"

    def _play(self, until: float) -> None:
        while True:
            self._activity.begin("playing a step")
            self._waiting.extend(self._player.step())
            if len(self._waiting) >= CHECK_GAMES or self._clock() >= until or self._stopping.is_set():
                return

    def _load_offered(self) -> None:
        with self._lock:
            weights, self._offered = self._offered, None
        if weights is not None and weights.version > self._version:
            self._activity.begin("loading weights")
            self._load(weights)
            self._version = weights.version
            self._is_ready = True
            self._timer.charge("load")

    def _hand_over(self) -> None:
        if self._waiting:
            del self._waiting[: self._writer.put_all(self._waiting)]
        self._timer.charge("record")

    def _save_if_due(self) -> None:
        if self._open_games is not None:
            self._open_games.save_if_due()

    def _publish_metrics(self, now: float) -> None:
        if now - self._published_at < METRICS_SECONDS:
            return
        self._published_at = now
        self._writer.metrics = msgpack.packb({
            **self._player.counters(), **self._timer.counters(), "version": self._version,
            "send_failures": self._writer.failures, "resign_value": self._player.resign_value,
            **{f"{name}_ms": round(seconds * 1000) for name, seconds in self._seconds.items()},
            "pid": os.getpid(), "resident_mb": round(psutil.Process().memory_info().rss / 1e6),
            "runtime": self._runtime()[:MAX_RUNTIME_TEXT], **self._more_metrics(),
            **(self._open_games.metrics() if self._open_games is not None else {}),
        })
