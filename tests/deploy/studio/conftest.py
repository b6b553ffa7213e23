"""The browser of a module's tests."""

from collections.abc import Iterator
from typing import Any

import oracles
import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; skips if it or Playwright is missing."""
    oracles.package("playwright")
    from studio_browser import open_browser  # here: it imports Playwright

    with open_browser() as opened:
        yield opened
