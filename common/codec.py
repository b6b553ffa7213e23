"""GameRecord as bytes: the only place where records are packed and unpacked.

A record is ONE msgpack map of a small header and ten columns, each a little-endian `bin`:

    schema game params game_id config_hash outcome score ended_by | actions policy_offsets ... surprise

`decode_record` trusts nothing: all sizes are bounded before anything is allocated, keys are known and unique, columns
are as long as the header implies, and every defect is a CodecError with the reason.  What the numbers mean for
the rules of a game is checked elsewhere: `replay.validation` and `common._core.RowRing` look at that.
"""

import math
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from shusaku.common.messages import SCHEMAS, EndedBy, GameId, GameRecord

MAX_RECORD_BYTES = 8 << 20  # a 722-ply game of 19x19 Go with every policy dense is 1.1 MB
MAX_PLIES = 32_768
MAX_TEXT = 128  # bytes of UTF-8 in any string of the header
MAX_PARAMS = 32
MAX_COUNTER = (1 << 63) - 1  # of the numbers of a GameId

_SCHEMAS = f"schemas {' and '.join(map(str, SCHEMAS))}"
_PLIES, _BOUNDS, _ENTRIES = 0, 1, 2  # how long a column is: T, T + 1, N
_COLUMNS: tuple[tuple[str, np.dtype[Any], int], ...] = (
    ("actions", np.dtype("<u2"), _PLIES),
    ("policy_offsets", np.dtype("<u4"), _BOUNDS),
    ("policy_actions", np.dtype("<u2"), _ENTRIES),
    ("policy_shares", np.dtype("<u2"), _ENTRIES),
    ("root_values", np.dtype("<f4"), _PLIES),
    ("raw_values", np.dtype("<f4"), _PLIES),
    ("versions", np.dtype("<u4"), _PLIES),
    ("kind", np.dtype("u1"), _PLIES),
    ("row_weight", np.dtype("<f4"), _PLIES),
    ("surprise", np.dtype("<f4"), _PLIES),
)
_HEADER = ("schema", "game", "params", "game_id", "config_hash", "outcome", "score", "ended_by")
_KEYS = frozenset(_HEADER) | frozenset(name for name, _, _ in _COLUMNS)
_ENDED_BY = {ended_by.value: ended_by for ended_by in EndedBy}


class CodecError(ValueError):
    """Bytes that are not a valid message, or a message that cannot be encoded; the text gives the reason."""


def encode_record(record: GameRecord) -> bytes:
    """The record as bytes that `decode_record` accepts; CodecError if it would not."""
    for name in ("actions", "policy_actions"):
        if not isinstance(getattr(record, name), np.ndarray):
            raise CodecError(f"column {name} must be an array, not {_brief(getattr(record, name))}")
    plies = len(record.actions)
    lengths = (plies, plies + 1, len(record.policy_actions))
    fields: dict[str, Any] = {name: getattr(record, name) for name in _HEADER}
    fields["score"] = None if record.score != record.score else record.score  # NaN: the game has none
    fields["ended_by"] = str(record.ended_by)
    _check_header(fields)
    for name, dtype, kind in _COLUMNS:
        column = getattr(record, name)
        if not isinstance(column, np.ndarray) or column.dtype != dtype or column.shape != (lengths[kind],):
            found = f"{column.dtype}{column.shape}" if isinstance(column, np.ndarray) else type(column).__name__
            raise CodecError(f"column {name} must be {dtype}({lengths[kind]},), not {found}")
        fields[name] = column.tobytes()
    _check_plies(plies)
    _check_offsets(record.policy_offsets, len(record.policy_actions))
    try:
        data: bytes = msgpack.packb(fields)
    except (ValueError, TypeError, OverflowError) as error:
        raise CodecError(f"cannot be packed: {error}") from None
    if len(data) > MAX_RECORD_BYTES:
        raise CodecError(f"{len(data):,} bytes; a record has at most {MAX_RECORD_BYTES:,}")
    return data


def decode_record(data: bytes) -> GameRecord:
    """The record that `encode_record` wrote; its columns are read-only.  CodecError on anything else."""
    fields = _unpack(data)
    schema = fields.get("schema")
    if type(schema) is not int or schema not in SCHEMAS:
        raise CodecError(f"schema {_brief(schema)} is unknown; this program reads {_SCHEMAS}")
    _check_keys(fields, _KEYS)
    _check_header(fields)
    actions, policy_actions = fields["actions"], fields["policy_actions"]
    if type(actions) is not bytes or type(policy_actions) is not bytes:
        raise CodecError("columns actions and policy_actions must be bin")
    plies, entries = len(actions) // 2, len(policy_actions) // 2
    _check_plies(plies)
    lengths = (plies, plies + 1, entries)
    columns: dict[str, NDArray[Any]] = {}
    for name, dtype, kind in _COLUMNS:
        column = fields[name]
        if type(column) is not bytes or len(column) != lengths[kind] * dtype.itemsize:
            found = f"{len(column)} bytes" if type(column) is bytes else type(column).__name__
            raise CodecError(f"column {name} must be {lengths[kind] * dtype.itemsize} bytes of {dtype}, not {found}")
        columns[name] = np.frombuffer(column, dtype)
    _check_offsets(columns["policy_offsets"], entries)
    fields["game_id"] = GameId(*fields["game_id"])
    fields["score"] = math.nan if fields["score"] is None else float(fields["score"])
    fields["ended_by"] = _ENDED_BY[fields["ended_by"]]
    return GameRecord(**(fields | columns))


