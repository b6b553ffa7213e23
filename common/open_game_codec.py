"""OpenGame as bytes, for the replay, which keeps open games between two incarnations of an actor.

    magic and format version (5 bytes) | SHA-256 of name and content, its first 16 bytes | content

The content is one msgpack array: policy_plies, avoided, may_resign, and the record as `common.codec` encodes it.  As
there, nothing is trusted: every defect is a CodecError with the reason.
"""

import hashlib
import re

import msgpack

from shusaku.common.codec import MAX_RECORD_BYTES, CodecError, decode_record, encode_record
from shusaku.common.messages import OpenGame

MAX_OPEN_GAME_BYTES = MAX_RECORD_BYTES + 64
OPEN_ID = re.compile(r"\d{1,16}(\.\d{1,16}){3}")  # the append script checks the same
_FORMAT = b"open\x01"
_DIGEST_BYTES = 16
_MAX_NUMBER = 1 << 31


def encode_open_game(game: OpenGame) -> bytes:
    """The game as bytes that `decode_open_game` accepts together with its name; CodecError if it would not."""
    state = [game.policy_plies, game.avoided, game.may_resign, encode_record(game.record)]
    _check(game.open_id, state)
    content: bytes = msgpack.packb(state)
    return _FORMAT + _digest(game.open_id, content) + content


def decode_open_game(open_id: str, data: bytes) -> OpenGame:
    """The game that `encode_open_game` wrote under this name; CodecError on anything else."""
    if len(data) > MAX_OPEN_GAME_BYTES:
        raise CodecError(f"{len(data):,} bytes; an open game has at most {MAX_OPEN_GAME_BYTES:,}")
    begin = len(_FORMAT) + _DIGEST_BYTES
    if data[: len(_FORMAT)] != _FORMAT:
        raise CodecError("not an open game, or one of another format than 1")
    content = data[begin:]
    if data[len(_FORMAT) : begin] != _digest(open_id, content):
        raise CodecError("the open game is damaged, or has another name")
    try:
        state = msgpack.unpackb(content, max_str_len=0, max_bin_len=MAX_RECORD_BYTES, max_array_len=4, max_map_len=0,
                                max_ext_len=0)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise CodecError(f"not one msgpack array: {error or type(error).__name__}") from None
    _check(open_id, state)
    policy_plies, avoided, may_resign, record = state
    return OpenGame(open_id, decode_record(record), policy_plies, avoided, may_resign)


def _check(open_id: str, state: object) -> None:
    if not OPEN_ID.fullmatch(open_id):
        raise CodecError(f"name {open_id[:80]!r}: an open game is named by four numbers with dots between them")
    if not isinstance(state, list) or [type(part) for part in state] != [int, int, bool, bytes]:
        raise CodecError("an open game is two integers, a bool and bytes")
    policy_plies, avoided = state[:2]
    if not (0 <= policy_plies < _MAX_NUMBER and -1 <= avoided < _MAX_NUMBER):
        raise CodecError(f"policy_plies {policy_plies} or avoided {avoided} is out of range")


def _digest(open_id: str, content: bytes) -> bytes:
    return hashlib.sha256(open_id.encode() + b"\0" + content).digest()[:_DIGEST_BYTES]
