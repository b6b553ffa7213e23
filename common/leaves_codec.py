"""Leaves and Evaluation as bytes: what an actor asks an inference server, and what it answers.

Both are a fixed header and little-endian columns (B positions, N legal actions of all of them end to end, P packed
bytes and U uniform planes a position):

    request   'SLQ1'  crc32 of the rules u4 | B u4 | N u4      uniform f4 [B, U], actions u2 [N], counts u2 [B],
                                                              packed u1 [B, P]
    answer    'SLA1'  B u4 | N u4 | version u4                 values f2 [B], logits f2 [N]

Counts of legal actions travel instead of offsets: they cannot fall, overlap or begin elsewhere.  Logits and values
travel as half floats, to which the search rounds every evaluation anyway, so a remote answer is a local one bit for
bit.  Decoding trusts nothing: sizes are checked against the game before anything is read.  What does not fit is a
`common.codec.CodecError` with the reason.
"""

import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shusaku.common._core import Game
from shusaku.common.codec import CodecError
from shusaku.common.messages import Evaluation, Leaves

MAX_REQUEST_BYTES = 96_000  # Ray sends up to about 100 KB inside the call and more through its object store
MAX_VERSION = 2**32 - 1  # as in the records and in the search

_REQUEST = struct.Struct("<4sIII")
_ANSWER = struct.Struct("<4sIII")
_REQUEST_MARK, _ANSWER_MARK = b"SLQ1", b"SLA1"
_F2, _F4, _U2, _U1 = np.dtype("<f2"), np.dtype("<f4"), np.dtype("<u2"), np.dtype("u1")
_MAX, _ALL = np.maximum.reduce, np.logical_and.reduce  # half the price of the methods
_ONE = np.uint16(1)


class LeavesCodec:
    """Encodes and decodes for one game; shared by threads freely."""

    def __init__(self, game: Game, max_bytes: int = MAX_REQUEST_BYTES) -> None:
        """`max_bytes` bounds a request; one position with all its actions is always allowed."""
        self._packed_bytes, self._uniforms = game.packed_bytes, game.num_uniform_planes
        self._max_legal, self._num_actions = game.max_legal_actions, game.num_actions
        self._position_bytes = self._packed_bytes + _F4.itemsize * self._uniforms + _U2.itemsize
        self._rules = zlib.crc32(repr((game.name, sorted(game.params.items()))).encode())
        self.max_bytes = max(max_bytes, self._size(1, self._max_legal))

    def split(self, leaves: Leaves) -> list[Leaves]:
        """The leaves in as few requests as hold them, in order: each has as many whole positions as fit."""
        if self._size(len(leaves), len(leaves.actions)) <= self.max_bytes:
            return [leaves]
        # ends[i]: bytes of the first i positions.
        ends = self._position_bytes * np.arange(len(leaves) + 1) + _U2.itemsize * leaves.offsets.astype(np.int64)
        room, parts, begin = self.max_bytes - _REQUEST.size, [], 0
        while begin < len(leaves):
            end = int(np.searchsorted(ends, ends[begin] + room, side="right")) - 1
            if end <= begin:
                raise CodecError(f"position {begin} has more legal actions than the game allows: {self._max_legal}")
            parts.append(slice_leaves(leaves, begin, end))
            begin = end
        return parts

    def encode(self, leaves: Leaves) -> bytes:
        """A request.  CodecError when the leaves are of another game or too many: see `split`."""
        rows, actions = len(leaves), len(leaves.actions)
        if leaves.packed.shape != (rows, self._packed_bytes) or leaves.uniform.shape != (rows, self._uniforms):
            raise CodecError(f"planes of shape {leaves.packed.shape} and {leaves.uniform.shape}; this game has "
                             f"{self._packed_bytes} packed bytes and {self._uniforms} uniform planes a position")
        size = self._size(rows, actions)
        if size > self.max_bytes:
            raise CodecError(f"{size:,} bytes; a request has at most {self.max_bytes:,}")
        counts = leaves.offsets[1:] - leaves.offsets[:-1]
        return b"".join((
            _REQUEST.pack(_REQUEST_MARK, self._rules, rows, actions),
            leaves.uniform.astype(_F4, copy=False).tobytes(),
            leaves.actions.astype(_U2, copy=False).tobytes(),
            counts.astype(_U2).tobytes(),
            leaves.packed.tobytes(),
        ))

    def decode(self, data: bytes) -> Leaves:
        """The leaves of a request, read-only views of `data`; at least one position.  CodecError on anything else."""
        data = _checked_bytes(data, self.max_bytes, _REQUEST.size)
        mark, rules, rows, num_actions = _REQUEST.unpack_from(data)
        if mark != _REQUEST_MARK:
            raise CodecError(f"begins with {mark!r}; a request begins with {_REQUEST_MARK!r}")
        if rules != self._rules:
            raise CodecError("positions of another game, or of the same with other parameters")
        size = self._size(rows, num_actions)
        if rows < 1 or len(data) != size:
            raise CodecError(f"{len(data):,} bytes; {rows:,} positions with {num_actions:,} actions are {size:,}, "
                             f"and there must be one")
        at = _REQUEST.size
        uniform = np.frombuffer(data, _F4, rows * self._uniforms, at)
        at += uniform.nbytes
        actions = np.frombuffer(data, _U2, num_actions, at)
        at += actions.nbytes
        counts = np.frombuffer(data, _U2, rows, at)
        at += counts.nbytes
        packed = np.frombuffer(data, _U1, rows * self._packed_bytes, at).reshape(rows, self._packed_bytes)
        if _MAX(counts - _ONE) >= self._max_legal:  # 0 - 1 is 65,535
            raise CodecError(f"a position has {counts.min()} to {counts.max()} legal actions; the game allows 1 to "
                             f"{self._max_legal}")
        offsets = np.zeros(rows + 1, np.int32)
        np.add.accumulate(counts, out=offsets[1:])
        if offsets[-1] != num_actions:
            raise CodecError(f"the positions have {offsets[-1]:,} legal actions; the header says {num_actions:,}")
        if _MAX(actions) >= self._num_actions:
            raise CodecError(f"action {actions.max()}; the game has {self._num_actions}")
        if self._uniforms and not _ALL(np.isfinite(uniform)):
            raise CodecError("a uniform plane is not a finite number")
        return Leaves(packed, _native(uniform).reshape(rows, self._uniforms), offsets, _native(actions))

    def _size(self, rows: int, actions: int) -> int:
        return _REQUEST.size + rows * self._position_bytes + actions * _U2.itemsize


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
        return numbers.astype(_F2)


