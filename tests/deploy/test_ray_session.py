"""Ray started here and joined: tokens, deadlines, other users of the machine, and that nothing is left behind."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from common.config import ClusterConfig
from common.errors import RunFailed, UsageError
from deploy import ray_probe
from deploy.ray_auth import login_for_new_cluster
from deploy.ray_session import RaySession

ROOT = Path(__file__).resolve().parent.parent.parent
GONE_S = 30.0  # after a kill -9 of the driver
RAY_VARIABLES = ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_API_SERVER_ADDRESS")

DRIVER = '''
import json, os, signal, sys
from pathlib import Path
import ray  # before its variables are set, as the modules of the actors do
from common.config import ClusterConfig
from deploy.ray_session import RaySession

FACTS = ("address dashboard_url is_local token_file own_address num_cpus node_count metrics_port log_directory "
         "how_to_log_in ray_command_prefix").split()

def tell(**what):
    print("ANSWER " + json.dumps(what), flush=True)

interrupts = []
terminate = lambda *_: None
signal.signal(signal.SIGTERM, terminate)
before = dict(os.environ)
lines = []
session = RaySession(ClusterConfig(dashboard=json.loads(sys.argv[1])), Path("unused"), say=lines.append, namespace="n1")
session.start()

@ray.remote
class Worker:
    def where(self):
        return os.getpid(), os.nice(0), os.environ.get("OMP_WAIT_POLICY")
    def die(self):
        print("the last words", file=sys.stderr, flush=True)
        os._exit(1)

worker = Worker.options(num_cpus=0.1).remote()
signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))
tell(facts={name: getattr(session, name) for name in FACTS}, lines=lines, where=ray.get(worker.where.remote()),
     namespace=ray.get_runtime_context().namespace, keeps_handler=signal.getsignal(signal.SIGTERM) is terminate)
for command in sys.stdin:
    if command == "ask\\n":
        tell(where=ray.get(worker.where.remote(), timeout=20), interrupts=len(interrupts))
    elif command == "crash\\n":
        worker.die.remote()
        tell(died=True)
    elif command == "pretend\\n":
        from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
        from ray.experimental.internal_kv import _internal_kv_put
        _internal_kv_put(CLUSTER_METADATA_KEY, json.dumps({"ray_version": "1.2.3", "python_version": "3.99.0"}),
                         overwrite=True, namespace="cluster")
        tell(pretends=True)
session.stop()
session.stop()
after = dict(os.environ)
after["PYTHONBREAKPOINT"] = before.get("PYTHONBREAKPOINT")  # Ray's own
tell(changed=[name for name in {*before, *after} if after.get(name) != before.get(name)])
'''


class Driver:
    """A process of its own with a RaySession, told what to do by lines."""

    def __init__(self, directory: Path, dashboard: bool = True, **variables: str) -> None:
        environ = {name: value for name, value in os.environ.items() if name not in (*RAY_VARIABLES, "RAY_TMPDIR")}
        self.output = directory / f"driver-{time.monotonic_ns()}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, json.dumps(dashboard)], cwd=ROOT, env={**environ, **variables},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.output.open("w"), text=True,
            start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self.pid = self._process.pid
        self.first = self._answer()

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = self.first["facts"]
        return facts

    def tell(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                answer: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                return answer
        raise AssertionError(f"the driver ended: {self.output.read_text()[-3000:]}")

    def finish(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.close()
        answer = self._answer()
        assert self._process.wait(30) == 0
        return answer

    def close(self) -> None:
        """Whatever happened before: nothing of it stays."""
        family = all_below(self.pid)
        self._process.kill()
        self._process.wait()
        wait_until_gone(family)


def all_below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def alive(processes: list[psutil.Process]) -> list[str]:
    return [repr(p) for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def wait_until_gone(processes: list[psutil.Process], seconds: float = GONE_S) -> float:
    """Seconds until none of them is left."""
    began = time.monotonic()
    while alive(processes):
        assert time.monotonic() - began < seconds, alive(processes)
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home of our own and no variable of Ray's; returns the path of the default token."""
    for name in RAY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # where RAY_ADDRESS=auto looks
    return tmp_path / ".ray" / "auth_token"


# --- joining what is not there ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("address", "named"), [
    ("ray://10.0.0.1:10001", "shusaku submit"), ("nonsense", "HOST:PORT"), ("host:0", "HOST:PORT"),
    ("host:70000", "HOST:PORT"), ("host:", "HOST:PORT"), ("auto", "no Ray was started on this machine"),
    ("127.0.0.1:1", "no Ray answers"), ("name.invalid:6379", "no Ray answers"),
])
def test_an_address_without_ray_is_one_line_at_once(
    clean: Path, monkeypatch: pytest.MonkeyPatch, address: str, named: str
) -> None:
    import ray  # noqa: F401 - sets a variable of its own

    monkeypatch.setenv("RAY_ADDRESS", address)
    before = dict(os.environ)
    began = time.monotonic()
    with pytest.raises(UsageError) as error:
        RaySession(ClusterConfig(), Path("unused"), say=print).start()
    assert time.monotonic() - began < 10
    assert f"RAY_ADDRESS={address}" in str(error.value)
    assert named in str(error.value)
    assert "\n" not in str(error.value)
    assert dict(os.environ) == before


