"""`shusaku submit -- train actors.count=2`: a command of ours as a job on a Ray cluster, with its log and exit code."""

import asyncio
import logging
import os
import shlex
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shusaku.common.errors import RunError, UsageError
from shusaku.common.masking import mask_override, mask_text
from shusaku.common.suggestions import nearest
from shusaku.deploy.commands.plain_options import PlainOptions
from shusaku.deploy.commands.table import COMMANDS
from shusaku.deploy.ray_runtime.auth import Login, login_for_joining, ray_environment
from shusaku.deploy.run.replay_urls import VARIABLE
from shusaku.deploy.run.stop_signals import StopSignals

DEFAULT_ADDRESS = "http://127.0.0.1:8265"  # of the dashboard of `ray start --head` and `shusaku train`
ANSWER_S = 10.0  # for the first answer of a cluster
STOP_S = 90  # for a stopped job to write its checkpoint; Ray would give it 3
POLL_S = 0.2
AGENTS_S = 20.0  # for the cluster to find an agent for the job
NO_AGENT = "No available agent"  # in Ray's answer
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Submission:
    """The request of `shusaku submit`."""

    address: str  # of the dashboard
    entrypoint: str  # the job's command line, for a shell
    working_dir: str = ""  # sent to the cluster; "": nothing is sent
    wait: bool = True


def run(arguments: list[str]) -> int:
    """Submits the command behind `--`; returns its exit code, 0 with `--no-wait`.  UsageError for wrong usage."""
    submission = _parse(arguments)
    login = _login(submission.address)
    with ray_environment(login.variables):
        return submit(submission)


def _parse(arguments: list[str]) -> Submission:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = PlainOptions(prog="shusaku submit", usage="shusaku submit [--address URL] [--working-dir DIR] [--no-wait] "
                                                       "-- COMMAND [key=value ...]",
                          description=__doc__, allow_abbrev=False)
    parser.add_argument("--address", metavar="URL", default="", help=f"of the dashboard; {DEFAULT_ADDRESS} unless "
                                                                     "RAY_API_SERVER_ADDRESS is set")
    parser.add_argument("--working-dir", metavar="DIR", default="", help="sent to the cluster, the job begins in it")
    parser.add_argument("--no-wait", action="store_true", help="return as soon as the job is submitted")
    options = parser.parse_args(arguments[:cut])
    command = arguments[cut + 1:]
    if not command:
        raise UsageError("submit needs a command of shusaku behind --, such as: shusaku submit -- train actors.count=2")
    if command[0] not in COMMANDS or command[0] == "submit":
        raise UsageError(f"submit -- {command[0]}: no command that can run as a job; nearest: "
                         f"{nearest(command[0], [name for name in COMMANDS if name != 'submit'])}")
    _refuse_secrets(command)
    address = _address(options.address)
    if options.working_dir and not Path(options.working_dir).is_dir():
        raise UsageError(f"--working-dir {options.working_dir}: no such directory")
    line = entrypoint(command, address, options.working_dir)
    return Submission(address, line, options.working_dir, wait=not options.no_wait)


def _refuse_secrets(command: Sequence[str]) -> None:
    """UsageError if the job's command line holds a password."""
    for word in command:
        if mask_override(word) != word:
            raise UsageError(f"submit -- {mask_override(word)}: holds a password, and Ray shows a job's command line "
                             "to all who see the cluster's jobs; write the URL into a file of mode 600 on the cluster "
                             f"and say replay.url_file=FILE, or set {VARIABLE} here, which reaches the job")


def entrypoint(command: Sequence[str], address: str, working_dir: str) -> str:
    """The line that the cluster's shell runs.

    On this machine it is this installation, whatever PATH the head was started with, and the job begins in the
    directory of the user, so that `run.dir` means the same.  Elsewhere it is the `shusaku` of the head's PATH.
    """
    words = shlex.join(command)
    if urllib.parse.urlsplit(address).hostname not in LOOPBACK:
        return f"exec shusaku {words}"
    script = Path(sys.prefix) / "bin" / "shusaku"
    program = shlex.quote(str(script)) if script.exists() else f"{shlex.quote(sys.executable)} -m shusaku"
    begin = "" if working_dir else f"cd {shlex.quote(os.getcwd())} && "
    return f"{begin}exec {program} {words}"


def _address(given: str) -> str:
    """The dashboard's URL: the option, else the variables that Ray's own command obeys, else this machine."""
    address = given or os.environ.get("RAY_API_SERVER_ADDRESS", "")
    if not address and os.environ.get("RAY_ADDRESS", "").startswith("http"):
        address = os.environ["RAY_ADDRESS"]
    address = (address or DEFAULT_ADDRESS).rstrip("/")
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--address {address}: must be the URL of the cluster's dashboard, such as {DEFAULT_ADDRESS}")
    return address


