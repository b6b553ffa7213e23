"""Measurements beside a run: when they are asked for, what they are noted as, and what a failing evaluator costs."""

from types import SimpleNamespace
from typing import Any

import pytest
from fake_ray import Call, Clock, FakeHandle, FakeRay, death, install, task_error

from shusaku.actors.arena.strength import SIMULATIONS, Share, Strength
from shusaku.common.config.schema import Config
from shusaku.common.messages import Metrics
from shusaku.deploy.cluster.strength_meter import FINAL_SECONDS, PAUSE_SECONDS, TRIES, StrengthMeter
from shusaku.deploy.cluster.workers import RayWorker
from shusaku.deploy.run.run_identity import RunProgress


def strength(optimal: float) -> Strength:
    share = Share(optimal, {"all": optimal}, 0)
    return Strength("tic_tac_toe", 10, share, {64: share})


class Run:
    """What the meter sees of a `ClusterRun`, with an evaluator."""

    def __init__(self, clock: Clock) -> None:
        self.config = Config()
        self.positions: Any = object()
        self.progress_state = RunProgress()
        self.seconds = 0.0
        self.lines: list[str] = []
        self.written: list[Metrics] = []
        self.write_error: OSError | None = None
        self.is_stopped = False
        self.turns = 0
        self.broadcast = SimpleNamespace(weights=None, reference=None, step=0)
        self.evaluator: RayWorker | None = None
        self.supervisor = SimpleNamespace(worker=lambda name: self.evaluator if name == "evaluator" else None)
        self.console = SimpleNamespace(say=self.lines.append)
        self.sink = SimpleNamespace(write=self.write)
        self.signals = SimpleNamespace(should_stop=lambda: self.is_stopped)
        self.progress = SimpleNamespace(show=lambda console: None)
        self.on_turn: Any = lambda: None  # of the loop of `final`
        self.say_status = lambda: None
        self.clock = clock

    def write(self, metrics: Metrics) -> None:
        if self.write_error is not None:
            raise self.write_error
        self.written.append(metrics)

    def reconcile(self) -> None:
        self.turns += 1
        self.on_turn()

    def start_evaluator(self) -> FakeHandle:
        handle = FakeHandle()
        self.evaluator = RayWorker(handle, 0)
        return handle

    def publish(self, step: int) -> None:
        self.broadcast = SimpleNamespace(weights=object(), reference=f"weights of step {step}", step=step)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeRay, Clock]:
    return install(monkeypatch, "workers", "strength_meter")


@pytest.fixture
def run(world: tuple[FakeRay, Clock]) -> Run:
    return Run(world[1])


@pytest.fixture
def meter(run: Run) -> StrengthMeter:
    stand_in: Any = run
    return StrengthMeter(stand_in)


def pass_time(run: Run, meter: StrengthMeter, seconds: float) -> None:
    """Of training, in turns of the driver."""
    for _ in range(round(seconds)):
        run.clock.now += 1
        run.seconds += 1
        meter.tick(True)


def test_nothing_is_asked_before_there_is_something_to_ask(run: Run, meter: StrengthMeter) -> None:
    meter.tick(True)  # nobody
    handle = run.start_evaluator()
    meter.tick(True)  # no weights
    run.publish(0)
    meter.tick(False)  # the clock has not begun
    assert handle.calls("measure") == []
    meter.tick(True)
    settings = run.config.strength
    (call,) = handle.calls("measure")
    assert call.arguments == (["weights of step 0"], [settings.simulations], settings.positions)
    run.positions = None
    call.answer(strength(0.5))
    meter.tick(True)
    assert run.written == [], "a game without positions is not measured"


def test_it_is_noted_at_the_step_and_second_of_the_weights_that_were_measured(run: Run, meter: StrengthMeter) -> None:
    handle = run.start_evaluator()
    run.publish(40)
    run.seconds = 3.0
    meter.tick(True)
    run.publish(900)
    pass_time(run, meter, 30)
    assert len(handle.calls("measure")) == 1, "one at a time"
    handle.newest("measure").answer(strength(0.625))
    meter.tick(True)
    (written,) = run.written
    assert (written.step, written.seconds, written.source) == (40, 3.0, "strength")
    assert written.values["search_64.optimal"] == 0.625
    assert run.progress_state.strength == [(3.0, 0.625)]
    assert run.progress_state.measurements == 1
    pass_time(run, meter, 26)
    assert len(handle.calls("measure")) == 1
    pass_time(run, meter, 2)
    assert handle.newest("measure").arguments[0] == ["weights of step 900"]


def test_a_slow_measurement_is_made_up_for_by_one(run: Run, meter: StrengthMeter) -> None:
    """It took three minutes: the two that were missed are not asked for one after the other."""
    handle = run.start_evaluator()
    run.publish(0)
    meter.tick(True)
    pass_time(run, meter, 185)
    handle.newest("measure").answer(strength(0.1))
    meter.tick(True)
    assert len(handle.calls("measure")) == 2
    handle.newest("measure").answer(strength(0.2))
    pass_time(run, meter, 50)
    assert len(handle.calls("measure")) == 2
    assert run.progress_state.measurements == 4
    pass_time(run, meter, 10)
    assert len(handle.calls("measure")) == 3


