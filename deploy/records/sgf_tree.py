"""The syntax of SGF FF[4] (https://www.red-bean.com/sgf/sgf4.html): game trees, of which the main line is read.

One pass without recursion: the time is linear in the text.  Where a game is damaged, reading goes on with the next
line that begins a game.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from shusaku.deploy.records.game_record import RecordError

MAX_GAME = 4 << 20  # characters of one game
MAX_NESTING = 4096  # of variations
MAX_VALUES = 400  # of one property

Node = dict[str, list[str]]  # property -> raw values

_TOKEN = re.compile(r"\s*+(?:([();])|([A-Za-z]{1,64}+)|\[([^\]\\]*+(?:\\.[^\]\\]*+)*+)\])", re.S)
_BEGIN = re.compile(r"\(\s*+;")
_NEXT = re.compile(  # a line that begins a game
    r"^[ \t]*+\(\s*+;\s*+(?:FF|GM|CA|AP|SZ|ST|KM|PB|PW|EV|DT|RE|RU|HA|GN|PC|AB|BR|US)\s*+\[", re.M)
_ESCAPED = re.compile(r"\\(\r\n|\n\r|.)", re.S)
_LINE = re.compile(r"(\n[ \t]*)\(")
_BREAK = re.compile(r"\r\n|\n\r|\r")


@dataclass(slots=True)
class Tree:
    """The main line of a game tree."""

    nodes: list[Node] = field(default_factory=list)
    variations: int = 0  # that were passed over


def read_trees(text: str) -> Iterator[Tree | RecordError]:
    """The games of a collection, or why one cannot be read.  What stands between games is passed over."""
    at, again = 0, 3 * len(text)  # characters that may be read again behind damaged games
    while begin := _BEGIN.search(text, at):
        start = begin.start()
        tree, at, error = _read_tree(text, start)
        if error is None:
            yield tree
            continue
        yield error
        marker = _NEXT.search(text, start + 1)
        again -= max(0, at - start)
        if marker is None:
            return
        at = marker.start() if again > 0 or marker.start() > at else at


def _read_tree(text: str, start: int) -> tuple[Tree, int, RecordError | None]:
    """The tree, where it ends, and what is wrong with it."""
    reader, at = _TreeReader(), start
    try:
        while match := _TOKEN.match(text, at):
            at = match.end()
            if at - start > MAX_GAME:
                raise RecordError(f"longer than {MAX_GAME:,} characters")
            mark, word, value = match.groups()
            if mark is not None:
                reader.read_mark(mark)
                if reader.depth == 0:
                    return reader.tree, at, None
            elif word is not None:
                reader.read_name(word)
            else:
                reader.read_value(value)
    except RecordError as error:
        return reader.tree, at, error
    rest = text[at:at + 60].strip()
    return reader.tree, at, RecordError(f"{rest[:20]!r} is no SGF" if rest else "the text ends within the game")


class _TreeReader:
    """Keeps the main line: what stands before the first closing bracket."""

    def __init__(self) -> None:
        self.tree, self.depth = Tree(), 0
        self._name, self._has_ended = "", False

    def read_mark(self, mark: str) -> None:
        """A bracket, or the beginning of a node."""
        self._name = ""
        if mark == ";":
            if not self._has_ended:
                self.tree.nodes.append({})
        elif mark == "(":
            self.depth += 1
            self.tree.variations += self._has_ended
            if self.depth > MAX_NESTING:
                raise RecordError(f"variations nested more than {MAX_NESTING} deep")
        else:
            self.depth -= 1
            self._has_ended = True

    def read_name(self, word: str) -> None:
        """The name of a property."""
        self._name = "".join(letter for letter in word if letter.isupper())  # FF[3] allowed small letters between
        if not self.tree.nodes:
            raise RecordError(f"the property {word} stands before the first node")
        is_root = not self._has_ended and len(self.tree.nodes) == 1
        if self._name in ("FF", "GM") and not is_root and self._name in self.tree.nodes[0]:
            raise RecordError(f"another game begins ({self._name}) before this one ends: a ')' is missing")

    def read_value(self, value: str) -> None:
        """A value of the last property."""
        if not self._name:
            raise RecordError(f"a value [{value[:20]}] without a property before it")
        if "\n" in value and _NEXT.search(value.rpartition("\\]")[2]):
            raise RecordError(f"another game begins within a value of {self._name}: a ']' is missing")
        if self._has_ended:
            return
        values = self.tree.nodes[-1].setdefault(self._name, [])
        if len(values) >= MAX_VALUES:
            raise RecordError(f"more than {MAX_VALUES} values of {self._name}")
        values.append(value)


def unescape(value: str) -> str:
    """A value of type Text: a backslash protects a character and joins lines."""
    return _BREAK.sub("\n", _ESCAPED.sub(lambda match: "" if match[1][0] in "\r\n" else match[1], value))


def simple_text(value: str) -> str:
    """A value of type SimpleText: one line."""
    return " ".join(unescape(value).split())


def escape(text: str) -> str:
    """A text as the value of a property; no line of it looks like the beginning of a game."""
    return _LINE.sub(r"\1\\(", text.replace("\\", "\\\\").replace("]", "\\]"))
