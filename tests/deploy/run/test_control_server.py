"""Health, metrics and requests over HTTP, in process: what each answer is, and to which question."""

import json
import socket
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.deploy.run import control_server
from shusaku.deploy.run.control_client import ControlClient, ControlUnavailable
from shusaku.deploy.run.control_server import ControlServer
from shusaku.deploy.run.run_status import StatusBuilder, status_tree
from shusaku.deploy.run.run_view import RunView


def tree(**changes: Any) -> dict[str, Any]:
    status = {"step": 7, "troubles": [], "activity": "playing and learning"}
    roles = {"self_play": {"alive": 2, "desired": 2}, "learner": {"alive": 1, "desired": 1}}
    return {"status": status, "roles": roles, "has_begun": True, "failures": []} | changes


class Run:
    def __init__(self, directory: Path, port: int = 0) -> None:
        self.directory, self.stops = directory, 0
        self.lines: list[str] = []
        self.server = ControlServer(directory, port, self.lines.append, self.stop, {"run": "first", "game": "go"})

    def stop(self) -> None:
        self.stops += 1

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        try:
            request = urllib.request.Request(url, method=method, headers=headers)
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def health(self) -> tuple[int, dict[str, Any]]:
        code, body = self.ask("/healthz")
        return code, json.loads(body)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.server.close()


