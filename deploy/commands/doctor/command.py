"""`shusaku doctor`: looks at the machine and, if there is one, at the run of run.dir; exit code 1 if a check fails.

A check is a function of what was read; this file reads it.  Nothing that is missing or broken ends the command: it is
a finding.
"""

import contextlib
import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from packaging.utils import canonicalize_name

from shusaku.common.config.schema import Config, GameConfig
from shusaku.common.errors import RunError, UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.hardware import cpu_flags
from shusaku.deploy.commands.doctor.access import check_acl, check_binds, check_modes, check_token, listeners_of
from shusaku.deploy.commands.doctor.finding import Finding, Level, fail, ok, warn
from shusaku.deploy.commands.doctor.machine import (
    Clocks,
    check_clock,
    check_core,
    check_descriptors,
    check_disk,
    check_redis,
    check_shared_memory,
    check_versions,
)
from shusaku.deploy.commands.doctor.nodes import check_others
from shusaku.deploy.ray_runtime.session import SHARED_MEMORY, RaySession
from shusaku.deploy.run.composed_config import replace_settings
from shusaku.deploy.run.disk_budget import DiskBudget, DiskReport, checkpoint_bytes, report_disk
from shusaku.deploy.run.saved_config import read_config
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.server import find_binary, server_url

CORE_SECONDS = 30.0  # for the process that tries the core
CLOCK_SECONDS = 0.25  # over which the two clocks are compared
REDIS_SECONDS = 2.0
_UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)
_T = TypeVar("_T")


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Prints the findings; RunError, with them, if one of them is a failure."""
    findings = []
    for finding in check_all(config):
        findings.append(finding)
        if not as_json:
            print(finding)
    failed = sum(finding.level is Level.FAIL for finding in findings)
    result = {"checks": [finding.to_json() for finding in findings], "failed": failed}
    if failed:
        raise RunError(f"doctor: {failed} of {len(findings)} checks failed", result)
    return result


def check_all(config: Config) -> Iterator[Finding]:
    """All checks, in the order in which they are shown; a check that breaks is a finding, too."""
    directory = Path(config.run.dir)
    config = _as_the_run(config, directory)
    server = _Server(config.replay.url or _attempt(lambda: server_url(directory / "redis")) or "")
    checks: list[tuple[str, Callable[[], Finding | Iterable[Finding]]]] = [
        ("token", lambda: check_token(os.environ)),
        ("modes", lambda: check_modes(directory, _url_files(config))),
        ("binds", lambda: check_binds(_listeners(directory), _bind(directory))),
        ("acl", lambda: check_acl(server.users(), config.replay.actor_url, config.replay.url)),
        ("shared memory", lambda: check_shared_memory(_shared_memory())),
        ("descriptors", lambda: check_descriptors(*resource.getrlimit(resource.RLIMIT_NOFILE))),
        ("disk", lambda: check_disk(*_disk(config, directory))),
        ("clock", lambda: check_clock(_clocks(server, directory))),
        ("versions", lambda: check_versions(sys.version_info[:2], metadata.requires("shusaku") or [], _installed())),
        ("redis", lambda: check_redis(*server.version())),
        ("core", lambda: check_core(*_try_core())),
        ("nodes", lambda: _check_nodes(config)),
    ]
    for name, check in checks:
        try:
            found = check()
            yield from [found] if isinstance(found, Finding) else list(found)
        except Exception as error:  # of whatever is broken here: that is what the command is for
            yield warn(name, f"cannot be checked: {type(error).__name__}: {' '.join(str(error).split())[:120]}",
                       "repair what the error names")


def _check_nodes(config: Config) -> list[Finding]:
    """Those of the cluster of RAY_ADDRESS; none if this machine is alone."""
    if os.environ.get("RAY_ADDRESS", "").strip() in ("", "local"):
        return [ok("nodes", "RAY_ADDRESS names no cluster, so this machine is alone")]
    notes: list[str] = []
    try:
        with RaySession(config.cluster, notify=notes.append, namespace="shusaku-doctor"):
            from shusaku.deploy.ray_runtime.node_check import ask_nodes  # imports Ray, after its variables are set
            from shusaku.deploy.ray_runtime.node_probe import read_facts

            url = config.replay.actor_url or config.replay.url
            return list(check_others(read_facts(), ask_nodes("" if url.startswith("unix:") else url)))
    except (UsageError, RunError) as error:
        return [fail("nodes", f"the cluster cannot be joined: {error}", "repair what the line names")]


class _Server:
    """The replay server of the run, if one answers."""

    def __init__(self, url: str) -> None:
        self._client: Any = None
        with contextlib.suppress(Exception):  # no URL, or no server: there is nothing to ask
            client = connect(url, REDIS_SECONDS)
            client.ping()
            self._client = client

    def users(self) -> list[str] | None:
        """As `ACL LIST` names them; None: it cannot be asked."""
        listed = _attempt(lambda: self._client.execute_command("ACL", "LIST"))
        return None if listed is None else [_text(user) for user in listed]

    def now(self) -> float | None:
        """Its clock, seconds since 1970; None: it cannot be asked."""
        pair = _attempt(lambda: self._client.time())
        return None if pair is None else pair[0] + pair[1] / 1e6

    def version(self) -> tuple[str | None, str]:
        """Of the server that answers, else of the program that a run would start; and why there is none."""
        if info := _attempt(lambda: self._client.info("server")):
            return str(info.get("redis_version", "")), ""
        try:
            done = subprocess.run([find_binary(), "--version"], capture_output=True, text=True, timeout=10, check=False)
        except Exception as error:
            return None, " ".join(str(error).split())
        return done.stdout or done.stderr, ""


def _attempt(read: Callable[[], _T]) -> _T | None:
    """What it returns; None if it fails."""
    try:
        return read()
    except Exception:
        return None


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _as_the_run(config: Config, directory: Path) -> Config:
    """With the game, the network and the limits of the run in the directory, if there is one that can be read."""
    tree = _attempt(lambda: read_config(directory)) or {}
    for section in ("run", "replay", "network"):
        part, saved = getattr(config, section), tree.get(section)
        known = {item.name: type(getattr(part, item.name)) for item in fields(part)}
        values = {key: value for key, value in saved.items() if type(value) is known.get(key) and key != "dir"} \
            if isinstance(saved, dict) else {}
        config = replace_settings(config, **{section: replace(part, **values)})
    game = tree.get("game")
    if isinstance(game, dict) and isinstance(game.get("name"), str) and isinstance(game.get("params"), dict):
        config = replace_settings(config, game=GameConfig(game["name"], game["params"]))
    return config


def _url_files(config: Config) -> list[Path]:
    named = (getattr(config.replay, name, "") for name in ("url_file", "actor_url_file"))
    return [Path(name) for name in named if name]


def _listeners(directory: Path) -> Any:
    """Of the process that holds the run directory's lock; None: there is none on this machine."""
    owner = _attempt(lambda: re.match(r"process (\d+) on", (directory / "lock").read_text(encoding="utf-8")))
    is_held = (directory / "control.json").exists()
    return listeners_of(int(owner[1])) or None if owner and is_held else None