@pytest.mark.parametrize("error", [death(), task_error(ValueError("does not load"))])
def test_a_failing_evaluator_is_asked_again_after_a_pause(run: Run, meter: StrengthMeter, error: Exception) -> None:
    handle = run.start_evaluator()
    run.publish(7)
    meter.tick(True)
    for asked in range(1, 5):
        assert len(handle.calls("measure")) == asked
        handle.newest("measure").fail(error)
        pass_time(run, meter, PAUSE_SECONDS - 1)
        assert len(handle.calls("measure")) == asked
        pass_time(run, meter, 3)
    assert run.progress_state.measurements == 0
    assert len(run.lines) == 4
    assert all("the strength could not be measured" in line and "\n" not in line for line in run.lines)
    handle.newest("measure").answer(strength(0.9))
    meter.tick(True)
    assert run.progress_state.measurements > 0, "what was due stays due until it is made"


def test_the_successor_of_a_dead_evaluator_measures(run: Run, meter: StrengthMeter) -> None:
    first = run.start_evaluator()
    run.publish(0)
    meter.tick(True)
    run.evaluator = None
    first.newest("measure").fail(death())
    pass_time(run, meter, 5)
    second = run.start_evaluator()
    pass_time(run, meter, PAUSE_SECONDS + 2)
    assert len(second.calls("measure")) == 1
    assert len(first.calls("measure")) == 1


def test_a_stopped_measurement_counts_for_nothing(run: Run, meter: StrengthMeter) -> None:
    handle = run.start_evaluator()
    run.publish(0)
    meter.tick(True)
    handle.newest("measure").answer(None)
    meter.tick(False)
    assert run.written == []
    assert run.progress_state.measurements == 0


def test_a_full_disk_costs_the_line_and_not_the_run(run: Run, meter: StrengthMeter) -> None:
    handle = run.start_evaluator()
    run.publish(0)
    run.write_error = OSError("No space left on device")
    meter.tick(True)
    handle.newest("measure").answer(strength(0.5))
    meter.tick(True)
    assert run.lines == ["a measurement could not be written: No space left on device"]
    assert run.progress_state.strength == [(0.0, 0.5)]


# --- the whole table -------------------------------------------------------------------------------------------------


def answer_in_turn(run: Run, outcomes: list[Any]) -> None:
    """One outcome for each call, ten turns after it was asked."""
    asked_at: dict[Call, int] = {}

    def on_turn() -> None:
        for call in run.evaluator.handle.calls("measure") if run.evaluator else ():
            if not call.is_done and run.turns - asked_at.setdefault(call, run.turns) >= 10:
                outcome = outcomes.pop(0)
                call.fail(outcome) if isinstance(outcome, Exception) else call.answer(outcome)

    run.on_turn = on_turn


def test_the_whole_table_is_of_the_newest_weights(run: Run, meter: StrengthMeter) -> None:
    handle = run.start_evaluator()
    run.publish(5_000)
    answer_in_turn(run, [strength(0.875)])
    found = meter.final()
    assert found is not None
    assert found.policy.optimal == 0.875
    (call,) = handle.calls("measure")
    assert call.arguments == (["weights of step 5000"], list(SIMULATIONS), 0)


def test_the_whole_table_is_given_up_after_three_failures(run: Run, meter: StrengthMeter) -> None:
    handle = run.start_evaluator()
    run.publish(5_000)
    answer_in_turn(run, [death(), task_error(ValueError("boo")), death()])
    assert meter.final() is None
    assert len(handle.calls("measure")) == TRIES == 3
    assert len(run.lines) == TRIES


def test_failures_while_training_do_not_count_against_the_table(run: Run, meter: StrengthMeter) -> None:
    handle = run.start_evaluator()
    run.publish(1)
    meter.tick(True)
    for _ in range(4):
        handle.newest("measure").fail(death())
        pass_time(run, meter, PAUSE_SECONDS + 3)
    handle.newest("measure").answer(None)
    answer_in_turn(run, [death(), death(), strength(0.5)])
    assert meter.final() is not None


def test_the_table_waits_for_a_new_evaluator_but_not_for_ever(run: Run, meter: StrengthMeter) -> None:
    run.publish(1)
    before = run.clock.now
    assert meter.final() is None
    assert FINAL_SECONDS <= run.clock.now - before < FINAL_SECONDS + 1
    run.turns = 0
    answer_in_turn(run, [strength(0.5)])
    inner = run.on_turn

    def on_turn() -> None:
        if run.turns == 50:
            run.start_evaluator()
        inner()

    run.on_turn = on_turn
    assert meter.final() is not None


def test_a_signal_ends_the_table(run: Run, meter: StrengthMeter) -> None:
    run.start_evaluator()
    run.publish(1)

    def on_turn() -> None:
        run.is_stopped = run.turns >= 20

    run.on_turn = on_turn
    assert meter.final() is None
    assert run.turns == 20
