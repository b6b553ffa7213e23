"""The size of the window as a function of the rows seen."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shusaku.common.config.schema import ReplayConfig
from shusaku.common.errors import UsageError
from shusaku.replay.window import Window

WINDOWS = st.builds(
    lambda kind, minimum, more, exponent, factor: Window(kind, minimum + more, minimum, exponent, factor),
    st.sampled_from(["power", "fixed"]),
    st.integers(1, 10**6),
    st.integers(0, 10**7),
    st.floats(0.01, 1.0),
    st.floats(0.001, 1.0),
)


@pytest.mark.parametrize(
    ("minimum", "seen", "rows"),
    [(250_000, 1_000_000, 475_000), (250_000, 10_000_000, 1_790_000), (250_000, 100_000_000, 7_650_000)],
)
def test_katagos_values(minimum: int, seen: int, rows: int) -> None:
    """research/production-systems.md section 4.3, derived there with KataGo's own code."""
    assert Window("power", 10**9, minimum).rows(seen) == pytest.approx(rows, rel=0.005)


@given(WINDOWS, st.integers(0, 10**12), st.integers(0, 10**12))
@settings(deadline=None)
def test_it_grows_within_its_bounds(window: Window, seen: int, more: int) -> None:
    rows = window.rows(seen)
    assert window.minimum <= rows <= window.capacity
    assert rows <= window.rows(seen + more) <= rows + more + 1
    if window.kind == "fixed":
        assert rows == window.capacity
    elif seen > window.minimum:
        assert rows <= seen  # never asks for more than there was


def test_it_begins_at_the_minimum_and_grows_by_the_factor() -> None:
    window = Window("power", 10**9, 100_000, factor=0.4)
    assert window.rows(0) == window.rows(100_000) == 100_000
    assert window.rows(101_000) == pytest.approx(100_400, abs=5)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"window": "tapered"}, "replay.window=tapered: must be one of power, fixed"),
        ({"minimum": 0}, "replay.minimum=0"),
        ({"minimum": 10**9}, "replay.minimum=1000000000: must lie between 1 and replay.capacity="),
        ({"window_exponent": 0.0}, "replay.window_exponent=0.0"),
        ({"window_factor": 2.0}, "replay.window_factor=2.0"),
    ],
    ids=str,
)
def test_impossible_settings(change: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Window.of(ReplayConfig(**change))
    assert text in str(caught.value)
