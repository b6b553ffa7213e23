"""One HTTP server on 127.0.0.1 beside each run: its health, its metrics, and requests that need no replay server.

    GET  /healthz             200 or 503, and JSON that says why
    GET  /metrics             in Prometheus' text format
    GET  /status              JSON of `shusaku status`          these three with the token of RUN_DIR/control.json,
    POST /stop                ends the run with a checkpoint    which only the owner of the run can read
    POST /scale?actors=N      changes the number of actors

It answers from what the driver published last, in threads of its own: a driver that waits delays no answer.
"""

import hmac
import json
import os
import platform
import re
import secrets
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from shusaku.common.durable_files import write_privately
from shusaku.common.prometheus import exposition

HOST = "127.0.0.1"
SILENT_SECONDS = 60.0  # without a look of the driver at its run: it hangs
START_SECONDS = 600.0  # the same before its first look: a large window takes minutes to read
ANSWER_SECONDS = 5.0  # that a client may take to send its request
CONTROL_FILE = "control.json"
OTHER_NAME = b'{"error": "ask for 127.0.0.1 or localhost"}\n'  # to a Host header of another name
_ACTORS = re.compile(r"[1-9]\d{0,3}")


@dataclass
class Snapshot:
    """The run as its driver published it last."""

    status: Mapping[str, Any] = field(default_factory=dict)  # JSON of `shusaku status`; empty: none yet
    metrics: Mapping[str, float] = field(default_factory=dict)  # by the names of `common.prometheus`
    moment: float = field(default_factory=time.monotonic)


