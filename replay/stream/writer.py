"""A bounded send queue between an actor, which never waits for the network, and the stream."""

import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from shusaku.common.messages import Control, GameRecord
from shusaku.replay.stream.append import MAX_GAMES, MAX_METRICS_BYTES, Appender, AppendStatus, EncodedGame, Reply
from shusaku.replay.stream.client import ReplayUnavailable
from shusaku.replay.stream.open_games import SaveStatus, Upload

MAX_CALL_BYTES = 1 << 20  # of the games of one call, unless a single game has more
HEARTBEAT_SECONDS = 1.0
THROTTLED_SECONDS = 0.05  # between the heartbeats of an actor that waits for the learner, at least
THROTTLED_CALLS = 200  # of all such actors in a second, 33 us each for the server
TROUBLE_SECONDS = 2.0  # that a server may be silent before it is shown
FIRST_BACKOFF, LAST_BACKOFF = 0.05, 2.0  # seconds
# A server may restart without what it acknowledged last: one second after a power cut, two more with a slow disk.
KEEP_SECONDS = 5.0
KEEP_BYTES = 16 << 20
MAX_SAVE_FAILURES = 3  # calls without an answer, each after one with an answer: the open games are not saved this time


@dataclass(frozen=True, slots=True)
class WriterStats:
    """Statistics of one moment, since the writer was made; counts are of games."""

    queued: int  # waiting to be sent
    queued_bytes: int
    acknowledged: int  # surely in the window
    duplicates: int  # of these, recognised when they were sent a second time
    refused: int  # because a later driver term or a successor of this actor exists
    calls: int
    failures: int  # calls without an answer
    unreachable_s: float  # since the first call of the present series of failures; 0: the server answers
    trouble: str  # the last failure of that series, or that the data was lost
    save_trouble: str  # why open games were not saved when they were put last; empty: they were, or wait


def heartbeat_seconds(*, is_throttled: bool, actors: int) -> float:
    """Between the calls of an actor that has no games to send: short while it waits, but not if many actors do."""
    if not is_throttled:
        return HEARTBEAT_SECONDS
    return min(HEARTBEAT_SECONDS, max(THROTTLED_SECONDS, actors / THROTTLED_CALLS))


