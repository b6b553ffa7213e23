"""The relay that encrypts for a server: bytes come through whole, strangers do not, and it ends with its owner."""

import contextlib
import datetime
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cryptography import x509

from shusaku.common.tls import relay as relay_module
from shusaku.common.tls.authority import Certificate, RunAuthority
from shusaku.common.tls.relay_process import RelayProcess

HOST = "127.0.0.1"


class Echo:
    """A server on a unix socket that sends back what it reads, and counts its clients."""

    def __init__(self, path: Path) -> None:
        self.path, self.clients = str(path), 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.clients += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                client.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return RunAuthority().issue(HOST)


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Echo]:
    server = Echo(tmp_path / "s")
    yield server
    server.close()


@pytest.fixture
def relay(certificate: Certificate, echo: Echo) -> Iterator[RelayProcess]:
    process = RelayProcess(certificate, HOST, echo.path)
    yield process
    process.close()


def connected(relay: RelayProcess, certificate: Certificate, name: str = HOST) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=certificate.authority)
    return context.wrap_socket(socket.create_connection((HOST, relay.port), 10), server_hostname=name)


def test_much_in_both_directions_at_once_arrives_whole(relay: RelayProcess, certificate: Certificate) -> None:
    """More than waits on the way, from several clients, one of which reads late."""
    data = bytes(range(256)) * (40 << 10)  # 10 MB
    received: dict[int, bytes] = {}

    def talk(number: int) -> None:
        mine = bytes([number]) + data
        with connected(relay, certificate) as client:
            sent, heard = 0, bytearray()
            client.setblocking(False)
            while len(heard) < len(mine):
                with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    sent += client.send(mine[sent : sent + (1 << 16)]) if sent < len(mine) else 0
                if number and sent < 5 << 20 and sent < len(mine):
                    time.sleep(0.0005)  # reads late
                    continue
                with contextlib.suppress(ssl.SSLWantReadError):
                    heard += client.recv(1 << 16)
            received[number] = bytes(heard)

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {number: heard == bytes([number]) + data for number, heard in received.items()} == dict.fromkeys(range(3),
                                                                                                           True)


def test_small_messages_answer_at_once(relay: RelayProcess, certificate: Certificate) -> None:
    with connected(relay, certificate) as client:
        begun = time.monotonic()
        for k in range(200):
            client.sendall(bytes([k]) * 100)
            heard = b""
            while len(heard) < 100:
                heard += client.recv(100)
            assert heard == bytes([k]) * 100
        assert time.monotonic() - begun < 5, "nothing waits for a full packet"


