"""RAY_ADDRESS where no Ray is, something else is, or a Ray that says no: one line, soon."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shusaku.common.config.schema import ClusterConfig
from shusaku.common.errors import UsageError
from shusaku.deploy.ray_runtime import probe as ray_probe
from shusaku.deploy.ray_runtime.auth import login_for_new_cluster
from shusaku.deploy.ray_runtime.session import RaySession


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
        RaySession(ClusterConfig(), notify=print).start()
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
    ({"accepts": "the token", "is_node": "", "nodes": "10.0.0.7"}, "10.0.0.7"),
    ({"accepts": "every client", "is_node": "yes", "nodes": "10.0.0.7"}, "RAY_AUTH_MODE=disabled"),
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


def test_a_cluster_is_joined_unprobed_if_ray_lacks_a_private_name(
    clean: Path, monkeypatch: pytest.MonkeyPatch, listener: Callable[[bytes], str]
) -> None:
    monkeypatch.setattr(ray_probe, "_ask", lambda *_: {"unprobed": "GcsClient"})
    login_for_new_cluster()
    login = ray_probe.probe_cluster(listener(b""))
    assert login.token_file == str(clean)
    assert login.note.endswith("is joined without a check: this Ray has no GcsClient")


def test_the_probe_names_the_private_name_that_ray_lacks(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray._private.services

    monkeypatch.delattr(ray._private.services, "find_node_ids")
    assert ray_probe.main("127.0.0.1:1")["unprobed"] == "find_node_ids"
