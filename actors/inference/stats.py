"""What an inference server counts, and the statistics made of it."""

from collections import Counter, deque
from dataclasses import dataclass
from typing import Self

import numpy as np

RATE_SECONDS = 10.0  # rates are of this time
SERVER_FAULTS = {  # totals of ServerStats that should stay 0 -> their unit
    "refused": "requests refused", "failed": "requests failed", "non_finite": "answers not finite",
    "stale_weights": "stale weights",
}
HISTORY = 4096  # requests and batches that the statistics look back at, at most


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


class ServerCounters:
    """Written by every thread of a server, under the server's lock."""

    def __init__(self, now: float) -> None:
        self.counts: Counter[str] = Counter()  # rows, batches, refused, failed, non_finite, stale_weights
        self.waits: deque[float] = deque(maxlen=HISTORY)  # seconds
        self._batches: deque[tuple[float, float, int]] = deque(maxlen=HISTORY)  # begin, end, positions
        self._started_at = self._last_end = now
        self._busy = 0.0  # seconds

    def record_batch(self, begin: float, end: float, rows: int, non_finite: int) -> None:
        """Counts an answered batch; if several overlap, each is charged from the end of the one before."""
        begin, self._last_end = max(begin, self._last_end), end
        self._busy += end - begin
        self.counts["rows"] += rows
        self.counts["batches"] += 1
        self.counts["non_finite"] += non_finite
        self._batches.append((begin, end, rows))

    def copy(self) -> Self:
        """A copy that can be read without the lock."""
        copy = type(self)(self._started_at)
        copy.counts.update(self.counts)
        copy.waits.extend(self.waits)
        copy._batches.extend(self._batches)
        copy._busy = self._busy
        return copy

    def stats(self, now: float, *, version: int, clients: int, waiting: int) -> ServerStats:
        """The statistics at this time, with the numbers that the server itself knows."""
        since = max(self._started_at, now - RATE_SECONDS)
        if len(self._batches) == HISTORY:
            since = max(since, self._batches[0][0])
        recent = [batch for batch in self._batches if batch[1] > since]
        rows = sum(rows for _, _, rows in recent)
        busy = sum(end - max(begin, since) for begin, end, _ in recent)
        seconds = max(now - since, 1e-9)
        p50, p99 = np.percentile(self.waits, (50, 99)).tolist() if self.waits else (0.0, 0.0)
        counts = self.counts
        return ServerStats(
            version=version, rows=counts["rows"], batches=counts["batches"], rows_per_s=rows / seconds,
            rows_per_batch=rows / max(1, len(recent)), wait_p50_ms=1000 * p50, wait_p99_ms=1000 * p99,
            idle_share=max(0.0, 1 - busy / seconds), busy_seconds=self._busy,
            clients=clients, waiting=waiting, refused=counts["refused"],
            failed=counts["failed"], non_finite=counts["non_finite"], stale_weights=counts["stale_weights"],
        )
