"""The Redis of a run: an own server in the run directory, kept alive, or the user's."""

import time
from collections.abc import Callable
from pathlib import Path

from common.config import Config
from replay.redis_client import ReplayUnavailable, check_server
from replay.redis_control import RedisControl
from replay.redis_server import EmbeddedServer

ANSWER_SECONDS = 8.0  # that an external server has at the start


class ReplayStore:
    """Starts or checks the server; `tend` keeps it going and tells what happened."""

    def __init__(self, config: Config, directory: Path, run_id: str, say: Callable[[str], None]) -> None:
        self._config, self._say = config, say
        self._directory = directory / "redis"
        self._run_id = run_id
        self._server: EmbeddedServer | None = None
        self.url = config.replay.url  # as the driver reaches it
        self.actor_url = config.replay.url  # as actors on any node do
        self.restarts = 0
        self.losses = 0  # times that the data was gone
        self._begin: Callable[[RedisControl], None] | None = None
        self._last_start = 0.0

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server else None

    def start(self, bind: str = "") -> RedisControl:
        """UsageError where the server can not be used; `bind`: also listen there for actors of other nodes."""
        if not self.url:
            self._server = EmbeddedServer(self._directory, max_megabytes=self._config.replay.megabytes, bind=bind)
            self._server.start()
            self.url = self._server.url
            self.actor_url = self._server.tcp_url or self.url
        else:
            check_server(self.url, ANSWER_SECONDS)
        self.control = RedisControl(self.url, self._run_id)
        return self.control

    def begin(self, begin: Callable[[RedisControl], None]) -> None:
        """Writes the run's keys, now and whenever they are gone."""
        self._begin = begin
        begin(self.control)

    def tend(self) -> bool:
        """Restarts our server when it has ended, writes the keys anew when the data was lost; whether it answers."""
        if self._server is not None and not self._server.is_alive() and time.monotonic() - self._last_start > 2.0:
            self._last_start = time.monotonic()
            self.restarts += 1
            self._say("the replay server ended; it is started again on the same files")
            self._server.start()
        try:
            if self.control.is_lost() and self._begin is not None:
                self.losses += 1
                self._say("the replay server has lost the run's games: the window begins anew, learning waits for it")
                self._begin(self.control)
            return True
        except ReplayUnavailable:
            return False

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
