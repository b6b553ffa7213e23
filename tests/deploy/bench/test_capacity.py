"""A plan is the steady state of its rates: simulated second by second, the same comes out."""

from dataclasses import replace

import pytest

from shusaku.deploy.bench.capacity import Asked, Rates, plan_of

RATES = Rates(
    searches_per_s=100, rows_per_s=50, evaluations_per_s=3000, actor_mb=200, rows_per_game=25, stored_bytes_per_row=80,
    learner_rows_per_s=400, learner_threads=1, learner_mb=400, window_bytes_per_row=50)
ASKED = Asked(actors=2, cores=2, samples_per_position=4, capacity=1_000_000, minimum=6000, is_learning=True,
              learner_on_cpu=True)


def simulated(rates, asked, seconds=4000):
    """Rows a second, where the learner takes what it may and actors share what is left of the cores."""
    rows = learned = 0.0
    for _ in range(seconds * 100):
        wanted = min(rates.learner_rows_per_s / 100, max(0.0, rows * asked.samples_per_position - learned))
        learned += wanted
        used = wanted * 100 / rates.learner_rows_per_s * rates.learner_threads if asked.learner_on_cpu else 0.0
        throttled = rows * asked.samples_per_position - learned > 10 * rates.learner_rows_per_s
        if not throttled:
            rows += min(asked.actors, asked.cores, asked.cores - used) * rates.rows_per_s / 100
    return rows / seconds


@pytest.mark.parametrize("asked", [
    ASKED,
    replace(ASKED, samples_per_position=1),
    replace(ASKED, samples_per_position=20),
    replace(ASKED, actors=1, cores=4),
    replace(ASKED, actors=16, cores=16, learner_on_cpu=False),
])
def test_the_plan_is_the_steady_state(asked):
    assert plan_of(RATES, asked).rows_per_s == pytest.approx(simulated(RATES, asked), rel=0.02)


def test_limits_have_names():
    assert plan_of(RATES, ASKED).limit == "the cores"
    assert plan_of(RATES, replace(ASKED, samples_per_position=20)).limit == "the learner"
    assert plan_of(RATES, replace(ASKED, actors=1, cores=4)).limit == "self-play"
    assert plan_of(RATES, replace(ASKED, is_learning=False)).limit == "self-play"
    assert plan_of(replace(RATES, served_rows_per_s=30), ASKED).limit == "the network"


def test_servers_that_evaluate_for_less_are_the_limit():
    plan = plan_of(replace(RATES, served_rows_per_s=30), replace(ASKED, actors=16, cores=16, learner_on_cpu=False))
    assert (plan.rows_per_s, plan.games_per_hour) == (30, 3600 * 30 / 25)
    assert plan.minutes_to_first_step == pytest.approx(6000 / 30 / 60)


def test_figures():
    plan = plan_of(RATES, replace(ASKED, actors=16, cores=16, learner_on_cpu=False))  # 100 rows/s at 4 samples
    assert (plan.rows_per_s, plan.games_per_hour, plan.searches_per_s) == (100, 14_400, 200)
    assert plan.actors_that_fill_the_learner == 2
    assert plan.hours_to_full_window == pytest.approx(1_000_000 / 100 / 3600)
    assert plan.minutes_to_first_step == pytest.approx(6000 / 800 / 60)  # nobody waits for the learner yet
    assert (plan.actors_mb, plan.learner_mb, plan.redis_mb) == (3200, 450, 80)
