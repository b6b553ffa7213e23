"""A buffer of finished games: the learner samples, and no game is appended."""

import itertools
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shusaku.common._core import Game, RowRing
from shusaku.common.codec import CodecError
from shusaku.common.messages import Control, GameRecord
from shusaku.common.network.row_labels import RowLabels
from shusaku.replay.buffer import Batch, ReplayStats
from shusaku.replay.dataset import Dataset, DatasetPart
from shusaku.replay.validation import Quarantine, Validation

STATE = "dataset 1"  # format of what `DatasetBuffer.state` returns


class DatasetBuffer:
    """Implements `replay.buffer.ReplayBuffer` over the part for training of a dataset.

    If all rows fit into `capacity`, they stay in memory.  Else the ring is a pool through which the games pass, in a
    new order each time: as many rows come as are sampled, so each game is learned from equally often.  Which rows
    mini-batch k holds depends on (run seed, k) alone, whatever was sampled by an earlier process.  A game that breaks
    the rules passes without its rows, and is counted once.
    """

    def __init__(
        self, game: Game, dataset: Dataset, *, capacity: int, batch_size: int, seed: int, symmetries: bool = True,
        labels: RowLabels = RowLabels(),  # noqa: B008 - frozen
        threads: int = 1, packed: bool = False,
    ) -> None:
        """`capacity`: rows in memory; `seed`: of the run, for the order of the games."""
        self._part: DatasetPart = dataset["training"]
        self._total = int(self._part.rows.sum())
        self._capacity = min(max(capacity, batch_size), self._total)
        self._longest = int(self._part.rows.max())
        self._game, self._labels = game, labels
        self._ring = self._empty_ring()
        self._batch_size, self._seed, self._symmetries, self._threads = batch_size, seed, symmetries, threads
        self._packed = packed
        self._validation = Validation(game)
        self._quarantine: Quarantine = dataset.quarantine
        self._bad: set[int] = set()  # numbers of games that cannot be learned from, as far as they have passed
        self._sampled = 0  # rows, over the life of the run
        self._passed = 0  # rows of the games that have passed, as their headers count them
        self._games: Iterator[int]
        self._begin_at(0)
        self._lock = threading.Lock()
        self._stopped = False
        self._version = 0

    # --- the side of the actors, of which there are none -------------------------------------------------------------

    def append(self, record: GameRecord) -> Control:
        """Refuses the game: a dataset does not grow while it is learned from."""
        raise AssertionError("a dataset takes no games")

    def control(self) -> Control:
        """No actor plays, so all would wait."""
        return Control(throttle=True, stop=self._stopped, version=self._version)

    def fence(self, actor: int, incarnation: int) -> None:
        """There are no actors."""

    def stop(self) -> None:
        """There are no actors to tell."""
        self._stopped = True

    def record_version(self, version: int) -> None:
        """See `ReplayReader.record_version`."""
        self._version = max(self._version, version)

    def close(self) -> None:
        """Holds no resources."""

    # --- sampling ----------------------------------------------------------------------------------------------------

    def sample(self, batch_size: int, seed: int) -> Batch:
        """See `ReplayReader.sample`; there are always rows."""
        with self._lock:
            self._sampled += batch_size
            self._let_pass(self._goal())
            end = self._ring.end
            begin = max(0, end - self._capacity)
            arrays = self._ring.sample(batch_size, begin, end, seed, self._symmetries, self._threads, self._packed)
        arrays["rows"] += self._passed - end
        return Batch.of(arrays)

    def peek(self, count: int, seed: int, *, of_tests: bool) -> Batch | None:
        """See `ReplayReader.peek`; a dataset has parts of its own that are not learned from."""
        return None

    def stats(self) -> ReplayStats:
        """See `ReplayReader.stats`: the window is what lies in memory, the games are those for training."""
        rows = min(self._ring.end, self._capacity)
        return ReplayStats(
            games=len(self._part), rows=rows, window=self._capacity, capacity=self._capacity, inserted=self._total,
            sampled=self._sampled, deleted=0, samples_per_position=self._sampled / self._total, throttled=True,
            waits_for="", accepted=len(self._part), duplicates=0, fenced=0, other_epoch=0,
            quarantined=self._quarantine.counts, nbytes=self._ring.nbytes)

    def state(self) -> dict[str, Any]:
        """What was sampled decides which rows come next."""
        return {"state": STATE, "sampled": self._sampled, "version": self._version}

    def restore(self, state: dict[str, Any], records: Iterable[bytes] = ()) -> int:
        """See `ReplayReader.restore`; the games are read from the dataset again."""
        if state.get("state") != STATE:
            raise ValueError(f"replay state {state.get('state')!r} is not of a dataset")
        with self._lock:
            self._sampled = int(state["sampled"])
            self.record_version(int(state["version"]))
            if self._sampled:
                self._fill_again()
        return 0

    def _fill_again(self) -> None:
        """Lets those games pass that were in memory: the newest, from as far back as bad ones among them demand."""
        begin = goal = self._goal()
        missing = self._capacity
        while missing > 0 and begin > 0:
            begin = max(0, begin - missing)
            del self._ring  # before there is another one: it may be most of the memory
            self._ring = self._empty_ring()
            self._begin_at(begin)
            self._let_pass(goal)
            missing = self._capacity - self._ring.end

    def _empty_ring(self) -> RowRing:
        return RowRing(self._game, self._capacity + self._longest, **asdict(self._labels))

    def _goal(self) -> int:
        """Rows that have passed when this batch is sampled."""
        return self._total if self._capacity == self._total else self._capacity + self._sampled

    def _let_pass(self, goal: int) -> None:
        while self._passed < goal:
            game = next(self._games)
            self._passed += int(self._part.rows[game])
            if game in self._bad:
                continue
            try:
                record = self._part.read(game)
                self._ring.append(record, self._validation.own_komi(record))
            except (CodecError, ValueError) as error:  # of the rules: it was read before
                self._bad.add(game)
                self._quarantine.add(f"rules: {error}", b"")

    def _begin_at(self, row: int) -> None:
        """The next game is the one that holds this row of the endless sequence of games."""
        number, within = divmod(row, self._total)
        order = self._order(number)
        ends = np.cumsum(self._part.rows[order])
        first = int(np.searchsorted(ends, within, side="right"))
        self._passed = number * self._total + (int(ends[first - 1]) if first else 0)
        later = (game for one in itertools.count(number + 1) for game in self._order(one).tolist())
        self._games = itertools.chain(order[first:].tolist(), later)

    def _order(self, number: int) -> NDArray[np.int64]:
        """The order [G] of the games in this pass over all of them."""
        return np.random.default_rng([self._seed, number]).permutation(len(self._part))
