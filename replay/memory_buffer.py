"""The replay buffer of one process: a `RowWindow` under one lock."""

import threading
from collections.abc import Callable, Iterable
from typing import Any, Unpack

from shusaku.common._core import Game
from shusaku.common.codec import CodecError, decode_record
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import Control, GameRecord
from shusaku.replay.buffer import Batch, BufferOptions, ReplayStats, Sample
from shusaku.replay.game_queue import make_window
from shusaku.replay.row_window import translate_state_errors
from shusaku.replay.validation import InvalidRecordError, Quarantine


class MemoryBuffer:
    """Implements `replay.buffer.ReplayBuffer` with the arguments of `BufferMaker`.  Any thread may call any method."""

    def __init__(
        self, game: Game, config: ReplayConfig, *, epoch: int = 0, on_accept: Callable[[bytes], None] | None = None,
        **window: Unpack[BufferOptions],
    ) -> None:
        self._window = make_window(game, config, **window)
        self._seen: dict[int, tuple[int, int, int]] = {}  # actor -> epoch, incarnation, sequence of its newest game
        self._epoch = epoch
        self._stop = False
        self._on_accept = on_accept
        self._duplicates = self._fenced = self._other_epoch = 0
        self._lock = threading.Lock()

    @property
    def quarantine(self) -> Quarantine:
        """The refused games."""
        return self._window.quarantine

    def append(self, record: GameRecord) -> Control:
        """See `ReplayWriter.append`.  The games of one actor must come in the order of their sequence numbers.

        If `on_accept` raises, the game is in the window already and the caller gets the exception.
        """
        data, validation = b"", self._window.validation
        try:
            data = validation.encode(record)
            validation.check_game(record)
            with self._lock:
                if self._is_expected(record):
                    validation.check_origin(record, self._window.version)
                    self._accept(record, data)
        except InvalidRecordError as error:
            with self._lock:
                self.quarantine.add(str(error), data)
        return self.control()

    def control(self) -> Control:
        """See `ReplayWriter.control`."""
        with self._lock:
            return Control(self._window.limiter.is_throttled, self._stop, self._window.version, self._epoch)

    def sample(self, batch_size: int, seed: int) -> Sample | None:
        """See `ReplayReader.sample`."""
        with self._lock:
            return self._window.sample(batch_size, seed)

    def peek(self, count: int, seed: int, *, of_tests: bool) -> Batch | None:
        """See `ReplayReader.peek`."""
        with self._lock:
            return self._window.peek(count, seed, of_tests=of_tests)

    def stats(self) -> ReplayStats:
        """See `ReplayReader.stats`."""
        with self._lock:
            return self._window.stats(duplicates=self._duplicates, fenced=self._fenced, other_epoch=self._other_epoch)

    def record_version(self, version: int) -> None:
        """See `ReplayReader.record_version`."""
        with self._lock:
            self._window.record_version(version)

    def fence(self, actor: int, incarnation: int) -> None:
        """See `ReplayReader.fence`."""
        with self._lock:
            first = (self._epoch, incarnation, -1)
            self._seen[actor] = max(self._seen.get(actor, first), first)

    def stop(self) -> None:
        """See `ReplayReader.stop`."""
        with self._lock:
            self._stop = True

    def state(self) -> dict[str, Any]:
        """See `ReplayReader.state`."""
        with self._lock:
            seen = [[actor, *newest] for actor, newest in sorted(self._seen.items())]
            return {**self._window.state(), "seen": seen}

    def restore(self, state: dict[str, Any], records: Iterable[bytes] = ()) -> int:
        """See `ReplayReader.restore`; the buffer must be empty."""
        with self._lock:
            with translate_state_errors(state):
                seen = {int(actor): (int(a), int(b), int(c)) for actor, a, b, c in state["seen"]}
            self._window.restore(state)
            self._seen = seen
            bad = 0
            for data in records:
                try:
                    record = decode_record(data)
                    self._window.validation.check_game(record)
                    self._window.refill(record)
                except ValueError as error:
                    self.quarantine.add(f"format: {error}" if isinstance(error, CodecError) else str(error), data)
                    bad += 1
            self._window.end_refill()
            return bad

    def _is_expected(self, record: GameRecord) -> bool:
        """Returns whether the game is new; counts it if it is of another epoch, fenced or a duplicate."""
        epoch, actor, incarnation, sequence = record.game_id
        newest = self._seen.get(actor, (epoch, incarnation, -1))
        if epoch != self._epoch:
            self._other_epoch += 1
        elif (epoch, incarnation) < newest[:2]:
            self._fenced += 1
        elif (epoch, incarnation, sequence) <= newest:
            self._duplicates += 1
        else:
            return True
        return False

    def _accept(self, record: GameRecord, data: bytes) -> None:
        self._window.accept(record)
        epoch, actor, incarnation, sequence = record.game_id
        self._seen[actor] = (epoch, incarnation, sequence)
        if self._on_accept is not None:
            self._on_accept(data)
