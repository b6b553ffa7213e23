"""When an inference server stops gathering and runs a batch: the rule alone, without clock, threads or requests."""

from collections import OrderedDict
from dataclasses import dataclass

MAX_CLIENTS = 65_536  # that are tracked; beyond it the client with the oldest request is dropped


class LiveClients:
    """How many clients sent a request in the last `seconds`, so that a server does not wait for a dead client."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last_request: OrderedDict[int, float] = OrderedDict()  # client -> time, oldest first

    def record(self, client: int, now: float) -> None:
        """Records a request of this client."""
        self._last_request[client] = now
        self._last_request.move_to_end(client)
        if len(self._last_request) > MAX_CLIENTS:
            self._last_request.popitem(last=False)

    def count(self, now: float) -> int:
        """How many clients are live."""
        last = self._last_request
        while last and now - next(iter(last.values())) > self._seconds:
            last.popitem(last=False)
        return len(last)


@dataclass(frozen=True, slots=True)
class FireRule:
    """Run when the largest batch is full, when enough live clients wait, or when the oldest request has waited enough.

    A client has two requests in flight.  If the device is idle, a third of the clients is enough.  While it computes
    the batch before, a larger one costs nothing: two thirds are needed then, so that a third of all requests is
    computed, a third is queued behind it and a third is being searched.
    """

    largest: int  # positions of a full batch
    deadline_s: float  # a request waits at most this long for others to join it

    def seconds_left(
        self, positions: int, requests: int, clients: int, waited: float, *, is_busy: bool = False
    ) -> float:
        """How long to keep gathering, at most; 0: run now.  `waited`: seconds that the oldest request has waited."""
        enough = 2 * clients // 3 if is_busy else clients // 3
        if positions >= self.largest or requests >= max(1, enough):
            return 0.0
        return max(0.0, self.deadline_s - waited)


def smallest_fitting(sizes: list[int], positions: int) -> int:
    """The smallest of the ascending sizes that holds this many positions; the largest if none does."""
    return next((size for size in sizes if size >= positions), sizes[-1])