@pytest.fixture
def listener() -> Iterator[Callable[[bytes], str]]:
    """Starts servers that answer every connection with given bytes and keep it open; returns their addresses."""
    opened: list[socket.socket] = []

    def listen(answer: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        opened.append(server)

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                opened.append(connection)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield listen
    for each in opened:
        each.close()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_something_else_that_listens_there_is_not_waited_for(
    clean: Path, listener: Callable[[bytes], str], answer: bytes
) -> None:
    address = listener(answer)
    began = time.monotonic()
    with pytest.raises(UsageError, match=f"RAY_ADDRESS={address}"):
        ray_probe.probe_cluster(address, deadline=2.0)
    assert time.monotonic() - began < 4
    assert ray_probe.DEADLINE + 3 <= 20


@pytest.mark.parametrize(("answer", "named"), [
    ({"takes": "the token", "is_node": "", "nodes": "10.0.0.7"}, "10.0.0.7"),
    ({"takes": "everybody", "is_node": "yes", "nodes": "10.0.0.7"}, "RAY_AUTH_MODE=disabled"),
    ({"failed": "RpcError: no"}, "RpcError: no"),
])
def test_what_a_cluster_says_against_joining_is_told(
    clean: Path, monkeypatch: pytest.MonkeyPatch, listener: Callable[[bytes], str], answer: dict[str, str], named: str
) -> None:
    """Where the cluster has no node here, Ray itself would look for one for a minute."""
    import platform

    import ray

    versions = {"ray": ray.__version__, "python": platform.python_version()}
    monkeypatch.setattr(ray_probe, "_ask", lambda *_: {**versions, **answer})
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    login_for_new_cluster()
    with pytest.raises(UsageError, match=named):
        ray_probe.probe_cluster(listener(b""))


# --- a real Ray ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("home") / "token")


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory, token_file: str) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("head"), RAY_AUTH_TOKEN_PATH=token_file)
    yield driver
    driver.close()


def http_status(url: str, token: str = "") -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_ray_that_is_started_here(head: Driver, token_file: str) -> None:
    facts = head.facts
    assert facts["is_local"]
    assert facts["num_cpus"] == len(os.sched_getaffinity(0))
    assert facts["node_count"] == 1
    assert facts["own_address"] == facts["address"].rpartition(":")[0]
    assert facts["token_file"] == token_file
    assert head.first["namespace"] == "n1"
    directory = Path(facts["log_directory"]).parent.parent
    assert (directory / "ray_current_cluster").read_text() == facts["address"]  # which jobs are told to join
    assert head.first["keeps_handler"]  # of SIGTERM
    _, niceness, waiting = head.first["where"]
    assert (niceness, waiting) == (0, "PASSIVE")
    assert head.output.read_text() == ""  # nothing of Ray's tears the console's block


def test_the_dashboard_wants_the_token_and_the_terminal_does_not_show_it(head: Driver, token_file: str) -> None:
    token = Path(token_file).read_text()
    version = head.facts["dashboard_url"] + "/api/version"
    assert [http_status(version), http_status(version, "wrong"), http_status(version, token)] == [401, 403, 200]
    assert stat.S_IMODE(os.stat(token_file).st_mode) == 0o600
    assert token not in json.dumps(head.first)
    assert head.facts["log_directory"] in head.facts["how_to_log_in"]
    assert stat.S_IMODE(Path(head.facts["log_directory"]).parent.parent.parent.stat().st_mode) == 0o700
    assert head.facts["dashboard_url"] in head.facts["how_to_log_in"]
    assert f"cat {token_file}" in head.facts["how_to_log_in"]
    assert http_status(f"http://{head.facts['own_address']}:{head.facts['metrics_port']}/metrics") == 200


def test_another_process_joins_with_the_token_and_leaves_the_cluster_running(
    head: Driver, token_file: str, tmp_path: Path
) -> None:
    address = head.facts["address"]
    joined = Driver(tmp_path, RAY_AUTH_TOKEN_PATH=token_file, RAY_ADDRESS=address)
    try:
        assert not joined.facts["is_local"]
        assert joined.facts["address"] == address
        assert joined.facts["metrics_port"] == head.facts["metrics_port"]
        assert joined.facts["dashboard_url"] == head.facts["dashboard_url"]
        assert joined.finish() == {"changed": []}
    finally:
        joined.close()
    assert head.tell("ask")["where"] == head.first["where"]


