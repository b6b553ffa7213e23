"""How a self-play actor reaches the inference servers: through shared memory on their host, through Ray calls else."""

import threading
import time
from collections import deque
from typing import Any

import ray

from shusaku.actors.inference.client import ServerUnavailable
from shusaku.actors.inference.server import InferenceServer
from shusaku.actors.inference.shm_client import SharedTransport
from shusaku.actors.inference.shm_server import SharedDoor
from shusaku.common.codec import CodecError
from shusaku.common.leaves_codec import LeavesCodec

TIMED_EVERY, TIMED_CALLS = 8, 500  # one Ray call in so many is timed; the percentiles are of the newest so many calls
SERVER_SECONDS = 5.0  # that a server may take over one call
DOOR_SECONDS = 5.0  # to learn where a server's door is
RETRY_SECONDS = 60.0  # until a door that failed is tried again


def open_door(server: InferenceServer) -> SharedDoor | None:
    """None where the system has no abstract sockets: clients call through Ray then."""
    try:
        return SharedDoor(server)
    except OSError:
        return None


class ServerTransport:
    """`actors.inference.client.Transport` to one of several inference servers, and to the next one when it fails.

    `attach` may be called by any thread, everything else by one.  A server's door that fails is not tried
    again for a minute; the server is called through Ray meanwhile.
    """

    def __init__(self, client: int, codec: LeavesCodec) -> None:
        """`client` numbers this actor; `codec` bounds the requests."""
        self._client, self._slot_bytes = client, codec.max_bytes
        self._servers: list[tuple[Any, str]] = []  # handle, address of its door or empty
        self._changed = threading.Condition()
        self._next = client  # actors are spread over the servers
        self._doors: dict[str, SharedTransport] = {}  # address -> connection
        self._failed_at: dict[str, float] = {}  # address -> when its door last failed
        self._way = "an inference server"  # how the last request went, for people
        self._seconds: deque[float] = deque(maxlen=TIMED_CALLS)  # that the newest of the timed calls took
        self._calls = 0

    def figures(self) -> dict[str, int | float | str]:
        """How servers are reached; milliseconds of a call, there and back: the median and the 99th percentile."""
        seconds = sorted(self._seconds.copy())
        if not seconds:
            return {"runtime": self._way}
        percentiles = {p: seconds[min(len(seconds) - 1, len(seconds) * p // 100)] for p in (50, 99)}
        return {"runtime": self._way, **{f"call_p{p}_ms": 1000 * value for p, value in percentiles.items()}}

    def attach(self, servers: list[Any]) -> None:
        """The servers from now on."""
        here = ray.get_runtime_context().get_node_id()
        known = [(server, _address(server, here)) for server in servers]
        with self._changed:
            self._servers = known
            self._changed.notify_all()

    def send(self, payload: bytes) -> Any:
        with self._changed:
            if not self._servers:
                self._changed.wait(1.0)
            if not self._servers:
                raise ServerUnavailable("no inference server is known")
            server, address = self._servers[self._next % len(self._servers)]
            known = {address for _, address in self._servers}
        self._forget_all_but(known)
        door = self._door(address)
        if door is not None:
            return door, door.send(payload)
        reference, sent = server.infer.remote(self._client, payload), time.monotonic()
        self._calls += 1
        if self._calls % TIMED_EVERY == 0:  # when the answer is here, not when somebody asks for it
            reference.future().add_done_callback(lambda _: self._seconds.append(time.monotonic() - sent))
        return reference, sent

    def receive(self, ticket: Any, timeout: float) -> bytes:
        where, what = ticket
        return self._from_door(where, what, timeout) if isinstance(where, SharedTransport) else (
            self._from_ray(where, what, timeout))

    def _from_door(self, door: SharedTransport, slot: int, timeout: float) -> bytes:
        try:
            return door.receive(slot, timeout)
        except ServerUnavailable:
            if not door.is_closed:  # the server refused this one; another may not
                self._next += 1
            raise

    def _from_ray(self, reference: Any, sent: float, timeout: float) -> bytes:
        try:
            answer: bytes = ray.get(reference, timeout=timeout)
            return answer
        except ray.exceptions.GetTimeoutError:
            if time.monotonic() - sent < 2 * SERVER_SECONDS:
                raise TimeoutError from None
            self._next += 1  # frozen: another one may answer
            raise ServerUnavailable(f"no answer for {2 * SERVER_SECONDS:.0f} s") from None
        except ray.exceptions.RayError as error:
            if isinstance(getattr(error, "cause", None), CodecError):
                raise  # a defect of ours, which no other server mends
            self._next += 1
            lines = str(error).strip().splitlines()
            raise ServerUnavailable(lines[-1] if lines else type(error).__name__) from None

    def _door(self, address: str) -> SharedTransport | None:
        """The open door at this address; None: call through Ray."""
        if not address:
            self._way = "an inference server, through Ray calls, for it is on another host or has no door"
            return None
        door = self._doors.get(address)
        if door is not None and not door.is_closed:
            return door
        now = time.monotonic()
        if door is not None:
            del self._doors[address]
            self._failed_at[address] = now
            self._way = "an inference server, through Ray calls, for its door closed"
        if now - self._failed_at.get(address, -RETRY_SECONDS) < RETRY_SECONDS:
            return None
        try:
            self._doors[address] = SharedTransport(
                address, self._client, self._slot_bytes, deadline=SERVER_SECONDS, note_seconds=self._seconds.append
            )
        except OSError as error:
            self._failed_at[address] = now
            self._way = f"an inference server, through Ray calls, for there is no shared memory: {error}"
            return None
        self._way = "an inference server, through shared memory"
        return self._doors[address]

    def _forget_all_but(self, known: set[str]) -> None:
        for address in self._doors.keys() - known:
            self._doors.pop(address).close()
        for address in self._failed_at.keys() - known:
            del self._failed_at[address]


def _address(server: Any, here: str) -> str:
    """Of the server's door, if it is on this node; empty where it is not, or does not say in time."""
    try:
        node, address = ray.get(server.door.remote(), timeout=DOOR_SECONDS)
    except (ray.exceptions.RayError, TimeoutError):
        return ""
    return address if node == here else ""
