"""What a page may ask for: each type of message with its fields, checked before anything sees them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shusaku.common.config.schema import MOST_THREADS
from shusaku.common.suggestions import nearest
from shusaku.deploy.studio.table import ENGINE, HUMAN
from shusaku.deploy.studio.temperature import HIGH, LOW

MAX_FILE = 3 << 20  # bytes of a file that is opened
MAX_DATA = MAX_FILE // 3 * 4  # characters of it, in base64
MAX_POSITION = 4096  # of a position


class BadRequest(ValueError):
    """A message that is none; the text says why."""


@dataclass(frozen=True)
class Field:
    """A value that a message must have."""

    kind: type[Any]
    low: float = 0  # the least number
    high: float = 0  # the greatest number, or the longest text
    choices: tuple[str, ...] = ()

    def check(self, name: str, value: Any) -> Any:
        """The value; BadRequest if it is not allowed."""
        if type(value) is not self.kind and not (self.kind is float and type(value) is int):
            raise BadRequest(f"{name} must be {self.kind.__name__}, not {_brief(value)}")
        if self.choices and value not in self.choices:
            raise BadRequest(f"{name} {_brief(value)}: must be one of {', '.join(self.choices)}")
        if self.kind is str and not self.choices and len(value) > self.high:
            raise BadRequest(f"{name}: {len(value):,} characters; at most {self.high:,.0f} are read")
        if self.kind is str and any("\ud800" <= character <= "\udfff" for character in value):
            raise BadRequest(f"{name}: holds half a character")
        if self.kind in (int, float) and not self.low <= value <= self.high:
            raise BadRequest(f"{name} {_brief(value)}: must lie in [{self.low:g}, {self.high:g}]")
        return self.kind(value)


_PLY = Field(int, 0, 1 << 20)
_SIDE = Field(str, choices=(HUMAN, ENGINE))
_POSITION = Field(str, high=MAX_POSITION)
_FLAG = Field(bool)
NOTATIONS = ("sgf", "pgn", "kifu", "csa", "jsonl")  # the endings of the files: what a page saves is in UTF-8

REQUESTS: Mapping[str, Mapping[str, Field]] = {
    "new": {"first": _SIDE, "second": _SIDE, "position": _POSITION},
    "play": {"action": Field(int, 0, (1 << 16) - 1), "ply": _PLY},
    "undo": {},
    "go_to": {"ply": _PLY},
    "resign": {},
    "sides": {"first": _SIDE, "second": _SIDE},
    "settings": {"simulations": Field(int, 1, 1 << 20), "threads": Field(int, 1, MOST_THREADS),
                 "temperature": Field(float, LOW, HIGH), "analyse": _FLAG},
    "review": {},
    "open": {"name": Field(str, high=255), "data": Field(str, high=MAX_DATA)},
    "save": {"notation": Field(str, choices=NOTATIONS)},
    "see": {"position": _POSITION},
    "watch": {"winner": Field(str, choices=("", "first", "second", "draw")),
              "ended_by": Field(str, choices=("", "rules", "resignation", "ply_limit")),
              "least_plies": _PLY, "most_plies": _PLY, "least_version": Field(int, 0, 1 << 32)},
    "game": {"number": Field(int, 1, 1 << 53)},
    "ply": {"number": Field(int, 1, 1 << 53), "ply": _PLY},
    "learn": {"other": Field(str, high=255)},
    "leave": {},
}


def parse_request(data: str) -> tuple[str, dict[str, Any]]:
    """Type and fields of a message; BadRequest if it is none."""
    try:
        message = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"no JSON: {str(error)[:100]}") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise BadRequest("a message is a JSON object with a type")
    name = message.pop("type")
    if name not in REQUESTS:
        raise BadRequest(f"type {_brief(name)}: there is none; nearest: {nearest(name[:40], REQUESTS)}")
    fields = REQUESTS[name]
    if message.keys() != fields.keys():
        wanted = ", ".join(fields) or "none"
        raise BadRequest(f"{name}: has the fields {wanted}, not {_brief(', '.join(map(str, message)))}")
    return name, {key: field.check(f"{name}.{key}", message[key]) for key, field in fields.items()}


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