def test_who_speaks_no_tls_never_reaches_the_server(relay: RelayProcess, echo: Echo, certificate: Certificate) -> None:
    with socket.create_connection((HOST, relay.port), 10) as stranger:
        stranger.sendall(b"PING\r\n" * 100)
        with contextlib.suppress(ConnectionError):
            assert b"PING" not in stranger.recv(1000)
    context = ssl.create_default_context(cadata=certificate.authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection((HOST, relay.port), 10) as old, pytest.raises(ssl.SSLError):
        context.wrap_socket(old, server_hostname=HOST)
    assert echo.clients == 0


@pytest.mark.parametrize("name", ["another.name", "127.0.0.2"])
def test_a_client_refuses_another_name_and_another_authority(
    relay: RelayProcess, certificate: Certificate, name: str
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connected(relay, certificate, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        connected(relay, RunAuthority().issue(HOST))


def test_the_silent_give_way(certificate: Certificate, echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are dropped after a while, and at once if there are too many of them."""
    monkeypatch.setattr(relay_module, "HANDSHAKE_SECONDS", 0.5)
    monkeypatch.setattr(relay_module, "MAX_ARRIVING", 5)
    with a_relay_here(certificate, echo.path) as port:
        strangers = [socket.create_connection((HOST, port), 10) for _ in range(8)]
        assert [stranger.recv(1) for stranger in strangers[:3]] == [b""] * 3, "the oldest, at once"
        begun = time.monotonic()
        assert [stranger.recv(1) for stranger in strangers[3:]] == [b""] * 5
        assert time.monotonic() - begun < 5


@contextlib.contextmanager
def a_relay_here(certificate: Certificate, target: str) -> Iterator[int]:
    """The port of a relay in a thread of this process."""
    listener = socket.create_server((HOST, 0))
    here = relay_module.Relay(listener, relay_module.server_context(certificate.certificate, certificate.key), target)
    end, ended = socket.socketpair()
    thread = threading.Thread(target=here.run, args=(ended.fileno(),), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        end.send(b"x")
        thread.join(10)
        assert not thread.is_alive()


def test_the_end_of_a_request_does_not_wait_for_more(
    certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes at once as much as may wait on the way, and answers when it has all."""
    monkeypatch.setattr(relay_module, "MOST_BYTES", 1 << 15)
    request = bytes(range(256)) * 512  # 128 KB
    with socket.socket(socket.AF_UNIX) as server, a_relay_here(certificate, str(tmp_path / "s")) as port:
        server.bind(str(tmp_path / "s"))
        server.listen()
        server.settimeout(10)
        context = ssl.create_default_context(cadata=certificate.authority)
        with context.wrap_socket(socket.create_connection((HOST, port), 10), server_hostname=HOST) as client:
            client.sendall(request)
            accepted, _ = server.accept()
            with accepted:
                accepted.settimeout(10)
                heard = b""
                while len(heard) < len(request):
                    heard += accepted.recv(1 << 20)
                assert heard == request
                accepted.sendall(b"answer")
                assert client.recv(100) == b"answer"


def test_what_follows_the_end_of_tls_ends_the_connection(certificate: Certificate, echo: Echo) -> None:
    """It cannot be decrypted: to try again and again would keep the relay from every other client."""
    context = ssl.create_default_context(cadata=certificate.authority)
    received, sealed = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(received, sealed, server_hostname=HOST)
    with a_relay_here(certificate, echo.path) as port, socket.create_connection((HOST, port), 10) as stranger:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                stranger.sendall(sealed.read())
                received.write(stranger.recv(1 << 16))
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        stranger.sendall(sealed.read() + b"x" * 1000)
        with contextlib.suppress(ConnectionError):
            while stranger.recv(1 << 16):
                pass
        context = ssl.create_default_context(cadata=certificate.authority)
        with context.wrap_socket(socket.create_connection((HOST, port), 10), server_hostname=HOST) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"


def test_the_end_of_the_server_is_the_end_of_the_connection(
    relay: RelayProcess, echo: Echo, certificate: Certificate
) -> None:
    echo.close()
    Path(echo.path).unlink()
    with connected(relay, certificate) as client, contextlib.suppress(ConnectionError):
        assert client.recv(1) == b"", "nobody listens there"


def test_signals_of_a_job_do_not_end_it_and_the_end_of_its_owner_does(echo: Echo) -> None:
    owner = subprocess.Popen([sys.executable, "-c", f"""
import time
from shusaku.common.tls.authority import RunAuthority
from shusaku.common.tls.relay_process import RelayProcess
print(RelayProcess(RunAuthority().issue({HOST!r}), {HOST!r}, {echo.path!r}).pid, flush=True)
time.sleep(60)
"""], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    process = psutil.Process(int(owner.stdout.readline()))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        process.send_signal(number)
    time.sleep(0.3)
    assert process.is_running()
    assert process.name() == relay_module.NAME
    assert "PRIVATE KEY" not in " ".join(process.cmdline())
    owner.kill()
    owner.wait()
    process.wait(10)


def test_a_port_that_is_taken_is_named(certificate: Certificate, echo: Echo) -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(OSError, match="Address already in use"):
        RelayProcess(certificate, HOST, echo.path, taken.getsockname()[1])


def test_certificates_are_backdated_and_show_no_key(certificate: Certificate) -> None:
    """By two days, so that a node whose clock is a day slow accepts them."""
    for pem in (certificate.certificate, certificate.authority):
        begin = x509.load_pem_x509_certificate(pem.encode()).not_valid_before_utc
        age = datetime.datetime.now(datetime.UTC) - begin
        assert datetime.timedelta(days=2) <= age < datetime.timedelta(days=2, hours=1)
    assert "PRIVATE" not in repr(certificate)
    assert "PRIVATE" in certificate.key
