"""When an inference server stops gathering and runs: the rule alone, without clock, threads or requests."""

from collections import OrderedDict
from dataclasses import dataclass

MAX_CLIENTS = 65_536  # remembered at most; the one heard of longest ago is forgotten first


class LiveClients:
    """How many different clients were heard of in the last `seconds`, so that nobody waits for a dead one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._heard: OrderedDict[int, float] = OrderedDict()  # client -> when, oldest first

    def hear(self, client: int, now: float) -> None:
        self._heard[client] = now
        self._heard.move_to_end(client)
        if len(self._heard) > MAX_CLIENTS:
            self._heard.popitem(last=False)

    def count(self, now: float) -> int:
        heard = self._heard
        while heard and now - next(iter(heard.values())) > self._seconds:
            heard.popitem(last=False)
        return len(heard)


@dataclass(frozen=True, slots=True)
class FireRule:
    """Run when the largest batch is full, when enough of the live clients wait, or when the oldest has waited.

    A client has two requests on their way.  Where nothing runs, a third of the clients is enough; while a card is busy
    with the batch before, a larger one costs nothing: two thirds are, so that a third of all requests is computed, a
    third is queued behind it and a third is being searched.
    """

    largest: int  # positions of a full batch
    deadline_s: float  # that a request waits at most for others to join it

    def seconds_left(
        self, positions: int, requests: int, clients: int, waited: float, *, is_busy: bool = False
    ) -> float:
        """How long to gather on, at most; 0: run now.  `waited` is what the oldest request has waited, in seconds."""
        enough = 2 * clients // 3 if is_busy else clients // 3
        if positions >= self.largest or requests >= max(1, enough):
            return 0.0
        return max(0.0, self.deadline_s - waited)


def smallest_fitting(sizes: list[int], positions: int) -> int:
    """The smallest of the ascending sizes that holds so many positions; the largest where none does."""
    return next((size for size in sizes if size >= positions), sizes[-1])
