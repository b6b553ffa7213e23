"""Reverb's rule, its dead-lock conditions, and restarts with and without the window."""

import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shusaku.common.errors import UsageError
from shusaku.replay.rate_limiter import LimiterState, RateLimiter


def limiter(**changes: Any) -> RateLimiter:
    options: dict[str, Any] = {
        "samples_per_position": 2.0,
        "minimum": 4000,
        "capacity": 10_000,
        "rows_per_insert": 42,
        "rows_per_sample": 256,
    }
    return RateLimiter(**(options | changes))


def test_texts_and_turns() -> None:
    rule = limiter()
    assert rule.waits_for() == "0 of 4,000 rows before the first step"
    rule.insert(1240)
    assert rule.waits_for() == "1,240 of 4,000 rows before the first step"
    assert not rule.sample(256)
    rule.insert(2760)
    assert rule.waits_for() == ""
    assert rule.sample(256)  # the error buffer is one mini-batch
    assert not rule.sample(256)
    assert rule.waits_for() == "128 more rows, to learn 2 times from each"
    rule.insert(127)
    assert not rule.can_sample(256)
    rule.insert(1)
    assert rule.can_sample(256)
    rule.insert(127)
    assert not rule.is_throttled
    rule.insert(1)
    assert rule.is_throttled
    assert rule.waits_for() == "2 more samples to be learned from; playing pauses"
    rule.insert(1000)  # soft: what is finished is taken
    assert rule.inserted == 5256
    while rule.sample(256):
        pass
    assert not rule.is_throttled
    assert rule.state() == LimiterState(5256, rule.sampled, 0)


@given(
    samples_per_position=st.floats(0.01, 50), minimum=st.integers(1, 5000), inserted=st.integers(0, 10**9),
    difference=st.integers(-20_000, 20_000), size=st.integers(0, 10_000), former=st.none() | st.floats(0.01, 50),
)
def test_the_credit_is_exact(
    samples_per_position: float, minimum: int, inserted: int, difference: int, size: int, former: float | None
) -> None:
    """Actors are throttled when it is used up and not one row before."""
    rule = limiter(samples_per_position=samples_per_position, minimum=minimum)
    sampled = max(0, int(inserted * samples_per_position) - difference)
    rule.restore(LimiterState(inserted, sampled, max(0, inserted - size)))
    if former is not None:
        rule.count_from_now(former, 4000)
    credit = rule.credit()
    assert credit is not None
    assert credit == 0 or not rule.is_throttled
    if credit > 0:
        rule.insert(credit - 1)
        assert not rule.is_throttled
        rule.insert(1)
    assert rule.is_throttled
    assert limiter(enabled=False).credit() is None


