"""The TCP listener: its answers are the evaluator's, strangers are turned away, and no wait outlives the other side."""

import socket
import struct
import sys
import threading
import time
from contextlib import AbstractContextManager

import inference_fixtures
import numpy as np
import psutil
import pytest
from inference_fixtures import CODEC, Scripted, eventually, leaves_of, listening

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.inference import listener as listener_module
from shusaku.actors.inference.protocol import ServerUnavailableError
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.tcp_client import TcpTransport
from shusaku.actors.inference.tcp_handshake import GREETING, REPLY, REQUEST_HEAD, TcpAddress, new_nonce, proof
from shusaku.actors.inference.tcp_server import TcpServer
from shusaku.common.leaves_codec import decode_evaluation, to_half
from shusaku.common.tls.authority import RunAuthority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the listener is Linux's")
HOST = "127.0.0.1"


def a_listener(**settings: object) -> AbstractContextManager[tuple[InferenceServer, dict[int, Scripted], TcpServer]]:
    return listening(lambda server: TcpServer(server, HOST), **settings)


def client_of(listener: TcpServer, client: int = 0, slots: int = 2, deadline: float = 10.0) -> TcpTransport:
    return TcpTransport(listener.address, client, CODEC.max_bytes, deadline=deadline, slots=slots)


