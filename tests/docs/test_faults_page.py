"""The page of faults names tests that exist, and every test of a fault with real processes is on it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/operations/faults.md").read_text()


def test_the_page_names_tests_that_exist() -> None:
    named = re.findall(r"`([a-z_]+/[\w/]+(?:\.py)?/?)(?:::(\w+))?`", PAGE)
    assert len(named) > 30
    for path, name in named:
        place = ROOT / path if path.startswith("benchmarks") else ROOT / "tests" / path
        assert place.exists(), path
        assert not name or f"def {name}(" in place.read_text(), f"{path}::{name}"


def test_every_file_with_fault_tests_is_on_the_page() -> None:
    marked = [path for path in (ROOT / "tests").rglob("test_*.py")
              if re.search(r"pytest\.mark\.(faults|nodes)", path.read_text())]
    missing = [str(path.relative_to(ROOT / "tests")) for path in marked
               if path != Path(__file__) and str(path.relative_to(ROOT / "tests")) not in PAGE]
    assert missing == []
