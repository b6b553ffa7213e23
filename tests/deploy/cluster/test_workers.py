"""Workers behind Ray's handles: heartbeats, how they end and why, how they are killed, and what is handed to them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_ray import ELSEWHERE, HERE, Clock, FakeHandle, FakeRay, death, install, task_error

from shusaku.common.errors import ResumeError, UsageError
from shusaku.deploy.cluster.supervisor import STUCK_SECONDS, Supervisor
from shusaku.deploy.cluster.workers import POLL_SECONDS, Delivery, RayRole, RayWorker, cause_of, first_line


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeRay, Clock]:
    return install(monkeypatch, "workers")


@pytest.fixture
def clock(world: tuple[FakeRay, Clock]) -> Clock:
    return world[1]


@pytest.fixture
def handle(world: tuple[FakeRay, Clock]) -> FakeHandle:
    return FakeHandle()


def poll(worker: RayWorker) -> float | None:
    """Polls the worker; returns the age of its newest heartbeat."""
    worker.poll()
    return worker.last_heartbeat()


def poll_exit(worker: RayWorker) -> str | None:
    """Polls the worker; returns why it ended."""
    worker.poll()
    return worker.exit_reason()


@pytest.fixture
def worker(handle: FakeHandle) -> RayWorker:
    return RayWorker(handle)


# --- heartbeats ------------------------------------------------------------------------------------------------------


def test_a_slow_worker_gets_one_report_call(worker: RayWorker, handle: FakeHandle, clock: Clock) -> None:
    for _ in range(1000):
        assert poll(worker) is None
        clock.now += 0.2
    assert len(handle.calls("report")) == 1
    handle.newest("report").answer(SimpleNamespace(ticks=1))
    assert poll(worker) == 0
    assert len(handle.calls("report")) == 2, "the next call follows the answer"


def test_report_calls_have_a_pause_between_them(worker: RayWorker, handle: FakeHandle, clock: Clock) -> None:
    for tick in range(100):
        worker.poll()
        if not handle.newest("report").is_done:
            handle.newest("report").answer(SimpleNamespace(ticks=tick))
        clock.now += 0.1
    assert 10 / POLL_SECONDS - 2 <= len(handle.calls("report")) <= 10 / POLL_SECONDS


def answer_all(worker: RayWorker, handle: FakeHandle, clock: Clock, seconds: float, report: Any) -> float | None:
    """Answers each call of `report` with `report` for so long; returns the age of the newest heartbeat."""
    for _ in range(round(seconds / POLL_SECONDS)):
        clock.now += POLL_SECONDS
        worker.poll()
        if not handle.newest("report").is_done:
            handle.newest("report").answer(report)
    return poll(worker)


def test_a_report_whose_ticks_stand_still_is_no_heartbeat(worker: RayWorker, handle: FakeHandle, clock: Clock) -> None:
    assert answer_all(worker, handle, clock, 2.0, SimpleNamespace(ticks=7)) is not None
    since = poll(worker)
    assert since is not None
    after = answer_all(worker, handle, clock, STUCK_SECONDS, SimpleNamespace(ticks=7))
    assert after == pytest.approx(since + STUCK_SECONDS), "its answers come, its loop stands still"
    going_on = answer_all(worker, handle, clock, POLL_SECONDS * 2, SimpleNamespace(ticks=8))
    assert going_on is not None
    assert going_on <= 2 * POLL_SECONDS


def test_a_report_without_ticks_is_a_heartbeat(worker: RayWorker, handle: FakeHandle, clock: Clock) -> None:
    """The evaluator's `report` is None, and waits for nothing."""
    age = answer_all(worker, handle, clock, 60.0, None)
    assert age is not None
    assert age <= 2 * POLL_SECONDS


