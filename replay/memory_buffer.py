"""The replay buffer of one process: packed rows in a ring, under one lock."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from common._core import Game, RowRing
from common.codec import CodecError, decode_record
from common.config import ReplayConfig
from common.messages import Control, GameRecord
from replay.buffer import Batch, ReplayStats
from replay.quarantine import Quarantine
from replay.rate_limiter import LimiterState, RateLimiter
from replay.validation import InvalidRecord, Validation
from replay.window import Window

STATE = 1  # version of what `MemoryBuffer.state` returns


class MemoryBuffer:
    """Implements `replay.buffer.ReplayBuffer`; its arguments are those of `BufferMaker`.

    The window holds whole games: the fewest of the newest that have `Window.rows` rows, and never more than
    `capacity` rows.  With capacity >= minimum + the longest game, which the limiter demands, it never falls below
    `minimum` again once it was reached.

    Any thread may call anything.  The lock is also held while rows are copied out of the ring (under a millisecond
    for a usual batch), so no append can overwrite what is being drawn.
    """

    def __init__(
        self,
        game: Game,
        config: ReplayConfig,
        *,
        batch_size: int,
        limited: bool = True,
        symmetries: bool = True,
        threads: int = 1,
        epoch: int = 0,
        config_hash: str = "",
        on_accept: Callable[[bytes], None] | None = None,
    ) -> None:
        self.window = Window.of(config)
        self.limiter = RateLimiter(
            samples_per_position=config.samples_per_position,
            minimum=config.minimum,
            capacity=config.capacity,
            rows_per_insert=game.max_plies,
            rows_per_sample=batch_size,
            enabled=limited,
        )
        self.quarantine = Quarantine()
        self._validation = Validation(game, config_hash)
        self._ring = RowRing(game, config.capacity)
        self._games: deque[int] = deque()  # rows of each game in the window, oldest first; they sum to limiter.size
        self._seen: dict[int, tuple[int, int, int]] = {}  # actor -> epoch, incarnation, sequence of its newest game
        self._symmetries = symmetries
        self._threads = threads
        self._epoch = epoch
        self._version = 0
        self._stop = False
        self._on_accept = on_accept
        self._accepted = self._duplicates = self._fenced = self._other_epoch = 0
        self._lock = threading.Lock()

    def append(self, record: GameRecord) -> Control:
        """See `ReplayWriter.append`.  The games of one actor must come in the order of their sequence numbers.

        When `on_accept` raises, the game is in the window already and the exception passes on to the caller.
        """
        data = b""
        try:
            data = self._validation.encode(record)
            self._validation.check_game(record)
            with self._lock:
                if self._is_expected(record):
                    self._validation.check_origin(record, self._version)
                    self._accept(record, data)
        except InvalidRecord as error:
            with self._lock:
                self.quarantine.add(str(error), data)
        return self.control()

    def control(self) -> Control:
        with self._lock:
            return Control(self.limiter.is_throttled, self._stop, self._version, self._epoch)

    def sample(self, batch_size: int, seed: int) -> Batch | None:
        with self._lock:
            if not self.limiter.sample(batch_size):
                return None
            end = self._ring.end
            arrays = self._ring.sample(batch_size, end - self.limiter.size, end, seed, self._symmetries, self._threads)
            arrays["rows"] += self.limiter.inserted - end  # the ring counts from its own beginning
        return Batch(**arrays)

    def stats(self) -> ReplayStats:
        with self._lock:
            limiter = self.limiter
            return ReplayStats(
                games=len(self._games),
                rows=limiter.size,
                window=self.window.rows(limiter.inserted),
                capacity=self.window.capacity,
                inserted=limiter.inserted,
                sampled=limiter.sampled,
                deleted=limiter.deleted,
                samples_per_position=limiter.sampled / max(1, limiter.inserted),
                throttled=limiter.is_throttled,
                waits_for=limiter.waits_for(),
                accepted=self._accepted,
                duplicates=self._duplicates,
                fenced=self._fenced,
                other_epoch=self._other_epoch,
                quarantined=self.quarantine.counts,
                nbytes=self._ring.nbytes,
            )

    def note_version(self, version: int) -> None:
        with self._lock:
            self._version = max(self._version, version)

    def fence(self, actor: int, incarnation: int) -> None:
        with self._lock:
            first = (self._epoch, incarnation, -1)
            self._seen[actor] = max(self._seen.get(actor, first), first)

    def stop(self) -> None:
        with self._lock:
            self._stop = True

    def state(self) -> dict[str, Any]:
        with self._lock:
            return {
                "state": STATE,
                "inserted": self.limiter.inserted,
                "sampled": self.limiter.sampled,
                "deleted": self.limiter.deleted,
                "version": self._version,
                "seen": [[actor, *newest] for actor, newest in sorted(self._seen.items())],
            }

    def restore(self, state: dict[str, Any], records: Iterable[bytes]) -> int:
        """See `ReplayReader.restore`; for a buffer that nothing was appended to."""
        with self._lock:
            if self._ring.end or self.limiter.inserted:
                raise ValueError("a buffer that holds games cannot be restored")
            counters, version, seen = _read_state(state)
            self.limiter.restore(counters)
            self._version = max(self._version, version)
            self._seen = seen
            bad = held = 0
            for data in records:
                try:
                    record = decode_record(data)
                    self._validation.check_game(record)
                    rows = self._replay(record)
                except ValueError as error:
                    self.quarantine.add(f"format: {error}" if isinstance(error, CodecError) else str(error), data)
                    bad += 1
                    continue
                self._games.append(rows)
                held += rows
                # The newest games that are not more than the window was, and none that would lead it without rows.
                while self._games and (held > self.limiter.size or self._games[0] == 0):
                    held -= self._games.popleft()
            if held != self.limiter.size:
                self.limiter.rebase(held)
            return bad

    def _is_expected(self, record: GameRecord) -> bool:
        """Counts the game as ignored and says False when it is of another epoch, fenced or seen before."""
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
        rows = self._replay(record)
        epoch, actor, incarnation, sequence = record.game_id
        self._seen[actor] = (epoch, incarnation, sequence)
        self._accepted += 1
        self._games.append(rows)
        self.limiter.insert(rows)
        self._evict()
        if self._on_accept is not None:
            self._on_accept(data)

    def _replay(self, record: GameRecord) -> int:
        """Into the ring; how many rows.  InvalidRecord where the record breaks the rules of the game."""
        try:
            return self._ring.append(
                record.actions,
                record.policy_offsets,
                record.policy_actions,
                record.policy_shares,
                record.root_values,
                record.raw_values,
                record.versions,
                record.kind,
                record.row_weight,
                record.surprise,
                record.outcome,
                str(record.ended_by),
            )
        except ValueError as error:
            raise InvalidRecord(str(error)) from None

    def _evict(self) -> None:
        wanted = self.window.rows(self.limiter.inserted)
        games, limiter = self._games, self.limiter
        while games and (limiter.size > self.window.capacity or limiter.size - games[0] >= wanted or games[0] == 0):
            limiter.delete(games.popleft())


def _read_state(state: dict[str, Any]) -> tuple[LimiterState, int, dict[int, tuple[int, int, int]]]:
    """ValueError unless `MemoryBuffer.state` made it."""
    if state.get("state") != STATE:
        raise ValueError(f"replay state {state.get('state')!r} is unknown; this program reads {STATE}")
    try:
        counters = LimiterState(int(state["inserted"]), int(state["sampled"]), int(state["deleted"]))
        seen = {int(actor): (int(a), int(b), int(c)) for actor, a, b, c in state["seen"]}
        return counters, int(state["version"]), seen
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"replay state is broken: {error!r}") from None
