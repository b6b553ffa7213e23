"""Games of every kind as JSON lines of ours, one object a game; keys that are not known are passed over.

    {"name": "go", "params": {...}, "players": ["...", "..."], "outcome": 1, "score": 3.5, "ended_by": "rules",
     "moves": ["D4", {"move": "C3", "value": 0.12, "policy": {"C3": 0.8, "E5": 0.2}, "comment": "..."}, ...]}

Optional: start, date, event, comment, headers; of a move: value, policy, seconds, comment, nags.  As everywhere, the
outcome and the score are those of player 0, and a value is that of the player who moves.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from shusaku.common._core import Position
from shusaku.common.errors import GameError
from shusaku.deploy.records.game_record import MAX_TEXT, GameRecord, Move, RecordError, Replay

MAX_GAME = 16 << 20  # characters of a line
_PLAIN = ("start", "date", "event", "comment")
_BRIEF = 300  # characters of a name, a date, an event


def read_games(text: str) -> Iterator[GameRecord | RecordError]:
    """The games, one a line, or why one is left out; empty lines are passed over."""
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if text[at:end].strip():
            try:
                yield _read_line(text[at:end])
            except RecordError as error:
                yield error
            except GameError as error:  # by an external game, behind its last move
                yield RecordError(str(error))
        at = end + 1


def write_game(record: GameRecord, *, top: int | None = None) -> str:
    """The game as a line; `top`: so many moves of each search with it, None: neither values nor policies."""
    return json.dumps(to_json(record, top=top), ensure_ascii=False, allow_nan=False) + "\n"


def to_json(record: GameRecord, *, top: int | None = None) -> dict[str, Any]:
    """The object of the line."""
    content: dict[str, Any] = {"name": record.game, "params": record.params, "players": list(record.players),
                               "outcome": record.outcome, "score": record.score, "ended_by": record.ended_by}
    content |= {key: getattr(record, key) for key in _PLAIN if getattr(record, key)}
    if record.headers:
        content["headers"] = record.headers
    content["moves"] = [_write_move(position, move, top) for position, move in record.positions()]
    return content


def _write_move(position: Position, move: Move, top: int | None) -> str | dict[str, Any]:
    known: dict[str, Any] = {}
    if top is not None and move.value is not None:
        known["value"] = round(move.value, 4)
    if top is not None and move.policy:
        known["policy"] = {position.to_move(action): round(share, 4) for action, share in move.policy[:top or None]}
    if move.seconds is not None:
        known["seconds"] = move.seconds
    if move.comment:
        known["comment"] = move.comment
    if move.nags:
        known["nags"] = list(move.nags)
    return {"move": move.text, **known} if known else move.text


def _read_line(line: str) -> GameRecord:
    if len(line) > MAX_GAME:
        raise RecordError(f"longer than {MAX_GAME:,} characters")
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"no JSON: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("name"), str):
        raise RecordError('no JSON object with the key "name" of a game')
    moves = _typed(content, "moves", list)
    replay = Replay(content["name"], _typed(content, "params", dict), _text(content, "start", MAX_TEXT))
    for item in moves:
        _read_move(replay, item)
    players = [name[:_BRIEF] for name in _typed(content, "players", list) if isinstance(name, str)]
    headers = {key[:_BRIEF]: value[:_BRIEF] for key, value in _typed(content, "headers", dict).items()
               if isinstance(value, str)}
    outcome, score = content.get("outcome"), _number(content.get("score"))
    if outcome is not None and (type(outcome) is not int or not -1 <= outcome <= 1):
        raise RecordError(f"outcome {outcome!r}: must be -1, 0, 1 or null")
    return replay.finish(
        outcome=outcome, score=score, ended_by=_text(content, "ended_by"), headers=headers,
        players=(players[0], players[1]) if len(players) == 2 else ("", ""), date=_text(content, "date"),
        event=_text(content, "event"), comment=_text(content, "comment", MAX_TEXT))


def _read_move(replay: Replay, item: Any) -> None:
    text = item.get("move") if isinstance(item, dict) else item
    if not isinstance(text, str):
        raise RecordError(f"{str(item)[:40]!r} is no move", replay.ply)
    if not isinstance(item, dict):
        replay.play(text)
        return
    before, ply = replay.position.copy(), replay.ply
    replay.play(text)
    if replay.cut:
        return
    known: dict[str, object] = {"comment": _text(item, "comment", MAX_TEXT), "seconds": _number(item.get("seconds")),
                                "value": _number(item.get("value")), "policy": _read_policy(before, item, ply)}
    nags = item.get("nags")
    if isinstance(nags, list):
        known["nags"] = tuple(nag for nag in nags[:8] if type(nag) is int and 0 <= nag <= 255)
    replay.annotate(**known)


def _read_policy(position: Position, item: dict[str, Any], ply: int) -> tuple[tuple[int, float], ...]:
    shares = []
    for text, share in _typed(item, "policy", dict, ply).items():
        number = _number(share)
        try:
            shares.append((position.from_move(text), number or 0.0))
        except ValueError:
            raise RecordError(f"policy: {text[:20]!r} is no legal move", ply) from None
    return tuple(sorted(shares, key=lambda item: -item[1]))


def _typed(content: dict[str, Any], key: str, kind: type, ply: int = 0) -> Any:
    value = content.get(key, kind())
    if not isinstance(value, kind):
        raise RecordError(f"{key} must be a {'list' if kind is list else 'map'}", ply)
    return value


def _text(content: dict[str, Any], key: str, most: int = _BRIEF) -> str:
    value = content.get(key, "")
    return value[:most] if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e9 and math.isfinite(value) else None