def test_a_report_that_fails_is_no_heartbeat_and_no_end(worker: RayWorker, handle: FakeHandle, clock: Clock) -> None:
    worker.poll()
    handle.newest("report").answer(SimpleNamespace(ticks=1))
    assert poll(worker) == 0
    for _ in range(20):
        clock.now += 1.0
        worker.poll()
        if not handle.newest("report").is_done:
            handle.newest("report").fail(task_error(TimeoutError("not ready")))
    assert poll(worker) == 20.0
    assert poll_exit(worker) is None
    assert worker.report.ticks == 1


def test_heartbeats_of_actors_come_through_the_replay(handle: FakeHandle) -> None:
    worker = RayWorker(handle, lambda: 4.5)
    assert poll(worker) == 4.5
    assert handle.calls("report") == []
    assert poll(RayWorker(handle, lambda: None)) is None


# --- the end ---------------------------------------------------------------------------------------------------------


def test_it_ends_when_run_ends(worker: RayWorker, handle: FakeHandle) -> None:
    assert poll_exit(worker) is None
    assert not worker.has_raised()
    handle.newest("run").answer("the actor was stopped")
    assert poll_exit(worker) == "the actor was stopped"
    assert not worker.has_raised()
    assert worker.result == "the actor was stopped"


def test_the_reason_of_a_report_is_quoted(worker: RayWorker, handle: FakeHandle) -> None:
    handle.newest("run").answer(SimpleNamespace(reason="the learner was stopped"))
    assert poll_exit(worker) == "the learner was stopped"
    assert worker.result.reason == "the learner was stopped"


def test_what_it_raised_is_told_from_a_death(handle: FakeHandle) -> None:
    mistaken, dead = RayWorker(handle), RayWorker(FakeHandle())
    handle.newest("run").fail(task_error(RuntimeError("CUDA out of memory")))
    assert poll_exit(mistaken) == "RuntimeError: CUDA out of memory"
    assert mistaken.has_raised()
    dead.handle.newest("run").fail(death("The node died.\nMore about it"))
    assert poll_exit(dead) == "The node died."
    assert not dead.has_raised()


DIED = "The actor died unexpectedly before finishing this task.\n\tclass_name: A\n\tpid: 4711\n\tip: 192.0.2.2\nMore"


@pytest.mark.parametrize(("output", "quoted"), [
    (":job_id:01\n:actor_name:A\nwarning\nModuleNotFoundError: No module named 'x'\n\nbye\n",
     "ModuleNotFoundError: No module named 'x'"),
    ("*** SIGSEGV ***\nFatal Python error: Segmentation fault\n\n  File \"x.py\", line 1 in f\n",
     "Fatal Python error: Segmentation fault"),
    ("the first words\nthe last words\n", "the last words"),
    ("ValueError: old\n" + "x" * 50_000, "x" * 300),
])
def test_the_last_output_of_a_dead_process_is_quoted(
    handle: FakeHandle, tmp_path: Path, output: str, quoted: str
) -> None:
    (tmp_path / "worker-ab12-01000000-4711.err").write_text(output)
    (tmp_path / "worker-ab12-01000000-711.err").write_text("of another worker")
    worker = RayWorker(handle, log_directory=str(tmp_path))
    handle.newest("run").fail(death(DIED))
    assert poll_exit(worker) == (
        f"The actor died unexpectedly before finishing this task. Its last output: {quoted}"
    )


@pytest.mark.parametrize("output", [None, "", ":job_id:01\n:actor_name:A\n"])
def test_without_output_a_death_is_told_as_ray_tells_it(
    handle: FakeHandle, tmp_path: Path, output: str | None
) -> None:
    if output is not None:
        (tmp_path / "worker-ab12-01000000-4711.err").write_text(output)
    worker = RayWorker(handle, log_directory=str(tmp_path))
    handle.newest("run").fail(death(DIED))
    assert poll_exit(worker) == "The actor died unexpectedly before finishing this task."


