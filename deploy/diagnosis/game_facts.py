"""What the newest games of a run say of its self-play: how they go, how they end, and how well the values fit."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.codec import CodecError, decode_record
from shusaku.common.messages import EndedBy, GameRecord, RowKind

DECIDED = 0.95  # root value, from either side, of a game that is as good as over
OPENING_PLIES = 8  # that two games must share to have the same opening
PARTS = ("first", "second", "last")  # thirds of a game


class Calibration(NamedTuple):
    """How the network's values fit the outcomes in a third of the games; z and v of the player to move."""

    part: str
    rows: int
    error: float  # mean of (z - v)^2
    bias: float  # mean of v - z
    slope: float  # of z on v, by least squares through 0: below 1 the values are too bold, above 1 too timid


@dataclass(frozen=True)
class GameFacts:
    """Of the games that were given."""

    games: int
    plies: float  # on average
    first_score: float  # mean points of the first player, 1 a win, a half a draw
    draws: float  # the shares of the games, each from 0 to 1
    cut_off: float
    decided: float  # share of the plies that were played on in games as good as over
    openings: float  # different ones of `OPENING_PLIES` plies, as a share of the games
    calibration: tuple[Calibration, ...]

    @classmethod
    def of(cls, game: Game, records: Sequence[GameRecord]) -> "GameFacts":
        """Of at least one game."""
        outcomes = np.array([record.outcome for record in records])
        plies = np.array([len(record) for record in records])
        ended = [record.ended_by for record in records]
        decided = sum(_decided_plies(record) for record in records)
        openings = {record.actions[:OPENING_PLIES].tobytes() for record in records}
        return cls(
            games=len(records), plies=float(plies.mean()), first_score=float((outcomes.mean() + 1) / 2),
            draws=float((outcomes == 0).mean()), cut_off=ended.count(EndedBy.PLY_LIMIT) / len(records),
            decided=decided / max(1, int(plies.sum())),
            openings=len(openings) / len(records), calibration=_calibrate(game, records))


def readable(encoded: Iterable[bytes]) -> Iterator[GameRecord]:
    """The games in their order, without those that are damaged."""
    for data in encoded:
        with contextlib.suppress(CodecError):
            yield decode_record(data)


def _decided_plies(record: GameRecord) -> int:
    """Plies after the last moment at which a search held the game for open; all searched ones if none did."""
    searched = record.kind != RowKind.OPENING
    is_open = (np.abs(record.root_values) < DECIDED) & searched
    return len(record) - 1 - int(np.flatnonzero(is_open)[-1]) if is_open.any() else int(searched.sum())


def _calibrate(game: Game, records: Sequence[GameRecord]) -> tuple[Calibration, ...]:
    values, results, parts = [], [], []
    for record in records:
        searched = (record.kind == RowKind.FULL) | (record.kind == RowKind.CHEAP)
        values.append(record.raw_values[searched])
        results.append((record.outcome * _sides(game, record))[searched])
        parts.append((len(PARTS) * np.arange(len(record)) // max(1, len(record)))[searched])
    v, z, part = (np.concatenate(column).astype(np.float64) for column in (values, results, parts))
    found = []
    for number, name in enumerate(PARTS):
        mine = part == number
        if mine.any():
            own_v, own_z = v[mine], z[mine]
            square = float((own_v**2).sum())
            found.append(Calibration(
                name, int(mine.sum()), float(((own_z - own_v) ** 2).mean()), float((own_v - own_z).mean()),
                float((own_v * own_z).sum()) / square if square else 1.0))
    return tuple(found)


def _sides(game: Game, record: GameRecord) -> NDArray[np.int64]:
    """[T] 1 where the first player is to move, else -1."""
    position, sides = game.start(), []
    for action in record.actions.tolist():
        sides.append(1 - 2 * position.to_play)
        position.play(action)
    return np.array(sides, np.int64)
