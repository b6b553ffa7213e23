"""How old the sampled rows are, against numbers worked out by hand."""

import numpy as np

from shusaku.learner.sample_age import SampleAge


def of(*versions: int) -> np.ndarray:
    return np.array(versions, np.uint32)


def test_ages_are_counted_from_the_weights_that_played_the_row() -> None:
    steps = {1: 0, 2: 10, 4: 30}
    age = SampleAge(steps)
    assert age.take() == {}
    age.add(of(1, 2, 4, 4), step=35)  # 35, 25, 5, 5 steps; 3, 2, 0, 0 versions
    steps[5] = 40
    age.add(of(4, 5), step=41)  # 11, 1 steps; 1, 0 versions
    assert age.take() == {
        "sample_age_steps": 82 / 6, "sample_age_steps_max": 35, "sample_age_versions": 1.0,
        "sample_age_versions_max": 3,
    }
    assert age.take() == {}, "each row is counted once"


def test_after_a_return_to_a_checkpoint_no_age_is_negative() -> None:
    age = SampleAge({1: 0, 2: 100})
    age.add(of(1, 2), step=40)
    assert age.take() == {
        "sample_age_steps": 20.0, "sample_age_steps_max": 40, "sample_age_versions": 0.5, "sample_age_versions_max": 1,
    }


def test_a_version_that_the_index_has_lost_counts_as_the_one_before_it() -> None:
    age = SampleAge({3: 30, 7: 70})
    age.add(of(2, 5, 9), step=70)  # taken as 3, 3 and 7
    found = age.take()
    assert found["sample_age_steps"] == 80 / 3
    assert (found["sample_age_versions"], found["sample_age_versions_max"]) == (7 / 3, 5)