def test_an_exception_of_the_constructor_is_quoted(worker: RayWorker, handle: FakeHandle) -> None:
    handle.newest("run").fail(death(
        "The actor died because of an error raised in its creation task, ray::A.__init__() (pid=3557)\n"
        "  File \"x.py\", line 6, in f\nModuleNotFoundError: No module named 'x'"
    ))
    assert poll_exit(worker) == "ModuleNotFoundError: No module named 'x'"


def test_one_line_of_an_error() -> None:
    usage = task_error(UsageError("inference.runtime=openvino: \n  no such package"))
    assert first_line(usage) == "inference.runtime=openvino: no such package"
    assert isinstance(usage, UsageError)
    assert type(cause_of(usage)) is UsageError
    assert first_line(task_error(ResumeError("no good checkpoint"))) == "no good checkpoint"
    assert first_line(task_error(ValueError("boo"))) == "ValueError: boo"
    assert first_line(KeyError()) == "KeyError"
    assert cause_of(ValueError("boo")).args == ("boo",)


# --- kill ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def introduce(worker: RayWorker, pid: int, node: str = HERE) -> None:
    worker.handle.newest("location").answer((node, pid))
    worker.poll()


def test_a_stopped_process_of_this_node_is_killed(worker: RayWorker, sleeper: subprocess.Popen[bytes]) -> None:
    introduce(worker, sleeper.pid)
    assert worker.pid == sleeper.pid
    os.kill(sleeper.pid, signal.SIGSTOP)
    worker.kill()
    assert sleeper.wait(5) == -signal.SIGKILL
    assert worker.handle.is_killed
    worker.kill()  # its pid may belong to another process by now
    assert worker.pid is None


def test_a_worker_that_ended_gets_no_signal(worker: RayWorker, sleeper: subprocess.Popen[bytes]) -> None:
    """Its pid may belong to another process by now."""
    introduce(worker, sleeper.pid)
    worker.handle.newest("run").answer("the actor was stopped")
    worker.kill()
    time.sleep(0.2)
    assert sleeper.poll() is None
    assert worker.handle.is_killed


def test_a_worker_that_was_given_up_is_killed(worker: RayWorker, sleeper: subprocess.Popen[bytes]) -> None:
    introduce(worker, sleeper.pid)
    worker.give_up(task_error(RuntimeError("does not load")))
    worker.kill()
    assert sleeper.wait(5) == -signal.SIGKILL


def test_a_process_of_another_node_is_left_to_ray(worker: RayWorker, sleeper: subprocess.Popen[bytes]) -> None:
    introduce(worker, sleeper.pid, ELSEWHERE)
    assert worker.pid is None
    worker.kill()
    time.sleep(0.2)
    assert sleeper.poll() is None
    assert worker.handle.is_killed


