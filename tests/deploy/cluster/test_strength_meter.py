"""Measurements beside a run: when they are asked for, what they are noted as, and what a failing evaluator costs."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fake_ray import Call, Clock, FakeHandle, death, install, task_error

from shusaku.actors.arena.strength import SIMULATIONS, Share, Strength
from shusaku.common.config.schema import StrengthConfig
from shusaku.deploy.cluster.strength_meter import FINAL_SECONDS, PAUSE_SECONDS, TRIES, StrengthMeter
from shusaku.deploy.cluster.workers import RayWorker
from shusaku.deploy.run.run_identity import RunProgress


def strength(optimal: float) -> Strength:
    share = Share(optimal, {"all": optimal}, 0)
    return Strength("tic_tac_toe", 10, share, {64: share})


class Run:
    """What the meter needs of a run, with an evaluator that the test starts."""

    def __init__(self, clock: Clock) -> None:
        self.settings = StrengthConfig()
        self.progress = RunProgress()
        self.seconds = 0.0
        self.lines: list[str] = []
        self.written: list[tuple[Strength, str, int, float]] = []
        self.rounds = 0
        self.broadcast: Any = SimpleNamespace(weights=None, reference=None, step=0)
        self.evaluator: RayWorker | None = None
        self.on_round: Callable[[], Any] = lambda: True
        self.clock = clock
        supervisor: Any = SimpleNamespace(worker=lambda name: self.evaluator if name == "evaluator" else None)
        self.meter = StrengthMeter(self.settings, supervisor, self.broadcast, self.progress, self.record,
                                   self.lines.append)

    def record(self, strength: Strength, source: str, step: int, seconds: float) -> None:
        self.written.append((strength, source, step, seconds))

    def may_go_on(self) -> bool:
        self.rounds += 1
        return self.on_round() is not False

    def start_evaluator(self) -> FakeHandle:
        handle = FakeHandle()
        self.evaluator = RayWorker(handle)
        return handle

    def publish(self, step: int) -> None:
        self.broadcast.weights, self.broadcast.reference = object(), f"weights of step {step}"
        self.broadcast.step = step

    def poll(self, is_training: bool = True) -> None:
        self.meter.poll(self.seconds, is_training)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(install(monkeypatch, "workers", "strength_meter")[1])


def pass_time(run: Run, seconds: float) -> None:
    """Of training, in rounds of the driver."""
    for _ in range(round(seconds)):
        run.clock.now += 1
        run.seconds += 1
        run.poll()


def test_nothing_is_asked_before_there_is_something_to_ask(run: Run) -> None:
    run.poll()  # nobody
    handle = run.start_evaluator()
    run.poll()  # no weights
    run.publish(0)
    run.poll(False)  # the clock has not begun
    assert handle.calls("measure") == []
    run.poll()
    settings = run.settings
    (call,) = handle.calls("measure")
    assert call.arguments == (["weights of step 0"], [settings.simulations], settings.positions)


def test_it_is_noted_at_the_step_and_second_of_the_weights_that_were_measured(run: Run) -> None:
    handle = run.start_evaluator()
    run.publish(40)
    run.seconds = 3.0
    run.poll()
    run.publish(900)
    pass_time(run, 30)
    assert len(handle.calls("measure")) == 1, "one at a time"
    handle.newest("measure").answer(strength(0.625))
    run.poll()
    (written,) = run.written
    assert written[1:] == ("strength", 40, 3.0)
    assert written[0].searches[64].optimal == 0.625
    assert run.progress.strength == [(3.0, 0.625)]
    assert run.progress.measurements == 1
    pass_time(run, 26)
    assert len(handle.calls("measure")) == 1
    pass_time(run, 2)
    assert handle.newest("measure").arguments[0] == ["weights of step 900"]


def test_a_slow_measurement_is_made_up_for_by_one(run: Run) -> None:
    """It took three minutes: the two that were missed are not asked for one after the other."""
    handle = run.start_evaluator()
    run.publish(0)
    run.poll()
    pass_time(run, 185)
    handle.newest("measure").answer(strength(0.1))
    run.poll()
    assert len(handle.calls("measure")) == 2
    handle.newest("measure").answer(strength(0.2))
    pass_time(run, 50)
    assert len(handle.calls("measure")) == 2
    assert run.progress.measurements == 4
    pass_time(run, 10)
    assert len(handle.calls("measure")) == 3


@pytest.mark.parametrize("error", [death(), task_error(ValueError("does not load"))])
def test_a_failing_evaluator_is_asked_again_after_a_pause(run: Run, error: Exception) -> None:
    handle = run.start_evaluator()
    run.publish(7)
    run.poll()
    for asked in range(1, 5):
        assert len(handle.calls("measure")) == asked
        handle.newest("measure").fail(error)
        pass_time(run, PAUSE_SECONDS - 1)
        assert len(handle.calls("measure")) == asked
        pass_time(run, 3)
    assert run.progress.measurements == 0
    assert len(run.lines) == 4
    assert all("the strength could not be measured" in line and "\n" not in line for line in run.lines)
    handle.newest("measure").answer(strength(0.9))
    run.poll()
    assert run.progress.measurements > 0, "what was due stays due until it is made"


def test_the_successor_of_a_dead_evaluator_measures(run: Run) -> None:
    first = run.start_evaluator()
    run.publish(0)
    run.poll()
    run.evaluator = None
    first.newest("measure").fail(death())
    pass_time(run, 5)
    second = run.start_evaluator()
    pass_time(run, PAUSE_SECONDS + 2)
    assert len(second.calls("measure")) == 1
    assert len(first.calls("measure")) == 1


def test_a_stopped_measurement_counts_for_nothing(run: Run) -> None:
    handle = run.start_evaluator()
    run.publish(0)
    run.poll()
    handle.newest("measure").answer(None)
    run.poll(False)
    assert run.written == []
    assert run.progress.measurements == 0


# --- the whole table -------------------------------------------------------------------------------------------------


def answer_in_turn(run: Run, outcomes: list[Any]) -> None:
    """One outcome for each call, ten rounds after it was asked."""
    asked_at: dict[Call, int] = {}

    def on_round() -> None:
        for call in run.evaluator.handle.calls("measure") if run.evaluator else ():
            if not call.is_done and run.rounds - asked_at.setdefault(call, run.rounds) >= 10:
                outcome = outcomes.pop(0)
                call.fail(outcome) if isinstance(outcome, Exception) else call.answer(outcome)

    run.on_round = on_round


def test_the_whole_table_is_of_the_newest_weights(run: Run) -> None:
    handle = run.start_evaluator()
    run.publish(5_000)
    answer_in_turn(run, [strength(0.875)])
    found = run.meter.measure_all(run.may_go_on)
    assert found is not None
    assert found.policy.optimal == 0.875
    (call,) = handle.calls("measure")
    assert call.arguments == (["weights of step 5000"], list(SIMULATIONS), 0)


def test_the_whole_table_is_given_up_after_three_failures(run: Run) -> None:
    handle = run.start_evaluator()
    run.publish(5_000)
    answer_in_turn(run, [death(), task_error(ValueError("boo")), death()])
    assert run.meter.measure_all(run.may_go_on) is None
    assert len(handle.calls("measure")) == TRIES == 3
    assert len(run.lines) == TRIES


def test_failures_while_training_do_not_count_against_the_table(run: Run) -> None:
    handle = run.start_evaluator()
    run.publish(1)
    run.poll()
    for _ in range(4):
        handle.newest("measure").fail(death())
        pass_time(run, PAUSE_SECONDS + 3)
    handle.newest("measure").answer(None)
    answer_in_turn(run, [death(), death(), strength(0.5)])
    assert run.meter.measure_all(run.may_go_on) is not None


def test_the_table_waits_for_a_new_evaluator_but_not_for_ever(run: Run) -> None:
    run.publish(1)
    before = run.clock.now
    assert run.meter.measure_all(run.may_go_on) is None
    assert FINAL_SECONDS <= run.clock.now - before < FINAL_SECONDS + 1
    run.rounds = 0
    answer_in_turn(run, [strength(0.5)])
    inner = run.on_round

    def on_round() -> None:
        if run.rounds == 50:
            run.start_evaluator()
        inner()

    run.on_round = on_round
    assert run.meter.measure_all(run.may_go_on) is not None


def test_a_signal_ends_the_table(run: Run) -> None:
    run.start_evaluator()
    run.publish(1)

    run.on_round = lambda: run.rounds < 20
    assert run.meter.measure_all(run.may_go_on) is None
    assert run.rounds == 20
