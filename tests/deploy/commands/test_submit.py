"""Jobs on a real cluster: log, exit codes, Ctrl-C, and what is said where there is no cluster."""

import contextlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import psutil
import pytest
import requests
from aiohttp import ClientError
from process_family import alive, all_below
from ray.job_submission import JobStatus
from ray_variables import environment_without_ray

from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.commands import submit

ROOT = Path(__file__).resolve().parents[3]
WITHOUT_OURS = "/usr/bin:/bin"  # a PATH on which there is no shusaku

HEAD = '''
import sys
from pathlib import Path
from shusaku.common.config.schema import ClusterConfig
from shusaku.deploy.ray_runtime.session import RaySession
with RaySession(ClusterConfig(quiet_ray=True), notify=print) as session:  # its agent's port is its own
    print("ADDRESS", session.dashboard_url, flush=True)
    sys.stdin.read()
'''
SUBMIT = '''
import sys
from shusaku.deploy.run.stop_signals import Terminated
from shusaku.deploy.commands.submit import Submission, submit
try:
    sys.exit(submit(Submission(sys.argv[1], sys.argv[2])))
except Terminated:
    sys.exit(143)
except KeyboardInterrupt:
    sys.exit(130)
'''
# What a job of ours does: it joins the cluster that it runs on, and takes SIGTERM as the wish to save.
JOB = '''
import os, signal, sys, time
from pathlib import Path
from shusaku.common.config.schema import ClusterConfig
from shusaku.deploy.ray_runtime.session import RaySession
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
with RaySession(ClusterConfig(), notify=print) as session:
    import ray
    where = ray.remote(lambda: os.getpid())
    has_cpus = ray.cluster_resources()["CPU"] > 0
    print("JOINED", session.is_local, has_cpus, ray.get(where.remote()) != os.getpid(), flush=True)
    while not asked:
        time.sleep(0.05)
    time.sleep(5.0)  # longer than the 3 s that Ray gives by itself
    print("SAVED", flush=True)
sys.exit(143)
'''


class Cluster:
    """A Ray in a process of its own, started without our bin directory on its PATH."""

    def __init__(self, directory: Path) -> None:
        self.token_file = str(directory / "token")
        self._process = subprocess.Popen(
            [sys.executable, "-c", HEAD], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**environment_without_ray(), "RAY_AUTH_TOKEN_PATH": self.token_file, "PATH": WITHOUT_OURS},
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self.address = next(line.split()[1] for line in self._process.stdout if line.startswith("ADDRESS"))

    def environment(self) -> dict[str, str]:
        return {**environment_without_ray(), "RAY_AUTH_TOKEN_PATH": self.token_file}

    def close(self) -> None:
        assert self._process.stdin is not None
        family = all_below(self._process.pid)
        self._process.stdin.close()
        try:
            assert self._process.wait(60) == 0
        finally:
            self._process.kill()
        assert alive(family) == []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


def run_submit(cluster: Cluster, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    script = ("import sys\nfrom shusaku.common.errors import UsageError\n"
              "from shusaku.deploy.commands.submit import run\n"
              "try:\n    sys.exit(run(sys.argv[1:]))\nexcept UsageError as error:\n    sys.exit(f'USAGE {error}')")
    return subprocess.run([sys.executable, "-c", script, "--address", cluster.address, *argv], cwd=ROOT,
                          env={**cluster.environment(), **more}, capture_output=True, text=True, check=False)


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("argv", "named"), [
    ([], "behind --"), (["--"], "behind --"), (["train"], "train"), (["--", "gmes"], "nearest: games"),
    (["--", "submit", "--", "games"], "submit"), (["--adress", "x", "--", "games"], "--adress"),
    (["--address", "127.0.0.1:8265", "--", "games"], "http://127.0.0.1:8265"),
    (["--working-dir", "/nonexistent", "--", "games"], "no such directory"),
    (["--cpus", "-1", "--", "games"], "--cpus -1: must be 0 or more"),
    (["--gpus", "nan", "--", "games"], "--gpus nan: must be 0 or more"),
    (["--env", "NOT_SET_HERE", "--", "games"], "NOT_SET_HERE=VALUE shusaku submit --env NOT_SET_HERE"),
    (["--env", "KEY=secret", "--", "games"], "--env KEY=...: takes a name"),
    (["--env", "PYTHONPATH", "--", "games"], "--env PYTHONPATH: Ray and Shusaku set"),
    (["--address", "http://127.0.0.1:1", "--", "games"], "no cluster answers"),
    (["--address", "http://name.invalid:8265", "--", "games"], "no cluster answers"),
])
def test_wrong_usage_is_one_line_at_once(clean: Path, argv: list[str], named: str) -> None:
    began = time.monotonic()
    with pytest.raises(UsageError) as error:
        submit.run(argv)
    assert time.monotonic() - began < 10
    assert named in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("seconds", "status"), [(60.0, 200), (0.0, 200), (0.0, 404), (0.0, 500)])