def test_a_process_that_is_gone_or_never_said_where_it_is(worker: RayWorker, sleeper: subprocess.Popen[bytes]) -> None:
    introduce(worker, sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    worker.kill()
    assert worker.handle.is_killed
    lost = RayWorker(FakeHandle())
    lost.handle.newest("location").fail(death())
    lost.poll()
    assert lost.pid is None
    lost.kill()
    assert lost.handle.is_killed


# --- what is handed to them ------------------------------------------------------------------------------------------


def test_a_slow_worker_gets_no_queue_and_then_the_newest(worker: RayWorker, handle: FakeHandle) -> None:
    delivery = Delivery(worker)
    for version in range(1, 50):
        delivery.offer(version, handle.load, [version])
    assert [call.arguments for call in handle.calls("load")] == [([1],)]
    handle.newest("load").answer()
    delivery.offer(50, handle.load, [50])
    assert [call.arguments for call in handle.calls("load")] == [([1],), ([50],)]
    handle.newest("load").answer()
    for _ in range(10):
        delivery.offer(50, handle.load, [50])
    assert len(handle.calls("load")) == 2, "what it has is not sent again"


def test_a_worker_that_cannot_take_it_is_given_up_with_the_error(
    worker: RayWorker, handle: FakeHandle, clock: Clock
) -> None:
    delivery = Delivery(worker)
    for failures in range(Delivery.TRIES):
        assert poll_exit(worker) is None
        delivery.offer(1, handle.load, [1])
        assert len(handle.calls("load")) == failures + 1
        handle.newest("load").fail(task_error(ValueError(f"no such layer, {failures}")))
        delivery.offer(1, handle.load, [1])
        assert len(handle.calls("load")) == failures + 1, "not again at once"
        clock.now += Delivery.PAUSE_SECONDS
    assert poll_exit(worker) == "ValueError: no such layer, 2"
    assert worker.has_raised(), "its successor will most likely do the same"


def test_failures_count_in_a_row_only(worker: RayWorker, handle: FakeHandle, clock: Clock) -> None:
    delivery = Delivery(worker)
    for version in range(20):
        delivery.offer(version, handle.load, [version])
        if version % Delivery.TRIES == Delivery.TRIES - 1:
            handle.newest("load").answer()
        else:
            handle.newest("load").fail(task_error(ValueError("once")))
            delivery.offer(version, handle.load, [version])
            clock.now += Delivery.PAUSE_SECONDS
    assert len(handle.calls("load")) == 20
    assert poll_exit(worker) is None


def test_a_death_is_no_failure_of_what_was_sent(worker: RayWorker, handle: FakeHandle, clock: Clock) -> None:
    delivery = Delivery(worker)
    for _ in range(3 * Delivery.TRIES):
        delivery.offer(1, handle.load, [1])
        if not handle.newest("load").is_done:
            handle.newest("load").fail(death())
        clock.now += 1
    assert len(handle.calls("load")) >= Delivery.TRIES
    assert poll_exit(worker) is None, "`run` says how it ended"


# --- how they are made -----------------------------------------------------------------------------------------------


def make_role(**options: Any) -> RayRole:
    return RayRole("self_play", dict, lambda index, incarnation: (index, incarnation), 7, **options)


def test_a_role_starts_a_named_actor_that_ray_never_restarts(world: tuple[FakeRay, Clock]) -> None:
    order: list[str] = []
    role = make_role(
        cpus=0.5, heartbeat=lambda index, incarnation: index + incarnation / 10,
        fence=lambda index, incarnation: order.append(f"fenced {index}.{incarnation}, {len(world[0].actors)}"),
    )
    role.fence(2, 3)
    workers = [role.start(2, 3), role.start(1, 0)]
    assert order == ["fenced 2.3, 0"]
    started = world[0].actors[0]
    assert started.arguments == (2, 3)
    assert started.options["name"] == "self_play 2 (7.3)"
    assert started.options["num_cpus"] == 0.5
    assert started.options["num_gpus"] == 0
    assert started.options["max_restarts"] == 0
    assert started.options["scheduling_strategy"] == "SPREAD"
    assert [poll(worker) for worker in workers] == [2.3, 1.0]


def test_a_role_of_one_node_stays_there(world: tuple[FakeRay, Clock]) -> None:
    node = "ab" * 28
    make_role(node=node).start(0, 0)
    strategy = world[0].actors[0].options["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == (node, False)


def test_the_supervisor_replaces_a_worker_whose_ticks_stand_still(world: tuple[FakeRay, Clock]) -> None:
    """Supervisor and RayWorker together."""
    fake, clock = world
    supervisor = Supervisor(clock.monotonic)
    supervisor.register(make_role(), 1)
    for _ in range(100):
        supervisor.reconcile()
        handle = fake.actors[-1].handle
        for call in handle.calls("report"):
            call.answer(SimpleNamespace(ticks=5))
        clock.now += 0.5
    assert [actor.arguments for actor in fake.actors] == [(0, 0), (0, 1)]
    assert fake.actors[0].handle.is_killed
    assert not fake.actors[1].handle.is_killed
    (event,) = supervisor.take_events()
    assert event.startswith(f"self_play 0 ended: no heartbeat for {STUCK_SECONDS:.0f}")
