"""`shusaku submit -- train actors.count=2`: a command of ours as a job on a Ray cluster, with its log and exit code.

On the cluster of this machine the job runs this installation.  To another one the wheel is sent, after its nodes have
said that they can run it.
"""

import asyncio
import json
import logging
import os
import shlex
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

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
NODE_SHARE = 0.001  # of the resource by which Ray names a node
PENDING_S = 15.0  # after which a job that has not started is explained
AWAY_S = 60.0  # that a dashboard which has answered may be away
AGAIN_S = 1.0  # between two questions to a dashboard that is away
RESERVED = ("PYTHONPATH", "RAY_ADDRESS", "RAY_JOB_STOP_WAIT_TIME_S")  # variables that a job gets from Ray and from us


@dataclass(frozen=True)
class Submission:
    """The request of `shusaku submit`."""

    address: str  # of the dashboard
    entrypoint: str = ""  # the job's command line, for a shell
    working_dir: str = ""  # sent to the cluster; "": nothing is sent
    wait: bool = True
    cpus: float = 0.0  # that the job's own process claims; with 0 of both it runs on the head
    gpus: float = 0.0
    variables: Mapping[str, str] = field(default_factory=dict)  # of the environment here that the job gets
    metadata: Mapping[str, str] = field(default_factory=dict)  # that Ray shows with the job
    py_modules: Sequence[str] = ()  # folders, or Ray's names of what it has
    node: str = ""  # address of the node that it has to run on


def run(arguments: list[str]) -> int:
    """Submits the command behind `--`; returns its exit code, 0 with `--no-wait`.  UsageError for wrong usage."""
    submission, command, wheel = _parse(arguments)
    login, session = _login(submission.address)
    with ray_environment(login.variables):
        client = _client(submission.address)
        is_here = is_of_this_machine(session)
        if COMMANDS[command[0]].is_elsewhere_too and (job := _job_of_run(client, submission)):
            submission = _beside(job, submission, command, is_here=is_here)
        elif wheel == "none" or (wheel == "auto" and (is_here or COMMANDS[command[0]].is_elsewhere_too)):
            line = entrypoint(command, submission.working_dir, is_here=is_here)
            submission = replace(submission, entrypoint=line)
        else:
            submission = _with_wheel(client, submission, command, wheel)
        return submit(submission, client)


def _parse(arguments: list[str]) -> tuple[Submission, list[str], str]:
    """The request without its entrypoint, the command, and which wheel it takes along."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = PlainOptions(prog="shusaku submit", usage="shusaku submit [--address URL] [--wheel auto|none|FILE] "
                                                       "[--cpus N] [--gpus N] [--env NAME ...] [--working-dir DIR] "
                                                       "[--no-wait] -- COMMAND [key=value ...]",
                          description=__doc__, allow_abbrev=False)
    parser.add_argument("--address", metavar="URL", default="", help=f"of the dashboard; {DEFAULT_ADDRESS} unless "
                                                                     "RAY_API_SERVER_ADDRESS is set")
    parser.add_argument("--wheel", metavar="auto|none|FILE", default="auto",
                        help="what runs: auto sends this installation to a cluster of other machines, none uses what "
                             "the cluster has installed, FILE is sent")
    for name in ("cpus", "gpus"):
        parser.add_argument(f"--{name}", metavar="N", type=float, default=0.0,
                            help=f"{name.upper()[:-1]}s that the job's own process claims besides those of its actors; "
                                 "it runs on a node that has them instead of on the head")
    parser.add_argument("--env", metavar="NAME", action="append", default=[],
                        help="a variable of the environment here that the job gets; as often as needed")
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
    for name in ("cpus", "gpus"):
        if not 0 <= getattr(options, name) < float("inf"):
            raise UsageError(f"--{name} {getattr(options, name):g}: must be 0 or more")
    submission = Submission(address, "", options.working_dir, not options.no_wait, options.cpus, options.gpus,
                            _variables(options.env), describe_job(command))
    return submission, command, options.wheel


def _variables(names: Sequence[str]) -> dict[str, str]:
    """What the job gets of this environment; UsageError for a name that is not set here."""
    for name in names:
        if "=" in name:
            key = name.partition("=")[0]
            raise UsageError(f"--env {key}=...: takes a name, because other users see the values of a command line; "
                             f"write {key}=VALUE shusaku submit --env {key}")
        if name in RESERVED:
            raise UsageError(f"--env {name}: Ray and Shusaku set this variable of a job themselves")
        if name not in os.environ:
            raise UsageError(f"--env {name}: is not set here; write {name}=VALUE shusaku submit --env {name}")
    return {name: os.environ[name] for name in names} | _passed_on()


def describe_job(command: Sequence[str]) -> dict[str, str]:
    """The job's metadata, which Ray's dashboard and `ray job list` show."""
    chosen = dict(word.split("=", 1) for word in command[1:] if "=" in word)
    shown = {"shusaku": metadata.version("shusaku"), "command": command[0]}
    for key in ("experiment", "run.dir", "run.name"):
        if key in chosen:
            shown[key] = mask_text(chosen[key])
    return shown


def _refuse_secrets(command: Sequence[str]) -> None:
    """UsageError if the job's command line holds a password."""
    for word in command:
        if mask_override(word) != word:
            raise UsageError(f"submit -- {mask_override(word)}: holds a password, and Ray shows a job's command line "
                             "to all who see the cluster's jobs; write the URL into a file of mode 600 on the cluster "
                             f"and say replay.url_file=FILE, or set {VARIABLE} here, which reaches the job")


