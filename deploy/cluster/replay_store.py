"""The Redis of a run: an own server in the run directory, kept alive, or the user's."""

import json
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shusaku.common.config.schema import Config
from shusaku.common.errors import ResumeError, UsageError
from shusaku.replay.stream.client import ReplayUnavailable, check_server
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import EmbeddedServer

DEADLINE = 1.0  # seconds of one call of the driver, whose loop must go on
RESTART_PAUSES = (0.0, 2.0, 5.0, 10.0, 30.0)  # before the first, second, … attempt in a row to start our server again
RIVAL_SECONDS = 2.5  # in which a living driver says something
STOP_SECONDS = 5.0  # for our server to end in order

Begin = Callable[[RedisControl], None]


class ReplayStore:
    """Starts or checks the server; `tend` keeps it going and tells what happened.  Never blocks for long."""

    def __init__(self, config: Config, directory: Path, run_id: str, say: Callable[[str], None]) -> None:
        self._config, self._say = config, say
        self._directory = directory
        self._run_id = run_id
        self._server: EmbeddedServer | None = None
        self.url = config.replay.url  # as the driver and the learner reach it
        self.actor_url = config.replay.actor_url or config.replay.url  # as actors on any node do
        self.restarts = 0
        self.losses = 0  # times that the data was gone
        self.trouble = ""  # why it does not answer, or refuses; empty: it does neither
        self._begin: Begin | None = None
        self._has_begun = False
        self._starting: threading.Thread | None = None
        self._failures = 0  # in a row
        self._next_start = 0.0
        self._is_ending = False

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server else None

    def start(self, bind: str = "") -> RedisControl:
        """UsageError where the server can not be used; `bind`: also listen there for actors of other nodes."""
        if not self.url:
            directory = self._directory / "redis"
            self._server = EmbeddedServer(directory, max_megabytes=self._config.replay.megabytes, bind=bind)
            self._server.start()
            self.url = self._server.url
            self.actor_url = self._server.tcp_url or self.url
        else:
            check_server(self.url, run_id=self._run_id)
            self._refuse_a_rival()
        self.control = RedisControl(self.url, self._run_id, DEADLINE)
        return self.control

    def begin(self, begin: Begin) -> None:
        """Writes the run's keys, now and whenever they are gone."""
        self._begin = begin
        begin(self.control)
        self._has_begun = True

    def tend(self) -> bool:
        """Restarts our server when it has ended, writes the keys anew when the data was lost; whether it answers."""
        if not self._is_up():
            self.trouble = self.trouble or "it is being started again"
            return False
        try:
            is_lost = self.control.is_lost()
            if is_lost and self._has_begun:  # said once, also where beginning anew fails at first
                self.losses += 1
                self._has_begun = False
                self._say("the replay server has lost the run's games: the window begins anew, learning waits for it")
            if not self._has_begun and self._begin is not None:
                self._begin(self.control)
                self._has_begun = True
            self.trouble = ""
            return True
        except ReplayUnavailable as error:
            self.trouble = str(error)
            return False

    def end(self) -> None:
        """It may end from now on: `ray job stop` sends SIGTERM to our server, too."""
        self._is_ending = True

    def stop(self) -> None:
        self._is_ending = True
        if self._starting is not None:
            self._starting.join(STOP_SECONDS)
        if self._server is not None:
            self._server.stop(STOP_SECONDS)

    def identify(self) -> dict[str, Any]:
        """Which driver writes the status."""
        return {"host": platform.node(), "driver": os.getpid(), "run_dir": str(self._directory.resolve())}

    def _is_up(self) -> bool:
        if self._server is None or self._is_ending or (self._server.is_alive() and self._starting is None):
            return True
        if self._starting is not None:
            if self._starting.is_alive():
                return False
            self._starting = None
            return self._server.is_alive()
        now = time.monotonic()
        if now >= self._next_start:
            self._next_start = now + RESTART_PAUSES[min(self._failures + 1, len(RESTART_PAUSES) - 1)]
            self.restarts += 1
            self._say("the replay server ended; it is started again on the same files")
            self._starting = threading.Thread(target=self._restart, args=(self._server,), name="replay", daemon=True)
            self._starting.start()
        return False

    def _restart(self, server: EmbeddedServer) -> None:
        """Reading a large window back takes a while, in which the driver's loop goes on."""
        try:
            server.start()
            self._failures = 0
            self.trouble = ""
        except (UsageError, ResumeError, OSError) as error:
            self._failures += 1
            self.trouble = str(error)
            self._say(f"the replay server does not start: {error}")

    def _refuse_a_rival(self) -> None:
        """UsageError when another driver drives this run: of a copy of the run directory, say."""
        control = RedisControl(self.url, self._run_id)
        first = _said(control)
        if not isinstance(first.get("time"), int | float) or time.time() - first["time"] > 60:
            return
        deadline = time.monotonic() + RIVAL_SECONDS
        while time.monotonic() < deadline:
            now = _said(control)
            if now.get("time") != first.get("time"):
                raise UsageError(
                    f"run.dir={self._directory}: this run is driven by process {now.get('driver')} on "
                    f"{now.get('host')}, in {now.get('run_dir')}; stop that, or begin a new run with another run.dir"
                )
            time.sleep(0.25)


def _said(control: RedisControl) -> Mapping[str, Any]:
    try:
        content = json.loads(control.status() or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