def _unpack(data: bytes) -> dict[str, Any]:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CodecError(f"expected bytes, not {type(data).__name__}")
    if len(data) > MAX_RECORD_BYTES:
        raise CodecError(f"{len(data):,} bytes; at most {MAX_RECORD_BYTES:,} are read")
    try:
        # The largest array is a GameId and the largest map a record: nested headers cannot ask for much memory.
        fields = msgpack.unpackb(
            data, object_pairs_hook=_unique, max_str_len=MAX_TEXT, max_bin_len=MAX_RECORD_BYTES, max_array_len=4,
            max_map_len=max(len(_KEYS), MAX_PARAMS), max_ext_len=0,
        )
    except CodecError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise CodecError(f"not one msgpack map: {error or type(error).__name__}") from None
    if type(fields) is not dict:
        raise CodecError(f"not a msgpack map but {type(fields).__name__}")
    return fields


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise CodecError("a key occurs twice")
    return fields


def _check_keys(fields: dict[str, Any], expected: frozenset[str]) -> None:
    if fields.keys() != expected:
        missing = ", ".join(sorted(expected - fields.keys()))
        unknown = ", ".join(sorted(_brief(key) for key in fields.keys() - expected))
        raise CodecError(f"keys missing: {missing or 'none'}; keys unknown: {unknown or 'none'}")


def _check_header(fields: dict[str, Any]) -> None:
    if type(fields["schema"]) is not int or fields["schema"] not in SCHEMAS:
        raise CodecError(f"schema {_brief(fields['schema'])} is unknown; this program knows {_SCHEMAS}")
    _check_text("game", fields["game"])
    if not fields["game"]:
        raise CodecError("game must not be empty")
    _check_text("config_hash", fields["config_hash"])
    _check_params(fields["params"])
    _check_game_id(fields["game_id"])
    _check_result(fields)


def _check_params(params: Any) -> None:
    if type(params) is not dict or len(params) > MAX_PARAMS:
        raise CodecError(f"params must be a map of at most {MAX_PARAMS}, not {_brief(params)}")
    for key, value in params.items():
        _check_text("the name of a parameter", key)
        if type(value) is str:
            _check_text(f"params.{key}", value)
        elif type(value) is float:
            if not math.isfinite(value):
                raise CodecError(f"params.{key} must be finite, not {value}")
        elif type(value) is not int and type(value) is not bool:
            raise CodecError(f"params.{key} must be a number, a string or a bool, not {_brief(value)}")


def _check_game_id(game_id: Any) -> None:
    if not isinstance(game_id, list | tuple) or len(game_id) != 4:
        raise CodecError(f"game_id must be four numbers, not {_brief(game_id)}")
    for number in game_id:
        if type(number) is not int or not 0 <= number <= MAX_COUNTER:
            raise CodecError(f"game_id must be numbers from 0 to 2^63 - 1, not {_brief(number)}")


def _check_result(fields: dict[str, Any]) -> None:
    outcome = fields["outcome"]
    if type(outcome) is not int or not -1 <= outcome <= 1:
        raise CodecError(f"outcome must be -1, 0 or 1, not {_brief(outcome)}")
    score = fields["score"]
    # A finite float is within the range of doubles; an int of 64 bits always is.
    if score is not None and not (type(score) is int or (type(score) is float and math.isfinite(score))):
        raise CodecError(f"score must be a finite number or nil, not {_brief(score)}")
    ended_by = fields["ended_by"]
    if type(ended_by) is not str or ended_by not in _ENDED_BY:
        raise CodecError(f"ended_by must be one of {', '.join(_ENDED_BY)}, not {_brief(ended_by)}")


def _check_text(name: str, text: Any) -> None:
    if type(text) is not str or len(text) > MAX_TEXT:
        raise CodecError(f"{name} must be a string of at most {MAX_TEXT} bytes, not {_brief(text)}")
    if not text.isascii():
        try:
            too_long = len(text.encode()) > MAX_TEXT
        except UnicodeEncodeError as error:
            raise CodecError(f"{name} is not Unicode text: {error.reason}") from None
        if too_long:
            raise CodecError(f"{name} must be a string of at most {MAX_TEXT} bytes, not {_brief(text)}")


def _check_plies(plies: int) -> None:
    if plies > MAX_PLIES:
        raise CodecError(f"{plies:,} plies; a record has at most {MAX_PLIES:,}")


def _check_offsets(offsets: NDArray[np.uint32], end: int) -> None:
    if offsets[0] != 0 or offsets[-1] != end or np.count_nonzero(offsets[1:] < offsets[:-1]):
        raise CodecError(f"policy_offsets must rise from 0 to the {end} entries of the policy columns")


def _brief(value: Any) -> str:
    """A short text of any value, for an error message."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str | bytes) and len(value) > 40:
        return f"{value[:40]!r}... ({len(value)} long)"
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    return type(value).__name__
