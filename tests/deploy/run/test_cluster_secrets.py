"""The users of a cluster's Redis, in a server started as deploy/ says."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from labelled_games import random_game

from shusaku.common._core import Game
from shusaku.deploy.run.cluster_secrets import write_secrets
from shusaku.replay.stream.access import ActorUser
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.client import check_server, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import find_binary

ROOT = Path(__file__).resolve().parents[3]
GAME = EncodedGame.of(random_game(Game("connect_four"), 1))


def arguments() -> list[str]:
    """Of the server in deploy/kubernetes."""
    text = (ROOT / "deploy" / "kubernetes" / "redis.yaml").read_text(encoding="utf-8")
    (server,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "StatefulSet")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [Path(find_binary()).name]
    return list(container["args"])


class Server:
    """The server of deploy/kubernetes on a port of this machine, with the files of a directory."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        (directory / "data").mkdir()
        write_secrets(directory / "secrets", f"127.0.0.1:{self.port}")
        self.url = (directory / "secrets" / "url").read_text().strip()
        words = [word.replace("/secrets", f"{directory}/secrets").replace("/data", f"{directory}/data")
                 for word in arguments()]
        assert words[:3] == ["--bind", "*", "-::*"]
        self._command = [find_binary(), "--port", str(self.port), "--bind", "127.0.0.1", *words[3:]]

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            try:
                connect(self.url).ping()
                return
            except redis.ConnectionError:
                assert time.monotonic() < deadline
                assert self.process.poll() is None
                time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.start()
    yield server
    server.kill()


def test_files_are_private_and_never_written_twice(tmp_path: Path) -> None:
    def run() -> str:
        words = [sys.executable, "-m", "shusaku.deploy.run.cluster_secrets", str(tmp_path / "new"), "redis:6379"]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip().rpartition(": ")[2]

    assert run() == "written"
    files = {file.name: file.read_text() for file in (tmp_path / "new").iterdir()}
    assert files.keys() == {"url", "users.acl", "ray_token"}
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "new").rglob("*"))
    password = files["url"].split(":")[2].partition("@")[0]
    assert len(password) == len(files["ray_token"]) == 64
    assert password not in files["users.acl"]
    assert run() == "there already"
    assert files == {file.name: file.read_text() for file in (tmp_path / "new").iterdir()}


def test_the_user_may_do_what_a_run_does_and_nothing_else(server: Server) -> None:
    """The driver's checks, its keys, a user for the actors, and a game of theirs."""
    check_server(server.url)
    RedisControl(server.url, "mine").begin(0, capacity=100, max_bytes=1 << 20, actors=1)
    user = ActorUser(server.url, "mine", 5.0)
    user.grant()
    theirs = user.url_from(server.url)
    assert Appender(theirs, "mine", actor=0, epoch=0, incarnation=0).append([GAME], b"").appended == 1
    stranger: Any = redis.Redis(port=server.port)
    with pytest.raises(redis.AuthenticationError):
        stranger.ping()
    ours: Any = connect(server.url)
    for command in (["flushall"], ["config", "get", "*"], ["keys", "*"], ["shutdown"], ["set", "other", "1"],
                    ["acl", "list"], ["save"]):
        with pytest.raises(redis.exceptions.NoPermissionError):
            ours.execute_command(*command)
    user.revoke()


def test_a_killed_server_comes_back_with_the_games(server: Server) -> None:
    RedisControl(server.url, "mine").begin(0, capacity=100, max_bytes=1 << 20, actors=1)
    Appender(server.url, "mine", actor=0, epoch=0, incarnation=0).append([GAME])
    time.sleep(1.2)  # appendfsync everysec; and a machine that fails would need it
    server.kill()
    server.start()
    assert connect(server.url).xlen(RunKeys.of("mine").games) == 1
    assert connect(server.url).info("memory")["maxmemory_policy"] == "noeviction"
