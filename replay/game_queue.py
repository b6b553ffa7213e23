"""A queue of whole games that are learned from once, in the place of the window that rows are sampled from.

Policy gradient learns from the games of the newest policy, so a game is of use for a short time only.  The rows of a
game that have a weight are those of the policy that learns; the others are its opponent's.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from shusaku.common._core import Game
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import GameRecord
from shusaku.replay.buffer import BufferOptions, Games, QueueOptions, ReplayStats, WindowOptions
from shusaku.replay.rate_limiter import RateLimiter
from shusaku.replay.row_window import RowWindow

NEVER = -(1 << 62)  # a version that is older than all
MOST_TIMES = 8  # as many games as may wait before the actors pause: more are dropped, if actors play on regardless


class QueueLimiter(RateLimiter):
    """Learning waits until a queue holds enough games, and playing while it holds too many.

    Rows are counted as everywhere: they are `sampled` when their game is handed out, and `deleted` when it leaves.
    """

    def __init__(self, options: QueueOptions, *, rows_per_game: float, enabled: bool = True) -> None:
        """`rows_per_game`: a first guess."""
        super().__init__(samples_per_position=1, minimum=1, capacity=2, rows_per_insert=1, rows_per_sample=1,
                         enabled=enabled)
        self._options, self._rows_per_game = options, rows_per_game
        self.games = 0  # that wait and may be learned from

    def can_insert(self, rows: int = 1) -> bool:
        """Whether the queue takes more games without a pause; `insert` never refuses any."""
        return not self.enabled or self.games < self._options.ahead

    def can_sample(self, rows: int) -> bool:
        """Whether enough games wait."""
        return self.games >= self._options.games

    def credit(self) -> int | None:
        """Rows that may come before the actors are throttled, by the mean of the games so far; None: any number."""
        if not self.enabled:
            return None
        return round(max(0, self._options.ahead - self.games) * self._rows_per_game)

    def observe(self, rows: int) -> None:
        """Takes in the rows of a new game."""
        self._rows_per_game += (rows - self._rows_per_game) / 64  # the mean of the newest hundred games or so

    def rebase(self, held: int) -> None:
        """Counts the rows that are gone as deleted; nothing else follows from them."""
        assert 0 <= held <= self.inserted, f"{held} rows held of {self.inserted}"
        self.deleted = self.inserted - held

    def waits_for(self) -> str:
        """See `RateLimiter.waits_for`."""
        if self.enabled and not self.can_sample(1):
            return f"{self.games:,} of {self._options.games:,} games before the next update"
        return f"an update, while {self.games:,} games wait; playing pauses" if self.is_throttled else ""


class _Waiting(NamedTuple):
    rows: int
    version: int  # NEVER: no row is learned from
    record: GameRecord | None  # None: it was too old when it came


class GameQueue(RowWindow):
    """The games that wait, oldest first.  What `RowWindow` says of checks, refills and threads holds here, too.

    Games leave in the order in which they came, because they are handed out or because they are too old.  So a
    checkpoint needs no more than their number: who goes on from it gets each of the others once, and none of these.
    """

    def __init__(
        self, game: Game, config: ReplayConfig, queue: QueueOptions, **window: Unpack[WindowOptions]
    ) -> None:
        super().__init__(game, config, **window)
        self._options = queue
        self._waiting: deque[_Waiting] = deque()
        self._queue_limiter = QueueLimiter(queue, rows_per_game=game.max_plies / 8, enabled=window.get("limited", True))
        self.limiter = self._queue_limiter
        self.too_old = 0  # games that were not learned from, over the life of the run

    @property
    def oldest_version(self) -> int:
        """Of the games that may be learned from."""
        return self.version - self._options.max_lag

    def accept(self, record: GameRecord) -> None:
        """Adds a new game; InvalidRecordError, and no change, if the record breaks the rules of the game."""
        rows = self._replay(record)
        self.accepted += 1
        self.limiter.insert(rows)
        self._queue_limiter.observe(rows)
        self._put(record, rows)
        while len(self._waiting) > MOST_TIMES * max(self._options.games, self._options.ahead):
            self._drop()
        self._count()

    def sample(self, batch_size: int, seed: int) -> Games | None:
        """The next games; None until enough of them wait that are not too old."""
        if not self.limiter.can_sample(1):
            return None
        taken: list[_Waiting] = []
        while len(taken) < self._options.games:
            if self._waiting[0].version < self.oldest_version:
                self._drop()
            else:
                taken.append(self._leave())
        self.limiter.sampled += sum(game.rows for game in taken)
        self._count()
        records = tuple(game.record for game in taken if game.record is not None)
        assert len(records) == len(taken), "a game that was too old is not any more"
        return Games(records, np.array([game.version for game in taken], np.uint32))

    def record_version(self, version: int) -> None:
        """See `ReplayReader.record_version`."""
        super().record_version(version)
        self._count()

    def refill(self, record: GameRecord) -> None:
        """Puts back the next game, oldest first; those that had left before the checkpoint leave again."""
        rows = self._replay(record)
        self._put(record, rows)
        self.limiter.deleted -= rows
        while self.limiter.size > self._refill_size:
            self._leave()
        self._count()

    def begin_refill(self) -> None:
        """See `RowWindow.begin_refill`."""
        super().begin_refill()
        self._waiting.clear()
        self._count()

    def restore(self, state: dict[str, Any]) -> None:
        """See `RowWindow.restore`."""
        super().restore(state)
        self.too_old = int(state.get("too_old", 0))

    def state(self) -> dict[str, Any]:
        """See `RowWindow.state`."""
        return {**super().state(), "too_old": self.too_old}

    def stats(self, **fields: Any) -> ReplayStats:
        """See `RowWindow.stats`."""
        return super().stats(**({"too_old": self.too_old} | fields))

    def _put(self, record: GameRecord, rows: int) -> None:
        self._enter(rows, self._place_of(record))
        version = learner_version(record) if rows else NEVER
        self._waiting.append(_Waiting(rows, version, record if version >= self.oldest_version else None))

    def _leave(self) -> _Waiting:
        """The oldest game, which leaves the queue."""
        self._delete_oldest()
        return self._waiting.popleft()

    def _drop(self) -> None:
        self.too_old += self._leave().rows > 0

    def _count(self) -> None:
        oldest = self.oldest_version
        self._queue_limiter.games = sum(game.version >= oldest for game in self._waiting)


def learner_version(record: GameRecord) -> int:
    """The weights that played the rows that are learned from, of which there must be one."""
    return int(record.versions[record.row_weight > 0].max())


def make_window(game: Game, config: ReplayConfig, **options: Unpack[BufferOptions]) -> RowWindow:
    """What a buffer holds: a queue of games if the options have one, else a window of rows."""
    queue = options.get("queue")
    others: Mapping[str, Any] = {name: value for name, value in options.items() if name != "queue"}
    window = cast(WindowOptions, others)
    return RowWindow(game, config, **window) if queue is None else GameQueue(game, config, queue, **window)
