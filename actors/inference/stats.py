"""What an inference server counts, and the statistics made of it."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

RATE_SECONDS = 10.0  # rates are of this time
SERVER_FAULTS = {  # totals of ServerStats that should stay 0 -> their unit
    "refused": "requests refused", "failed": "requests failed", "non_finite": "answers not finite",
    "stale_weights": "stale weights",
}
HISTORY = 4096  # batches that the statistics look back at, at most; as many requests


@dataclass(frozen=True, slots=True)
class ServerStats:
    """Statistics of a server.  Totals are since it was made; rates and waits are of the last seconds."""

    version: int  # of the weights that answer; -1: none yet
    rows: int  # positions answered
    batches: int
    rows_per_s: float
    rows_per_batch: float
    wait_p50_ms: float  # from a request's arrival to its answer
    wait_p99_ms: float
    idle_share: float  # of the time in which no batch ran
    busy_seconds: float  # total time in which a batch ran
    clients: int  # that sent a request in the last LIVE_SECONDS
    waiting: int  # requests in the queue now
    refused: int  # requests: closed, queue full, late, no weights, bad payload
    failed: int  # requests whose batch failed in the evaluator
    non_finite: int  # positions whose answer held a number that is not finite
    stale_weights: int  # publications ignored because newer ones had come
    batch_p99_ms: float = 0.0  # of the time that a batch takes, from the end of the one before if they overlap


class ServerCounters:
    """What the queue does not count; written by every thread of a server, under the server's lock."""

    def __init__(self, now: float) -> None:
        self.stale_weights = 0
        self._batches: deque[tuple[float, float, int]] = deque(maxlen=HISTORY)  # begin, end, positions
        self._started_at = self._last_end = now
        self._busy = 0.0  # seconds

    def record_batch(self, begin: float, end: float, rows: int) -> None:
        """Counts an answered batch; if several overlap, each is charged from the end of the one before."""
        begin, self._last_end = max(begin, self._last_end), end
        self._busy += end - begin
        self._batches.append((begin, end, rows))

    def copy(self) -> Self:
        """A copy that can be read without the lock."""
        copy = type(self)(self._started_at)
        copy.stale_weights = self.stale_weights
        copy._batches.extend(self._batches)
        copy._busy = self._busy
        return copy

    def stats(
        self, now: float, totals: Mapping[str, int], waits: NDArray[np.float32], *, version: int, clients: int,
        waiting: int,
    ) -> ServerStats:
        """The statistics at this time: with totals and seconds of the queue, and what the server itself knows."""
        since = max(self._started_at, now - RATE_SECONDS)
        if len(self._batches) == HISTORY:
            since = max(since, self._batches[0][0])
        recent = [batch for batch in self._batches if batch[1] > since]
        rows = sum(rows for _, _, rows in recent)
        busy = sum(end - max(begin, since) for begin, end, _ in recent)
        seconds = max(now - since, 1e-9)
        batch_p99 = float(np.percentile([end - begin for begin, end, _ in recent], 99)) if recent else 0.0
        p50, p99 = np.percentile(waits, (50, 99)).tolist() if len(waits) else (0.0, 0.0)
        return ServerStats(
            version=version, **totals, rows_per_s=rows / seconds, rows_per_batch=rows / max(1, len(recent)),
            wait_p50_ms=1000 * p50, wait_p99_ms=1000 * p99, idle_share=max(0.0, 1 - busy / seconds),
            busy_seconds=self._busy, clients=clients, waiting=waiting, stale_weights=self.stale_weights,
            batch_p99_ms=1000 * batch_p99,
        )
