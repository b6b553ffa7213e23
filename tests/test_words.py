"""One word per thing: words that docs/glossary.md has retired do not come back into the product or its docs.

`make lint` runs this file too.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("actors", "common", "configs", "deploy", "docs", "learner", "replay")
SUFFIXES = (".cpp", ".h", ".lua", ".md", ".py", ".pyi", ".yaml")
RETIRED = {  # word -> what we say
    "anybody": "any caller, any client",
    "bury": "handle_failure",
    "card": "GPU, device",
    "crew": "worker group",
    "deaf": "unreachable",
    "door": "shared-memory server, listener",
    "foreign": "external (games), other",
    "goers": "pushers",
    "guest": "client",
    "laps": "stage timer, spans",
    "nobody": "no caller, no client",
    "rung": "batch-size bucket",
    "slot": "game index, replica",
    "somebody": "the caller, the client, the user",
    "spool": "send queue",
    "stray": "quantisation error",
    "takers": "capturers",
    "whoever": "the caller, the client, the user",
    "wish": "request",
}
ALLOWED = (  # the beginning of a path, the word there, and what it means there
    ("actors/inference/", "slot", "of a shared-memory segment"),
    ("common/core/serving/", "slot", "of a shared-memory segment"),
    ("common/core/bindings/serving.cpp", "slot", "of a shared-memory segment"),
    ("common/_core.pyi", "slot", "of a shared-memory segment"),
    ("deploy/bench/served.py", "slot", "of a shared-memory segment"),
    ("docs/design/architecture.md", "slot", "of a shared-memory segment"),
    ("common/core/games/go/board.h", "slot", "of a hash table"),
    ("common/core/search/evaluation_cache.h", "slot", "of a hash table"),
    ("common/core/search/graph.h", "slot", "of a hash table"),
    ("common/core/rows/row_ring.h", "slot", "of a row, for one policy entry"),
    ("replay/stream/client.py", "slot", "in the name of an error of redis-py"),
    ("replay/stream/", "wish", "the name of a stored field"),
)
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # of snake_case and CamelCase


def retired_words(line: str) -> list[str]:
    """The retired words of a line, also as plurals and as parts of identifiers."""
    line = line.replace("slots=True", "").replace("__slots__", "")
    parts = [part.lower() for part in _PARTS.findall(line)]
    singular = [part if part in RETIRED else part.removesuffix("s") for part in parts]
    return [word for word in singular if word in RETIRED]


def is_allowed(path: str, word: str) -> bool:
    """Whether the word has another meaning in this file."""
    return any(path.startswith(start) and allowed == word for start, allowed, _ in ALLOWED)


def lines_of_the_product(root: Path) -> Iterator[tuple[str, int, str]]:
    """Path, number and text of each line."""
    files = [file for folder in FOLDERS for file in (root / folder).rglob("*") if file.suffix in SUFFIXES]
    for file in sorted([*files, root / "README.md"]):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            yield file.relative_to(root).as_posix(), number, line


def find_retired_words(root: Path) -> list[str]:
    return [
        f"{path}:{number}: {word}; we say {RETIRED[word]}: {line.strip()}"
        for path, number, line in lines_of_the_product(root)
        for word in retired_words(line)
        if not is_allowed(path, word)
    ]


def test_retired_words_stay_away() -> None:
    assert "\n".join(find_retired_words(ROOT)) == ""


@pytest.mark.parametrize(("line", "words"), [
    ("the card is discarded", ["card"]),
    ("class CardEvaluator: open_door(GUESTS, spool_size)", ["card", "door", "guest", "spool"]),
    ("Nobody asks; whoever waits, indoors, crewless", ["nobody", "whoever"]),
    ("@dataclass(frozen=True, slots=True)", []),
])
def test_words_are_found_in_prose_and_identifiers(line: str, words: list[str]) -> None:
    assert retired_words(line) == words


def test_each_exception_is_needed() -> None:
    found = {(path, word) for path, _, line in lines_of_the_product(ROOT) for word in retired_words(line)}
    for start, word, _ in ALLOWED:
        assert any(path.startswith(start) and word == other for path, other in found), (start, word)