def entrypoint(command: Sequence[str], working_dir: str, *, is_here: bool) -> str:
    """The line that the cluster's shell runs if no wheel is sent.

    On this machine it is this installation, whatever PATH the head was started with, and the job begins in the
    directory of the user, so that `run.dir` means the same.  Elsewhere it is the `shusaku` of the head's PATH.
    """
    words = shlex.join(command)
    if not is_here:
        return f"exec shusaku {words}"
    script = Path(sys.prefix) / "bin" / "shusaku"
    program = shlex.quote(str(script)) if script.exists() else f"{shlex.quote(sys.executable)} -m shusaku"
    begin = "" if working_dir else f"cd {shlex.quote(os.getcwd())} && "
    return f"{begin}exec {program} {words}"


def is_of_this_machine(session: str) -> bool:
    """Whether a process of this Ray session runs here; a tunnel makes the address of another machine look like ours."""
    name = f"session-name={session}"
    return any(name in word for process in psutil.process_iter(["cmdline"]) for word in process.info["cmdline"] or ())


def _with_wheel(client: Any, submission: Submission, command: Sequence[str], wheel: str) -> Submission:
    """Sends the wheel along; UsageError if a node cannot run it, before it is built."""
    from shusaku.deploy.ray_runtime.wheel_check import ask_cluster
    from shusaku.deploy.ray_runtime.wheel_fit import notes, refusals
    from shusaku.deploy.ray_runtime.wheel_sources import WheelFile, find_wheel_source

    source = find_wheel_source() if wheel == "auto" else WheelFile(Path(wheel))
    about = {"shusaku": "asks what the nodes can run"}
    report = ask_cluster(client, source.facts,
                         lambda line: _accepted(client, Submission(submission.address, line, metadata=about)))
    if reasons := refusals(source.facts, report.nodes):
        more = f" ({len(reasons) - 1} other nodes cannot, either)" if len(reasons) > 1 else ""
        raise UsageError(f"--address {submission.address}: {reasons[0]}{more}")
    for note in notes(metadata.version("ray"), report.nodes):
        _notify(note)
    unpacked = source.unpack(_notify)
    return replace(submission, entrypoint=f"exec {report.python} -m shusaku {shlex.join(command)}",
                   py_modules=[str(folder) for folder in unpacked.folders],
                   metadata={**submission.metadata, "wheel": unpacked.digest})


