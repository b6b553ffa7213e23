"""Servers of the user's own: their faults, the rights of each role, and TLS."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from shusaku.common._core import Game
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.errors import UsageError
from shusaku.common.masking import mask_text
from shusaku.common.messages import GameId, GameRecord
from shusaku.replay.stream.access import ActorUser, acl_rules
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.buffer import RedisBuffer
from shusaku.replay.stream.client import (
    ReplayRefused,
    ReplayUnavailable,
    check_server,
    connect,
    explain,
)
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.scripts import SET_CONTROL
from shusaku.replay.stream.server import EmbeddedServer
from shusaku.replay.stream.writer import AsyncWriter

MakeRecord = Callable[..., GameRecord]
GAME = Game("connect_four")
PASSWORD = "p@ss/w:rd?#"
QUOTED = "p%40ss%2Fw%3Ard%3F%23"


def admin(server: EmbeddedServer) -> Any:
    return connect(server.url)


def refusal(url: str, **options: Any) -> str:
    begin = time.monotonic()
    with pytest.raises(UsageError) as caught:
        check_server(url, **options)
    assert time.monotonic() - begin < 10
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"replay.url={mask_text(url)}")
    return text


def test_a_good_server_passes_and_keeps_nothing(server: EmbeddedServer) -> None:
    for url in (server.url, server.tcp_url):
        check_server(url)
    assert admin(server).keys("*") == []


def test_no_answer() -> None:
    assert "Connection refused" in refusal("redis://127.0.0.1:1")
    assert "No such file" in refusal("unix:///nowhere/at/all")
    assert "does not answer" in refusal("redis://no-such-host.invalid:6379")
    assert "must begin with redis://" in refusal("http://localhost")
    assert "Port could not be cast" in refusal("redis://localhost:port")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # and never accepts
        port = silent.getsockname()[1]
        assert "no answer" in refusal(f"redis://user:{QUOTED}@127.0.0.1:{port}", deadline=2.0)


def test_something_else_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            client.recv(100)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            client.close()

        threading.Thread(target=answer, daemon=True).start()
        text = refusal(f"redis://127.0.0.1:{listener.getsockname()[1]}")
        assert "no Redis server" in text


def test_what_is_wrong_is_said_and_no_secret(server: EmbeddedServer) -> None:
    secret = (server.directory / "password").read_text().strip()
    wrong = server.tcp_url.replace(secret, QUOTED)
    for url in (wrong, server.tcp_url.replace(f":{secret}@", ""), server.url.replace(secret, QUOTED)):
        text = refusal(url)
        assert "password or the user name is wrong, or missing" in text
        assert PASSWORD not in text
        assert QUOTED not in text
    client = admin(server)
    client.config_set("maxmemory-policy", "allkeys-lru")
    assert "maxmemory-policy is allkeys-lru" in refusal(server.url)
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 100_000)
    assert "memory is full" in refusal(server.url)
    client.config_set("maxmemory", 0)
    client.config_set("maxclients", 1)
    assert "too many clients" in refusal(server.tcp_url)
    client.config_set("maxclients", 100)
    client.execute_command("REPLICAOF", "127.0.0.1", "1")
    assert "is a replica" in refusal(server.url)
    client.execute_command("REPLICAOF", "NO", "ONE")
    check_server(server.url)
    client.config_set("requirepass", "")
    assert "has no password but the URL names one" in refusal(server.url)


def test_a_full_disk_and_a_loading_server_are_told_apart() -> None:
    full = redis.ResponseError("MISCONF Errors writing to the AOF file: No space left on device")
    assert explain(full) == (f"it refuses writes, its disk may be full: {full}", True)
    assert explain(redis.exceptions.BusyLoadingError("loading"))[1] is False
    assert explain(redis.exceptions.ReadOnlyError("READONLY You can't write"))[1] is False
    assert explain(redis.exceptions.ResponseError("ERR unknown command 'XADD'"))[1] is True
    assert "cluster" in explain(redis.exceptions.MovedError("3999 127.0.0.1:6381"))[0]


def test_roles(server: EmbeddedServer, make_record: MakeRecord) -> None:
    """Each role can do its part of a run, and an actor little else."""
    client = admin(server)
    urls = {}
    for role, rules in acl_rules("mine").items():
        client.execute_command("ACL", "SETUSER", role, "on", f">{PASSWORD}", *rules.split())
        urls[role] = f"redis://{role}:{QUOTED}@{server.tcp_url.partition('@')[2]}"
    check_server(urls["learner"], run_id="mine")
    assert "lacks a right" in refusal(urls["learner"], run_id="other")
    assert "lacks a right: User actor has no permissions" in refusal(urls["actor"], run_id="mine")
    control = RedisControl(urls["learner"], "mine")
    control.begin(0, capacity=100, max_bytes=1 << 20, actors=0)
    config = ReplayConfig(capacity=500, minimum=50)
    buffer = RedisBuffer(GAME, config, url=urls["learner"], run_id="mine", batch_size=8, background=False)
    writer = AsyncWriter(Appender(urls["actor"], "mine", actor=0, epoch=0, incarnation=0))
    writer.metrics = b"metrics"
    keys = RunKeys.of("mine")
    for k in range(20):  # past the capacity
        assert writer.put(replace(make_record(GAME, k), game_id=GameId(0, 0, 0, k)))
    assert writer.flush(5), writer.stats()
    client.xadd(keys.games, {"bad": "one"})
    assert writer.put(replace(make_record(GAME, 20), game_id=GameId(0, 0, 0, 20)))  # behind it
    assert writer.close(5), writer.stats()
    client.xadd(keys.games, {"d": b"?"}, id="18446744073709551615-0")
    assert buffer.stats().trouble == ""
    assert buffer.stats().quarantined == {"source": 2}
    assert buffer.stats().games >= 3
    control.fence(0, 3)
    control.record_version(3)
    control.set_actors(3)
    control.stop_actors()
    control.put_status(b"{}")
    assert (control.status(), control.newest_epoch(), control.desired_actors()) == (b"{}", 0, 3)
    assert control.actor_metrics()[0].metrics == b"metrics"
    assert control.quarantined() == {"source": 2}
    control.drop_actor_metrics()
    assert buffer.control().stop
    assert not control.is_lost()
    buffer.close()
    stranger = connect(urls["actor"])
    assert stranger.hget(keys.control, "stop") == b"1"
    forbidden: list[tuple[str, ...]] = [
        ("FLUSHALL",), ("CONFIG", "GET", "*"), ("KEYS", "*"), ("DEL", keys.games), ("GET", keys.status),
        ("SET", keys.status, "x"), ("EVAL", "return 1", "0"), ("SHUTDOWN",), ("ACL", "LIST"),
        ("XREAD", "STREAMS", keys.games, "0"), ("HGETALL", keys.control), ("XADD", "other", "*", "a", "b"),
        ("XADD", RunKeys.of("other").games, "*", "a", "b"), ("XADD", keys.quarantine, "*", "a", "b"),
        ("SUBSCRIBE", "x"), ("MONITOR",), ("REPLICAOF", "NO", "ONE"), ("MODULE", "LIST"), ("SCRIPT", "FLUSH"),
        ("HSET", keys.control, "stop", "1"), ("HDEL", keys.control, "epoch"), ("SCRIPT", "LOAD", "while true do end"),
        ("EVALSHA", SET_CONTROL.sha1, "1", keys.control, "stop", "1"), ("ACL", "SETUSER", "actor", "allkeys"),
    ]
    for command in forbidden:
        with pytest.raises(redis.exceptions.NoPermissionError):
            stranger.execute_command(*command)
    with pytest.raises(ReplayRefused, match="lacks a right"):
        Appender(urls["actor"], "other", actor=0, epoch=0, incarnation=0).append([])


def test_the_run_makes_a_user_for_its_actors(server: EmbeddedServer, make_record: MakeRecord) -> None:
    """The same in a server of ours and in the user's, by whatever address."""
    RedisControl(server.url, "mine").begin(0, capacity=100, max_bytes=1 << 20, actors=0)
    user = ActorUser(server.url, "mine", 5.0)
    user.grant()
    user.grant()  # as the driver does again and again
    secret = (server.directory / "password").read_text().strip()
    query = f"{server.tcp_url.replace(f':{secret}@', '')}?password={secret}"
    for k, url in enumerate((server.url, server.tcp_url, query)):
        theirs = user.url_from(url)
        assert secret not in theirs
        appender = Appender(theirs, "mine", actor=0, epoch=0, incarnation=k)
        game = EncodedGame.of(replace(make_record(GAME, k), game_id=GameId(0, 0, k, 0)))
        assert appender.append([game], b"metrics").appended == 1
        assert str(connect(theirs).execute_command("PING")) in ("True", "b'PONG'")
        with pytest.raises(redis.exceptions.NoPermissionError):
            connect(theirs).execute_command("ACL", "WHOAMI")
    admin(server).script_flush()  # or a restart of the server
    fresh = Appender(user.url_from(server.url), "mine", actor=0, epoch=0, incarnation=9)
    with pytest.raises(ReplayRefused):
        fresh.append([])
    user.grant()
    fresh.append([])
    user.revoke()
    with pytest.raises(ReplayRefused, match="password or the user name is wrong"):
        Appender(user.url_from(server.url), "mine", actor=0, epoch=0, incarnation=10).append([])


def openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, and server.pem with server.key for localhost signed by it; other.pem of another authority."""
    directory = tmp_path_factory.mktemp("tls")
    for name in ("ca", "other"):
        openssl(directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                "2", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}",
                "-addext", "keyUsage=critical,keyCertSign")
    openssl(directory, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (directory / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl(directory, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-out", "server.pem", "-extfile", "names")
    return directory


@pytest.fixture
def tls_port(server: EmbeddedServer, authority: Path) -> Iterator[int]:
    """Takes the encryption off, since the embedded binary knows none, and hands on to the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    target = server.url.partition("@")[2].partition("?")[0]

    def carry(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        sink.close()

    def serve(raw: socket.socket) -> None:
        try:
            client = context.wrap_socket(raw, server_side=True)
        except (ssl.SSLError, OSError):
            raw.close()
            return
        backend = socket.socket(socket.AF_UNIX)
        backend.connect(target)
        threading.Thread(target=carry, args=(backend, client), daemon=True).start()
        carry(client, backend)

    def accept() -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(raw,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


def test_tls(server: EmbeddedServer, authority: Path, tls_port: int, make_record: MakeRecord) -> None:
    secret = (server.directory / "password").read_text().strip()
    url = f"rediss://:{secret}@localhost:{tls_port}/0?ssl_ca_certs={authority / 'ca.pem'}"
    check_server(url)
    control = RedisControl(url, "tls")
    control.begin(0, capacity=1000, max_bytes=1 << 20, actors=0)
    appender = Appender(url, "tls", actor=0, epoch=0, incarnation=0)
    for k in range(30):
        record = replace(make_record(GAME, k), game_id=GameId(0, 0, 0, k))
        assert appender.append([EncodedGame.of(record)]).appended == 1
    buffer = RedisBuffer(
        GAME, ReplayConfig(capacity=500, minimum=50), url=url, run_id="tls", batch_size=8, background=False
    )
    assert buffer.stats().accepted == 30
    buffer.close()
    for bad in (
        url.replace("ca.pem", "other.pem"),  # another authority
        url.partition("?")[0],  # the system's
        url.replace("localhost", "127.0.0.1"),  # another name
    ):
        text = refusal(bad)
        assert "TLS failed" in text, text
        assert secret not in text
        with pytest.raises(ReplayUnavailable):
            Appender(bad, "tls", actor=0, epoch=0, incarnation=0).append([])
    assert "rediss" in refusal(f"rediss://localhost:{tls_port}?ssl_ca_certs=/no/such/file")