class AsyncWriter:
    """Sends games in the order of `put` from a thread of its own, and heartbeats while there are none.

    While the server does not answer, or has lost the run, at most `max_games` and `max_bytes` of games wait here (the
    last one may exceed the bytes).  The same games are sent again in the same order: none is lost, none is doubled.
    Games that were acknowledged within `keep_seconds` of the newest, KEEP_BYTES at most, are sent again before them, in
    case the server restarted without them.
    """

    def __init__(
        self, appender: Appender, *, max_games: int = 256, max_bytes: int = 64 << 20,
        keep_seconds: float = KEEP_SECONDS, background: bool = True, actors: int = 1,
    ) -> None:
        """Without `background` there is no thread: the caller calls `send_next`.

        `actors`: that play, unless the control says another number.
        """
        self._actors = actors
        self._appender = appender
        self._max_games, self._max_bytes = max_games, max_bytes
        self._games: deque[EncodedGame] = deque()
        self._bytes = 0
        self._keep_seconds = keep_seconds
        self._kept: deque[tuple[float, EncodedGame]] = deque()  # acknowledged games and when; only the thread uses them
        self._kept_bytes = 0
        self._control = Control(epoch=appender.epoch)
        self._metrics = b""
        self._new_metrics = b""  # not yet sent
        self._acknowledged = self._duplicates = self._refused = self._calls = self._failures = 0
        self._trouble, self._troubled_since = "", 0.0
        self._upload: Upload | None = None  # open games that are to be saved
        self._save_trouble = ""
        self._saves = 0
        self._next_sequence = 0  # the sequence number behind the newest game that was put
        self._answered_at = self._metrics_sent_at = float("-inf")
        self._is_closing = False
        self._changed = threading.Condition()
        self._random = random.Random()
        self._thread = threading.Thread(target=self._run, name=f"replay-writer-{appender.actor}", daemon=True)
        if background:
            self._thread.start()

    def put(self, record: GameRecord) -> bool:
        """Takes the game; False if the queue is full: the caller pauses and offers the game again.

        Never waits for the server.  CodecError if the record cannot be encoded.
        """
        return self.put_all((record,)) == 1

    def put_all(self, records: Iterable[GameRecord]) -> int:
        """Takes games from the first on, to be sent together; returns how many.  See `put`.

        Games before one that cannot be encoded are taken.
        """
        with self._changed:
            free_games, free_bytes = self._max_games - len(self._games), self._max_bytes - self._bytes
        games: list[EncodedGame] = []
        try:
            for record in islice(records, max(0, free_games)):
                if free_bytes <= 0:
                    break
                games.append(EncodedGame.of(record))  # outside the lock; only one thread puts
                free_bytes -= len(games[-1].data)
        finally:
            self._enqueue(games)
        return len(games)

    def put_open_games(self, sequence: int, games: Mapping[str, bytes]) -> None:
        """Saves the encoded games (name -> game) for the actor's successor, in place of all that were saved before.

        `sequence`: of the first game that had not ended yet; games before it are appended first, the others later.
        If they cannot be saved they are dropped, and `stats` tells why; the games of before then stay.
        """
        with self._changed:
            if self._control.stop and self._refused:  # the server will refuse these too
                return
            self._saves += 1
            self._upload = Upload(self._saves, sequence, games)
            self._changed.notify_all()

    def _enqueue(self, games: list[EncodedGame]) -> None:
        with self._changed:
            if self._control.stop and self._refused:  # the server will refuse these too
                self._refused += len(games)
            elif games:
                self._games.extend(games)
                self._next_sequence = games[-1].sequence + 1
                self._bytes += sum(len(game.data) for game in games)
                self._changed.notify_all()

    @property
    def control(self) -> Control:
        """The newest reply; `stop` is also set if a successor of this actor or of the driver term exists."""
        return self._control

    @property
    def failures(self) -> int:
        """Calls without an answer."""
        return self._failures

    @property
    def metrics(self) -> bytes:
        """What is sent with the next heartbeat or game, at most once a second; msgpack, 4 KB at most."""
        return self._metrics

    @metrics.setter
    def metrics(self, metrics: bytes) -> None:
        assert len(metrics) <= MAX_METRICS_BYTES, len(metrics)
        self._metrics = self._new_metrics = metrics

    def flush(self, timeout: float) -> bool:
        """Waits until all games are sent and open ones are saved; False if not after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._games and self._upload is None, timeout)

    def close(self, timeout: float) -> bool:
        """Sends the games in the queue and ends the thread; False if some were left after `timeout` seconds."""
        is_empty = self.flush(timeout)
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)  # a call in flight ends at its own deadline
        self._appender.close()
        return is_empty

    def stats(self) -> WriterStats:
        """The statistics of this moment."""
        with self._changed:
            return WriterStats(
                queued=len(self._games), queued_bytes=self._bytes, acknowledged=self._acknowledged,
                duplicates=self._duplicates, refused=self._refused, calls=self._calls, failures=self._failures,
                unreachable_s=time.monotonic() - self._troubled_since if self._trouble else 0.0, trouble=self._trouble,
                save_trouble=self._save_trouble,
            )

    def trouble(self) -> str:
        """That the server does not take games, in a line; empty if it does, or has been silent for a moment only."""
        stats = self.stats()
        if stats.unreachable_s < TROUBLE_SECONDS:
            return ""
        return (f"the replay has taken nothing for {stats.unreachable_s:.0f} s ({stats.trouble}); "
                f"{stats.queued} finished games wait")

    def _run(self) -> None:
        backoff = FIRST_BACKOFF
        while True:
            with self._changed:
                interval = heartbeat_seconds(is_throttled=self._control.throttle,
                                             actors=self._control.actors or self._actors)
                idle = max(0.0, self._answered_at + interval - time.monotonic())
                self._changed.wait_for(lambda: bool(self._games) or self._may_save() or self._is_closing, idle)
                if self._is_closing:
                    return
            if self.send_next():
                backoff = FIRST_BACKOFF
                continue
            with self._changed:  # jitter, so that many actors do not come back at once
                pause = backoff * self._random.uniform(0.5, 1.0)
                if self._changed.wait_for(lambda: self._is_closing, pause):
                    return
            backoff = min(2 * backoff, LAST_BACKOFF)

    def send_next(self) -> bool:
        """Makes one call: open games whose turn it is, else finished games or a heartbeat; False if it failed."""
        is_heartbeat_due = time.monotonic() - self._answered_at >= 2 * HEARTBEAT_SECONDS
        with self._changed:
            upload = self._upload if self._may_save() and not is_heartbeat_due else None
            games = _batch(self._games, self._upload.sequence if self._upload else None)
        if upload is not None:
            return self._save(upload)
        metrics = b""
        if time.monotonic() - self._metrics_sent_at >= HEARTBEAT_SECONDS:
            metrics, self._new_metrics = self._new_metrics, b""
        is_sent = self._send(games, metrics)
        if is_sent:
            self._answered_at = time.monotonic()
            self._metrics_sent_at = self._answered_at if metrics else self._metrics_sent_at
        else:
            self._new_metrics = self._new_metrics or metrics
        return is_sent

    def _may_save(self) -> bool:
        """Whether it is the turn of the open games: all games before them are appended, and the server answers."""
        upload = self._upload
        if upload is None or self._trouble or self._next_sequence < upload.sequence:
            return False
        return not self._games or self._games[0].sequence >= upload.sequence

    def _save(self, upload: Upload) -> bool:
        """Makes one call of the upload; False if it is unknown what it has done."""
        try:
            status = self._appender.save_open_games(upload.next_call())
        except ReplayUnavailable as error:
            self._record_trouble(str(error), is_failure=True)
            upload.failures += 1
            if upload.failures >= MAX_SAVE_FAILURES:
                self._end_upload(upload, str(error))
            return False
        if status is not SaveStatus.DONE or upload.advance():
            self._end_upload(upload, status.trouble)
        return True

    def _end_upload(self, upload: Upload, trouble: str) -> None:
        with self._changed:
            self._calls += 1
            self._save_trouble = trouble
            if self._upload is upload:  # else newer games are to be saved
                self._upload = None
            self._changed.notify_all()

    def _send(self, games: list[EncodedGame], metrics: bytes) -> bool:
        """Makes one call; False if the games have to be sent again."""
        try:
            if self._trouble:
                self._send_again()
            reply = self._appender.append(games, metrics)
        except ReplayUnavailable as error:
            self._record_trouble(str(error), is_failure=True)
            return False
        if reply.status is AppendStatus.LOST:
            self._record_trouble("the data of the run was lost; waits for the driver to begin anew", is_failure=False)
            return False
        self._drop(games, reply)
        return True

    def _send_again(self) -> None:
        """Sends what was acknowledged before the trouble; the server recognises the games that it still has."""
        kept = deque(game for _, game in self._kept)
        while games := _batch(kept):
            reply = self._appender.append(games)
            if reply.status is not AppendStatus.DONE:  # the next call gets the same status
                return
            with self._changed:
                self._duplicates += reply.duplicates
            for _ in games:
                kept.popleft()

    def _keep(self, games: list[EncodedGame]) -> None:
        now = time.monotonic()
        for game in games:
            self._kept.append((now, game))
            self._kept_bytes += len(game.data)
        while self._kept and (now - self._kept[0][0] >= self._keep_seconds or self._kept_bytes > KEEP_BYTES):
            self._kept_bytes -= len(self._kept.popleft()[1].data)

    def _record_trouble(self, text: str, is_failure: bool) -> None:
        with self._changed:
            self._calls += 1
            self._failures += is_failure
            if not self._trouble:
                self._troubled_since = time.monotonic()
            self._trouble = text

    def _drop(self, games: list[EncodedGame], reply: Reply) -> None:
        """Drops games from the queue that the server has answered."""
        with self._changed:
            self._calls += 1
            self._trouble = ""
            self._control = reply.control
            if reply.is_refused:  # and it would refuse all others too
                self._upload = None
                self._refused += len(self._games)
                self._games.clear()
                self._bytes = 0
            else:
                self._keep(games)
                self._acknowledged += len(games)
                self._duplicates += reply.duplicates
                for game in games:
                    self._games.popleft()
                    self._bytes -= len(game.data)
            self._changed.notify_all()


def _batch(games: Iterable[EncodedGame], before: int | None = None) -> list[EncodedGame]:
    """Returns the oldest games, as many as fit into one call; none from the sequence number `before` on."""
    batch: list[EncodedGame] = []
    size = 0
    for game in islice(games, MAX_GAMES):
        if before is not None and game.sequence >= before:
            break
        size += len(game.data)
        if batch and size > MAX_CALL_BYTES:
            break
        batch.append(game)
    return batch
