"""Leaves and Evaluation as bytes: what an actor asks an inference server, and what it answers.

The layout, and all that is checked, stand in `common/core/serving/request_layout.h`.  Decoding trusts nothing: sizes
are checked against the game before anything is read.  What does not fit is a `common.codec.CodecError` with the
reason.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shusaku.common import _core
from shusaku.common._core import Game
from shusaku.common.codec import CodecError
from shusaku.common.messages import Evaluation, Leaves

MAX_REQUEST_BYTES = 96_000  # of a Ray call, which carries about 100 KB itself, and more through the object store


class LeavesCodec:
    """Encodes and decodes for one game; shared by threads freely."""

    def __init__(self, game: Game, max_bytes: int = MAX_REQUEST_BYTES) -> None:
        """`max_bytes` bounds a request; one position with all its actions is always allowed."""
        self.crc = zlib.crc32(repr((game.name, sorted(game.params.items()))).encode())  # tells rules apart
        self.rules = _core.RequestRules(game, self.crc, max_bytes)
        self.max_bytes = self.rules.max_bytes
        self._least_bytes = self.rules.size(1, game.max_legal_actions)
        self._position_bytes = self.rules.size(1, 0) - self.rules.size(0, 0)

    def split(self, leaves: Leaves, max_bytes: int | None = None) -> list[Leaves]:
        """The leaves in as few requests as hold them, in order: each has as many whole positions as fit."""
        limit = self.max_bytes if max_bytes is None else max(self._least_bytes, min(max_bytes, self.max_bytes))
        if self.rules.size(len(leaves), len(leaves.actions)) <= limit:
            return [leaves]
        # ends[i]: bytes of the first i positions.
        ends = (self._position_bytes * np.arange(len(leaves) + 1)
                + leaves.actions.itemsize * leaves.offsets.astype(np.int64))
        room, parts, begin = limit - self.rules.size(0, 0), [], 0
        while begin < len(leaves):
            end = int(np.searchsorted(ends, ends[begin] + room, side="right")) - 1
            if end <= begin:
                raise CodecError(f"position {begin} has more legal actions than the game allows")
            parts.append(slice_leaves(leaves, begin, end))
            begin = end
        return parts

    def encode(self, leaves: Leaves) -> bytes:
        """A request.  CodecError when the leaves are of another game or too many: see `split`."""
        try:
            return self.rules.encode(leaves.packed, leaves.uniform, leaves.offsets, leaves.actions)
        except ValueError as error:
            raise CodecError(str(error)) from None

    def decode(self, data: bytes) -> Leaves:
        """The leaves of a request, at least one, in new arrays.  CodecError on anything else."""
        try:
            return Leaves(*self.rules.decode(_checked_bytes(data)))
        except ValueError as error:
            raise CodecError(str(error)) from None


def slice_leaves(leaves: Leaves, begin: int, end: int) -> Leaves:
    """Positions [begin, end) of the leaves, as views."""
    offsets = leaves.offsets[begin : end + 1]
    first, last = offsets[0], offsets[-1]
    if begin:
        offsets = offsets - first
    return Leaves(leaves.packed[begin:end], leaves.uniform[begin:end], offsets, leaves.actions[first:last])


def fit_leaves(leaves: Leaves, game: Game) -> Leaves:
    """The same positions as `game` sees them, whose planes are the first of theirs: its rules must be the same.

    So one position feeds two networks: those of `game.planes=alphago_value` have 49 planes, of which the first 48 are
    the planes of `game.planes=alphago`.  Views of the same arrays; ValueError if the planes of `game` do not fit.
    """
    if leaves.packed.shape[1] != game.packed_bytes or leaves.uniform.shape[1] < game.num_uniform_planes:
        raise ValueError(f"positions of {leaves.packed.shape[1]} packed bytes and {leaves.uniform.shape[1]} uniform "
                         f"planes; this game has {game.packed_bytes} and {game.num_uniform_planes}")
    return replace(leaves, uniform=leaves.uniform[:, : game.num_uniform_planes])


def concat_evaluations(parts: Sequence[Evaluation]) -> Evaluation:
    """The answers of several parts as one, which names the version of the last; new arrays unless there is only one."""
    if len(parts) == 1:
        return parts[0]
    logits, values = [part.logits for part in parts], [part.values for part in parts]
    return Evaluation(np.concatenate(logits), np.concatenate(values), parts[-1].version)


def to_half(numbers: NDArray[np.float32]) -> NDArray[np.float16]:
    """Rounded to the nearest half float, as the search does; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float16)


def decode_evaluation(data: bytes, rows: int, actions: int) -> Evaluation:
    """The answer to a request of so many positions and legal actions.  CodecError on anything else.

    Numbers that are not finite are let through: the search drops the games that meet them, and counts them.
    """
    try:
        numbers, version = _core.decode_answer(_checked_bytes(data), rows, actions)
    except ValueError as error:
        raise CodecError(str(error)) from None
    return Evaluation(numbers[rows:], numbers[:rows], version)


def _checked_bytes(data: Any) -> bytes:
    if not isinstance(data, bytes):
        raise CodecError(f"expected bytes, not {type(data).__name__}")
    return data