def _bind(directory: Path) -> str:
    """The address of the replay server for other machines, as its configuration names it."""
    text = _attempt(lambda: (directory / "redis" / "redis.conf").read_text(encoding="utf-8")) or ""
    found = re.search(r"^bind (\S+)$", text, re.M)
    return found[1] if found else ""


def _shared_memory() -> int | None:
    return shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else None


def _disk(config: Config, directory: Path) -> tuple[DiskReport | None, str]:
    try:
        budget = DiskBudget.of(config, configured_game(config.game), checkpoint_bytes=checkpoint_bytes(directory),
                               is_local=(directory / "records").is_dir() and not (directory / "redis").is_dir())
        return report_disk(directory, budget), ""
    except Exception as error:
        return None, " ".join(str(error).split())


def _clocks(server: _Server, directory: Path) -> Clocks:
    wall, steady = time.time(), time.monotonic()
    time.sleep(CLOCK_SECONDS)
    wall, steady = time.time() - wall, time.monotonic() - steady
    replay = server.now()
    lines = _attempt(lambda: (directory / "starts.jsonl").read_text(encoding="utf-8").splitlines()) or ["{}"]
    started = _attempt(lambda: datetime.strptime(json.loads(lines[-1])["started"], "%Y-%m-%dT%H:%M:%S%z").timestamp())
    return Clocks(time.time(), wall, steady, replay, started, _attempt(_is_synchronised))


def _is_synchronised() -> bool:
    """What adjtimex(2) returns for a call that changes nothing."""
    state = ctypes.create_string_buffer(512)  # struct timex; modes=0 reads
    answer: int = ctypes.CDLL(None).adjtimex(state)
    if answer < 0:
        raise OSError("adjtimex")
    return answer != _UNSYNCHRONISED


def _installed() -> dict[str, str]:
    named = ((item.metadata["Name"], item.version) for item in metadata.distributions())
    return {canonicalize_name(name): version for name, version in named if name}


def _try_core() -> tuple[int | None, frozenset[str], str]:
    """In a process of its own, which an instruction that this processor lacks may end."""
    script = "from shusaku.common._core import Game; import sys; sys.exit(Game('connect_four').num_actions != 7)"
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=CORE_SECONDS,
                              check=False)
    except subprocess.TimeoutExpired:
        return None, cpu_flags(), ""
    return done.returncode, cpu_flags(), done.stderr