def _job_of_run(client: Any, submission: Submission) -> Any:
    """The newest job that runs a training, the one with this `run.dir` if it is given; None if there is none."""
    asked = submission.metadata.get("run.dir")
    jobs = [job for job in client.list_jobs() if (job.metadata or {}).get("command") == "train"
            and not job.status.is_terminal() and asked in (None, job.metadata.get("run.dir"))]
    return max(jobs, key=lambda job: job.start_time or 0, default=None)


def _beside(job: Any, submission: Submission, command: Sequence[str], *, is_here: bool) -> Submission:
    """A question to the run of a job: on the node of its driver, and with the wheel that it was sent, if any."""
    node = job.driver_info.node_ip_address if job.driver_info else ""
    if not job.metadata.get("wheel"):
        return replace(submission, node=node, entrypoint=entrypoint(command, submission.working_dir, is_here=is_here))
    program = job.entrypoint.partition(" -m shusaku ")[0]
    return replace(submission, node=node, entrypoint=f"{program} -m shusaku {shlex.join(command)}",
                   py_modules=job.runtime_env["py_modules"])


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


def _login(address: str) -> tuple[Login, str]:
    """How to authenticate, and the name of the Ray session that answers; UsageError within `ANSWER_S` if none does."""
    login = login_for_joining()
    request = urllib.request.Request(f"{address}/api/version")
    if login.has_token:
        request.add_header("Authorization", f"Bearer {login.token()}")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return login, _session(answer.read(10_000), address)
    except urllib.error.HTTPError as error:
        raise login.refusal(f"--address {address}") if error.code in (401, 403) else UsageError(
            f"--address {address}: what answers there is no dashboard of Ray (HTTP {error.code})") from None
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        raise UsageError(f"--address {address}: no cluster answers there ({reason}); start one with `ray start "
                         "--head`, or name its dashboard with --address URL") from None


def _session(answer: bytes, address: str) -> str:
    try:
        return str(json.loads(answer)["session_name"])
    except (ValueError, TypeError, KeyError):
        raise UsageError(f"--address {address}: what answers there is no dashboard of Ray") from None


def _client(address: str) -> Any:
    from ray.job_submission import JobSubmissionClient

    client = JobSubmissionClient(address)
    logging.getLogger("ray.dashboard").setLevel(logging.ERROR)  # it reports the end of every connection
    logging.getLogger(JobSubmissionClient.__module__).setLevel(logging.ERROR)
    return client


def submit(submission: Submission, client: Any = None) -> int:
    """Submits and follows a job: its log goes to stdout as it comes, lines about the job itself to stderr."""
    client = client or _client(submission.address)
    with StopSignals() as signals:
        job = _accepted(client, submission)
        _notify(f"job {job} at {submission.address}")
        if not submission.wait:
            return 0
        try:
            code = asyncio.run(_follow(client, job, submission.address, signals))
        except KeyboardInterrupt:
            _notify(f"not waiting for job {job} any longer; see it with: ray job logs --follow --address "
                f"{submission.address} {job}")
            raise
        signals.raise_received()
        return code


def runtime_environment(submission: Submission) -> dict[str, Any]:
    """What Ray makes for the job and for its actors on every node."""
    variables = {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_S), **_passed_on(), **submission.variables}
    environment: dict[str, Any] = {"env_vars": variables}
    if submission.working_dir:
        environment["working_dir"] = submission.working_dir
    if submission.py_modules:
        environment["py_modules"] = list(submission.py_modules)
    return environment