def test_what_is_no_dashboard_is_not_waited_for(
    clean: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, status: int
) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            deadline.wait(seconds)
            with contextlib.suppress(OSError):  # the client no longer waits
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            pass

    from threading import Event

    deadline = Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(submit, "ANSWER_S", 1.0)
    began = time.monotonic()
    try:
        with pytest.raises(UsageError, match="no dashboard of Ray" if seconds == 0 else "no cluster answers"):
            submit.run(["--address", f"http://127.0.0.1:{server.server_port}", "--", "games"])
        assert time.monotonic() - began < 5
    finally:
        deadline.set()
        server.shutdown()
        server.server_close()


def test_the_entrypoint_keeps_words_together_and_means_this_installation_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train", "run.dir=my runs/$HOME", "a='b'"]
    here = submit.entrypoint(words, "", is_here=True)
    assert shlex.split(here)[:4] == ["cd", str(tmp_path), "&&", "exec"]
    assert shlex.split(here)[-3:] == words
    assert sys.prefix in here
    assert submit.entrypoint(words, "dir", is_here=True).startswith("exec ")
    assert shlex.split(submit.entrypoint(words, "", is_here=False)) == ["exec", "shusaku", *words]


def test_a_job_says_what_it_is_and_shows_no_password() -> None:
    words = ["train", "experiment=go_9x9", "run.dir=/shared/go", "learner.device=cpu", "run.name=redis://u:pw@h"]
    assert submit.describe_job(words) == {
        "shusaku": metadata.version("shusaku"), "command": "train", "experiment": "go_9x9", "run.dir": "/shared/go",
        "run.name": "redis://u:***@h"}


def test_variables_and_folders_reach_the_job_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    submission, command, wheel = submit._parse(["--env", "WANDB_MODE", "--cpus", "2", "--gpus", "0.5", "--", "games"])
    assert (submission.cpus, submission.gpus, command, wheel) == (2.0, 0.5, ["games"], "auto")
    made = submit.runtime_environment(submit.replace(submission, py_modules=["a", "b"]))
    assert made == {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "90", "WANDB_MODE": "offline"}, "py_modules": ["a", "b"]}


def test_a_question_to_a_run_goes_to_its_node_and_takes_its_wheel() -> None:
    def job(start: int, run_dir: str, has_ended: bool = False, **more: str) -> SimpleNamespace:
        return SimpleNamespace(
            start_time=start, metadata={"command": "train", "run.dir": run_dir, **more},
            entrypoint="exec python3 -m shusaku train", runtime_env={"py_modules": [f"gcs://{start}"]},
            driver_info=SimpleNamespace(node_ip_address=f"10.0.0.{start}"),
            status=SimpleNamespace(is_terminal=lambda: has_ended))

    jobs = [job(1, "a", wheel="1"), job(2, "a", wheel="2"), job(3, "a", True, wheel="3"), job(4, "b"),
            job(5, "b", command="status"), SimpleNamespace(metadata=None)]
    client = SimpleNamespace(list_jobs=lambda: jobs)

    def asked(run_dir: str) -> submit.Submission:
        submission = submit.Submission("", metadata={"run.dir": run_dir})
        found = submit._job_of_run(client, submission)
        return submit._beside(found, submission, ["stop", f"run.dir={run_dir}"], is_here=False)

    assert (asked("a").node, asked("a").entrypoint, list(asked("a").py_modules)) == (
        "10.0.0.2", "exec python3 -m shusaku stop run.dir=a", ["gcs://2"])
    assert (asked("b").node, asked("b").entrypoint, list(asked("b").py_modules)) == (
        "10.0.0.4", "exec shusaku stop run.dir=b", [])
    assert submit._job_of_run(client, submit.Submission("", metadata={"run.dir": "c"})) is None
    assert submit._job_of_run(client, submit.Submission("")) is jobs[3]


