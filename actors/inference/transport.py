"""How a self-play actor reaches the inference servers: shared memory on their host, TCP elsewhere, or Ray calls."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import ray

from shusaku.actors.inference.protocol import ServerUnavailableError
from shusaku.actors.inference.shm_client import SharedMemoryTransport
from shusaku.actors.inference.shm_segment import MAX_SLOT_BYTES, MAX_SLOTS
from shusaku.actors.inference.tcp_client import TcpTransport
from shusaku.actors.inference.tcp_handshake import TcpAddress
from shusaku.common._core import Game
from shusaku.common.codec import CodecError
from shusaku.common.leaves_codec import MAX_REQUEST_BYTES, LeavesCodec

TIMED_EVERY, TIMED_CALLS = 8, 500  # every 8th Ray call is timed; percentiles are of the newest 500 timed calls
CALLS = 4  # through Ray in flight: a group of games may need several
SERVER_SECONDS = 5.0  # that a server may take over one call
ADDRESS_SECONDS = 5.0  # to learn where a server listens
RETRY_SECONDS = 60.0  # until a way that failed is tried again
BY_RAY = "an inference server, through Ray calls"

Connection = SharedMemoryTransport | TcpTransport
_ROUTES = {SharedMemoryTransport: "an inference server, through shared memory",
           TcpTransport: "an inference server, through TCP"}
Way = str | TcpAddress  # address of shared memory | of another host


class Listeners(NamedTuple):
    """Where an inference server takes requests besides Ray calls."""

    node: str  # Ray's name of it
    memory: str  # address for clients of that node; empty: none
    tcp: TcpAddress | None  # for clients of other nodes


class ServerTransport:
    """`actors.inference.protocol.Transport` to one of several inference servers, and to the next one if it fails.

    Servers of the actor's own node are asked first; actors are spread over those that are equally near.  If a server
    fails, the next one is asked, and the first one again after RETRY_SECONDS; so too if one way to a server fails, of
    which Ray's calls are the last.  `attach` may be called by any thread, everything else by one.
    """

    def __init__(self, client: int, game: Game, groups: Sequence[int]) -> None:
        """`client`: the number of this actor; `groups`: games of each of its groups, which is a request at a time."""
        self._client, rows, self._own_slots = client, max(groups), min(MAX_SLOTS, len(groups))
        bound = LeavesCodec(game, MAX_SLOT_BYTES)
        self._call_bytes = LeavesCodec(game, MAX_REQUEST_BYTES).max_bytes
        whole = bound.rules.size(rows, rows * game.max_legal_actions)
        self._slot_bytes = max(self._call_bytes, min(whole, bound.max_bytes))
        self._servers: list[tuple[Any, tuple[Way, ...]]] = []  # actor handle, ways to it besides Ray, the best first
        self._changed = threading.Condition()
        self._place = 0  # of the server that is asked now
        self._moved_at = 0.0  # when the one before failed
        self._connections: dict[Way, Connection] = {}
        self._failed_at: dict[Way, float] = {}  # when it last failed
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
        with_ways = [(server, *_ways(server, node)) for server in servers]
        near, far = ([(server, ways) for server, is_near, ways in with_ways if is_near == wanted]
                     for wanted in (True, False))
        with self._changed:
            self._servers = _rotated(near, self._client) + _rotated(far, self._client)
            self._place = 0
            self._changed.notify_all()

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
        with self._changed:
            if not self._servers:
                self._changed.wait(1.0)
            if not self._servers:
                raise ServerUnavailableError("no inference server is known")
            if self._place and time.monotonic() - self._moved_at >= RETRY_SECONDS:
                self._place = 0
            server, ways = self._servers[self._place]
            known = {way for _, ways in self._servers for way in ways}
        self._drop_unknown(known)
        connection = self._connect(ways)
        if connection is not None:
            return connection, connection.send(payload)
        reference, sent = server.infer.remote(self._client, payload), time.monotonic()
        self._calls += 1
        if self._calls % TIMED_EVERY == 0:  # when the answer arrives, not when the caller asks for it
            reference.future().add_done_callback(lambda _: self._seconds.append(time.monotonic() - sent))
        return reference, sent

    def receive(self, ticket: Any, timeout: float) -> bytes:
        """The answer to a request; see `Transport`."""
        carrier, handle = ticket
        if isinstance(carrier, Connection):
            return self._receive_from(carrier, handle, timeout)
        return self._receive_from_ray(carrier, handle, timeout)

    def _has_connection(self) -> bool:
        with self._changed:
            ways = self._servers[self._place][1] if self._servers else ()
        return self._connect(ways) is not None

    def _receive_from(self, connection: Connection, ticket: int, timeout: float) -> bytes:
        try:
            return connection.receive(ticket, timeout)
        except ServerUnavailableError:
            if not connection.is_closed:  # the server refused this request; another server may accept it
                self._move()
            raise

    def _receive_from_ray(self, reference: Any, sent: float, timeout: float) -> bytes:
        try:
            answer: bytes = ray.get(reference, timeout=timeout)
            return answer
        except ray.exceptions.GetTimeoutError:
            if time.monotonic() - sent < 2 * SERVER_SECONDS:
                raise TimeoutError from None
            self._move()  # this server is stuck; another one may answer
            raise ServerUnavailableError(f"no answer for {2 * SERVER_SECONDS:.0f} s") from None
        except ray.exceptions.RayError as error:
            if isinstance(getattr(error, "cause", None), CodecError):
                raise  # a defect of the client, the same at every server
            self._move()
            lines = str(error).strip().splitlines()
            raise ServerUnavailableError(lines[-1] if lines else type(error).__name__) from None

    def _move(self) -> None:
        """To the next server."""
        with self._changed:
            self._place = (self._place + 1) % max(1, len(self._servers))
            self._moved_at = time.monotonic()

    def _connect(self, ways: tuple[Way, ...]) -> Connection | None:
        """The open connection by the best of these ways; None: call through Ray."""
        if not ways:
            self._route = f"{BY_RAY}, because it listens for nothing else"
            return None
        now = time.monotonic()
        for way in ways:
            connection = self._connections.get(way)
            if connection is not None and not connection.is_closed:
                self._route = _ROUTES[type(connection)]
                return connection
            if connection is not None:
                del self._connections[way]
                self._failed_at[way] = now
                self._route = f"{BY_RAY}, because its {_kind(way)} connection closed"
            if now - self._failed_at.get(way, -RETRY_SECONDS) < RETRY_SECONDS:
                continue
            try:
                self._connections[way] = self._open(way)
            except OSError as error:
                self._failed_at[way] = now
                self._route = f"{BY_RAY}, because there is no {_kind(way)}: {error}"
                continue
            self._route = _ROUTES[type(self._connections[way])]
            return self._connections[way]
        return None

    def _open(self, way: Way) -> Connection:
        """OSError if it cannot be reached."""
        if isinstance(way, TcpAddress):
            return TcpTransport(way, self._client, self._slot_bytes, deadline=SERVER_SECONDS, slots=self._own_slots,
                                record_seconds=self._seconds.append)
        return SharedMemoryTransport(way, self._client, self._slot_bytes, deadline=SERVER_SECONDS,
                                     slots=self._own_slots, record_seconds=self._seconds.append)

    def _drop_unknown(self, known: set[Way]) -> None:
        """Closes the connections to servers that are no longer attached."""
        for way in self._connections.keys() - known:
            self._connections.pop(way).close()
        for way in self._failed_at.keys() - known:
            del self._failed_at[way]


def _kind(way: Way) -> str:
    return "TCP" if isinstance(way, TcpAddress) else "shared memory"


def _rotated(servers: list[Any], by: int) -> list[Any]:
    places = range(len(servers))
    return [servers[(place + by) % len(servers)] for place in places]


def _ways(server: Any, node: str) -> tuple[bool, tuple[Way, ...]]:
    """Whether it is on this node, and the ways to it besides Ray calls, the best first; none if it does not answer."""
    try:
        listeners: Listeners = ray.get(server.listeners.remote(), timeout=ADDRESS_SECONDS)
    except (ray.exceptions.RayError, TimeoutError):
        return False, ()
    is_near = listeners.node == node
    memory = (listeners.memory,) if listeners.memory and is_near else ()
    return is_near, (*memory, *((listeners.tcp,) if listeners.tcp is not None else ()))
