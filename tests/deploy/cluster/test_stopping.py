"""A signal at any moment of `shusaku train`: a line at once, an end in time, the documented code, no process left."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_process import ClusterProcess

ANSWER_S, EARLY_S, LATE_S, SECOND_S = 2.0, 5.0, 25.0, 2.0
SLACK_S = 0.5  # to see here that it ended
ENDING, SAVING = "ending; a second one ends at once", "saving a checkpoint and ending"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], ClusterProcess]]:
    started: list[ClusterProcess] = []

    def start_one() -> ClusterProcess:
        started.append(ClusterProcess(tmp_path / "run", "actors.count=1"))
        return started[-1]

    yield start_one
    for run in started:
        run.close()


def press(run: ClusterProcess, number: signal.Signals) -> float:
    """As a terminal does, to the whole foreground group; returns when."""
    run.note_processes()
    moment = time.monotonic()
    os.killpg(run.process.pid, number)
    return moment


def check_answer(run: ClusterProcess, text: str, moment: float) -> None:
    while text not in run.text:
        assert time.monotonic() < moment + ANSWER_S, f"no answer: {run.text}"
        time.sleep(0.01)


def check_end(run: ClusterProcess, moment: float, seconds: float) -> int:
    """Within so many seconds of the moment all processes are gone; returns the exit code."""
    while run.process.poll() is None:
        run.note_processes()
        assert time.monotonic() < moment + seconds + SLACK_S, f"it goes on: {run.text}"
        time.sleep(0.02)
    assert run.left() == []
    return int(run.process.returncode)


def until(run: ClusterProcess, seconds: float) -> None:
    """Waits so long from the start of the process."""
    while time.monotonic() < run.began + seconds:
        run.note_processes()
        time.sleep(0.02)


@pytest.mark.faults
@pytest.mark.parametrize(("number", "delay"), [
    *((signal.SIGINT, delay) for delay in (0.5, 1, 2, 3, 4, 5, 6, 8, 12, 16)),
    *((number, delay) for number in (signal.SIGTERM, signal.SIGHUP) for delay in (1, 4, 12)),  # one way for all three
])
def test_a_signal_at_any_moment_of_the_start(
    start: Callable[[], ClusterProcess], number: signal.Signals, delay: float
) -> None:
    run = start()
    until(run, delay)
    assert run.process.poll() is None
    moment = press(run, number)
    name = "Ctrl-C" if number == signal.SIGINT else number.name
    check_answer(run, f"shusaku: {name}: ", moment)
    code = check_end(run, moment, LATE_S if SAVING in run.text else EARLY_S)
    assert code == (130 if number == signal.SIGINT else 143)
    assert "Traceback" not in run.text
    answer = run.text.index(f"shusaku: {name}: ")
    after = [line for line in run.text[answer:].splitlines()[1:] if "of training; stopped before" not in line
             and " left" not in line]
    assert after == [], "neither errors of Ray nor anything else follows but the run's own last lines"


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_a_second_one_at_any_moment_of_the_end(start: Callable[[], ClusterProcess]) -> None:
    """While the learner saves, while Ray ends; the same command goes on each time."""
    for pause in (0.4, 1.0, 3.0):
        run = start()
        run.until_learning()
        check_answer(run, SAVING, press(run, signal.SIGINT))
        until(run, time.monotonic() - run.began + pause)
        if run.process.poll() is not None:
            continue  # it has ended already
        moment = press(run, signal.SIGINT)
        assert check_end(run, moment, SECOND_S) == 130
        assert "Ctrl-C again: ending at once" in run.text
    again = start()
    again.until_learning()
    again.check_games()
    assert again.stop(signal.SIGINT) == 130
    assert again.left() == []


@pytest.mark.faults
def test_ctrl_c_while_learning_writes_a_checkpoint(start: Callable[[], ClusterProcess]) -> None:
    run = start()
    state = run.until_learning()
    moment = press(run, signal.SIGINT)
    check_answer(run, SAVING, moment)
    assert check_end(run, moment, LATE_S) == 130
    step, age = run.newest_checkpoint()
    assert step >= state["status"]["step"]
    assert age < 1.0 + time.monotonic() - moment


@pytest.mark.faults
@pytest.mark.timeout(360)
def test_a_killed_run_plays_again_within_a_minute(start: Callable[[], ClusterProcess]) -> None:
    """The driver's processes are gone, or do not disturb the next start."""
    run = start()
    run.until_learning()
    games = run.counters()["games"]
    run.process.kill()
    run.process.wait()
    again = start()
    again.until(lambda state: again.counters().get("games", 0) > games, 60.0, "the first game")
    assert time.monotonic() - again.began < 60.0
    run.until_nothing_is_left(30)