class AwayDashboard:
    """Of one job that goes on until it is stopped and its log was read; the first requests find no dashboard."""

    def __init__(self, away: float, refusal: Exception) -> None:
        self.away = {"tail": away, "info": away, "stop": away}
        self.refusal, self.is_stopped, self.is_read = refusal, False, False

    def _ask(self, what: str) -> None:
        self.away[what] -= 1
        if self.away[what] >= 0:
            raise ClientError("starting") if what == "tail" else self.refusal

    def submit_job(self, **_: object) -> str:
        return "raysubmit_1"

    async def tail_job_logs(self, _: str) -> AsyncIterator[str]:
        self._ask("tail")
        self.is_read = True
        yield "a line\n"

    def get_job_info(self, _: str) -> SimpleNamespace:
        self._ask("info")
        has_ended = self.is_stopped and self.is_read
        return SimpleNamespace(status=JobStatus.STOPPED if has_ended else JobStatus.RUNNING)

    def stop_job(self, _: str) -> None:
        self._ask("stop")
        self.is_stopped = True


@pytest.mark.parametrize("refusal", [
    requests.ConnectionError("no route"), RuntimeError("Request failed with status code 503"),
])
def test_a_dashboard_that_is_away_for_a_moment_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], refusal: Exception
) -> None:
    for name, seconds in (("AGAIN_S", 0.01), ("POLL_S", 0.01)):
        monkeypatch.setattr(submit, name, seconds)
    monkeypatch.setattr(submit.StopSignals, "should_stop", lambda _: True)  # and what Ctrl-C asked for is done
    dashboard = AwayDashboard(3, refusal)
    assert submit.submit(submit.Submission("http://a:1", "x"), dashboard) == 1
    assert dashboard.is_stopped
    said = capfd.readouterr()
    assert said.out == "a line\n"
    assert [line.partition(":")[2].split()[0] for line in said.err.splitlines()] == ["job", "stopping", "the"]


def test_a_dashboard_that_stays_away_ends_the_waiting_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, seconds in (("AGAIN_S", 0.01), ("POLL_S", 0.01), ("PENDING_S", 0.05), ("AWAY_S", 0.3)):
        monkeypatch.setattr(submit, name, seconds)
    monkeypatch.setattr(submit.StopSignals, "should_stop", lambda _: True)
    with pytest.raises(RunError, match="ray job stop --address http://a:1 raysubmit_1") as error:
        submit.submit(submit.Submission("http://a:1"), AwayDashboard(float("inf"), requests.ConnectionError("gone")))
    assert "\n" not in str(error.value)
    assert "Traceback" not in capfd.readouterr().err


# --- on a cluster ----------------------------------------------------------------------------------------------------


def test_the_log_and_the_exit_code_of_a_job_are_ours(cluster: Cluster) -> None:
    done = run_submit(cluster, "--", "perft", "nogame", "3")
    assert done.returncode == 2
    assert "nogame: no such game" in done.stdout
    assert done.stderr.startswith("shusaku: job ")
    assert len(done.stderr.splitlines()) == 1


def test_a_run_is_asked_for_from_anywhere(cluster: Cluster, tmp_path: Path) -> None:
    """`shusaku status --address URL` runs where the run is, and its answer and its exit code come back."""
    done = subprocess.run(
        [sys.executable, "-m", "shusaku", "status", "--address", cluster.address, f"run.dir={tmp_path}"], cwd=tmp_path,
        env={**cluster.environment(), "PYTHONPATH": str(ROOT / "build" / "names")}, capture_output=True, text=True,
        check=False)
    assert done.returncode == 2
    assert f"run.dir={tmp_path} holds no run of `shusaku train`" in done.stdout