class ControlServer:
    """Runs from its construction until `close`; without a port it logs that and the run goes on."""

    def __init__(
        self, directory: Path, port: int, log: Callable[[str], None], stop: Callable[[], None], tags: Mapping[str, str]
    ) -> None:
        """`port` 0: any free one, as also if another program has `port`; `stop` is called by a request to stop.

        `tags` are those of every series of the metrics.
        """
        self.tags = tags
        self.token = secrets.token_hex(32)
        self.stop_run = stop
        self._file = directory / CONTROL_FILE
        self._snapshot = Snapshot()
        self._step, self._step_at = 0, time.monotonic()
        self._asked_actors = 0
        self._server: _Server | None = None
        try:
            self._server = self._listen(port, log)
            self._write_file(log)
        except OSError as error:
            log(f"no program can ask for health, metrics or status over HTTP: {error}")
            return
        threading.Thread(target=self._server.serve_forever, name="control", daemon=True).start()

    @property
    def port(self) -> int:
        """On which it listens; 0 if it does not."""
        return int(self._server.server_address[1]) if self._server else 0

    def publish(self, status: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        """What it answers from now on; the driver calls this in each round."""
        self._snapshot = Snapshot(status, metrics)
        step = int(status["status"]["step"])
        if step != self._step:
            self._step, self._step_at = step, time.monotonic()

    def take_actors(self) -> int:
        """The number of actors that was asked for since the last call; 0: none."""
        asked, self._asked_actors = self._asked_actors, 0
        return asked

    def request_actors(self, actors: int) -> None:
        """Leaves the number for the driver's next round."""
        self._asked_actors = actors

    def close(self) -> None:
        """Ends the server and removes its file."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._file.unlink(missing_ok=True)
            self._server = None

    def status(self) -> Mapping[str, Any]:
        """The last status, and how old it is; empty before the first."""
        snapshot = self._snapshot
        if not snapshot.status:
            return {}
        return {**snapshot.status, "age_seconds": round(time.monotonic() - snapshot.moment, 1)}

    def metrics(self) -> bytes:
        """The last metrics in Prometheus' text format."""
        return exposition(self._snapshot.metrics, self.tags)

    def health(self) -> dict[str, Any]:
        """Whether the run is healthy, and if not, why."""
        snapshot, now = self._snapshot, time.monotonic()
        status = snapshot.status.get("status", {})
        roles = snapshot.status.get("roles", {})
        silent = now - snapshot.moment
        is_silent = silent > (SILENT_SECONDS if status else START_SECONDS)
        reasons = [f"the driver has not looked at its run for {silent:.0f} s"] if is_silent else []
        if snapshot.status.get("has_begun"):
            reasons += [f"no {name} worker is alive, of {count['desired']}" for name, count in roles.items()
                        if count["desired"] and not count["alive"]]
        reasons += snapshot.status.get("failures", [])
        return {
            "healthy": not reasons, "reasons": reasons, "activity": status.get("activity", "starting"), "roles": roles,
            "troubles": status.get("troubles", []),
            "step": status.get("step", 0), "last_step_age_seconds": round(now - self._step_at, 1),
            "last_look_age_seconds": round(silent, 1),
        }

    def _listen(self, port: int, log: Callable[[str], None]) -> "_Server":
        try:
            return _Server(self, port)
        except OSError as error:
            if not port:
                raise
            server = _Server(self, 0)
            log(f"run.http_port={port}: {error.strerror or error}; /healthz and /metrics are on port "
                f"{server.server_address[1]} of {HOST} instead, set run.http_port to another one for the next start")
            return server

    def _write_file(self, log: Callable[[str], None]) -> None:
        """Names port and token for the commands; without it they ask the replay server."""
        content = {"port": self.port, "token": self.token, "pid": os.getpid(), "host": platform.node()}
        try:
            write_privately(self._file, json.dumps(content).encode() + b"\n")
        except OSError as error:
            log(f"{self._file}: {error.strerror}; `shusaku status` and `stop` need the replay server now")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, control: ControlServer, port: int) -> None:
        self.control = control
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        """Without the look-up of the host's name, which may wait for a name server."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no line for the terminal."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "shusaku", ""
    timeout = ANSWER_SECONDS

    def do_GET(self) -> None:
        """Health, metrics, status."""
        path = urlsplit(self.path).path
        control = self.server.control
        if not self._is_for_this_machine():
            self._answer(403, OTHER_NAME)
        elif path == "/healthz":
            health = control.health()
            self._answer(200 if health["healthy"] else 503, json.dumps(health).encode() + b"\n")
        elif path == "/metrics":
            self._answer(200, control.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        elif path == "/status":
            if self._has_token():
                self._answer(200, json.dumps(control.status()).encode() + b"\n")
        else:
            self._answer(404, b'{"error": "there are /healthz, /metrics and /status"}\n')

    def do_POST(self) -> None:
        """Requests to the driver, which has heard of them when this is answered."""
        url = urlsplit(self.path)
        if not self._is_for_this_machine():
            self._answer(403, OTHER_NAME)
            return
        if not self._has_token():
            return
        if url.path == "/stop":
            self.server.control.stop_run()
        elif url.path == "/scale":
            actors = "".join(parse_qs(url.query).get("actors", ()))
            if not _ACTORS.fullmatch(actors):
                self._answer(400, b'{"error": "actors must be a number from 1 to 9999"}\n')
                return
            self.server.control.request_actors(int(actors))
        else:
            self._answer(404, b'{"error": "there are /stop and /scale"}\n')
            return
        self._answer(200, b"{}\n")

    def log_message(self, *arguments: Any) -> None:
        """Requests are no lines for the terminal."""

    def _is_for_this_machine(self) -> bool:
        """False for a page of a browser whose name was rebound to 127.0.0.1."""
        host = (self.headers.get("Host") or HOST).partition(":")[0]
        return host in (HOST, "localhost")

    def _has_token(self) -> bool:
        given = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if hmac.compare_digest(given.encode(), self.server.control.token.encode()):
            return True
        self._answer(401, b'{"error": "the token of RUN_DIR/control.json is missing or wrong"}\n')
        return False

    def _answer(self, code: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
