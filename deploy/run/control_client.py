"""Requests to a run of this machine, straight to its driver: they need no replay server."""

import json
import platform
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from shusaku.common.errors import RunError
from shusaku.deploy.run.control_server import CONTROL_FILE, HOST

ANSWER_SECONDS = 1.5  # the driver's threads answer at once, unless the machine is very busy


class ControlUnavailable(RunError):
    """The driver did not answer."""


class ControlClient:
    """Asks the driver that runs a directory; ControlUnavailable if it does not answer in time."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token

    @classmethod
    def of(cls, directory: Path) -> "ControlClient | None":
        """That of the run in this directory; None if no driver of this machine answers there."""
        try:
            content = json.loads((directory / CONTROL_FILE).read_text(encoding="utf-8"))
            if content["host"] != platform.node():  # its port is another program's here, which must not see the token
                return None
            client = cls(int(content["port"]), str(content["token"]))
            client.status()
        except (OSError, ValueError, KeyError, TypeError, ControlUnavailable):
            return None
        return client

    def status(self) -> bytes:
        """The newest status of the driver, JSON; empty: none yet."""
        data = self._ask("GET", "/status")
        return b"" if data.strip() == b"{}" else data

    def set_actors(self, actors: int) -> None:
        """Sets the desired number of actors."""
        self._ask("POST", f"/scale?actors={actors}")

    def request_run_stop(self) -> None:
        """Asks the driver to end the run in order."""
        self._ask("POST", "/stop")

    def _ask(self, method: str, path: str) -> bytes:
        connection = HTTPConnection(HOST, self._port, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, headers={"Authorization": f"Bearer {self._token}"})
            answer: Any = connection.getresponse()
            data: bytes = answer.read()
        except (OSError, HTTPException) as error:
            raise ControlUnavailable(f"the driver does not answer: {error or type(error).__name__}") from None
        finally:
            connection.close()
        if answer.status != 200:
            raise ControlUnavailable(f"the driver refuses: {data.decode(errors='replace').strip()[:200]}")
        return data
