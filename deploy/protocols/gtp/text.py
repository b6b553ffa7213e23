"""Requests and answers of the Go Text Protocol, version 2, as text (its sections 2.1 to 2.8)."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

BLACK, WHITE = 0, 1  # black moves first
COLOURS = {"b": BLACK, "black": BLACK, "w": WHITE, "white": WHITE}
LETTERS = ("B", "W")  # in results, such as B+3.5
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class CommandError(Exception):
    """The command fails; its text is the answer behind `?`."""


SYNTAX_ERROR = CommandError("syntax error")


@dataclass(frozen=True, slots=True)
class Request:
    """One command."""

    number: str  # the id that the answer repeats; empty: there is none
    name: str
    words: tuple[str, ...]  # the arguments


def parse_request(line: str) -> Request | None:
    """The command of a line; None if it holds none, but blanks and a comment."""
    words = _CONTROL.sub("", line.replace("\t", " ")).partition("#")[0].split()
    if not words:
        return None
    number = words.pop(0) if words[0].isascii() and words[0].isdigit() else ""
    return Request(number, words[0] if words else "", tuple(words[1:]))


def format_answer(number: str, text: str, *, is_error: bool = False) -> str:
    """The answer with the empty line that ends it; other empty lines are left out, as they would end it, too.

    Text that begins with a line end begins on a line of its own.
    """
    first, *rest = [_CONTROL.sub("", line.expandtabs(1)).rstrip() for line in text.split("\n")]
    head = f"{'?' if is_error else '='}{number} {first}".rstrip()
    return "\n".join([head, *(line for line in rest if line)]) + "\n\n"


def parse_colour(word: str) -> int:
    """BLACK or WHITE; CommandError if the word is no colour."""
    colour = COLOURS.get(word.lower())
    if colour is None:
        raise SYNTAX_ERROR
    return colour


def parse_count(word: str, most: int = 1 << 30) -> int:
    """A number from 0 to `most`; CommandError if the word is none."""
    if not (word.isascii() and word.isdigit() and len(word) <= 10 and int(word) <= most):
        raise SYNTAX_ERROR
    return int(word)


def parse_number(word: str) -> float:
    """A finite number; CommandError if the word is none."""
    try:
        number = float(word)
    except ValueError:
        raise SYNTAX_ERROR from None
    if not math.isfinite(number):
        raise SYNTAX_ERROR
    return number


def parse_flag(word: str) -> bool:
    """`true` or `false`; CommandError if the word is neither."""
    if word.lower() not in ("true", "false"):
        raise SYNTAX_ERROR
    return word.lower() == "true"


def expect_words(words: Sequence[str], *counts: int) -> None:
    """CommandError unless there are so many arguments."""
    if len(words) not in counts:
        raise SYNTAX_ERROR


def format_flag(value: bool) -> str:
    """`true` or `false`."""
    return str(value).lower()