def _accepted(client: Any, submission: Submission) -> str:
    """The job's name; the agents of a cluster that has just been started take none for some seconds."""
    deadline = time.monotonic() + AGENTS_S
    while True:
        try:
            return str(client.submit_job(
                entrypoint=submission.entrypoint, runtime_env=runtime_environment(submission),
                metadata=dict(submission.metadata), entrypoint_num_cpus=submission.cpus or None,
                entrypoint_num_gpus=submission.gpus or None,
                entrypoint_resources={f"node:{submission.node}": NODE_SHARE} if submission.node else None))
        except (RuntimeError, ValueError, OSError) as error:
            if NO_AGENT not in str(error) or time.monotonic() > deadline:
                reason = mask_text(" ".join(str(error).split())[:500])
                raise RunError(f"--address {submission.address}: the cluster takes no job: {reason}") from None
        time.sleep(0.5)


def _passed_on() -> dict[str, str]:
    """The variables of this process that a job needs."""
    return {name: os.environ[name] for name in (VARIABLE,) if os.environ.get(name)}


async def _follow(client: Any, job: str, address: str, signals: StopSignals) -> int:
    """Passes the job's log on until its end; the first Ctrl-C stops the job, the second one only stops waiting.

    RunError if the dashboard is away for long.
    """
    stopping = asyncio.create_task(_stop_when_asked(client, job, signals))
    explaining = asyncio.create_task(_explain_when_pending(client, job))
    shown = 0
    try:
        while True:
            begun = 0  # of this stream, which starts from the beginning of the log every time
            async for text in _lines(client, job):
                sys.stdout.write(text[max(0, shown - begun):])
                begun += len(text)
                shown = max(shown, begun)
                sys.stdout.flush()
            info = await _job_info(client, job, address)
            if info.status.is_terminal():
                return _exit_code(info)
            await asyncio.sleep(POLL_S)
    finally:
        stopping.cancel()
        explaining.cancel()


async def _job_info(client: Any, job: str, address: str) -> Any:
    """What the dashboard says of the job; RunError if it is away for long."""
    deadline = time.monotonic() + AWAY_S
    while True:
        try:
            return await asyncio.to_thread(client.get_job_info, job)
        except (RuntimeError, OSError) as error:
            if time.monotonic() > deadline:
                reason = mask_text(" ".join(str(error).split())[:300])
                raise RunError(f"--address {address}: has said nothing of job {job} for {AWAY_S:.0f} s ({reason}); the "
                               f"job may go on: see it with: ray job logs --follow --address {address} {job}, or end "
                               f"it with: ray job stop --address {address} {job}") from None
        await asyncio.sleep(AGAIN_S)


async def _explain_when_pending(client: Any, job: str) -> None:
    """A job that claims more than the cluster has free waits for it without a word."""
    await asyncio.sleep(PENDING_S)
    try:
        info = await asyncio.to_thread(client.get_job_info, job)
    except (RuntimeError, OSError):  # `_follow` says what is to be said
        return
    if info.status == "PENDING":
        _notify(f"job {job} has not started: {' '.join(str(info.message).split())[:300]}")


async def _lines(client: Any, job: str) -> AsyncIterator[str]:
    """The log from its beginning; ends early where the connection breaks."""
    from aiohttp import ClientError  # what answers while a dashboard starts is one, and no OSError

    try:
        async for text in client.tail_job_logs(job):
            yield text
    except (RuntimeError, OSError, ClientError):
        await asyncio.sleep(AGAIN_S)


async def _stop_when_asked(client: Any, job: str, signals: StopSignals) -> None:
    while not signals.should_stop():
        await asyncio.sleep(POLL_S)
    _notify(f"stopping job {job}: it writes its checkpoint first, for up to {STOP_S} s; again to stop waiting for it")
    while True:
        try:
            await asyncio.to_thread(client.stop_job, job)
        except (RuntimeError, OSError):  # `_follow` ends this if the dashboard is away for long
            await asyncio.sleep(AGAIN_S)
        else:
            return


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
        _notify("the cluster's PATH has no shusaku: install it there and start the head with its bin directory on "
                "PATH, or send this one, without --wheel none")
    code = int(info.driver_exit_code)
    return code if code >= 0 else 128 - code  # a signal, as a shell reports it


def _notify(line: str) -> None:
    print(f"shusaku: {line}", file=sys.stderr, flush=True)
