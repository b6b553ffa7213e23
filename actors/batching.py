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
    """Run when the largest batch is full, when a third of the live clients wait, or when the oldest has waited."""

    largest: int  # positions of a full batch
    deadline_s: float  # that a request waits at most for others to join it

    def seconds_left(self, positions: int, requests: int, clients: int, waited: float) -> float:
        """How long to gather on, at most; 0: run now.  `waited` is what the oldest request has waited, in seconds."""
        if positions >= self.largest or requests >= max(1, clients // 3):
            return 0.0
        return max(0.0, self.deadline_s - waited)


def smallest_fitting(sizes: list[int], positions: int) -> int:
    """The smallest of the ascending sizes that holds so many positions; the largest where none does."""
    return next((size for size in sizes if size >= positions), sizes[-1])
