"""Every finding of `shusaku doctor`, from what was read to its line; and the command here, once with a server."""

import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError
from shusaku.deploy.cli.main import main
from shusaku.deploy.commands.doctor import command
from shusaku.deploy.commands.doctor.access import (
    Listener,
    check_acl,
    check_binds,
    check_modes,
    check_token,
    listeners_of,
)
from shusaku.deploy.commands.doctor.finding import Finding, Level, fail
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
from shusaku.deploy.run.disk_budget import DiskBudget, DiskReport
from shusaku.replay.stream.server import EmbeddedServer

MB = 1 << 20
NOW = 1_790_000_000.0
BUDGET = DiskBudget(600, 300, 100, 50)
RUNS = {"ray": "2.60.0", "redis": "8.0.0"}


def shown(found: Finding | Iterable[Finding]) -> list[tuple[str, str]]:
    """Level and text of each; what is not all right says what to do."""
    findings = [found] if isinstance(found, Finding) else list(found)
    for finding in findings:
        assert bool(finding.fix) == (finding.level is not Level.OK), finding
        assert finding.name
    return [(finding.level.value, finding.text) for finding in findings]


@pytest.mark.parametrize(("found", "level", "text"), [
    (check_shared_memory(None), "FAIL", "/dev/shm is missing"),
    (check_shared_memory(64 * MB), "FAIL", "67 MB free, and Ray needs 84"),
    (check_shared_memory(200 * MB), "warn", "210 MB free"),
    (check_shared_memory(2048 * MB), "ok", "2,147 MB free"),
    (check_descriptors(256, 256), "FAIL", "ulimit -n is 256"),
    (check_descriptors(1024, 1 << 20), "warn", "many actors want more"),
    (check_descriptors(65536, 65536), "ok", "65,536"),
    (check_descriptors(-1, -1), "ok", "ulimit -n is"),
    (check_disk(None, "no such game"), "warn", "cannot be told: no such game"),
    (check_disk(DiskReport(BUDGET, 0, 999, 10**9, False)), "FAIL", "at most"),
    (check_disk(DiskReport(BUDGET, 0, 1000, 49, False)), "warn", "at most"),
    (check_disk(DiskReport(BUDGET, 0, 1000, 50, False)), "ok", "at most"),
    (check_clock(Clocks(NOW, 0.25, 0.25)), "ok", "steady"),
    (check_clock(Clocks(0.0, 0.25, 0.25)), "FAIL", "it says 1970-01-01"),
    (check_clock(Clocks(NOW, 3600.25, 0.25)), "warn", "it jumped by 3600.0 s"),
    (check_clock(Clocks(NOW, 0.25, 0.25, replay=NOW - 5)), "warn", "differs by 5 s"),
    (check_clock(Clocks(NOW, 0.25, 0.25, replay=NOW + 3600)), "FAIL", "differs by 3600 s"),
    (check_clock(Clocks(NOW, 0.25, 0.25, replay=NOW + 1)), "ok", "steady"),
    (check_clock(Clocks(NOW, 0.25, 0.25, last_start=NOW + 7200)), "warn", "7200 s in the future"),
    (check_clock(Clocks(NOW, 0.25, 0.25, last_start=NOW - 7200)), "ok", "steady"),
    (check_clock(Clocks(NOW, 0.25, 0.25, is_synchronised=False)), "warn", "no time service"),
    (check_versions((3, 11), ["ray[default]<2.61,>=2.59", "redis>=5"], RUNS), "ok", "Python 3.11, ray 2.60.0"),
    (check_versions((3, 10), ["redis>=5"], RUNS), "FAIL", "Python 3.10"),
    (check_versions((3, 11), ["ray<2.60"], RUNS), "FAIL", "ray 2.60.0, asked for is ray<2.60"),
    (check_versions((3, 11), ["Prometheus_Client>=0.20"], RUNS), "FAIL", "Prometheus_Client is not installed"),
    (check_versions((3, 11), ["jax>=0.7; extra == 'oracles'", "no requirement !"], RUNS), "ok", "Python 3.11"),
    (check_redis(None, "no Redis server"), "FAIL", "no server: no Redis server"),
    (check_redis("Redis server v=6.0.16 sha=0"), "FAIL", "version 6.0.16"),
    (check_redis("Redis server v=7.0.15 sha=0"), "ok", "version 7.0.15"),
    (check_redis("nonsense"), "warn", "cannot be read"),
    (check_core(0, frozenset({"avx2", "bmi2", "fma"})), "ok", "runs on this"),
    (check_core(0, frozenset()), "ok", "runs on this"),
    (check_core(-4, frozenset()), "FAIL", "another processor"),
    (check_core(1, frozenset(), "Traceback\nImportError: no _core"), "FAIL", "ImportError: no _core"),
    (check_core(3, frozenset()), "FAIL", "exit code 3"),
    (check_core(None, frozenset()), "warn", "did not end in time"),
    (check_acl(None, "", ""), "ok", "no replay server"),
    (check_acl(None, "", "redis://h"), "warn", "actors use replay.url"),
    (check_acl(["user default on nopass ~* +@all"], "", ""), "FAIL", "without a password"),
    (check_acl(["user default on #ab ~* &* +@all"], "", ""), "warn", "driver's user"),
    (check_acl(["user default on #ab ~* +@all"], "redis://actor@h", "redis://h"), "ok", "of their own"),
    (check_acl(["user default on #ab ~* +@all", "user a on #cd ~shusaku:* -@all +xadd"], "", ""), "ok", "of their own"),
    (check_binds(None, ""), "ok", "no run goes on"),
    (check_binds([Listener("redis-server", "127.0.0.1", 1), Listener("shusaku", "::1", 2)], ""), "ok", "2 sockets"),
    (check_binds([Listener("redis-server", "0.0.0.0", 6379)], ""), "FAIL", "redis-server on 0.0.0.0:6379"),
    (check_binds([Listener("redis-server", "10.0.0.1", 6379)], "10.0.0.1"), "warn", "for the other machines"),
    (check_binds([Listener("raylet", "::", 4000)], ""), "warn", "Ray's node, behind the token: raylet on [::]:4000"),
    (check_binds([Listener("python", "0.0.0.0", 1), Listener("ray::X", "::", 2)], ""), "warn", "0.0.0.0:1, ray::X on"),
])
def test_each_finding(found: Finding | Iterable[Finding], level: str, text: str) -> None:
    (finding,) = shown(found)
    assert finding[0] == level, finding
    assert text in finding[1]


