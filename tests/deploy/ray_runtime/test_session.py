"""A real Ray, started here and joined: tokens, other users of the machine, and that nothing is left behind."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_family import alive, all_below, wait_until_gone
from ray_driver import DRIVER, ROOT, Driver
from ray_variables import environment_without_ray

from shusaku.common.config.schema import ClusterConfig
from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.ray_runtime import probe as ray_probe
from shusaku.deploy.ray_runtime import quiet_ray
from shusaku.deploy.ray_runtime.auth import login_for_new_cluster
from shusaku.deploy.ray_runtime.quiet_ray import METRICS_VARIABLES, PERIODS, dashboard_parts, own_periods
from shusaku.deploy.ray_runtime.session import RaySession


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
    assert facts["own_address"] == facts["address"].rpartition(":")[0]
    assert head.first["namespace"] == "n1"
    directory = Path(facts["log_directory"]).parent.parent
    assert (directory / "ray_current_cluster").read_text() == facts["address"]  # which jobs are told to join
    assert head.first["keeps_handler"]  # of SIGTERM
    _, niceness, waiting = head.first["where"]
    assert (niceness, waiting) == (0, ["PASSIVE", "10000"])
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


def test_a_quiet_ray_runs_fewer_processes_and_its_dashboard_has_what_it_shows(
    tmp_path: Path, token_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_PROMETHEUS_HOST", "")
    head = Driver(tmp_path, {"quiet_ray": True}, RAY_AUTH_TOKEN_PATH=token_file)
    try:
        check_quiet(head, token_file)
        assert head.first["lines"] == []
    finally:
        head.close()


def check_quiet(head: Driver, token_file: str) -> None:
    commands = [" ".join(process.cmdline()) for process in all_below(head.pid)]
    parts = {command.partition("-0 ")[0] for command in commands if command.startswith("ray-dashboard-")}
    assert parts == {f"ray-dashboard-{part}" for part in ("NodeHead", "ReportHead", "JobHead", "StateHead")}
    assert not any("log_monitor" in command for command in commands)
    token, url = Path(token_file).read_text(), head.facts["dashboard_url"]
    pages = ("/nodes?view=summary", "/logical/actors", "/api/jobs/", "/api/cluster_status", "/api/v0/logs?node_ip=" +
             head.facts["own_address"])
    assert {page: http_status(url + page, token) for page in pages} == dict.fromkeys(pages, 200)


@pytest.mark.parametrize(("module", "name"), [
    (quiet_ray.PARAMETERS, "RayParams"), (quiet_ray.SERVICES, "start_ray_process"),
])
def test_a_ray_without_a_private_name_is_one_line_and_runs_as_it_is(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    monkeypatch.delattr(importlib.import_module(module), name)
    before = vars(importlib.import_module(quiet_ray.SERVICES)).copy()
    lines: list[str] = []
    with quiet_ray.fewer_processes(lines.append):
        assert vars(importlib.import_module(quiet_ray.SERVICES)) == before
    assert lines == [f"cluster.quiet_ray=true has no effect: this version of Ray has no {module}.{name}"]


@pytest.mark.parametrize(("table", "missing"), [
    ("DAEMONS", "ray._private.parameter.RayParams(gone=)"), ("DASHBOARD_PARTS", "ray.dashboard.modules.gone.Gone"),
])
def test_a_ray_without_a_part_or_parameter_is_noticed(
    table: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert quiet_ray.missing_name() == ""
    gone = {"gone": 0} if table == "DAEMONS" else {"Gone": "gone"}
    monkeypatch.setattr(quiet_ray, table, {**getattr(quiet_ray, table), **gone})
    assert quiet_ray.missing_name() == missing


@pytest.mark.parametrize(("variable", "has_metrics"), [("RAY_GRAFANA_HOST", True), ("", False)])
def test_with_grafana_the_dashboard_shows_its_plots(
    variable: str, has_metrics: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in METRICS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "http://127.0.0.1:3000")
    assert ("MetricsHead" in dashboard_parts()) is has_metrics


def test_what_the_user_has_set_of_ray_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PERIODS:
        monkeypatch.delenv(name, raising=False)
    assert own_periods() == PERIODS
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")  # which turns it off
    assert own_periods().keys() == PERIODS.keys() - {"RAY_memory_monitor_refresh_ms"}


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


def test_the_last_output_of_a_crashed_actor_is_in_its_log(head: Driver, token_file: str, tmp_path: Path) -> None:
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
    os.killpg(head.pid, signal.SIGINT)  # as a terminal does: to all of the foreground's group
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
    with pytest.raises(RunError, match=r"Ray does not start: .*107 bytes") as error:
        RaySession(ClusterConfig(), notify=print).start()
    assert "\n" not in str(error.value)
    assert set(all_below(os.getpid())) == before


@pytest.mark.long
def test_kill_9_while_ray_starts_leaves_nothing(tmp_path: Path, token_file: str) -> None:
    for seconds in (1.5, 3.0, 4.5, 6.0):
        process = subprocess.Popen([sys.executable, "-c", DRIVER, "{}"], cwd=ROOT, start_new_session=True,
                                   env={**environment_without_ray(), "RAY_AUTH_TOKEN_PATH": token_file},
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
