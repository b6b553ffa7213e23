"""common/core/README.md names every file of the core, in an order in which a file includes only files above it."""

import re
from pathlib import Path

CORE = Path(__file__).resolve().parents[3] / "common" / "core"
README = (CORE / "README.md").read_text(encoding="utf-8")


def files():
    """Header -> its place in README.md: the folder's heading, then the first mention below it."""
    places = {}
    for folder in ("games", "search", "network", "analysis", "rows", "bindings"):
        begin = README.index(f"## {folder}/")
        end = README.find("\n## ", begin)
        for file in sorted((CORE / folder).rglob("*.h")):
            inner = file.parent.relative_to(CORE / folder)
            start = README.find(f"| `{inner}/` |", begin, end) if len(inner.parts) and folder == "games" else begin
            name = file.name if folder == "games" else str(file.relative_to(CORE / folder))
            place = README.find(f"`{name}`", start, end)
            places[str(file.relative_to(CORE))] = place
    return places


def test_every_header_is_named():
    assert [file for file, place in files().items() if place < 0] == []


def test_a_header_includes_only_headers_above_it():
    places = files()
    for file, place in places.items():
        for included in re.findall(r'#include "([\w/]+\.h)"', (CORE / file).read_text(encoding="utf-8")):
            assert places[included] < place, f"{file} includes {included}, which README.md names below it"
