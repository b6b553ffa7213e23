"""How a self-play actor reaches the inference servers: shared memory on their host, TCP elsewhere, or Ray calls."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import ray

from shusaku.actors.inference.protocol import (
    LONGEST_SERVER_SECONDS,
    SERVER_SECONDS,
    AnswerLateError,
    ServerUnavailableError,
)
from shusaku.actors.inference.shm_client import SharedMemoryTransport
from shusaku.actors.inference.shm_segment import MAX_SLOT_BYTES, MAX_SLOTS
from shusaku.actors.inference.tcp_client import TcpTransport
from shusaku.actors.inference.tcp_handshake import TcpAddress
from shusaku.common._core import Game
from shusaku.common.codec import CodecError
from shusaku.common.leaves_codec import MAX_REQUEST_BYTES, LeavesCodec

TIMED_EVERY, TIMED_CALLS = 8, 500  # every 8th Ray call is timed; percentiles are of the newest 500 timed calls
CALLS = 4  # through Ray in flight: a group of games may need several
ADDRESS_SECONDS = 5.0  # to learn where a server listens
RETRY_SECONDS = 60.0  # until a server, or a way to it, that failed is tried again; twice as long each time
LONGEST_RETRY_SECONDS = 3600.0  # a port that a firewall hides costs CONNECT_SECONDS each time
BY_RAY = "an inference server, through Ray calls"

Connection = SharedMemoryTransport | TcpTransport
_ROUTES = {SharedMemoryTransport: "an inference server, through shared memory",
           TcpTransport: "an inference server, through TCP"}
Way = str | TcpAddress  # address of shared memory | of another host


class _Server(NamedTuple):
    """A server, as an actor sees it."""

    handle: Any
    node: str  # Ray's name of it; empty: it has not said so
    ways: tuple[Way, ...]  # to it besides Ray, the best first


class _Failure(NamedTuple):
    """Of a way to a server."""

    at: float
    tries: int  # in a row

    def is_over(self, now: float) -> bool:
        """Whether the way is to be tried again."""
        return now - self.at >= min(RETRY_SECONDS * 2.0 ** (self.tries - 1), LONGEST_RETRY_SECONDS)


class _Call(NamedTuple):
    """Through Ray."""

    sent_at: float
    seconds: float  # that the server may take


class Listeners(NamedTuple):
    """Where an inference server takes requests besides Ray calls."""

    node: str  # Ray's name of it
    memory: str  # address for clients of that node; empty: none
    tcp: TcpAddress | None  # for clients of other nodes


class ServerTransport:
    """`actors.inference.protocol.Transport` to one of several inference servers, and to the next one if it fails.

    Servers of the actor's own node are asked first; actors are spread over those that are equally near.  If a server
    fails, the next one is asked, and the first one again after RETRY_SECONDS; so too if one way to a server fails, of
    which Ray's calls are the last, or if it does not say where it listens.  A server may take SERVER_SECONDS, twice as
    long after each late answer, and less again after quick ones.  `attach` may be called by any thread, everything else
    by one.
    """

    def __init__(self, client: int, game: Game, groups: Sequence[int]) -> None:
        """`client`: the number of this actor; `groups`: games of each of its groups, which is a request at a time."""
        self._client, rows, self._own_slots = client, max(groups), min(MAX_SLOTS, len(groups))
        bound = LeavesCodec(game, MAX_SLOT_BYTES)
        self._call_bytes = LeavesCodec(game, MAX_REQUEST_BYTES).max_bytes
        whole = bound.rules.size(rows, rows * game.max_legal_actions)
        self._slot_bytes = max(self._call_bytes, min(whole, bound.max_bytes))
        self._changed = threading.Condition()  # guards the next six
        self._known: list[_Server] = []  # in the order in which they were attached
        self._servers: list[_Server] = []  # in the order in which they are asked
        self._node = ""  # Ray's name of the actor's own
        self._place = 0  # of the server that is asked now
        self._moved_at = 0.0  # when the one before failed
        self._listeners_asked_at = 0.0  # of the servers that have not said where they listen
        self._server_seconds = SERVER_SECONDS  # that a server may take now
        self._connections: dict[Way, Connection] = {}
        self._failures: dict[Way, _Failure] = {}
        self._route = "an inference server"  # of the last request, as text for the user
        self._seconds: deque[float] = deque(maxlen=TIMED_CALLS)  # of the newest timed calls
        self._calls = 0

    def metrics(self) -> dict[str, int | float | str]:
        """How servers are reached, and the median and 99th percentile of a call's round trip in milliseconds."""
        seconds = sorted(self._seconds.copy())
        if not seconds:
            return {"runtime": self._route}
        percentiles = {p: seconds[min(len(seconds) - 1, len(seconds) * p // 100)] for p in (50, 99)}
        return {"runtime": self._route, **{f"call_p{p}_ms": 1000 * value for p, value in percentiles.items()}}

    def attach(self, servers: list[Any]) -> None:
        """Uses these servers from now on."""
        node = ray.get_runtime_context().get_node_id()
        known = [_ask_listeners(handle, node) or self._as_before(handle) for handle in servers]
        with self._changed:
            self._node, self._listeners_asked_at = node, time.monotonic()
            self._use(known)
            self._changed.notify_all()

    def _use(self, known: list[_Server]) -> None:
        """Asks these servers from now on, the nearest first; under the lock."""
        self._known = known
        near, far = ([server for server in known if (server.node == self._node) == wanted] for wanted in (True, False))
        nodes = len({server.node for server in known if server.node})
        # Actors are spread over nodes by their number, so those of one node have every n-th.
        self._servers = _rotated(near, self._client // max(1, nodes)) + _rotated(far, self._client)
        self._place = 0

    def _as_before(self, handle: Any) -> _Server:
        """What was known of a server that does not answer just now; each call of `attach` brings handles of its own."""
        with self._changed:
            return next((server for server in self._known if server.handle == handle), _Server(handle, "", ()))

    def _ask_unknown(self) -> None:
        """Asks servers again that have not said where they listen, without waiting for their answers."""
        with self._changed:
            now = time.monotonic()
            unknown = [server.handle for server in self._known if not server.node]
            if not unknown or now - self._listeners_asked_at < RETRY_SECONDS:
                return
            self._listeners_asked_at = now
        for handle in unknown:
            handle.listeners.remote().future().add_done_callback(partial(self._learn, handle))

    def _learn(self, handle: Any, answer: "Future[Listeners]") -> None:
        """Where a server listens, as it has said now."""
        if answer.exception() is not None:
            return
        with self._changed:
            server = _server_of(handle, answer.result(), self._node)
            if any(one.handle == handle and not one.node for one in self._known):
                self._use([server if one.handle == handle else one for one in self._known])

    @property
    def max_bytes(self) -> int:
        """What a connection carries, or a Ray call; see `Transport`."""
        return self._slot_bytes if self._has_connection() else self._call_bytes

    @property
    def slots(self) -> int:
        """Requests that may be in flight; see `Transport`."""
        return self._own_slots if self._has_connection() else CALLS

    def send(self, payload: bytes) -> Any:
        """Sends a request to the current server; see `Transport`."""
        self._ask_unknown()
        with self._changed:
            if not self._servers:
                self._changed.wait(1.0)
            if not self._servers:
                raise ServerUnavailableError("no inference server is known")
            if self._place and time.monotonic() - self._moved_at >= RETRY_SECONDS:
                self._place = 0
            server = self._servers[self._place]
            known = {way for server in self._servers for way in server.ways}
        self._drop_unknown(known)
        connection = self._connect(server.ways)
        if connection is not None:
            connection.deadline = self._server_seconds
            return server.handle, connection, connection.send(payload)
        call = _Call(time.monotonic(), self._server_seconds)
        reference = server.handle.infer.remote(self._client, payload, call.seconds)
        self._calls += 1
        if self._calls % TIMED_EVERY == 0:  # when the answer arrives, not when the caller asks for it
            reference.future().add_done_callback(lambda _: self._seconds.append(time.monotonic() - call.sent_at))
        return server.handle, reference, call

    def receive(self, ticket: Any, timeout: float) -> bytes:
        """The answer to a request; see `Transport`."""
        server, carrier, what = ticket
        try:
            if isinstance(carrier, Connection):
                return carrier.receive(what, timeout)
            return self._receive_from_ray(carrier, what, timeout)
        except ServerUnavailableError as error:
            if isinstance(carrier, Connection):
                is_late, seconds = carrier.was_late, carrier.deadline
            else:
                is_late, seconds = isinstance(error, AnswerLateError), what.seconds
            if is_late:  # all that was in flight is late together, and counts once
                self._server_seconds = max(self._server_seconds, min(2 * seconds, LONGEST_SERVER_SECONDS))
            # The end of a connection has another way to this server; a refusal, or silence, is for another server.
            if not isinstance(carrier, Connection) or not carrier.is_closed or is_late:
                self._leave(server)
            raise

    def _has_connection(self) -> bool:
        with self._changed:
            ways = self._servers[self._place].ways if self._servers else ()
        return self._connect(ways) is not None

    def _receive_from_ray(self, reference: Any, call: _Call, timeout: float) -> bytes:
        try:
            answer: bytes = ray.get(reference, timeout=timeout)
        except ray.exceptions.GetTimeoutError:
            if time.monotonic() - call.sent_at < 2 * call.seconds:
                raise TimeoutError from None
            raise AnswerLateError(f"no answer for {2 * call.seconds:.0f} s") from None
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, CodecError):
                raise  # a defect of the client, the same at every server
            lines = str(error).strip().splitlines()
            kind = AnswerLateError if isinstance(cause, AnswerLateError) else ServerUnavailableError
            raise kind(lines[-1] if lines else type(error).__name__) from None
        self._be_patient(time.monotonic() - call.sent_at)
        return answer

    def _record_seconds(self, seconds: float) -> None:
        """What a call through a connection took."""
        self._seconds.append(seconds)
        self._be_patient(seconds)

    def _be_patient(self, seconds: float) -> None:
        """With a server whose newest answer took so long."""
        if 4 * seconds < self._server_seconds:
            self._server_seconds = max(SERVER_SECONDS, self._server_seconds / 2)

    def _leave(self, server: Any) -> None:
        """To the next server, if this one is still the one that is asked."""
        with self._changed:
            if self._servers and self._servers[self._place].handle == server:
                self._place = (self._place + 1) % len(self._servers)
                self._moved_at = time.monotonic()

    def _connect(self, ways: tuple[Way, ...]) -> Connection | None:
        """The open connection by the best of these ways; None: call through Ray."""
        if not ways:
            self._route = f"{BY_RAY}, because it listens for nothing else"
            return None
        for place, way in enumerate(ways):
            connection = self._connections.get(way)
            if connection is not None and connection.is_closed:
                del self._connections[way]
                self._fail(way, f"because its {_kind(way)} connection closed")
                connection = None
            if connection is None and (way not in self._failures or self._failures[way].is_over(time.monotonic())):
                try:
                    connection = self._connections[way] = self._open(way)
                    self._failures.pop(way, None)
                    self._close_idle(ways[place + 1:])
                except OSError as error:
                    self._fail(way, f"because there is no {_kind(way)}: {error}")
            if connection is not None:
                self._route = _ROUTES[type(connection)]
                return connection
        return None

    def _fail(self, way: Way, why: str) -> None:
        tries = self._failures[way].tries if way in self._failures else 0
        self._failures[way] = _Failure(time.monotonic(), tries + 1)
        self._route = f"{BY_RAY}, {why}"

    def _close_idle(self, ways: tuple[Way, ...]) -> None:
        """Connections that a better one has replaced, unless an answer is on its way there."""
        for way in ways:
            connection = self._connections.get(way)
            if connection is not None and connection.is_idle:
                self._connections.pop(way).close()

    def _open(self, way: Way) -> Connection:
        """OSError if it cannot be reached."""
        if isinstance(way, TcpAddress):
            return TcpTransport(way, self._client, self._slot_bytes, deadline=self._server_seconds,
                                slots=self._own_slots, record_seconds=self._record_seconds)
        return SharedMemoryTransport(way, self._client, self._slot_bytes, deadline=self._server_seconds,
                                     slots=self._own_slots, record_seconds=self._record_seconds)

    def _drop_unknown(self, known: set[Way]) -> None:
        """Closes the connections to servers that are no longer attached."""
        for way in self._connections.keys() - known:
            self._connections.pop(way).close()
        for way in self._failures.keys() - known:
            del self._failures[way]


def _kind(way: Way) -> str:
    return "TCP" if isinstance(way, TcpAddress) else "shared memory"


def _rotated(servers: list[Any], by: int) -> list[Any]:
    places = range(len(servers))
    return [servers[(place + by) % len(servers)] for place in places]


def _ask_listeners(handle: Any, node: str) -> _Server | None:
    """The server with the ways that lead there from this node; None if it does not answer in time."""
    try:
        return _server_of(handle, ray.get(handle.listeners.remote(), timeout=ADDRESS_SECONDS), node)
    except (ray.exceptions.RayError, TimeoutError):
        return None


def _server_of(handle: Any, found: Listeners, node: str) -> _Server:
    """The server that listens there, with the ways that lead there from this node."""
    memory = (found.memory,) if found.memory and found.node == node else ()
    return _Server(handle, found.node, (*memory, *((found.tcp,) if found.tcp is not None else ())))