def read(connection: socket.socket, size: int) -> bytes:
    """Exactly so many bytes; MSG_WAITALL does not wait on a socket with a time-out."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part, "the stream has ended"
        data += part
    return data


def shaken(address: TcpAddress, client: int = 7) -> socket.socket:
    """A connection after its handshake, to write to by hand."""
    connection = socket.create_connection((address.host, address.port), 5)
    _, server_nonce = GREETING.unpack(read(connection, GREETING.size))
    nonce = new_nonce()
    connection.sendall(REPLY.pack(b"SHUSTCP1", client, nonce, proof(address.token, "client", server_nonce, nonce,
                                                                    client)))
    assert len(read(connection, 32)) == 32
    return connection


def is_ended(connection: socket.socket) -> bool:
    """Whether the other side ends the stream within some seconds."""
    connection.settimeout(10)
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def test_several_are_under_way_and_may_be_received_in_any_order() -> None:
    requests = [leaves_of(3 + k, seed=k) for k in range(16)]
    with a_listener() as (_, evaluators, listener):
        transport = client_of(listener, slots=16)
        evaluators[64].free.clear()
        tickets = [transport.send(CODEC.encode(leaves)) for leaves in requests]
        with pytest.raises(TimeoutError):
            transport.receive(tickets[5], 0.05)
        evaluators[64].free.set()
        for ticket, leaves in reversed(list(zip(tickets, requests, strict=True))):
            answer = decode_evaluation(transport.receive(ticket, 10), len(leaves), len(leaves.actions))
            expected = to_half(PseudoRandomEvaluator(inference_fixtures.GAME, 99)(leaves).logits).astype(np.float32)
            np.testing.assert_array_equal(answer.logits, expected)
        transport.close()


def test_a_request_may_come_in_pieces() -> None:
    """Byte by byte, two in one piece, and one and a half."""
    payload = CODEC.encode(leaves_of(5))
    frame = REQUEST_HEAD.pack(len(payload), 1) + payload
    with a_listener() as (_, _, listener), shaken(listener.address) as connection:
        for k in range(len(frame)):
            connection.sendall(frame[k : k + 1])
        answers = [read(connection, 12)]
        size = struct.unpack("<III", answers[0])[0]
        first = read(connection, size)
        connection.sendall(frame + frame[:20])
        connection.sendall(frame[20:])
        for _ in range(2):
            size, ticket, outcome = struct.unpack("<III", read(connection, 12))
            assert (ticket, outcome) == (1, 1)
            assert read(connection, size) == first


def test_a_client_that_reads_late_gets_every_answer() -> None:
    """The answers wait for room in its socket, and nobody waits for it."""
    leaves = leaves_of(600)
    payload = CODEC.encode(leaves)
    with a_listener(sizes=(64, 1024)) as (_, _, listener), shaken(listener.address) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for ticket in range(16):
            slow.sendall(REQUEST_HEAD.pack(len(payload), ticket) + payload)
        other = client_of(listener, 1)
        for _ in range(5):
            assert other.receive(other.send(CODEC.encode(leaves_of(2))), 10)
        other.close()
        bodies = []
        for _ in range(16):
            size, _, outcome = struct.unpack("<III", read(slow, 12))
            assert outcome == 1
            bodies.append(read(slow, size))
        assert len(set(bodies)) == 1
        assert len(bodies[0]) == 16 + 2 * (600 + len(leaves.actions))


# --- strangers and nonsense ----


def test_who_does_not_know_the_token_is_turned_away() -> None:
    with a_listener() as (_, _, listener):
        wrong = listener.address._replace(token="0" * 64)
        with pytest.raises(OSError, match="did not accept the client"):
            TcpTransport(wrong, 0, CODEC.max_bytes, deadline=5)
        assert listener.address.token not in f"{listener.address} {listener.address!r}"
        friend = client_of(listener)
        assert friend.receive(friend.send(CODEC.encode(leaves_of(2))), 10)
        friend.close()


def test_another_server_is_not_taken_for_this_one() -> None:
    """Whoever listens there now does not know the token."""
    with socket.create_server((HOST, 0)) as impostor:
        def pretend() -> None:
            client, _ = impostor.accept()
            with client:
                client.sendall(GREETING.pack(b"SHUSTCP1", new_nonce()))
                read(client, REPLY.size)
                client.sendall(bytes(32))
                client.recv(1)

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(OSError, match="another inference server"):
            TcpTransport(TcpAddress(HOST, impostor.getsockname()[1], "x"), 0, 1000, deadline=5)
        thread.join(10)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n" * 9, b"\x00" * REPLY.size, b"", b"\x16\x03\x01"])
def test_nonsense_in_the_place_of_a_handshake_ends_the_connection(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "HANDSHAKE_SECONDS", 0.3)
    with a_listener() as (_, _, listener):
        with socket.create_connection((HOST, listener.address.port)) as stranger:
            stranger.sendall(said)
            assert is_ended(stranger), "also if it says too little, or nothing"
        assert eventually(lambda: listener.connections == 0)
        assert listener.is_alive


def test_strangers_that_wait_do_not_keep_clients_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of them gives way, and none stays for long."""
    monkeypatch.setattr(listener_module, "HANDSHAKE_SECONDS", 2.0)
    monkeypatch.setattr(listener_module, "MAX_ARRIVING", 20)
    with a_listener() as (_, _, listener):
        strangers = [socket.create_connection((HOST, listener.address.port)) for _ in range(50)]
        assert eventually(lambda: listener.connections == 20)
        friend = client_of(listener)
        assert friend.receive(friend.send(CODEC.encode(leaves_of(2))), 10)
        assert eventually(lambda: listener.connections == 1)
        friend.close()
        for stranger in strangers:
            stranger.close()