def test_a_core_of_another_processor_is_built_anew() -> None:
    assert "make clean install" in check_core(-4, frozenset()).fix, "`make install` alone finds nothing to do"


def test_a_processor_that_wheels_are_not_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert shown(check_core(0, frozenset({"avx2", "fma"})))[0][0] == "warn"


# --- token -----------------------------------------------------------------------------------------------------------


def token_of(home: Path, **variables: str) -> tuple[str, str]:
    (finding,) = shown(check_token({"HOME": str(home), **variables}))
    return finding


def test_the_token(tmp_path: Path) -> None:
    token = tmp_path / ".ray" / "auth_token"
    level, text = token_of(tmp_path)
    assert (level, "absent" in text) == ("ok", True)
    assert token_of(tmp_path, RAY_AUTH_TOKEN="t")[0] == "ok"
    assert token_of(tmp_path, RAY_AUTH_MODE="disabled")[0] == "FAIL"
    level, text = token_of(tmp_path, RAY_AUTH_TOKEN_PATH=str(tmp_path / "none"))
    assert (level, "is missing" in text) == ("FAIL", True)
    token.parent.mkdir()
    token.write_text("")
    token.chmod(0o600)
    level, text = token_of(tmp_path)
    assert (level, "is empty" in text) == ("FAIL", True)
    token.write_text("t" * 64)
    assert token_of(tmp_path) == ("ok", f"{token}, mode 600")
    token.chmod(0o644)
    level, text = token_of(tmp_path)
    assert (level, "mode 644" in text) == ("FAIL", True)
    token.chmod(0o600)
    token.write_bytes(b"\xff\xfe")
    assert token_of(tmp_path)[0] == "FAIL"
    token.unlink()
    token.mkdir()
    assert token_of(tmp_path)[0] == "FAIL"


