"""Priorities follow what processes claim."""

import pytest

from shusaku.common.hardware import nice_of_share


@pytest.mark.parametrize(("nice", "cpus", "expected"), [
    (5, 1.0, 5), (5, 4.0, 5), (5, 0.8, 6), (5, 0.1, 15), (5, 0.02, 19), (0, 1.0, 0), (19, 0.5, 19)])
def test_a_share_of_a_cpu_has_that_share_of_the_weight(nice: int, cpus: float, expected: int) -> None:
    assert nice_of_share(nice, cpus) == expected
