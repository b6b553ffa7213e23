"""The types of a replay buffer: what it offers and what it returns.

A buffer has two sides.  Actors append finished games and learn whether to go on (`ReplayWriter`); the learner samples
mini-batches (`ReplayReader`).  `replay.backends` makes one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, Required, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.config.schema import ReplayConfig
from shusaku.common.messages import Control, GameRecord
from shusaku.common.network.row_labels import RowLabels
from shusaku.replay.share import Share


@dataclass(frozen=True, slots=True, eq=False)
class PackedPlanes:
    """Observations of B rows as the window keeps them, for a device that expands them itself: a tenth of the bytes."""

    packed: NDArray[np.uint8]  # [B, packed bytes] as `Game.expand` takes them
    uniform: NDArray[np.float32]  # [B, U]
    symmetry: NDArray[np.uint8]  # [B] that the planes are to be seen under, as the labels of their rows are

    def __len__(self) -> int:
        return len(self.symmetry)

    def expand(self, game: Game, rows: int | None = None) -> NDArray[np.float32]:
        """The planes [B, C, H, W] of the first rows."""
        packed, uniform, symmetry = self.packed[:rows], self.uniform[:rows], self.symmetry[:rows]
        planes = np.zeros((len(symmetry), *game.observation_shape), np.float32)
        game.expand(packed, uniform, planes)
        cells = cell_tables(game)
        flat = planes.reshape(*planes.shape[:2], -1)
        return np.take_along_axis(flat, cells[symmetry][:, None], 2).reshape(planes.shape)


def cell_tables(game: Game) -> NDArray[np.int64]:
    """[S, H x W]: for each symmetry and each cell of the view, the cell that is seen there."""
    _, height, width = game.observation_shape
    places = [[game.permute_cell(symmetry, cell) for cell in range(height * width)]
              for symmetry in range(game.num_symmetries)]
    return np.argsort(np.array(places), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """B rows sampled from the window, each under a symmetry of its game; all values are for the player to move.

    The last four are present if `RowLabels` asks for them.
    """

    observations: NDArray[np.float32] | PackedPlanes  # [B, C, H, W]
    policy: NDArray[np.float32]  # [B, A] of the search; sums to 1
    outcome: NDArray[np.float32]  # [B] -1, 0 or 1; in between if it is deblundered
    root_values: NDArray[np.float32]  # [B] of the search
    weight: NDArray[np.float32]  # [B] above 0
    plies_left: NDArray[np.float32]  # [B]
    versions: NDArray[np.uint32]  # [B] weights that played the row
    rows: NDArray[np.int64]  # [B] number of the row in the run, from 0
    short_term: NDArray[np.float32] | None = None  # [B, K] values of the searches of the next plies, one per horizon
    ownership: NDArray[np.float32] | None = None  # [B, H, W] at the end: 1 the player to move, -1; NaN: unknown
    score: NDArray[np.float32] | None = None  # [B] at the end, in points; NaN: unknown
    reply: NDArray[np.float32] | None = None  # [B, A] policy of the opponent's next search; all 0: there is none

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, columns: dict[str, Any]) -> Self:
        """Of the columns that a ring samples."""
        if "packed" not in columns:
            return cls(**columns)
        planes = PackedPlanes(*(columns.pop(name) for name in ("packed", "uniform", "symmetry")))
        return cls(observations=planes, **columns)


@dataclass(frozen=True, slots=True, eq=False)
class Games:
    """G whole games, each of which is learned from once, in the order in which they ended: see `GameQueue`."""

    records: tuple[GameRecord, ...]
    versions: NDArray[np.uint32]  # [G] weights that played the rows that are learned from

    def __len__(self) -> int:
        return len(self.records)


Sample = Batch | Games  # what a buffer gives the learner at a time


@dataclass(frozen=True, slots=True)
class ReplayStats:
    """Statistics of one moment; rows are positions with weight > 0."""

    games: int  # in the window
    rows: int  # in the window
    window: int  # rows that the window would hold
    capacity: int  # rows that it may ever hold
    inserted: int  # rows, since the run began
    sampled: int
    deleted: int
    samples_per_position: float  # sampled / inserted so far
    throttled: bool
    waits_for: str  # what learning or playing waits for; empty: nothing
    accepted: int  # games, since this buffer was made; the next three as well
    duplicates: int  # games that had been appended before
    fenced: int  # games of an earlier incarnation of an actor
    other_epoch: int  # games of another driver term
    quarantined: dict[str, int] = field(default_factory=dict)  # games by short reason
    test_rows: int = 0  # in the window, of games that are never learned from
    nbytes: int = 0  # memory of the rows
    too_old: int = 0  # games that were not learned from, see `reinforce.max_lag`; over the life of the run
    skipped: int = 0  # rows that left the server before they were read, since this buffer was made
    losses: int = 0  # times that the server's data was lost, since this buffer was made
    lost_games: int = 0  # of the window, that were not there when it was read again, since this buffer was made
    lost_rows: int = 0  # of these games
    unreachable_s: float = 0.0  # seconds since the server's last answer; 0: it answers
    trouble: str = ""  # what is wrong with the server
    fenced_actors: dict[int, str] = field(default_factory=dict)  # actors most of whose games were refused, and why


class ReplayWriter(Protocol):
    """The actors' side."""

    def append(self, record: GameRecord) -> Control:
        """Keeps the game, or ignores it (appended before, fenced, another epoch), or puts it into quarantine.

        Never raises for what is wrong with the record.  OSError if an accepted game could not be stored.
        """

    def control(self) -> Control:
        """Returns what `append` would reply, without a game: the heartbeat of an actor that has none to append."""