@pytest.mark.long
def test_shusaku_is_found_by_rays_own_command_too(cluster: Cluster) -> None:
    """The PATH of a head that we start leads to this installation, whatever the PATH of its user was."""
    command = [str(Path(sys.prefix) / "bin" / "ray"), "job", "submit", "--address", cluster.address, "--", "shusaku",
               "games"]
    done = subprocess.run(command, cwd=ROOT, env={**cluster.environment(), "RAY_AUTH_MODE": "token"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tic_tac_toe" in done.stdout


def test_without_waiting_the_job_is_submitted_and_can_be_asked_for(cluster: Cluster) -> None:
    done = run_submit(cluster, "--no-wait", "--", "games")
    assert done.returncode == 0
    assert done.stdout == ""
    assert "shusaku: job raysubmit_" in done.stderr


@pytest.mark.parametrize(("variables", "named"), [
    ({"RAY_AUTH_TOKEN": "wrong"}, "refuses the token in RAY_AUTH_TOKEN"), ({"RAY_AUTH_MODE": "disabled"}, "asks for a"),
])
def test_a_cluster_that_refuses_us_is_named(cluster: Cluster, variables: dict[str, str], named: str) -> None:
    done = run_submit(cluster, "--", "games", **variables)
    assert done.returncode == 1
    assert done.stderr.startswith("USAGE ")
    assert named in done.stderr


@pytest.fixture
def follower(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def follow(script: str) -> subprocess.Popen[str]:
        (tmp_path / "job.py").write_text(script)  # Ray shows the command line in the log
        line = f"exec {shlex.quote(sys.executable)} {shlex.quote(str(tmp_path / 'job.py'))}"
        started.append(subprocess.Popen([sys.executable, "-c", SUBMIT, cluster.address, line], cwd=ROOT, text=True,
                                        env={**cluster.environment(), "RAY_AUTH_MODE": "token"},
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True))
        return started[-1]

    yield follow
    for process in started:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    read = ""
    for line in process.stdout:
        read += line
        if text in line:
            return read
    assert process.stderr is not None
    raise AssertionError(read + process.stderr.read())


def test_a_job_joins_its_cluster_and_ctrl_c_lets_it_save_before_it_ends(
    follower: Callable[[str], subprocess.Popen[str]]
) -> None:
    process = follower(JOB)
    assert "JOINED False True True" in read_until(process, "JOINED")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "SAVED" in out
    assert "it writes its checkpoint first" in err
    assert process.returncode == 130


@pytest.mark.long
def test_a_job_joins_the_cluster_that_took_it_and_no_other_one_of_the_machine(
    cluster: Cluster, follower: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    others = [Cluster(tmp_path) for _ in range(2)]
    try:
        process = follower("import os\nprint('ADDRESS', os.environ['RAY_ADDRESS'], flush=True)")
        told = read_until(process, "ADDRESS").split()[-1]
        listening = {connection.laddr.port: connection.pid for connection in psutil.net_connections("tcp")
                     if connection.status == psutil.CONN_LISTEN}
        family = {process.pid for process in all_below(cluster.pid)}
        assert listening[int(told.rpartition(":")[2])] in family
    finally:
        for other in others:
            other.close()


@pytest.mark.long
def test_a_second_ctrl_c_stops_waiting_and_says_how_to_look(follower: Callable[[str], subprocess.Popen[str]]) -> None:
    process = follower("import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: None)\n"
                       "print('BEGUN', flush=True)\ntime.sleep(20)")
    read_until(process, "BEGUN")
    process.send_signal(signal.SIGINT)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "ray job logs --follow" in err


@pytest.mark.long
def test_a_working_dir_is_sent_and_the_job_begins_in_it(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "settings").mkdir()
    done = run_submit(cluster, "--working-dir", str(tmp_path / "settings"), "--", "games")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tic_tac_toe" in done.stdout
