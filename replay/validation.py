"""What must hold of a record before it is learned from, apart from the rules of its game; and the refused records.

The rules (legal moves, policy on legal moves, finite numbers, true outcome) are checked by `RowRing.append`, which
replays the game anyway.  Reasons read "key: what is wrong"; the key is what a `Quarantine` counts by.
"""

from collections import Counter, deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shusaku.common._core import Game
from shusaku.common.codec import CodecError, encode_record
from shusaku.common.messages import SCHEMAS, GameRecord, Params, own_komi, with_planes


class InvalidRecordError(ValueError):
    """A record that is refused; the text is "key: what is wrong"."""


@dataclass(frozen=True)
class Validation:
    """Checks that records belong to this run."""

    game: Game
    config_hash: str = ""  # empty: any

    def encode(self, record: GameRecord) -> bytes:
        """Encodes the record; InvalidRecordError if its schema, types or sizes are wrong."""
        if record.schema not in SCHEMAS:
            raise InvalidRecordError(f"schema: {record.schema!r} is unknown; this program reads {SCHEMAS}")
        try:
            return encode_record(record)
        except CodecError as error:
            raise InvalidRecordError(f"format: {error}") from None

    def check_game(self, record: GameRecord) -> None:
        """InvalidRecordError unless the record is of this game with these parameters; the komi may be its own."""
        if record.game != self.game.name:
            raise InvalidRecordError(f"game: {record.game!r}, this run plays {self.game.name}")
        if self._as_ours(record.params) != self.game.params:
            raise InvalidRecordError(f"game: parameters {record.params}, this run plays with {self.game.params}")

    def own_komi(self, record: GameRecord) -> float:
        """The komi of a record that `check_game` accepts, if it is not the komi of the run; otherwise NaN."""
        return own_komi(record.params, self.game.params)

    def _as_ours(self, params: Params) -> Params:
        """With our komi in place of its own, and with our planes if it names none."""
        is_number = type(params.get("komi")) in (int, float) and "komi" in self.game.params
        params = {**params, "komi": self.game.params["komi"]} if is_number else params
        return with_planes(params, self.game.params)

    def check_origin(self, record: GameRecord, newest_version: int, by_hash: bool = True) -> None:
        """InvalidRecordError if it was played under another configuration or by weights that do not exist.

        Without `by_hash`, any configuration is accepted.
        """
        if by_hash and self.config_hash and record.config_hash != self.config_hash:
            raise InvalidRecordError(f"config: hash {record.config_hash!r}, this run has {self.config_hash}")
        if len(record) > 0 and (version := int(np.max(record.versions))) > newest_version:
            raise InvalidRecordError(f"version: {version} is unknown; the newest published is {newest_version}")


class Quarantined(NamedTuple):
    """A record that was refused."""

    reason: str  # "key: what is wrong"
    data: bytes  # as encoded; empty if it could not be encoded


class Quarantine:
    """The newest `limit` refused records with their reasons, and their number by kind of reason.

    A reason is "key: what is wrong", as validation and `RowRing.append` write it; the keys are few, so the counts are
    bounded too.
    """

    MAX_DATA = 1 << 20  # bytes kept of one record

    def __init__(self, limit: int = 100) -> None:
        self.entries: deque[Quarantined] = deque(maxlen=limit)
        self._counts: Counter[str] = Counter()

    def add(self, reason: str, data: bytes) -> None:
        """Keeps the first MAX_DATA bytes of the record and counts it."""
        self.entries.append(Quarantined(reason, data[: self.MAX_DATA]))
        self._counts[reason.partition(":")[0][:32]] += 1

    @property
    def counts(self) -> dict[str, int]:
        """Refused records by the key of their reason."""
        return dict(self._counts)
