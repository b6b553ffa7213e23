"""How a self-play actor reaches the inference servers: through shared memory on their host, otherwise Ray calls."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import ray

from shusaku.actors.inference.protocol import ServerUnavailableError
from shusaku.actors.inference.shm_client import SharedMemoryTransport
from shusaku.actors.inference.shm_segment import MAX_SLOT_BYTES, MAX_SLOTS
from shusaku.common._core import Game
from shusaku.common.codec import CodecError
from shusaku.common.leaves_codec import MAX_REQUEST_BYTES, LeavesCodec

TIMED_EVERY, TIMED_CALLS = 8, 500  # every 8th Ray call is timed; percentiles are of the newest 500 timed calls
CALLS = 4  # through Ray in flight: a group of games may need several
SERVER_SECONDS = 5.0  # that a server may take over one call
ADDRESS_SECONDS = 5.0  # to learn the address of a server's shared memory
RETRY_SECONDS = 60.0  # until shared memory that failed is tried again


class ServerTransport:
    """`actors.inference.protocol.Transport` to one of several inference servers, and to the next one if it fails.

    `attach` may be called by any thread, everything else by one.  If shared memory with a server fails, the server is
    called through Ray and shared memory is tried again after RETRY_SECONDS.
    """

    def __init__(self, client: int, game: Game, groups: Sequence[int]) -> None:
        """`client`: the number of this actor; `groups`: games of each of its groups, which is a request at a time."""
        self._client, rows, self._memory_slots = client, max(groups), min(MAX_SLOTS, len(groups))
        bound = LeavesCodec(game, MAX_SLOT_BYTES)
        self._call_bytes = LeavesCodec(game, MAX_REQUEST_BYTES).max_bytes
        whole = bound.rules.size(rows, rows * game.max_legal_actions)
        self._slot_bytes = max(self._call_bytes, min(whole, bound.max_bytes))
        self._servers: list[tuple[Any, str]] = []  # actor handle, address of its shared memory or empty
        self._changed = threading.Condition()
        self._next = client  # actors are spread over the servers
        self._connections: dict[str, SharedMemoryTransport] = {}  # by address
        self._failed_at: dict[str, float] = {}  # address -> when its shared memory last failed
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
        with_addresses = [(server, _local_address(server, node)) for server in servers]
        with self._changed:
            self._servers = with_addresses
            self._changed.notify_all()

    @property
    def max_bytes(self) -> int:
        """What shared memory holds, or what a Ray call carries; see `Transport`."""
        return self._slot_bytes if self._has_memory() else self._call_bytes

    @property
    def slots(self) -> int:
        """Requests that may be in flight; see `Transport`."""
        return self._memory_slots if self._has_memory() else CALLS

    def send(self, payload: bytes) -> Any:
        """Sends a request to the current server; see `Transport`."""
        with self._changed:
            if not self._servers:
                self._changed.wait(1.0)
            if not self._servers:
                raise ServerUnavailableError("no inference server is known")
            server, address = self._servers[self._next % len(self._servers)]
            known = {address for _, address in self._servers}
        self._drop_unknown(known)
        connection = self._connect(address)
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
        if isinstance(carrier, SharedMemoryTransport):
            return self._receive_from_memory(carrier, handle, timeout)
        return self._receive_from_ray(carrier, handle, timeout)

    def _has_memory(self) -> bool:
        with self._changed:
            address = self._servers[self._next % len(self._servers)][1] if self._servers else ""
        return bool(address) and self._connect(address) is not None

    def _receive_from_memory(self, connection: SharedMemoryTransport, slot: int, timeout: float) -> bytes:
        try:
            return connection.receive(slot, timeout)
        except ServerUnavailableError:
            if not connection.is_closed:  # the server refused this request; another server may accept it
                self._next += 1
            raise

    def _receive_from_ray(self, reference: Any, sent: float, timeout: float) -> bytes:
        try:
            answer: bytes = ray.get(reference, timeout=timeout)
            return answer
        except ray.exceptions.GetTimeoutError:
            if time.monotonic() - sent < 2 * SERVER_SECONDS:
                raise TimeoutError from None
            self._next += 1  # this server is stuck; another one may answer
            raise ServerUnavailableError(f"no answer for {2 * SERVER_SECONDS:.0f} s") from None
        except ray.exceptions.RayError as error:
            if isinstance(getattr(error, "cause", None), CodecError):
                raise  # a defect of the client, the same at every server
            self._next += 1
            lines = str(error).strip().splitlines()
            raise ServerUnavailableError(lines[-1] if lines else type(error).__name__) from None

    def _connect(self, address: str) -> SharedMemoryTransport | None:
        """The open connection to this address; None: call through Ray."""
        if not address:
            self._route = ("an inference server, through Ray calls, because it is on another host or has no shared "
                           "memory")
            return None
        connection = self._connections.get(address)
        if connection is not None and not connection.is_closed:
            return connection
        now = time.monotonic()
        if connection is not None:
            del self._connections[address]
            self._failed_at[address] = now
            self._route = "an inference server, through Ray calls, because its shared-memory connection closed"
        if now - self._failed_at.get(address, -RETRY_SECONDS) < RETRY_SECONDS:
            return None
        try:
            self._connections[address] = SharedMemoryTransport(
                address, self._client, self._slot_bytes, deadline=SERVER_SECONDS, slots=self._memory_slots,
                record_seconds=self._seconds.append,
            )
        except OSError as error:
            self._failed_at[address] = now
            self._route = f"an inference server, through Ray calls, because there is no shared memory: {error}"
            return None
        self._route = "an inference server, through shared memory"
        return self._connections[address]

    def _drop_unknown(self, known: set[str]) -> None:
        """Closes the connections to servers that are no longer attached."""
        for address in self._connections.keys() - known:
            self._connections.pop(address).close()
        for address in self._failed_at.keys() - known:
            del self._failed_at[address]


def _local_address(server: Any, node: str) -> str:
    """The address of the server's shared memory; empty if it is on another node or does not answer in time."""
    try:
        server_node, address = ray.get(server.shared_memory.remote(), timeout=ADDRESS_SECONDS)
    except (ray.exceptions.RayError, TimeoutError):
        return ""
    return address if server_node == node else ""
