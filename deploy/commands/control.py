"""`shusaku scale N`, `status`, `stop`: requests to a running run.

On the machine of its driver they go straight to it (`deploy.run.control_server`), whatever the replay server does; on
others through the replay server.
"""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console as Terminal

from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.run.console import Status, Waiting, block
from shusaku.deploy.run.control_client import ControlClient, ControlUnavailable
from shusaku.deploy.run.run_directory import is_running
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.replay.stream.client import ReplayUnavailable
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import server_url

EFFECT_SECONDS = 15.0  # within which a change should take effect
STALE_SECONDS = 15.0  # a status older than that belongs to no running driver
STOP_SECONDS = 60.0  # within which a run that was asked to stop should end


def scale(what: str, config: Config, as_json: bool) -> dict[str, Any]:
    """Changes the number of actors of a running run, and waits until as many play."""
    try:
        count = int(what)
    except ValueError:
        raise UsageError(f"scale {what}: must be a number of actors, for example `shusaku scale 4`") from None
    if count < 1:
        raise UsageError(f"scale {count}: must be at least 1; `shusaku stop` ends a run")
    control = _control(config)
    state = _state(control, config)
    if "max_actors" not in state:
        raise UsageError(f"scale {count}: `shusaku local` plays in one process; give actors.count to its next start")
    if not state["desired_actors"]:  # a run that plays has one at least
        raise UsageError(f"scale {count}: this run learns from finished games (dataset.records), so it has no actors")
    if count > state["max_actors"]:
        raise UsageError(f"scale {count}: {count} actors of actors.cpus={state['cpus_per_actor']:g} do not fit; this "
                         f"cluster takes {state['max_actors']} at most")

    def plays() -> bool:
        nonlocal state
        with contextlib.suppress(UsageError):  # one missing answer; the request stays
            state = _state(control, config)
        return bool(state["desired_actors"] == state["alive_actors"] == count)

    control.set_actors(count)
    is_done, seconds = _wait(plays, 2 * EFFECT_SECONDS)
    alive = state["alive_actors"]
    if not is_done:
        raise RunError(f"scale {count}: {alive} of {count} actors play after {seconds} s; the run goes on trying, "
                        "`shusaku status` shows it")
    if not as_json:
        print(f"{alive} actors play, after {seconds} s")
    return {"actors": count, "alive": alive, "seconds": seconds}


def status(config: Config, as_json: bool) -> dict[str, Any]:
    """Prints the status of a running run once."""
    state = _state(_control(config), config)
    waiting = state["status"]["waiting"]
    if not as_json:
        Terminal(highlight=False).print(block(Status(**{
            **state["status"], "waiting": Waiting(**waiting) if waiting else None, "runtimes": _with_choice(state),
            "workers": [(value, unit) for value, unit in state["status"]["workers"]],
            "strength": [(s, v) for s, v in state["status"]["strength"]],
        })))
    return state


def _with_choice(state: dict[str, Any]) -> list[str]:
    """What evaluates, and the measurement by which its precision was chosen."""
    precision = state.get("precision")
    return [*state["status"]["runtimes"], *([f"inference.precision=auto: {precision}"] if precision else [])]


def stop(config: Config, as_json: bool) -> dict[str, Any]:
    """Ends a running run with a checkpoint; the same `train` command goes on."""
    control = _control(config)
    _state(control, config)
    with contextlib.suppress(ControlUnavailable):  # it ended at once, or `_wait` says so
        control.request_run_stop()
    is_done, seconds = _wait(lambda: not is_running(Path(config.run.dir)), STOP_SECONDS)
    if not is_done:
        raise RunError(f"run.dir={config.run.dir}: the run was asked to stop {seconds} s ago and has not ended yet")
    if not as_json:
        print(f"the run has ended, after {seconds} s")
    return {"seconds": seconds}


def _wait(is_done: Callable[[], bool], most: float) -> tuple[bool, float]:
    """Whether it is done within `most` seconds, and how many it took."""
    begin = time.monotonic()
    while not (done := is_done()) and time.monotonic() - begin < most:
        time.sleep(0.2)
    return done, round(time.monotonic() - begin, 1)


def _control(config: Config) -> RedisControl | ControlClient:
    directory = Path(config.run.dir)
    if (client := ControlClient.of(directory)) is not None:
        return client
    if (identity := RunIdentity.find(directory)) is None:
        raise UsageError(f"run.dir={directory} holds no run of `shusaku train`; name the one that is running")
    url = config.replay.url or server_url(directory / "redis")
    if not url:
        raise UsageError(f"run.dir={directory}: its replay server is not running, so neither is the run; if it uses "
                         "your own server, give its replay.url")
    if not is_running(directory) and not config.replay.url:
        raise UsageError(f"run.dir={directory}: no process runs it; `shusaku train` resumes it")
    return RedisControl(url, identity.run_id)


def _state(control: RedisControl | ControlClient, config: Config) -> dict[str, Any]:
    try:
        data = control.status()
        server_time = control.server_time() if data and isinstance(control, RedisControl) else 0.0
    except ReplayUnavailable as error:
        raise UsageError(f"the replay server of run.dir={config.run.dir} does not answer: {error}") from None
    except ControlUnavailable as error:
        raise UsageError(f"run.dir={config.run.dir}: {error}") from None
    if not data:
        raise UsageError(f"run.dir={config.run.dir}: the run has not begun yet, or is over; try again in a moment")
    state: dict[str, Any] = json.loads(data)
    if isinstance(control, ControlClient):
        age = time.time() - state["time"]
        if age > STALE_SECONDS:  # the process lives, and may be busy with one long measurement
            shown = state["status"]
            shown["troubles"].append(f"the driver has not looked at its run for {age:.0f} s; it is {shown['activity']}")
    elif (age := server_time - state.get("replay_time", state["time"])) > STALE_SECONDS:  # by one clock for all
        raise UsageError(f"run.dir={config.run.dir}: its driver has written no status for {age:.0f} s, so the run does "
                         "not go on; `shusaku train` resumes it")
    return state