def test_the_last_words_of_a_crashed_actor_are_where_we_say(head: Driver, token_file: str, tmp_path: Path) -> None:
    joined = Driver(tmp_path, RAY_AUTH_TOKEN_PATH=token_file, RAY_ADDRESS=head.facts["address"])
    try:
        pid = joined.first["where"][0]
        joined.tell("crash")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            texts = [path.read_text() for path in Path(joined.facts["log_directory"]).glob(f"worker-*-{pid}.err")]
            if any("the last words" in text for text in texts):
                return
            time.sleep(0.1)
        raise AssertionError(texts)
    finally:
        joined.close()


@pytest.mark.parametrize(("variables", "named"), [
    ({"RAY_AUTH_TOKEN": "wrong"}, "refuses the token in RAY_AUTH_TOKEN"),
    ({"RAY_AUTH_MODE": "disabled"}, "asks for a token"),
])
def test_a_cluster_that_refuses_us_is_named(
    head: Driver, clean: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], named: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=named):
        ray_probe.probe_cluster(head.facts["address"])


def test_ctrl_c_in_the_terminal_reaches_us_and_leaves_ray_to_our_orderly_end(head: Driver) -> None:
    os.killpg(head.pid, signal.SIGINT)  # as a terminal does: everybody in the foreground's group
    time.sleep(3.0)
    answer = head.tell("ask")
    assert answer["interrupts"] == 1
    assert answer["where"] == head.first["where"]


def test_another_version_on_the_cluster_is_named_with_both(
    head: Driver, clean: Path, token_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    head.tell("pretend")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", token_file)
    with pytest.raises(UsageError, match=r"runs Ray 1\.2\.3 and Python 3\.99\.0, this is Ray") as error:
        ray_probe.probe_cluster(head.facts["address"])
    assert ray.__version__ in str(error.value)


def test_after_kill_9_of_the_driver_nothing_is_left(head: Driver) -> None:
    family = all_below(head.pid)
    assert {"gcs_server", "raylet", "ray::Worker", "ray::DashboardAgent"} <= {process.name() for process in family}
    os.kill(head.pid, signal.SIGKILL)
    assert wait_until_gone(family) < 15  # 2.5 s where nothing else runs; Ray's agents alone stay for 40


def test_a_ray_that_cannot_start_says_why_in_one_line(
    clean: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 90)  # no socket can have so long a path
    long.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(long))
    before = set(all_below(os.getpid()))
    with pytest.raises(RunFailed, match=r"Ray does not start: .*107 bytes") as error:
        RaySession(ClusterConfig(), Path("unused"), say=print).start()
    assert "\n" not in str(error.value)
    assert set(all_below(os.getpid())) == before


@pytest.mark.long
def test_kill_9_while_ray_starts_leaves_nothing(tmp_path: Path, token_file: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in RAY_VARIABLES}
    for seconds in (1.5, 3.0, 4.5, 6.0):
        process = subprocess.Popen([sys.executable, "-c", DRIVER, "true"], cwd=ROOT, start_new_session=True,
                                   env={**environ, "RAY_AUTH_TOKEN_PATH": token_file}, stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        family = all_below(process.pid)
        process.kill()
        process.communicate()
        wait_until_gone(family)


@pytest.mark.long
def test_a_second_ray_beside_the_first_disturbs_neither(tmp_path: Path, token_file: str) -> None:
    first = Driver(tmp_path, RAY_AUTH_TOKEN_PATH=token_file)
    second = Driver(tmp_path, RAY_AUTH_TOKEN_PATH=token_file)
    try:
        for name in ("address", "dashboard_url", "metrics_port"):
            assert first.facts[name] != second.facts[name]
        family = all_below(second.pid)
        assert len(family) > 5
        assert second.finish() == {"changed": []}
        assert alive(family) == []
        assert first.tell("ask")["where"] == first.first["where"]
        assert http_status(first.facts["dashboard_url"] + "/api/version", Path(token_file).read_text()) == 200
    finally:
        first.close()
        second.close()


@pytest.mark.long
def test_a_cluster_without_tokens_is_joined_without_even_where_we_have_one(
    clean: Path, tmp_path: Path, token_file: str
) -> None:
    """With a token our own process would refuse the cluster's workers, and every actor would die."""
    login_for_new_cluster()
    open_head = Driver(tmp_path, RAY_AUTH_MODE="disabled")
    try:
        joined = Driver(tmp_path, RAY_ADDRESS=open_head.facts["address"])
        try:
            assert any("asks for no token" in line for line in joined.first["lines"])
            assert joined.tell("ask")["where"] == joined.first["where"]
        finally:
            joined.close()
    finally:
        open_head.close()
