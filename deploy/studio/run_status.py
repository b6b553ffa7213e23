"""How a run is doing: what its driver answers, or else what its directory says."""

import json
import platform
from pathlib import Path
from typing import Any

from shusaku.deploy.run.control_client import ControlClient, ControlUnavailable
from shusaku.deploy.run.control_server import CONTROL_FILE
from shusaku.deploy.run.run_directory import is_running

_KEPT = ("activity", "step", "version", "games", "rows_seen", "seconds", "minutes", "limit", "troubles",
         "games_per_hour", "steps_per_second", "searches_per_second", "window_rows", "window_size")


def read_status(directory: Path) -> dict[str, Any]:
    """What the driver says of itself.  If none answers here, `is_running` is false and `note` says what is known."""
    try:
        client = ControlClient.of(directory)
        content = json.loads(client.status() or b"{}") if client else None
    except (ControlUnavailable, ValueError):
        content = None
    if content is None:
        return {"is_running": False, "note": _describe_silence(directory)}
    status = {"activity": "starting", **content.get("status", {})}
    return {"is_running": True, **{name: status[name] for name in _KEPT if name in status}}


def _describe_silence(directory: Path) -> str:
    """Whether the run goes on although no driver answers; its driver removes control.json, unless it is killed."""
    try:
        host = str(json.loads((directory / CONTROL_FILE).read_text(encoding="utf-8"))["host"]) or platform.node()
    except PermissionError:
        return ("The run goes on, unless it was killed; its driver answers the run's owner alone. What it has written "
                "is shown.")
    except (OSError, ValueError, KeyError, TypeError):
        host = platform.node()
    if host != platform.node():
        return (f"The run goes on on {host}, unless it was killed there; its driver does not answer here. What it has "
                "written is shown.")
    try:
        is_locked = (directory / "lock").exists() and is_running(directory)
    except OSError:
        is_locked = False
    if is_locked:
        return "The run goes on, but its driver does not answer here. What it has written is shown."
    return "The run does not go on now; what it left is shown."
