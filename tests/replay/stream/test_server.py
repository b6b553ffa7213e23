"""The server of our own: its files and secrets, its deaths, and what it does with damage."""

import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from shusaku.common.errors import ResumeError, UsageError
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer, _free_port


def wait_until_gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether the process ended; a zombie has."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def fill(server: EmbeddedServer, count: int) -> None:
    RedisControl(server.url, "run").begin(0, capacity=10**6, max_bytes=1 << 30, actors=0)
    appender = Appender(server.url, "run", actor=0, epoch=0, incarnation=0)
    for first in range(0, count, 10):
        appender.append([EncodedGame(first + k, 5, os.urandom(500)) for k in range(10)])
    appender.close()


def length(server: EmbeddedServer) -> int:
    value: Any = connect(server.url).xlen(RunKeys.of("run").games)
    return int(value)


def test_secrets_are_private_and_off_the_command_line(server: EmbeddedServer) -> None:
    password = (server.directory / "password").read_text().strip()
    assert len(password) == 64
    command = Path(f"/proc/{server.pid}/cmdline").read_bytes() + Path(f"/proc/{server.pid}/environ").read_bytes()
    assert password.encode() not in command
    for name in ("password", "redis.conf"):
        assert stat.S_IMODE((server.directory / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700
    sockets = Path(server.url.partition("@")[2].partition("?")[0]).parent
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    for url in (server.url, server.tcp_url):
        assert connect(url).ping()
        with pytest.raises(Exception, match=r"(?i)auth|password"):
            connect(url.replace(password, "x" * 64)).ping()
    info: Any = connect(server.url).info("memory")
    assert (info["maxmemory_policy"], info["maxmemory"]) == ("noeviction", 104 << 20)
    server.stop()
    assert not sockets.exists()
    assert not server.is_alive()


def test_a_killed_server_comes_back_as_it_was(server: EmbeddedServer) -> None:
    fill(server, 200)
    client = connect(server.url)  # of before
    urls, pid = (server.url, server.tcp_url), server.pid
    os.kill(pid, signal.SIGKILL)
    assert wait_until_gone(pid)
    deadline = time.monotonic() + 5
    while server.is_alive() and time.monotonic() < deadline:  # its threads may outlive it by a moment
        time.sleep(0.01)
    assert not server.is_alive()
    server.start()
    assert (server.url, server.tcp_url) == urls
    assert server.pid != pid
    assert length(server) == 200
    assert client.ping()
    server.start()  # nothing to do
    server.stop()
    server.start()
    assert length(server) == 200


def test_a_stopped_server_is_ended_all_the_same(server: EmbeddedServer) -> None:
    os.kill(server.pid, signal.SIGSTOP)
    begin = time.monotonic()
    server.stop(timeout=5)
    assert time.monotonic() - begin < 6
    assert not server.is_alive()


def test_a_cut_end_costs_the_last_game_and_a_damaged_middle_is_never_wiped(server: EmbeddedServer) -> None:
    fill(server, 200)
    server.stop()
    (file,) = (server.directory / "appendonlydir").glob("*.incr.aof")
    os.truncate(file, file.stat().st_size - 7)
    server.start()
    assert length(server) == 190  # the last call of ten: all of it or nothing
    server.stop()
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
    file.write_bytes(data)
    with pytest.raises(ResumeError, match="damaged and was left as it is") as caught:
        server.start()
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == data
    assert not server.is_alive()
    repair = str(caught.value).partition("`")[2].partition("`")[0]  # the way out works
    done = subprocess.run(shlex.split(repair), input=b"y\n", capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done
    server.start()
    assert 50 < length(server) < 150


def test_a_kill_at_the_end_of_a_rewrite_costs_nothing(server: EmbeddedServer) -> None:
    """The new base has its name already, the manifest does not name it yet (Redis: backgroundRewriteDoneHandler)."""
    fill(server, 200)
    server.stop()
    folder = server.directory / "appendonlydir"
    manifest = (folder / "appendonly.aof.manifest").read_bytes()
    (base,) = folder.glob("*.base.rdb")
    number = int(base.name.split(".")[2])
    newer = folder / f"appendonly.aof.{number + 1}.base.rdb"
    newer.write_bytes(base.read_bytes())
    server.start()
    assert length(server) == 200
    assert (folder / "appendonly.aof.manifest").read_bytes() == manifest
    client = connect(server.url)
    client.bgrewriteaof()
    deadline = time.monotonic() + 20
    while client.info("persistence")["aof_rewrite_in_progress"] or newer.name.encode() not in (
            folder / "appendonly.aof.manifest").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    server.stop()
    server.start()
    assert length(server) == 200


def test_a_directory_has_one_server(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shusaku.replay.stream.server.LEAVE_SECONDS", 0.5)
    second = EmbeddedServer(server.directory, max_megabytes=32)
    with pytest.raises(UsageError, match="another server uses this directory"):
        second.start()
    assert length(server) == 0
    second.stop()


def test_what_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1"):
        EmbeddedServer(tmp_path, max_megabytes=1, bind="192.0.2.1").start()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = EmbeddedServer(tmp_path, max_megabytes=1, bind=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(UsageError, match=r"see .*server\.log"):
            server.start()
        server.stop()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"no Redis server: .* replay\.url="):
        EmbeddedServer(tmp_path, max_megabytes=1)


def test_long_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    server = EmbeddedServer(deep / "redis with a space", max_megabytes=1)
    server.start()
    try:
        assert connect(server.url).ping()
    finally:
        server.stop()


@pytest.mark.parametrize("end", ["exit", "kill", "thread"])
def test_it_ends_with_its_parent_and_not_with_a_thread(tmp_path: Path, end: str) -> None:
    """Ended or killed, the program takes the server along; a thread that called `start` does not."""
    script = f"""
import os, signal, sys, threading
from pathlib import Path
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import EmbeddedServer
server = EmbeddedServer(Path({str(tmp_path)!r}), max_megabytes=1)
starter = threading.Thread(target=server.start)
starter.start()
starter.join()
print(server.pid, os.getsid(server.pid) != os.getsid(0), flush=True)
sys.stdin.readline()
print(server.is_alive(), flush=True)
if {end!r} == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif {end!r} == "thread":
    server.stop()
"""
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        pid, is_own_session = program.stdout.readline().split()
        assert is_own_session == "True"
        time.sleep(0.2)
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "True\n"
        program.wait(10)
        assert wait_until_gone(int(pid))
    if end != "thread":  # the next one clears away what this one left
        left = Path((tmp_path / "socket").read_text().strip())
        assert left.exists()
        server = EmbeddedServer(tmp_path, max_megabytes=1)
        server.start()
        assert not left.exists()
        server.stop()


SLOW_DISK = """
#include <unistd.h>
int fdatasync(int file) { sleep(3); return fsync(file); }
"""
PLAY_AND_DIE = """
import os, signal, sys, time
from pathlib import Path
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), max_megabytes=64)
server.start()
RedisControl(server.url, "run-1").begin(1, capacity=10**6, max_bytes=1 << 25, actors=1)
appender = Appender(server.url, "run-1", actor=0, epoch=1, incarnation=0, deadline=20.0)
began, sequence = time.monotonic(), 0
while time.monotonic() - began < 3.5:
    appender.append([EncodedGame(sequence, 1, bytes(200))])
    sequence += 1
    time.sleep(0.005)
print(sequence, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.faults
def test_a_killed_program_loses_no_acknowledged_game_while_the_disk_is_behind(tmp_path: Path) -> None:
    """Redis holds writes back in its memory while an fsync takes long: it brings them out before it ends."""
    (tmp_path / "slow.c").write_text(SLOW_DISK)
    library = tmp_path / "slow.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "slow.c"], check=True)
    done = subprocess.run([sys.executable, "-c", PLAY_AND_DIE, str(tmp_path / "redis")], capture_output=True, text=True,
                          check=False, env={**os.environ, "LD_PRELOAD": str(library)})
    assert done.returncode == -signal.SIGKILL, done.stderr
    acknowledged = int(done.stdout)
    server = EmbeddedServer(tmp_path / "redis", max_megabytes=64)
    server.start()
    try:
        assert RedisControl(server.url, "run-1").counters()["games"] == acknowledged > 50
    finally:
        server.stop()


def test_many_threads_start_one_server(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path, max_megabytes=1)
    threads = [threading.Thread(target=server.start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connect(server.url).ping()
    server.stop()
    assert not server.is_alive()


def test_a_free_port_is_free() -> None:
    assert 0 < _free_port("127.0.0.1") < 65_536
