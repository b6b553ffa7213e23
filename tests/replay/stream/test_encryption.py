"""The run's own server over TLS: its users' rights, restarts, and what a client without the authority sees."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from shusaku.common.errors import UsageError
from shusaku.common.masking import mask_text
from shusaku.common.tls.authority import RunAuthority
from shusaku.replay.stream.access import ActorUser
from shusaku.replay.stream.append import Appender
from shusaku.replay.stream.client import ReplayUnavailable, check_server, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.server import EmbeddedServer

HOST = "127.0.0.1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """Reached by other machines through TLS alone."""
    own = EmbeddedServer(tmp_path / "redis", max_megabytes=32, bind=HOST, certificate=RunAuthority().issue(HOST))
    own.start()
    yield own
    own.stop()


def listening(pid: int) -> set[int]:
    return {one.laddr.port for one in psutil.Process(pid).net_connections("tcp") if one.status == psutil.CONN_LISTEN}


def test_actors_of_other_machines_append_as_their_own_user(server: EmbeddedServer) -> None:
    assert server.tcp_url.startswith("rediss://")
    check_server(server.tcp_url)
    assert listening(server.pid) == set(), "nothing listens in clear"
    RedisControl(server.url, "mine").begin(0, capacity=1000, max_bytes=1 << 20, actors=1)
    user = ActorUser(server.url, "mine", 2.0)
    user.grant()
    appender = Appender(user.url_from(server.tcp_url), "mine", actor=0, epoch=0, incarnation=0)
    appender.append([])
    with pytest.raises(ReplayUnavailable, match="lacks a right"):
        RedisControl(user.url_from(server.tcp_url), "mine").set_actors(5)


def test_a_client_without_the_authority_is_refused_and_the_address_stays_short(server: EmbeddedServer) -> None:
    bad = server.tcp_url.partition("?")[0]
    with pytest.raises(UsageError, match="TLS failed"):
        check_server(bad)
    with pytest.raises(UsageError):  # in clear
        check_server(bad.replace("rediss", "redis"))
    with pytest.raises(UsageError) as refusal:
        check_server(server.tcp_url.replace(HOST, "127.0.0.2"))
    shown = mask_text(str(refusal.value))
    assert "CERTIFICATE" not in shown
    assert "ssl_ca_data=***" in shown
    assert urlsplit(server.tcp_url).password not in shown


@pytest.mark.parametrize("victim", ["server", "relay"])
def test_after_a_kill_the_same_address_answers_again(server: EmbeddedServer, victim: str) -> None:
    url, pid = server.tcp_url, server.pid
    client = connect(url, 2.0)
    client.set("k", "v")
    relays = [child for child in psutil.Process().children() if child.name() == "shusaku-tls"]
    assert len(relays) == 1
    psutil.Process(pid if victim == "server" else relays[0].pid).send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while server.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server.is_alive()
    server.start()
    assert server.tcp_url == url
    assert (server.pid == pid) is (victim == "relay")
    assert connect(url, 2.0).get("k") == b"v"
