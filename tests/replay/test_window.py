"""The size of the window as a function of the rows seen."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shusaku.common.config.rules import check
from shusaku.common.config.schema import Config, ReplayConfig
from shusaku.common.errors import UsageError
from shusaku.replay.window import window_rows

CONFIGS = st.builds(
    lambda kind, minimum, more, exponent, factor, scale: ReplayConfig(
        window=kind, capacity=minimum + more, minimum=minimum, window_exponent=exponent, window_factor=factor,
        window_scale=scale),
    st.sampled_from(["power", "fixed"]),
    st.integers(1, 10**6),
    st.integers(0, 10**7),
    st.floats(0.01, 1.0),
    st.floats(0.001, 1.0),
    st.sampled_from([0, 1, 1000, 250_000, 10**9]),
)


@pytest.mark.parametrize(
    ("minimum", "seen", "rows"),
    [(250_000, 1_000_000, 475_000), (250_000, 10_000_000, 1_790_000), (250_000, 100_000_000, 7_650_000)],
)
def test_katagos_values(minimum: int, seen: int, rows: int) -> None:
    """research/production-systems.md section 4.3, derived there with KataGo's own code."""
    config = ReplayConfig(capacity=10**9, minimum=minimum, window_exponent=0.65, window_factor=0.4)
    assert window_rows(config, seen) == pytest.approx(rows, rel=0.005)


@given(CONFIGS, st.integers(0, 10**12), st.integers(0, 10**12))
@settings(deadline=None)
def test_it_grows_within_its_bounds(config: ReplayConfig, seen: int, more: int) -> None:
    rows = window_rows(config, seen)
    assert config.minimum <= rows <= config.capacity
    assert rows <= window_rows(config, seen + more) <= rows + more + 1
    if config.window == "fixed":
        assert rows == config.capacity
    elif seen > config.minimum:
        assert rows <= seen  # never asks for more than there was


def test_the_scale_is_apart_from_the_minimum() -> None:
    """An hour of connect four on two cores is 250,000 rows: KataGo's window keeps most of them, one of 8,000 few."""
    small = ReplayConfig(capacity=10**9, minimum=8000)
    assert window_rows(small, 250_000) == pytest.approx(49_200, rel=0.01)
    large = ReplayConfig(capacity=10**9, minimum=8000, window_scale=250_000)
    assert window_rows(large, 250_000) == pytest.approx(93_100, rel=0.01)


def test_it_begins_at_the_minimum_and_grows_by_the_factor() -> None:
    config = ReplayConfig(capacity=10**9, minimum=100_000, window_factor=0.4)
    assert window_rows(config, 0) == window_rows(config, 100_000) == 100_000
    assert window_rows(config, 101_000) == pytest.approx(100_400, abs=5)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"window": "tapered"}, "replay.window=tapered: must be one of power, fixed"),
        ({"minimum": 0}, "replay.minimum=0"),
        ({"minimum": 10**9}, "replay.minimum=1000000000: must not exceed replay.capacity="),
        ({"window_exponent": 0.0}, "replay.window_exponent=0.0: must be above 0 and at most 1"),
        ({"window_factor": 2.0}, "replay.window_factor=2.0: must be above 0 and at most 1"),
    ],
    ids=str,
)
def test_impossible_settings(change: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(Config(replay=ReplayConfig(**change)))
    assert text in str(caught.value)
