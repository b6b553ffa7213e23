"""pi(a) ~ N(a)^(1/tau)."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shusaku.deploy.studio.temperature import HIGH, LOW, move_probabilities

NOTEBOOK = [10, 20, 150, 5, 40]


def test_the_visits_of_the_notebook() -> None:
    assert move_probabilities(NOTEBOOK, 1.0) == pytest.approx(np.array(NOTEBOOK) / 225)
    roots = np.sqrt(NOTEBOOK)
    assert move_probabilities(NOTEBOOK, 2.0) == pytest.approx(roots / roots.sum())
    assert move_probabilities(NOTEBOOK, 0.5) == pytest.approx(np.square(NOTEBOOK) / np.square(NOTEBOOK).sum())
    assert move_probabilities(NOTEBOOK, 0.049).tolist() == [0, 0, 1, 0, 0]
    assert move_probabilities(NOTEBOOK, 0.05)[2] < 1


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.floats(LOW, HIGH))
def test_it_is_a_distribution_in_the_order_of_the_visits(visits: list[int], temperature: float) -> None:
    shares = move_probabilities(visits, temperature)
    assert np.isfinite(shares).all()
    assert shares.sum() == pytest.approx(1)
    assert int(np.argmax(visits)) == int(np.argmax(shares))
    if any(visits) and temperature >= 0.05:
        order = np.argsort(visits)
        assert (np.diff(shares[order]) >= -1e-12).all()


def test_without_visits_all_are_equal_and_ties_go_to_the_first() -> None:
    assert move_probabilities([0, 0], 1.0).tolist() == [0.5, 0.5]
    assert move_probabilities([3, 7, 7], 0.01).tolist() == [0, 1, 0]
