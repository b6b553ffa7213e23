"""What the search said of a move, as the first line of a comment: "Shusaku: value +0.124; D4 43.2%, C3 20.1%."."""

import re
from collections.abc import Callable

from shusaku.common._core import Position
from shusaku.deploy.records.game_record import Move

_VALUE = r"value ([+-]?\d(?:\.\d{1,6})?)"
_LINE = re.compile(rf"Shusaku: (?:{_VALUE})?(?:; )?((?:\S{{1,12}} \d{{1,3}}(?:\.\d)?%(?:, )?)*)\.(?:\s++|$)")
_SHARE = re.compile(r"(\S+) (\d+(?:\.\d)?)%")


def write_comment(move: Move, name: Callable[[int], str], top: int) -> str:
    """The comment of a move with value and the `top` largest shares before the move's own comment.

    `name`: of an action, such as Position.to_move before the move.
    """
    parts = [] if move.value is None else [f"value {move.value:+.3f}"]
    if move.policy and top:
        parts.append(", ".join(f"{name(action)} {100 * share:.1f}%"
                               for action, share in move.policy[:top]))
    line = f"Shusaku: {'; '.join(parts)}." if parts else ""
    return "\n".join(text for text in (line, move.comment) if text)


def read_comment(comment: str, position: Position) -> dict[str, object]:
    """The fields of a Move that a comment says: comment, and value and policy if `write_comment` wrote them.

    `position`: before the move.
    """
    match = _LINE.match(comment)
    if match is None or not (match[1] or match[2]):
        return {"comment": comment}
    known: dict[str, object] = {"comment": comment[match.end():]}
    if match[1] is not None and abs(float(match[1])) <= 1:
        known["value"] = float(match[1])
    shares = []
    for text, share in _SHARE.findall(match[2]):
        try:
            shares.append((position.from_move(text), float(share) / 100))
        except ValueError:
            return known
    return {**known, "policy": tuple(shares)}
