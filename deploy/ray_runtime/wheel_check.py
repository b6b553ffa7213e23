"""Asks the nodes of a cluster what they can run, by a small job that ends before anything of ours is sent."""

import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.ray_runtime import wheel_probe
from shusaku.deploy.ray_runtime.wheel_fit import NodeReport, WheelFacts
from shusaku.deploy.ray_runtime.wheel_probe import MARK

SECONDS = wheel_probe.NODE_SECONDS + 60.0  # for the job to start, too
POLL_SECONDS = 0.2
RETURN_SECONDS = 2.5  # within which a deleted job comes back: Ray looks at its jobs once a second
NO_PYTHON = 127  # the exit code if the PATH of the cluster has no Python with Ray


@dataclass(frozen=True)
class ClusterReport:
    """What the nodes said."""

    python: str  # the name by which the head's PATH leads to a Python with Ray
    nodes: list[NodeReport]


def ask_cluster(client: Any, facts: WheelFacts, start: Callable[[str], str]) -> ClusterReport:
    """UsageError or RunError, of one line, if no Python of the cluster answers.

    `client`: Ray's JobSubmissionClient; `start`: begins a job with this command line, and returns its name.
    """
    job = start(probe_entrypoint(facts))
    deadline = time.monotonic() + SECONDS
    try:
        while not client.get_job_status(job).is_terminal():
            if time.monotonic() > deadline:
                raise RunError(f"the cluster did not run a first job within {SECONDS:.0f} s: "
                               f"{client.get_job_info(job).message}; see `ray status` there")
            time.sleep(POLL_SECONDS)
        return _read(client.get_job_logs(job), client.get_job_info(job).driver_exit_code)
    finally:
        _remove(client, job)


def probe_entrypoint(facts: WheelFacts) -> str:
    """The command line of the job, which runs with the first Python of the PATH that has Ray."""
    has_ray = shlex.quote("import importlib.util as u, sys; sys.exit(u.find_spec('ray') is None)")
    script = shlex.quote(Path(wheel_probe.__file__).read_text(encoding="utf-8"))
    asked = shlex.quote(json.dumps([["ray", *facts.packages()], facts.tags]))
    return (f"for python in python python3; do if $python -c {has_ray}; then echo {MARK}-python $python; "
            f"exec $python -c {script} {asked}; fi; done; exit {NO_PYTHON}")


def _read(log: str, code: int | None) -> ClusterReport:
    lines = [line.split(" ", 1) for line in log.splitlines() if line.startswith(MARK)]
    answers = {words[0]: words[1] for words in lines if len(words) == 2}
    if MARK not in answers:
        if code == NO_PYTHON:
            raise UsageError("the cluster's PATH leads to no Python with Ray; start the head with the bin directory of "
                             "Ray's Python on PATH")
        last: Sequence[str] = [line for line in log.splitlines() if line.strip()][-1:] or ["it said nothing"]
        raise RunError(f"the cluster cannot say what its nodes run: {last[0][:300]}")
    return ClusterReport(answers[f"{MARK}-python"], [NodeReport(**node) for node in json.loads(answers[MARK])])


def _remove(client: Any, job: str) -> None:
    """Leaves no trace; a job that has not ended is stopped.

    Ray's watch of a job that is deleted before it has seen the end writes it down again, as one that failed and has no
    name (ray/dashboard/modules/job/job_manager.py, _monitor_job_internal): that one is deleted, too.
    """
    try:
        if not client.get_job_status(job).is_terminal():
            client.stop_job(job)
            return
        client.delete_job(job)
        deadline = time.monotonic() + RETURN_SECONDS
        while not _is_known(client, job):
            if time.monotonic() > deadline:
                return
            time.sleep(POLL_SECONDS)
        client.delete_job(job)
    except (RuntimeError, OSError):  # the cluster has gone
        return


def _is_known(client: Any, job: str) -> bool:
    try:
        client.get_job_status(job)
    except RuntimeError:  # it does not exist
        return False
    return True