# --- files and sockets -----------------------------------------------------------------------------------------------


def test_modes_of_a_run_directory(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert shown(check_modes(run, [])) == [("ok", f"{run} is no run directory yet")]
    (run / "redis").mkdir(parents=True)
    run.chmod(0o755)
    (run / "redis").chmod(0o700)
    assert shown(check_modes(run, [])) == [("ok", f"secrets of {run} are readable by their owner alone")]
    for name in ("control.json", "redis/password", "redis/redis.conf", "redis/socket"):
        (run / name).write_text("secret")
        (run / name).chmod(0o640)
        ((level, text),) = shown(check_modes(run, []))
        assert (level, f"{name} has mode 640" in text) == ("FAIL", True)
        (run / name).chmod(0o600)
    assert shown(check_modes(run, []))[0][0] == "ok"
    url = tmp_path / "url"
    assert shown(check_modes(run, [url]))[0] == ("FAIL", f"{url} is missing")
    url.write_text("redis://")
    url.chmod(0o604)
    assert shown(check_modes(run, [url]))[0][0] == "FAIL"
    url.chmod(0o600)
    run.chmod(0o777)
    ((level, text),) = shown(check_modes(run, [url]))
    assert (level, "everyone can replace" in text) == ("FAIL", True)


def test_listening_sockets_of_a_process_are_found() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        assert listening.getsockname()[1] not in {listener.port for listener in listeners_of(os.getpid())}
        listening.listen()
        found = {listener.port: listener for listener in listeners_of(os.getpid())}
        assert found[listening.getsockname()[1]].is_loopback
    assert listeners_of(1 << 30) == []


# --- the command -----------------------------------------------------------------------------------------------------


def test_a_check_that_breaks_is_a_finding_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: Any) -> Any:
        raise ZeroDivisionError("of all things")

    config = Config()
    config.run.dir = str(tmp_path / "run")
    monkeypatch.setattr(command, "check_versions", broken)
    monkeypatch.setattr(command, "check_core", lambda *_: fail("core", "no", "none"))
    with pytest.raises(RunError, match=r"1 of \d+ checks failed") as error:
        command.run(config, as_json=False)
    result = error.value.result
    assert result is not None
    by_name = {check["name"]: check for check in result["checks"]}
    assert by_name["versions"]["level"] == "warn"
    assert "ZeroDivisionError: of all things" in by_name["versions"]["text"]
    assert result["failed"] == 1
    out = capsys.readouterr().out
    assert "FAIL  core" in out
    assert "fix: none" in out


@pytest.mark.parametrize("name", ["config.yaml", "lock", "starts.jsonl", "run.json", "redis", "checkpoints"])
def test_no_file_of_a_run_ends_it(tmp_path: Path, name: str) -> None:
    for broken in ("directory", "bytes"):
        run = tmp_path / broken
        run.mkdir()
        if broken == "directory":
            (run / name).mkdir()
        else:
            (run / name).write_bytes(b"\xff\x00{")
        config = Config()
        config.run.dir = str(run)
        assert {finding.name for finding in command.check_all(config)} >= {"token", "disk", "core", "redis"}


def test_the_command_here_beside_a_replay_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    server = EmbeddedServer(tmp_path / "run" / "redis", max_megabytes=16)
    server.start()
    try:
        password = tmp_path / "run" / "redis" / "password"
        arguments = ["doctor", "game=tic_tac_toe", f"run.dir={tmp_path / 'run'}", "--json"]
        code = main(arguments)
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        levels = {check["name"]: check["level"] for check in result["checks"]}
        assert levels["versions"] == levels["core"] == levels["redis"] == levels["modes"] == levels["token"] == "ok"
        assert code == (1 if "FAIL" in levels.values() else 0)
        assert password.read_text().strip() not in json.dumps(result)
        password.chmod(0o644)
        assert main(arguments) == 1
        captured = capsys.readouterr()
        result = json.loads(captured.out.splitlines()[-1])
        (finding,) = [check for check in result["checks"] if check["name"] == "modes"]
        assert (finding["level"], finding["fix"]) == ("FAIL", f"chmod 600 {password}")
        assert "checks failed" in captured.err
    finally:
        server.stop()
