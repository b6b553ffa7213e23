"""The Redis of a run: a server of ours in the run directory, which is kept alive, or the user's."""

import contextlib
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shusaku.common.config.schema import Config
from shusaku.common.errors import ResumeError, RunError, UsageError
from shusaku.common.tls.authority import RunAuthority
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.learner.checkpoints import load_latest
from shusaku.replay.stream.access import ActorUser
from shusaku.replay.stream.client import ReplayUnavailable, check_server
from shusaku.replay.stream.control import Holdings, RedisControl
from shusaku.replay.stream.server import EmbeddedServer, run_names

DEADLINE = 1.0  # seconds of one call, because the driver's loop must go on
RESTART_PAUSES = (0.0, 2.0, 5.0, 10.0, 30.0)  # seconds before the first, second, … restart of our server in a row
SECOND_DRIVER_SECONDS = 2.5  # a running driver writes its status within this time
GRANT_SECONDS = 2.0  # between two grants of the actors' rights: a server that restarts has forgotten them
STOP_SECONDS = 5.0  # for our server to end by itself

Begin = Callable[[RedisControl], None]


class ReplayStore:
    """Starts or checks the server; `check_health` keeps it running and logs what happened.  Never blocks for long."""

    def __init__(self, config: Config, directory: Path, run_id: str, log: Callable[[str], None],
                 authority: RunAuthority | None = None) -> None:
        """`authority`: signs the certificate of our server; None: it does not encrypt."""
        self._config, self._directory, self._run_id, self._log = config, directory, run_id, log
        self._authority = authority
        self._server: EmbeddedServer | None = None
        self.url = config.replay.url  # for the driver, and a learner on its node
        self.remote_url = config.replay.url  # for a learner on another one
        self.actor_url = config.replay.actor_url or config.replay.url  # for actors on any node
        self.restarts = 0
        self.losses = 0  # how often the data was lost
        self.lost_games = 0  # of this run, since this object was made
        self.holdings = Holdings()  # when the server answered last
        self.trouble = ""  # why the server does not answer or refuses; empty if it works
        self._actor_user: ActorUser | None = None  # None: that of replay.actor_url, or none could be made
        self._granted_at = 0.0
        self._begin: Begin | None = None
        self._has_begun = False
        self._starting: threading.Thread | None = None
        self._failures = 0  # in a row
        self._next_start = 0.0
        self._is_ending = False

    @property
    def pid(self) -> int | None:
        """Process id of our server; None for the user's."""
        return self._server.pid if self._server else None

    def start(self, bind: str = "") -> RedisControl:
        """UsageError if the server cannot be used; `bind`: our server also listens there, for actors of other nodes."""
        if not self.url:
            directory = self._directory / "redis"
            is_encrypted = self._config.replay.encryption == "tls" and bind and self._authority is not None
            certificate = self._authority.issue(bind) if is_encrypted and self._authority is not None else None
            self._server = EmbeddedServer(directory, max_megabytes=self._config.replay.megabytes, bind=bind,
                                          certificate=certificate)
            self._server.start()
            self._log_repairs(self._server)
            self.url = self._server.url
            self.actor_url = self.remote_url = self._server.tcp_url or self.url
        else:
            check_server(self.url, run_id=self._run_id)
            self._refuse_second_driver()
        if not self._config.replay.actor_url:
            self._make_actor_user()
        self.control = RedisControl(self.url, self._run_id, DEADLINE)
        return self.control

    def begin(self, begin: Begin, before: Holdings = Holdings()) -> None:  # noqa: B008 - immutable
        """Writes the run's keys now, and again whenever they were lost.

        `before`: what the run had there when it was saved; what is not there any more is counted and logged.
        """
        self._count_lost(before, self.control.holdings())
        self._begin = begin
        begin(self.control)
        self._has_begun = True
        self.holdings = self.control.holdings()

    def check_health(self) -> bool:
        """Restarts our server if it ended, writes the keys again if they were lost; returns whether it answers."""
        if not self._is_up():
            self.trouble = self.trouble or "it is being started again"
            return False
        try:
            is_lost = self.control.is_lost()
            if is_lost and self._has_begun:  # logged once, even if the first attempts to begin again fail
                self.losses += 1
                self._has_begun = False
                self._count_lost(self.holdings, Holdings())
            if not self._has_begun and self._begin is not None:
                self._begin(self.control)
                self._has_begun = True
                self.holdings = self.control.holdings()
            now = self.control.holdings()
            self._count_lost(self.holdings, now)
            self.holdings = now
            if self._actor_user is not None and time.monotonic() - self._granted_at >= GRANT_SECONDS:
                self._actor_user.grant()
                self._granted_at = time.monotonic()
            if self.control.repair():
                self._log("another program wrote into the replay's stream; its entries were removed, no game was")
            self.trouble = ""
            return True
        except ReplayUnavailable as error:
            self.trouble = str(error)
            return False

    def expect_end(self) -> None:
        """No longer restarts our server: `ray job stop` sends SIGTERM to it, too."""
        self._is_ending = True

    def stop(self) -> None:
        """Ends our server; the user's goes on."""
        self._is_ending = True
        if self._starting is not None:
            self._starting.join(STOP_SECONDS)
        if self._server is not None:
            self._server.stop(STOP_SECONDS)
        elif self._actor_user is not None:
            with contextlib.suppress(ReplayUnavailable):
                self._actor_user.revoke()

    def identify(self) -> dict[str, Any]:
        """Names the driver that writes the status."""
        return {"host": platform.node(), "driver": os.getpid(), "run_dir": str(self._directory.resolve())}

    def _make_actor_user(self) -> None:
        """Gives the actors a Redis user of their own, or says why they have none."""
        user = ActorUser(self.url, self._run_id, DEADLINE)
        try:
            user.grant()
        except ReplayUnavailable as error:
            self._log(f"the actors use the Redis user of replay.url, which may not make one for them ({error}): allow "
                      f"it +acl|setuser, or make one with `python -m shusaku.replay.stream.access {self._run_id}` and "
                      "name it in replay.actor_url")
            return
        self._actor_user, self.actor_url = user, user.url_from(self.actor_url)

    def _count_lost(self, before: Holdings, now: Holdings) -> None:
        """Counts and logs the games that are gone."""
        lost = now.lost_since(before)
        self.lost_games += lost
        if now.boot != before.boot and before.boot:
            others = [name for name in run_names(self._directory / "redis") if name != self._run_id]
            held = f"; its files hold the run {', '.join(others)}" if others and self._server else ""
            self._log(f"the replay server has lost the run's games, {lost:,} of them in the window{held}: the window "
                      "begins anew, learning waits for it")
        elif lost:
            self._log(f"the replay server has lost the newest {lost:,} games of the run: its files were cut, or are an "
                      "older copy")

    def _is_up(self) -> bool:
        if self._starting is not None and self._starting.is_alive():
            return self._is_ending
        if self._server is None or self._is_ending or self._server.is_alive():
            return True
        now = time.monotonic()
        if now >= self._next_start:
            self._next_start = now + RESTART_PAUSES[min(self._failures + 1, len(RESTART_PAUSES) - 1)]
            self.restarts += 1
            self._log("the relay that decrypts for the replay server ended; it is started again on the same port"
                      if self._server.is_serving() else
                      "the replay server ended; it is started again on the same files")
            self._starting = threading.Thread(target=self._restart, args=(self._server,), name="replay", daemon=True)
            self._starting.start()
        return False

    def _log_repairs(self, server: EmbeddedServer) -> None:
        while server.notes:
            self._log(server.notes.pop(0))

    def _restart(self, server: EmbeddedServer) -> None:
        """In a thread, because reading a large window back takes a while and the driver's loop must go on."""
        try:
            server.start()
            self._log_repairs(server)
            self._failures = 0
            self.trouble = ""
        except (UsageError, ResumeError, RunError, OSError) as error:
            self._failures += 1
            self.trouble = str(error)
            self._log(f"the replay server does not start: {error}")

    def _refuse_second_driver(self) -> None:
        """UsageError if another driver runs this run, such as that of a copy of the run directory."""
        control = RedisControl(self.url, self._run_id)
        first = _read_status(control)
        if not first:
            return
        deadline = time.monotonic() + SECOND_DRIVER_SECONDS
        while time.monotonic() < deadline:
            now = _read_status(control)
            if now.get("time") != first.get("time"):
                raise UsageError(f"run.dir={self._directory}: this run is driven by process {now.get('driver')} on "
                                 f"{now.get('host')}, in {now.get('run_dir')}; stop that, or begin a new run with "
                                 "another run.dir")
            time.sleep(0.25)


def saved_holdings(directory: Path, progress: RunProgress) -> Holdings:
    """What Redis held of the run when its progress was saved, else what the learner's window held at a checkpoint."""
    if progress.replay:
        return Holdings(**progress.replay)
    found = load_latest(directory / "checkpoints")
    window = found.checkpoint.facts["replay"] if found else {}
    return Holdings(window.get("boot", ""), 0, window.get("games", 0))


def _read_status(control: RedisControl) -> Mapping[str, Any]:
    try:
        content = json.loads(control.status() or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