def test_a_stranger_that_gave_way_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look finds a new client and, after it, a byte of the oldest stranger, which gives way to that client."""
    monkeypatch.setattr(listener_module, "MAX_ARRIVING", 4)
    greet, entered, free = TcpServer._greet, threading.Event(), threading.Event()

    def wait_and_greet(server: TcpServer, client: socket.socket) -> bytes | None:
        if entered.is_set():
            return greet(server, client)
        entered.set()
        assert free.wait(10)
        return greet(server, client)

    with a_listener() as (_, _, listener):
        strangers = [socket.create_connection((HOST, listener.address.port)) for _ in range(4)]
        assert eventually(lambda: listener.connections == 4)
        monkeypatch.setattr(TcpServer, "_greet", wait_and_greet)
        strangers += [socket.create_connection((HOST, listener.address.port)) for _ in range(2)]
        assert entered.wait(10)
        for stranger in strangers[1:]:
            stranger.sendall(b"x")
        free.set()
        assert is_ended(strangers[0])
        assert is_ended(strangers[1])
        friend = client_of(listener)
        assert friend.receive(friend.send(CODEC.encode(leaves_of(2))), 10)
        assert listener.is_alive
        friend.close()
        for stranger in strangers:
            stranger.close()


@pytest.mark.parametrize("head", [REQUEST_HEAD.pack(0, 1), REQUEST_HEAD.pack(0xFFFFFFFF, 1),
                                  REQUEST_HEAD.pack(1 << 30, 1)])
def test_a_frame_of_an_impossible_size_ends_the_connection(head: bytes) -> None:
    with a_listener() as (_, _, listener), shaken(listener.address) as connection:
        connection.sendall(head)
        assert is_ended(connection)
        assert eventually(lambda: listener.connections == 0)


def test_more_requests_than_may_be_under_way_end_the_connection() -> None:
    payload = CODEC.encode(leaves_of(1))
    with a_listener() as (_, evaluators, listener), shaken(listener.address) as connection:
        evaluators[64].free.clear()
        for ticket in range(17):
            connection.sendall(REQUEST_HEAD.pack(len(payload), ticket) + payload)
        assert is_ended(connection)
        evaluators[64].free.set()
        assert eventually(lambda: listener.connections == 0)


def test_a_client_that_asks_on_without_reading_is_disconnected() -> None:
    """Its answers would fill the server's memory."""
    leaves = leaves_of(600)
    payload = CODEC.encode(leaves)
    with a_listener(sizes=(64, 1024)) as (_, _, listener), shaken(listener.address) as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.settimeout(10)

        def ask_on() -> None:
            for ticket in range(100_000):
                greedy.sendall(REQUEST_HEAD.pack(len(payload), ticket % 16) + payload)
                time.sleep(0.001)  # so that it never has 17 requests under way

        with pytest.raises(ConnectionError):
            ask_on()
        assert eventually(lambda: listener.connections == 0)


# --- TLS ----


def test_an_encrypted_listener_answers_clients_that_know_its_authority() -> None:
    certificate = RunAuthority().issue("inference-0")
    with listening(lambda server: TcpServer(server, HOST, certificate=certificate)) as (_, _, listener):
        assert (listener.address.host, listener.address.name) == (HOST, "inference-0")
        assert "CERTIFICATE" not in repr(listener.address)
        friend = client_of(listener)
        tickets = [friend.send(CODEC.encode(leaves_of(50, seed=k))) for k in range(2)]
        for k, ticket in enumerate(tickets):
            answer = decode_evaluation(friend.receive(ticket, 10), 50, len(leaves_of(50, seed=k).actions))
            expected = to_half(PseudoRandomEvaluator(inference_fixtures.GAME, 99)(leaves_of(50, seed=k)).logits)
            np.testing.assert_array_equal(answer.logits, expected.astype(np.float32))
        for wrong in (listener.address._replace(name="inference-1"),
                      listener.address._replace(authority=RunAuthority().certificate),
                      listener.address._replace(authority="", name=""),
                      listener.address._replace(token="0" * 64)):
            with pytest.raises(OSError):  # noqa: PT011 - of TLS, of the end of the stream, of the handshake
                TcpTransport(wrong, 1, CODEC.max_bytes, deadline=5)
        assert friend.receive(friend.send(CODEC.encode(leaves_of(2))), 10)
        relay = next(child for child in psutil.Process().children() if child.name() == "shusaku-tls")
        relay.kill()
        assert eventually(lambda: not listener.is_alive), "the server's actor ends, and the supervisor starts another"
        with pytest.raises(ServerUnavailableError):
            friend.receive(friend.send(CODEC.encode(leaves_of(2))), 10)


def test_answers_wait_behind_tls_as_without() -> None:
    """TimeoutError leaves the connection usable, and half an answer stays for the next look."""
    certificate = RunAuthority().issue("inference-0")
    with listening(lambda server: TcpServer(server, HOST, certificate=certificate)) as (_, evaluators, listener):
        friend = client_of(listener)
        evaluators[64].free.clear()
        ticket = friend.send(CODEC.encode(leaves_of(3)))
        with pytest.raises(TimeoutError):
            friend.receive(ticket, 0.1)
        evaluators[64].free.set()
        assert friend.receive(ticket, 10)
        friend.close()