def _login(address: str) -> Login:
    """Checks that a cluster answers and takes our token; UsageError within `ANSWER_S` if not."""
    login = login_for_joining()
    request = urllib.request.Request(f"{address}/api/version")
    if login.has_token:
        request.add_header("Authorization", f"Bearer {login.token()}")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            if b"ray_version" not in answer.read(10_000):
                raise UsageError(f"--address {address}: what answers there is no dashboard of Ray")
    except urllib.error.HTTPError as error:
        raise login.refusal(f"--address {address}") if error.code in (401, 403) else UsageError(
            f"--address {address}: what answers there is no dashboard of Ray (HTTP {error.code})") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise UsageError(f"--address {address}: no cluster answers there ({reason}); start one with `ray start "
                         "--head`, or name its dashboard with --address URL") from None
    return login


def submit(submission: Submission) -> int:
    """Submits and follows a job: its log goes to stdout as it comes, lines about the job itself to stderr."""
    from ray.job_submission import JobSubmissionClient

    client = JobSubmissionClient(submission.address)
    logging.getLogger("ray.dashboard").setLevel(logging.ERROR)  # it reports the end of every connection
    logging.getLogger(JobSubmissionClient.__module__).setLevel(logging.ERROR)
    environment: dict[str, Any] = {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S), **_passed_on()}}
    if submission.working_dir:
        environment["working_dir"] = submission.working_dir
    with StopSignals() as signals:
        job = _accepted(client, submission, environment)
        _notify(f"job {job} at {submission.address}")
        if not submission.wait:
            return 0
        try:
            code = asyncio.run(_follow(client, job, signals))
        except KeyboardInterrupt:
            _notify(f"not waiting for job {job} any longer; see it with: ray job logs --follow --address "
                f"{submission.address} {job}")
            raise
        signals.raise_received()
        return code


def _accepted(client: Any, submission: Submission, environment: dict[str, Any]) -> str:
    """The job's name; the agents of a cluster that has just been started take none for some seconds."""
    deadline = time.monotonic() + AGENTS_S
    while True:
        try:
            return str(client.submit_job(entrypoint=submission.entrypoint, runtime_env=environment))
        except (RuntimeError, ValueError, OSError) as error:
            if NO_AGENT not in str(error) or time.monotonic() > deadline:
                reason = mask_text(" ".join(str(error).split())[:500])
                raise RunError(f"--address {submission.address}: the cluster takes no job: {reason}") from None
        time.sleep(0.5)


def _passed_on() -> dict[str, str]:
    """The variables of this process that a job needs."""
    return {name: os.environ[name] for name in (VARIABLE,) if os.environ.get(name)}


async def _follow(client: Any, job: str, signals: StopSignals) -> int:
    """Passes the job's log on until its end; the first Ctrl-C stops the job, the second one only stops waiting."""
    stopping = asyncio.create_task(_stop_when_asked(client, job, signals))
    shown = 0
    try:
        while True:
            begun = 0  # of this stream, which starts from the beginning of the log every time
            async for text in _lines(client, job):
                sys.stdout.write(text[max(0, shown - begun):])
                begun += len(text)
                shown = max(shown, begun)
                sys.stdout.flush()
            info = await asyncio.to_thread(client.get_job_info, job)
            if info.status.is_terminal():
                return _exit_code(info)
            await asyncio.sleep(POLL_S)
    finally:
        stopping.cancel()


async def _lines(client: Any, job: str) -> AsyncIterator[str]:
    """The log from its beginning; ends early where the connection breaks."""
    try:
        async for text in client.tail_job_logs(job):
            yield text
    except (RuntimeError, OSError):
        await asyncio.sleep(1.0)


async def _stop_when_asked(client: Any, job: str, signals: StopSignals) -> None:
    while not signals.should_stop():
        await asyncio.sleep(POLL_S)
    _notify(f"stopping job {job}: it writes its checkpoint first, for up to {STOP_S} s; again to stop waiting for it")
    await asyncio.to_thread(client.stop_job, job)


def _exit_code(info: Any) -> int:
    """The exit code of the job's command; 1 where it never had one."""
    if info.status == "SUCCEEDED":
        return 0
    if info.status == "STOPPED":
        _notify("the job was stopped")
        return 1
    if info.driver_exit_code is None:
        _notify(f"the job failed: {mask_text(' '.join(str(info.message).split())[:500])}")
        return 1
    if info.driver_exit_code == 127:
        _notify("the cluster's PATH has no shusaku: install it there and start the head with its bin directory on PATH")
    code = int(info.driver_exit_code)
    return code if code >= 0 else 128 - code  # a signal, as a shell reports it


def _notify(line: str) -> None:
    print(f"shusaku: {line}", file=sys.stderr, flush=True)