def test_health_before_the_first_look_and_with_everything_alive(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, health = run.health()
    assert (code, health["healthy"], health["activity"]) == (200, True, "starting")
    run.server.publish(tree(), {})
    code, health = run.health()
    assert (code, health["reasons"], health["step"]) == (200, [], 7)
    assert health["roles"]["self_play"] == {"alive": 2, "desired": 2}
    assert 0 <= health["last_step_age_seconds"] < 5
    monkeypatch.setattr(control_server, "SILENT_SECONDS", 0.0)
    code, health = run.health()
    assert code == 503
    assert health["reasons"] == ["the driver has not looked at its run for 0 s"]


@pytest.mark.parametrize(("changes", "reason"), [
    ({"roles": {"learner": {"alive": 0, "desired": 1}}}, "no learner worker is alive, of 1"),
    ({"failures": ["replay: no answer"]}, "replay: no answer"),
])
def test_health_says_why_not(run: Run, changes: dict[str, Any], reason: str) -> None:
    run.server.publish(tree(**changes), {})
    code, health = run.health()
    assert (code, health["healthy"], health["reasons"]) == (503, False, [reason])


def test_a_disk_that_may_become_full_is_a_trouble_and_no_failure(run: Run) -> None:
    run.server.publish(tree(status={"step": 7, "troubles": ["the disk"], "activity": "playing"}), {})
    code, health = run.health()
    assert (code, health["troubles"]) == (200, ["the disk"])


@pytest.mark.parametrize(("is_answering", "failures"), [(1, []), (0, ["replay: no answer; finished games wait"])])
def test_of_all_troubles_the_replay_server_s_alone_is_a_failure(
    run: Run, is_answering: int, failures: list[str]
) -> None:
    """A tracker, a clock or a long step makes no run unhealthy that learns."""
    troubles = ("run.trackers=wandb: OSError: away; it is tried again", "replay: self_play 0 waits for it, 6 s",
                "learner 0: making a step for 31 s, it is the first", "node a: its clock is 6 s ahead of the driver's")
    config = Config()
    view = RunView(
        seconds=1.0, activity="playing", version=1, games=1, rows=1, totals={}, report=None, faults={}, quarantined=0,
        strength=(), runtimes=(), troubles=("replay: no answer; finished games wait",) * (not is_answering) + troubles)
    status = StatusBuilder(config, Game("tic_tac_toe"), run.directory).build(view)
    published = status_tree(view, status, {"roles": {"replay": {"alive": is_answering, "desired": 1}}})
    assert published["failures"] == failures
    assert set(troubles) <= set(published["status"]["troubles"])
    run.server.publish(published, {})
    assert run.health()[0] == (200 if is_answering else 503)


def test_a_worker_that_has_not_started_yet_is_no_failure(run: Run) -> None:
    run.server.publish(tree(roles={"learner": {"alive": 0, "desired": 1}}, has_begun=False), {})
    assert run.health()[0] == 200


def test_metrics_are_read_by_prometheus_own_parser(run: Run) -> None:
    run.server.publish(tree(), {"games": 12.0, "loss/policy": 1.5, "games_per_hour": 3600.0})
    code, body = run.ask("/metrics")
    samples = {s.name: s for family in text_string_to_metric_families(body.decode()) for s in family.samples}
    assert code == 200
    assert samples["shusaku_games_total"].value == 12
    assert samples["shusaku_games_total"].labels == {"run": "first", "game": "go"}
    assert samples["shusaku_loss"].labels["target"] == "policy"
    assert samples["shusaku_games_per_second"].value == 1


def test_the_file_is_the_owner_s_alone_and_goes_with_the_server(tmp_path: Path) -> None:
    run = Run(tmp_path)
    file = tmp_path / "control.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ControlClient.of(tmp_path) is not None
    run.server.close()
    assert not file.exists()
    assert ControlClient.of(tmp_path) is None


def test_requests_need_the_token(run: Run) -> None:
    run.server.publish(tree(), {})
    for path, method in (("/status", "GET"), ("/stop", "POST"), ("/scale?actors=3", "POST")):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer ü"}):
            assert run.ask(path, method, **headers)[0] == 401, (path, headers)
    assert (run.stops, run.server.take_actors()) == (0, 0)


def test_a_page_whose_name_was_rebound_reads_nothing(run: Run) -> None:
    for path in ("/healthz", "/metrics", "/status"):
        assert run.ask(path, Host="evil.example:80")[0] == 403
    for path in ("/stop", "/scale?actors=3"):
        token = {"Authorization": f"Bearer {run.server.token}"}
        assert run.ask(path, "POST", Host="evil.example:80", **token)[0] == 403
    assert (run.stops, run.server.take_actors()) == (0, 0)
    assert run.ask("/healthz", Host="localhost:9100")[0] == 200
    assert run.ask("/nonsense")[0] == 404


def test_stop_scale_and_status(run: Run) -> None:
    client = ControlClient.of(run.directory)
    assert client is not None
    assert client.status() == b"", "before the first look"
    run.server.publish(tree(), {})
    assert json.loads(client.status())["status"]["step"] == 7
    client.set_actors(3)
    assert [run.server.take_actors(), run.server.take_actors()] == [3, 0]
    with pytest.raises(ControlUnavailable, match="number from 1"):
        client.set_actors(0)
    client.request_run_stop()
    assert run.stops == 1


def test_a_port_that_is_taken_costs_one_line_and_not_the_run(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        run = Run(tmp_path, port)
        try:
            assert run.server.port not in (0, port)
            (line,) = run.lines
            assert line.startswith(f"run.http_port={port}: ")
            assert "set run.http_port" in line
            assert run.health()[0] == 200
            assert ControlClient.of(tmp_path) is not None
        finally:
            run.server.close()


def test_a_directory_that_takes_no_file_costs_one_line(tmp_path: Path) -> None:
    run = Run(tmp_path / "missing")
    assert "control.json" in run.lines[0]
    assert run.health()[0] == 200
    run.server.close()


def test_a_driver_of_another_machine_is_not_asked(run: Run) -> None:
    """Its port may be a stranger's here, and the request has the token."""
    file = run.directory / "control.json"
    content = json.loads(file.read_text())
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0.2)
        file.write_text(json.dumps({**content, "port": stranger.getsockname()[1], "host": "another"}))
        assert ControlClient.of(run.directory) is None
        with pytest.raises(TimeoutError):
            stranger.accept()


def test_a_client_that_says_nothing_holds_no_other_one_up(run: Run) -> None:
    with socket.create_connection(("127.0.0.1", run.server.port)):
        began = time.monotonic()
        assert run.health()[0] == 200
        assert time.monotonic() - began < 2


def test_a_file_that_is_no_json_or_names_a_port_of_another_is_no_driver(tmp_path: Path) -> None:
    for content in ("", "{}", "[]", '{"port": "x", "token": "t", "host": "h"}', '{"port": 1, "token": "", "host": ""}'):
        (tmp_path / "control.json").write_text(content)
        assert ControlClient.of(tmp_path) is None