class ReplayReader(Protocol):
    """The learner's and the driver's side."""

    def sample(self, batch_size: int, seed: int) -> Sample | None:
        """Samples rows from the window, determined by `seed` alone; None while the limiter makes learning wait.

        A queue of games gives the next ones instead, whatever `batch_size` and `seed` are.
        """

    def peek(self, count: int, seed: int, *, of_tests: bool) -> Batch | None:
        """Samples rows for a measurement: without symmetries, and the limiter does not count them.

        `of_tests`: of the games that are never learned from (`replay.test_share`), else of the others.  None: there
        are none.
        """

    def stats(self) -> ReplayStats:
        """Returns the statistics of this moment."""

    def record_version(self, version: int) -> None:
        """Records that weights up to this publication number exist: games may name them."""

    def fence(self, actor: int, incarnation: int) -> None:
        """Refuses games of earlier incarnations of this actor from now on."""

    def stop(self) -> None:
        """Tells the actors to stop, in every reply from now on."""

    def state(self) -> dict[str, Any]:
        """Returns the counters for a checkpoint, plain numbers and lists; the rows stay in the record log."""

    def restore(self, state: dict[str, Any], records: Iterable[bytes] = ()) -> int:
        """Restores a checkpoint's state and the encoded games of its window, oldest first; returns how many were bad.

        A buffer whose games are kept in a server reads them there and ignores `records`.  If rows are missing, the
        limiter is rebased.  ValueError if the state was not made by this kind of buffer.
        """


class ReplayBuffer(ReplayWriter, ReplayReader, Protocol):
    """Both sides."""


@dataclass(frozen=True)
class QueueOptions:
    """How `replay.game_queue.GameQueue` hands out games."""

    games: int  # that are handed out at a time
    max_lag: int  # versions; an older game is dropped
    ahead: int  # games that may wait before the actors pause


class WindowOptions(TypedDict, total=False):
    """What every buffer passes on to its `replay.row_window.RowWindow`, where the defaults are."""

    batch_size: Required[int]  # rows that the learner samples at a time
    limited: bool  # False: there is no learner, and actors are never throttled
    symmetries: bool
    labels: RowLabels
    threads: int  # for sampling
    packed: bool  # batches hold PackedPlanes, for a learner on a GPU
    config_hash: str  # that records must carry; empty: any
    error_buffer: float  # samples by which playing and learning may run ahead of each other, see `RateLimiter`
    share: Share  # of the games, that are read and checked here; a sample is as large a part of the mini-batch


class BufferOptions(WindowOptions, total=False):
    """The same, and which kind of window it is."""

    queue: QueueOptions | None  # whole games are learned from once, instead of rows that are sampled


class BufferMaker(Protocol):
    """Makes a buffer; UsageError if the sizes cannot work together."""

    def __call__(
        self, game: Game, config: ReplayConfig, *, epoch: int = 0, on_accept: Callable[[bytes], None] | None = None,
        **window: Unpack[BufferOptions],
    ) -> ReplayBuffer:
        """Makes an empty buffer.

        `epoch`: of this driver term; games of another one are refused.  `on_accept` is called with each accepted game,
        encoded, in order.
        """