def encode_answer(logits: NDArray[np.float16], values: NDArray[np.float16], version: int) -> bytes:
    """An answer of half floats: logits [N], values [B].  CodecError for an invalid version."""
    if not 0 <= version <= MAX_VERSION:
        raise CodecError(f"version {version}; a version is a number from 0 to {MAX_VERSION}")
    header = _ANSWER.pack(_ANSWER_MARK, len(values), len(logits), version)
    return b"".join((header, values.tobytes(), logits.tobytes()))


def decode_evaluation(data: bytes, rows: int, actions: int) -> Evaluation:
    """The answer to a request of so many positions and legal actions.  CodecError on anything else.

    Numbers that are not finite are let through: the search drops the games that meet them, and counts them.
    """
    size = _ANSWER.size + _F2.itemsize * (rows + actions)
    data = _checked_bytes(data, size, _ANSWER.size)
    mark, found_rows, found_actions, version = _ANSWER.unpack_from(data)
    if mark != _ANSWER_MARK:
        raise CodecError(f"begins with {mark!r}; an answer begins with {_ANSWER_MARK!r}")
    if (found_rows, found_actions) != (rows, actions) or len(data) != size:
        raise CodecError(f"an answer of {len(data):,} bytes to {found_rows:,} positions with {found_actions:,} legal "
                         f"actions; asked were {rows:,} and {actions:,}, which take {size:,}")
    numbers = np.frombuffer(data, _F2, rows + actions, _ANSWER.size).astype(np.float32)
    return Evaluation(numbers[rows:], numbers[:rows], version)


def _checked_bytes(data: Any, limit: int, least: int) -> bytes:
    if not isinstance(data, bytes):
        raise CodecError(f"expected bytes, not {type(data).__name__}")
    if not least <= len(data) <= limit:
        raise CodecError(f"{len(data):,} bytes; {least:,} to {limit:,} are read")
    return data


def _native(column: NDArray[Any]) -> NDArray[Any]:
    return column if sys.byteorder == "little" else column.astype(column.dtype.newbyteorder("="))