def test_the_error_buffer_is_raised_to_what_is_safe() -> None:
    assert limiter().error_buffer == 256
    assert limiter(samples_per_position=8).error_buffer == 336
    assert limiter(error_buffer=1000).error_buffer == 1000


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"capacity": 4041}, "set replay.capacity=4042 or more, or replay.minimum=3999 or less"),
        ({"capacity": 40, "minimum": 20}, "set replay.capacity=62 or more"),
        ({"minimum": 0}, "replay.minimum=0: must be at least 1"),
        ({"samples_per_position": math.inf}, "replay.samples_per_position=inf"),
        ({"samples_per_position": -1.0}, "replay.samples_per_position=-1.0"),
    ],
    ids=str,
)
def test_impossible_settings(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        limiter(**changes)
    assert text in str(caught.value)
    if changes.get("capacity") == 40:
        assert "or less" not in str(caught.value)
    assert limiter(capacity=4042).size == 0


def test_without_a_learner_nobody_is_throttled() -> None:
    rule = limiter(enabled=False)
    assert rule.waits_for() == ""
    rule.insert(10**6)
    assert not rule.is_throttled
    assert rule.waits_for() == ""


@pytest.mark.parametrize("state", [LimiterState(5, 0, 6), LimiterState(5, -1, 0), LimiterState(-1, 0, 0),
                                   LimiterState(5, 0, 0, math.nan)], ids=str)
def test_impossible_counters(state: LimiterState) -> None:
    with pytest.raises(ValueError, match="impossible counters"):
        limiter().restore(state)


@given(
    samples_per_position=st.floats(0.01, 50),
    minimum=st.integers(1, 2000),
    rows_per_insert=st.integers(1, 300),
    rows_per_sample=st.integers(1, 2000),
    at=st.integers(0, 10**6),
    sampled=st.integers(0, 10**7),
)
@settings(deadline=None)
def test_no_state_stops_both_sides(
    samples_per_position: float, minimum: int, rows_per_insert: int, rows_per_sample: int, at: int, sampled: int
) -> None:
    """With the raised buffer one side may always go on, whatever the counters, once the minimum is there."""
    rule = RateLimiter(
        samples_per_position=samples_per_position,
        minimum=minimum,
        capacity=minimum + rows_per_insert,
        rows_per_insert=rows_per_insert,
        rows_per_sample=rows_per_sample,
    )
    rule.restore(LimiterState(minimum + at, sampled, at))
    assert rule.can_insert(rows_per_insert) or rule.can_sample(rows_per_sample)
    assert not (rule.is_throttled and not rule.can_sample(rows_per_sample))


@given(
    st.floats(0.5, 8), st.integers(1, 500), st.integers(2, 300), st.integers(2, 600), st.floats(0.1, 0.499)
)  # fmt: skip
@settings(deadline=None)
def test_half_the_buffer_can_dead_lock(
    samples_per_position: float, minimum: int, rows_per_insert: int, rows_per_sample: int, share: float
) -> None:
    """Why the buffer is raised: with less than half of it some state stops both sides for ever."""
    rule = limiter(
        samples_per_position=samples_per_position,
        minimum=minimum,
        capacity=minimum + rows_per_insert,
        rows_per_insert=rows_per_insert,
        rows_per_sample=rows_per_sample,
    )
    rule.error_buffer *= share
    # The difference just above what forbids an insert; the next sample is then out of reach too.
    needed = rule.error_buffer - rows_per_insert * samples_per_position
    inserted = minimum + 10**6
    sampled = math.floor((inserted - minimum) * samples_per_position - needed) - 1
    assume(sampled >= 0)
    rule.restore(LimiterState(inserted, sampled, 10**6))
    is_stuck = not rule.can_insert(rows_per_insert) and not rule.can_sample(rows_per_sample)
    gap = rows_per_insert * samples_per_position + rows_per_sample - 2 * rule.error_buffer
    assert is_stuck or gap <= 2


def test_the_old_counters_dead_lock_after_a_loss_and_rebased_ones_do_not() -> None:
    lost = LimiterState(inserted=100_000, sampled=191_900, deleted=100_000)

    def refill(rule: RateLimiter) -> bool:
        while rule.size < rule.minimum:
            if not rule.can_insert(42):
                return False
            rule.insert(42)
        return rule.can_sample(256)

    rule = limiter()
    rule.restore(lost)
    rule.error_buffer = 256
    assert not refill(rule)
    rule.restore(lost)
    rule.rebase(held=0)
    assert rule.state() == LimiterState(100_000, 200_000, 100_000)
    assert refill(rule)


def after_a_change(counters: LimiterState, before: dict[str, Any], now: dict[str, Any]) -> RateLimiter:
    rule, former = limiter(capacity=10**6, **now), limiter(capacity=10**6, **before)
    rule.restore(counters)
    rule.count_from_now(former.samples_per_position, former.minimum)
    return rule


@pytest.mark.parametrize(("before", "now"), [
    ({"samples_per_position": 4.0}, {"samples_per_position": 2.0}),
    ({"samples_per_position": 4.0}, {"samples_per_position": 8.0}),
    ({"minimum": 500}, {"minimum": 20_000}),
    ({"minimum": 20_000}, {"minimum": 500}),
], ids=str)
@pytest.mark.parametrize("ahead", [0, 200])
def test_changed_settings_count_for_new_rows_alone(before: dict[str, Any], now: dict[str, Any], ahead: int) -> None:
    """A long run stands between the two bounds where it stood, and its counters are those of its life."""
    former = limiter(capacity=10**6, **before)
    allowed = (1_000_000 - former.minimum) * former.samples_per_position
    counters = LimiterState(1_000_000, round(allowed) + ahead, 900_000)
    former.restore(counters)
    rule = after_a_change(counters, before, now)
    assert (rule.inserted, rule.sampled, rule.deleted) == (1_000_000, counters.sampled, 900_000)
    centre, of_former = (one.minimum * one.samples_per_position for one in (rule, former))
    assert rule.difference - centre == former.difference - of_former == -ahead
    samples, rows = 0, 42 * 500
    for _ in range(500):
        assert not rule.is_throttled
        rule.insert(42)
        while rule.sample(256):
            samples += 256
    assert abs(samples + ahead - rows * rule.samples_per_position) <= 256 + rule.error_buffer
    again = limiter(capacity=10**6, **now)
    again.restore(rule.state())
    assert again.difference == rule.difference


def test_a_run_far_beyond_a_bound_comes_back_to_it() -> None:
    """As a run without a learner is, for one."""
    settings = {"samples_per_position": 1.0}, {"samples_per_position": 2.0}
    rule = after_a_change(LimiterState(1_000_000, 0, 900_000), *settings)
    assert (rule.difference, rule.error_buffer) == (2 * 4000 + 256, 256)
    rule = after_a_change(LimiterState(1_000_000, 5_000_000, 900_000), *settings)
    assert rule.difference == 2 * 4000 - 256


@pytest.mark.parametrize("size", [0, 1, 3999, 5000])
def test_a_window_below_a_larger_minimum_stands_as_at_a_start(size: int) -> None:
    rule = after_a_change(LimiterState(1_000_000, 1_996_000, 1_000_000 - size), {}, {"minimum": 6000})
    assert rule.credit() == 6000 - size + 128
    rule.insert(6000 - size)
    assert rule.difference == 2 * 6000
    assert rule.sample(256)
    assert not rule.can_sample(256)


class LimiterMachine(RuleBasedStateMachine):
    """A window of whole games, actors that obey `throttle` but not at once, a learner, and restarts."""

    @initialize(
        samples_per_position=st.sampled_from([0.1, 0.7, 1.0, 2.0, 3.3, 8.0]),
        minimum=st.integers(1, 120),
        longest=st.integers(1, 60),
        batch=st.integers(1, 150),
        spare=st.integers(0, 100),
    )
    def start(self, samples_per_position: float, minimum: int, longest: int, batch: int, spare: int) -> None:
        self.longest, self.batch = longest, batch
        self.capacity = minimum + longest + spare
        self.rule = RateLimiter(
            samples_per_position=samples_per_position,
            minimum=minimum,
            capacity=self.capacity,
            rows_per_insert=longest,
            rows_per_sample=batch,
        )
        self.games: list[int] = []

    def insert(self, rows: int) -> None:
        self.games.append(rows)
        self.rule.insert(rows)
        while self.rule.size > self.capacity:
            self.rule.delete(self.games.pop(0))

    @precondition(lambda self: not self.rule.is_throttled)
    @rule(data=st.data())
    def play(self, data: st.DataObject) -> None:
        self.insert(data.draw(st.integers(1, self.longest)))

    @rule(data=st.data(), late=st.integers(1, 5))
    def finish_what_was_begun(self, data: st.DataObject, late: int) -> None:
        for _ in range(late):
            self.insert(data.draw(st.integers(1, self.longest)))

    @rule(steps=st.integers(1, 10))
    def learn(self, steps: int) -> None:
        for _ in range(steps):
            before = self.rule.sampled
            if not self.rule.sample(self.batch):
                assert self.rule.waits_for()
                break
            assert self.rule.sampled == before + self.batch

    @rule(share=st.floats(0, 1))
    def restart(self, share: float) -> None:
        """Some of the oldest games, or all, may be lost."""
        self.games = self.games[len(self.games) - int(share * len(self.games)) :]
        again = RateLimiter(
            samples_per_position=self.rule.samples_per_position,
            minimum=self.rule.minimum,
            capacity=self.capacity,
            rows_per_insert=self.longest,
            rows_per_sample=self.batch,
        )
        again.restore(self.rule.state())
        if sum(self.games) != again.size:
            again.rebase(sum(self.games))
        self.rule = again

    @rule(samples_per_position=st.sampled_from([0.1, 0.7, 2.0, 8.0]), minimum=st.integers(1, 200))
    def change_settings(self, samples_per_position: float, minimum: int) -> None:
        again = RateLimiter(
            samples_per_position=samples_per_position,
            minimum=min(minimum, self.capacity - self.longest),
            capacity=self.capacity,
            rows_per_insert=self.longest,
            rows_per_sample=self.batch,
        )
        again.restore(self.rule.state())
        again.count_from_now(self.rule.samples_per_position, self.rule.minimum)
        self.rule = again

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        if hasattr(self, "rule"):
            rule = self.rule
            assert rule.can_sample(self.batch) or rule.can_insert(self.longest)
            assert rule.can_sample(self.batch) or not rule.is_throttled

    @invariant()
    def samples_are_bounded(self) -> None:
        if hasattr(self, "rule"):
            rule = self.rule
            assert rule.size == sum(self.games) <= self.capacity
            excess = rule.sampled - rule.shift - (rule.inserted - rule.minimum) * rule.samples_per_position
            # One more if `sampled` was rounded up after a loss.
            assert excess <= max(rule.error_buffer, rule.minimum * rule.samples_per_position) + 1

    @invariant()
    def learning_catches_up(self) -> None:
        """An obedient actor is let in again after finitely many steps."""
        if hasattr(self, "rule") and self.rule.is_throttled:
            rule = RateLimiter(
                samples_per_position=self.rule.samples_per_position,
                minimum=self.rule.minimum,
                capacity=self.capacity,
                rows_per_insert=self.longest,
                rows_per_sample=self.batch,
            )
            rule.restore(self.rule.state())
            while rule.is_throttled:
                assert rule.sample(self.batch)


TestLimiterMachine = LimiterMachine.TestCase
TestLimiterMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
