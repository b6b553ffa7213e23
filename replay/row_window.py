"""The window of rows that a learner samples from, without locks and servers: the part that all buffers share."""

import enum
import hashlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

from shusaku.common._core import Game, RowRing
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import GameId, GameRecord
from shusaku.common.network.row_labels import RowLabels
from shusaku.replay.buffer import Batch, ReplayStats, Sample
from shusaku.replay.rate_limiter import LimiterState, RateLimiter
from shusaku.replay.share import Share
from shusaku.replay.validation import InvalidRecordError, Quarantine, Validation
from shusaku.replay.window import window_rows

STATE = 1  # format of what `RowWindow.state` returns
SPARE_GAMES = 16  # of the greatest length, that a window of a share has room for beside its part of the rows


class _Place(enum.IntEnum):
    """Where the rows of a game are."""

    RING = 0  # they are learned from
    TESTS = 1
    ELSEWHERE = 2  # in another process of this learner


class _Held(NamedTuple):
    """One game; or some of others, one after the other, of which only the sum is known."""

    rows: int
    place: _Place
    games: int = 1


class RowWindow:
    """Rows in a ring, as `replay.keep` says; sizes of their games, the limiter that counts them, and the quarantine.

    The window holds whole games: as few of the newest as have `window_rows` rows together, and at most `capacity`
    rows.  The limiter demands capacity >= minimum + the longest game; so a window that has reached `minimum` never
    falls below it again.

    With `replay.test_share` that share of the games, by a hash of their ids, is never sampled from but by `peek`; their
    rows count like all others for window and limiter.  If a run goes on with a larger share, that is one of new games:
    those of before may have been learned from.

    With `replay.surprise_weight` the rows of a game are sampled unequally often, but together as often as without it:
    the limiter counts a mini-batch as before, and each game gets its samples per position.

    With a `share` the rows of the other games are elsewhere: they count for window and limiter, as their senders say,
    and a mini-batch is the own part of one.  Only their sums are known, so they leave the window row by row: it has up
    to a game more or fewer rows than without a share.

    Not thread-safe: the buffer holds a lock, also while rows are copied out of the ring (less than a millisecond for a
    usual batch, ten times that if games are replayed for it), so that no append overwrites a row that is being copied.
    """

    def __init__(
        self, game: Game, config: ReplayConfig, *, batch_size: int, limited: bool = True, symmetries: bool = True,
        labels: RowLabels = RowLabels(),  # noqa: B008 - frozen
        threads: int = 1, packed: bool = False, config_hash: str = "", error_buffer: float = 0.0,
        share: Share = Share(),  # noqa: B008 - frozen
    ) -> None:
        """See `WindowOptions`."""
        self._config, self.share = config, share
        self.limiter = RateLimiter(
            samples_per_position=config.samples_per_position, minimum=config.minimum, capacity=config.capacity,
            rows_per_insert=game.max_plies, rows_per_sample=batch_size, error_buffer=error_buffer, enabled=limited,
        )
        self.quarantine = Quarantine()
        self.validation = Validation(game, config_hash)
        self.version = 0  # newest published
        self.accepted = 0  # games
        # A window of whole games holds a few rows more or fewer than its part of the capacity.
        self._capacity = share.part(config.capacity, slack=SPARE_GAMES * game.max_plies)
        options = {**asdict(labels), "policy_surprise": config.surprise_weight,
                   "value_surprise": config.value_surprise_weight, "keeps_moves": config.keep == "moves"}
        self._ring = RowRing(game, self._capacity, **options)
        self._games: deque[_Held] = deque()  # in the window; oldest first.  The rows sum to limiter.size.
        self._num_games = 0  # of these
        self._rows_at = [0] * len(_Place)  # of these games
        # The newest rows of the test games: twice as many as there are on average in a full window, and some games.
        self._test_capacity = min(config.capacity, int(2 * config.test_share * config.capacity) + 4 * game.max_plies)
        # Both are drawn from alike, for their losses are compared.
        self._tests = RowRing(game, self._test_capacity, **options) if config.test_share else None
        self._symmetries = symmetries
        self._threads, self._packed = threads, packed
        self._old_share, self._old_until = config.test_share, 0  # of rows before that number, see `_window_share`
        self._is_refilling = False
        self._refill_size = self._refill_games = 0  # rows and games that the window had
        self.lost_rows = self.lost_games = 0  # that were not there any more after a refill

    @property
    def is_empty(self) -> bool:
        """Whether no game was ever put into it."""
        return not (self._ring.end or self.limiter.inserted)

    def accept(self, record: GameRecord) -> None:
        """Adds a new game; InvalidRecordError, and no change, if the record breaks the rules of the game."""
        rows = self._replay(record)
        self.accepted += 1
        self._enter(rows, self._place_of(record))
        self.limiter.insert(rows)
        self._evict()

    def begin_after(self, rows: int) -> None:
        """Before the first game: so many rows were inserted by others, and have left the window."""
        if self.is_empty:
            self.limiter.inserted = self.limiter.deleted = rows

    def accept_elsewhere(self, rows: int, games: int) -> None:
        """Counts new games of other shares, which have so many rows together."""
        self._enter(rows, _Place.ELSEWHERE, games)
        self.limiter.insert(rows)
        self._evict()

    def sample(self, batch_size: int, seed: int) -> Sample | None:
        """See `ReplayReader.sample`."""
        end, size = self._ring.end, min(self._rows_at[_Place.RING], self._capacity)
        if not size or not self.limiter.sample(batch_size):
            return None
        arrays = self._ring.sample(self.share.part(batch_size), end - size, end, seed, self._symmetries, self._threads,
                                   self._packed)
        arrays["rows"] += self.limiter.inserted - end  # the ring counts from 0 in each process
        return Batch.of(arrays)

    def peek(self, count: int, seed: int, *, of_tests: bool) -> Batch | None:
        """See `ReplayReader.peek`."""
        ring, size = self._ring, min(self._rows_at[_Place.RING], self._capacity)
        if of_tests:
            if self._tests is None:
                return None
            ring, size = self._tests, min(self._rows_at[_Place.TESTS], self._test_capacity)
        if not size:
            return None
        return Batch.of(ring.sample(count, ring.end - size, ring.end, seed, False, self._threads, self._packed))

    def record_version(self, version: int) -> None:
        """See `ReplayReader.record_version`."""
        self.version = max(self.version, version)

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a checkpoint's `state` and begins the refill.

        Settings that have changed since count for what comes from now on.  States of earlier programs do not name
        them: they are taken for those of now.

        ValueError, and no change, if the window holds games already or if the state is impossible.
        """
        if not self.is_empty:
            raise ValueError("a buffer that holds games cannot be restored")
        limiter, test_share = self.limiter, self._config.test_share
        with translate_state_errors(state):
            counters = LimiterState(int(state["inserted"]), int(state["sampled"]), int(state["deleted"]),
                                    float(state.get("shift", 0.0)))
            samples_per_position = float(state.get("samples_per_position", limiter.samples_per_position))
            minimum = int(state.get("minimum", limiter.minimum))
            old_share = float(state.get("test_share", test_share))
            version, games = int(state["version"]), int(state.get("games", 0))
        limiter.restore(counters)
        if (samples_per_position, minimum) != (limiter.samples_per_position, limiter.minimum):
            limiter.count_from_now(samples_per_position, minimum)
        self.begin_refill()
        self._old_share = min(old_share, test_share)
        self._refill_games = games
        self.record_version(version)

    def begin_refill(self) -> None:
        """Empties the window; `refill` then puts back the games that it held, without counting them again."""
        if not self._is_refilling:
            self._refill_size, self._refill_games = self.limiter.size, self._num_games
            self._old_share = self._window_share
        self._old_until = self.limiter.inserted
        self._is_refilling = True
        self._games.clear()
        self._num_games = 0
        self._rows_at = [0] * len(_Place)
        self.limiter.deleted = self.limiter.inserted

    def refill(self, record: GameRecord) -> None:
        """Puts back the next game, oldest first; InvalidRecordError as in `accept`."""
        self._put_back(self._replay(record, is_old=True), self._place_of(record, is_old=True))

    def refill_elsewhere(self, rows: int, games: int) -> None:
        """Counts the next games, if they are of other shares, without counting them as new."""
        self._put_back(rows, _Place.ELSEWHERE, games)

    def _put_back(self, rows: int, place: _Place, games: int = 1) -> None:
        self._enter(rows, place, games)
        self.limiter.deleted -= rows
        # Keep the newest games, at most as many rows as the window had, and let no game without rows be the oldest.
        while self._games and (self.limiter.size > self._refill_size or self._games[0].rows == 0):
            self._delete_oldest(self.limiter.size - self._refill_size)

    def end_refill(self) -> None:
        """Counts what is missing, and rebases the limiter then: see `RateLimiter.rebase`."""
        self._is_refilling = False
        if self.limiter.size != self._refill_size:
            self.lost_rows += self._refill_size - self.limiter.size
            self.lost_games += max(0, self._refill_games - self._num_games)
            self.limiter.rebase(self.limiter.size)

    def state(self) -> dict[str, Any]:
        """The counters of a checkpoint; the rows are stored elsewhere."""
        settings = {"samples_per_position": self.limiter.samples_per_position, "minimum": self.limiter.minimum,
                    "test_share": self._window_share}
        return {"state": STATE, **asdict(self.limiter.state()), **settings, "version": self.version,
                "games": self._num_games}

    @property
    def _window_share(self) -> float:
        """Of test games, by which none in the window is one that was learned from: the old one while it holds such."""
        return self._old_share if self.limiter.deleted < self._old_until else self._config.test_share

    def stats(self, **fields: Any) -> ReplayStats:
        """The statistics; `fields` are those that only the buffer knows, or knows better."""
        limiter = self.limiter
        own: dict[str, Any] = {
            "inserted": limiter.inserted, "sampled": limiter.sampled, "deleted": limiter.deleted,
            "games": self._num_games, "rows": limiter.size,
            "window": window_rows(self._config, limiter.inserted), "capacity": self._config.capacity,
            "samples_per_position": limiter.sampled / max(1, limiter.inserted), "throttled": limiter.is_throttled,
            "waits_for": limiter.waits_for(), "accepted": self.accepted, "quarantined": self.quarantine.counts,
            "nbytes": self._ring.nbytes + (self._tests.nbytes if self._tests else 0),
            "test_rows": self._rows_at[_Place.TESTS],
            "lost_games": self.lost_games, "lost_rows": self.lost_rows,
        }
        return ReplayStats(**own | fields)

    def _replay(self, record: GameRecord, *, is_old: bool = False) -> int:
        """Replays the game into its ring; returns the number of its rows, InvalidRecordError as in `accept`."""
        ring = self._ring
        if self._tests is not None and self._place_of(record, is_old=is_old) == _Place.TESTS:
            ring = self._tests
        try:
            return ring.append(record, self.validation.own_komi(record))
        except ValueError as error:
            raise InvalidRecordError(str(error)) from None

    def _place_of(self, record: GameRecord, *, is_old: bool = False) -> _Place:
        """`is_old`: it came before the refill, by the share of then."""
        share = self._old_share if is_old else self._config.test_share
        return _Place.TESTS if share > 0 and is_test_game(record.game_id, share) else _Place.RING

    def _enter(self, rows: int, place: _Place, games: int = 1) -> None:
        self._games.append(_Held(rows, place, games))
        self._num_games += games
        self._rows_at[place] += rows

    def _delete_oldest(self, most: int = 0) -> None:
        """Deletes the oldest game; of games elsewhere, so many rows at most."""
        held = self._games.popleft()
        left = held.rows - min(held.rows, max(0, most)) if held.place is _Place.ELSEWHERE else 0
        if left > 0:
            games = -(-held.games * left // held.rows)
            self._games.appendleft(_Held(left, held.place, games))
            held = _Held(held.rows - left, held.place, held.games - games)
        self._num_games -= held.games
        self._rows_at[held.place] -= held.rows
        self.limiter.delete(held.rows)

    def _evict(self) -> None:
        games, limiter, capacity = self._games, self.limiter, self._config.capacity
        wanted = window_rows(self._config, limiter.inserted)
        while games:
            oldest, excess = games[0], limiter.size - wanted
            is_part = oldest.place is _Place.ELSEWHERE
            if not (limiter.size > capacity or excess >= (1 if is_part else oldest.rows) or oldest.rows == 0):
                return
            self._delete_oldest(excess)


def is_test_game(game: GameId, share: float) -> bool:
    """Whether this game is one of the tests: a hash of its id decides, so that it stays one after every restart."""
    digest = hashlib.sha256(" ".join(map(str, game)).encode()).digest()
    return int.from_bytes(digest[:8], "little") < share * 2**64


@contextmanager
def translate_state_errors(state: dict[str, Any]) -> Iterator[None]:
    """ValueError unless `RowWindow.state` is part of the state, and if reading it in the block fails."""
    if state.get("state") != STATE:
        raise ValueError(f"replay state {state.get('state')!r} is unknown; this program reads {STATE}")
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"replay state is broken: {error!r}") from None
