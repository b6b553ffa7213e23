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
from fake_ray import BEAT, ELSEWHERE, HERE, Clock, FakeHandle, FakeRay, death, install, task_error

from shusaku.common.activity import Heartbeat
from shusaku.common.errors import ResumeError, UsageError
from shusaku.deploy.cluster.supervisor import Supervisor
from shusaku.deploy.cluster.workers import (
    CUT_OFF_SECONDS,
    GAP_SECONDS,
    POLL_SECONDS,
    Delivery,
    RayRole,
    RayWorker,
    cause_of,
    first_line,
)
from shusaku.replay.stream.client import ReplayUnavailable


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeRay, Clock]:
    return install(monkeypatch, "workers")


@pytest.fixture
def clock(world: tuple[FakeRay, Clock]) -> Clock:
    return world[1]


@pytest.fixture
def handle(world: tuple[FakeRay, Clock]) -> FakeHandle:
    return FakeHandle()


def poll(worker: RayWorker) -> float:
    """Polls the worker; returns how long it has been silent."""
    worker.poll()
    return worker.silent_seconds()


def poll_exit(worker: RayWorker) -> str | None:
    """Polls the worker; returns why it ended."""
    worker.poll()
    return worker.exit_reason()


@pytest.fixture
def worker(handle: FakeHandle) -> RayWorker:
    return RayWorker(handle)


# --- heartbeats ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["heartbeat", "report"])
def test_a_slow_worker_gets_one_call(clock: Clock, method: str) -> None:
    handle = FakeHandle(beat=None)
    worker = RayWorker(handle)
    for _ in range(1000):
        worker.poll()
        clock.now += 0.2
    assert len(handle.calls(method)) == 1
    handle.newest(method).answer(BEAT)
    worker.poll()
    assert len(handle.calls(method)) == 2, "the next call follows the answer"


@pytest.mark.parametrize("method", ["heartbeat", "report"])
def test_calls_have_a_pause_between_them(clock: Clock, method: str) -> None:
    handle = FakeHandle(beat=None)
    worker = RayWorker(handle)
    for _ in range(100):
        worker.poll()
        if not handle.newest(method).is_done:
            handle.newest(method).answer(BEAT)
        clock.now += 0.1
    assert 10 / POLL_SECONDS - 2 <= len(handle.calls(method)) <= 10 / POLL_SECONDS


def test_silence_lasts_from_the_start_until_a_heartbeat(clock: Clock) -> None:
    handle = FakeHandle(beat=None)
    worker = RayWorker(handle, run_seconds=lambda: 61.5)
    for second in range(100):
        assert poll(worker) == second
        assert worker.heartbeat() is None
        clock.now += 1
    handle.newest("heartbeat").answer(BEAT)
    assert poll(worker) == 0
    assert worker.heartbeat() is BEAT
    assert handle.newest("heartbeat").arguments == (61.5,), "the worker learns how long the run has trained"


def test_a_heartbeat_that_fails_is_none_and_no_end(clock: Clock) -> None:
    handle = FakeHandle(beat=None)
    worker = RayWorker(handle)
    worker.poll()
    handle.newest("heartbeat").answer(BEAT)
    assert poll(worker) == 0
    for _ in range(20):
        clock.now += 1.0
        worker.poll()
        if not handle.newest("heartbeat").is_done:
            handle.newest("heartbeat").fail(task_error(TimeoutError("not ready")))
    assert poll(worker) == 20.0
    assert worker.heartbeat() is BEAT
    assert poll_exit(worker) is None


def test_a_pause_of_the_driver_is_no_silence_of_its_workers(clock: Clock) -> None:
    """The driver was suspended (SIGSTOP, a closed laptop); so it heard nothing."""
    handle = FakeHandle(beat=None)
    worker = RayWorker(handle)
    worker.poll()
    clock.now += 3600
    assert poll(worker) == GAP_SECONDS
    clock.now += 1
    assert poll(worker) == GAP_SECONDS + 1


def test_a_report_is_kept_until_the_next(worker: RayWorker, handle: FakeHandle, clock: Clock) -> None:
    worker.poll()
    handle.newest("report").answer(SimpleNamespace(version=7))
    worker.poll()
    assert worker.report.version == 7
    handle.newest("report").fail(task_error(TimeoutError("not ready")))
    clock.now += POLL_SECONDS
    worker.poll()
    assert worker.report.version == 7
    quiet = RayWorker(FakeHandle(), has_report=False)
    quiet.poll()
    assert quiet.handle.calls("report") == []


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


@pytest.mark.parametrize(("node", "by_replay", "is_cut_off"), [
    (ELSEWHERE, CUT_OFF_SECONDS + 1, True), (ELSEWHERE, 1.0, False), (HERE, CUT_OFF_SECONDS + 1, False),
])
def test_a_worker_is_cut_off_if_nothing_comes_by_any_way(
    clock: Clock, node: str, by_replay: float, is_cut_off: bool
) -> None:
    handle = FakeHandle(beat=None)
    worker = RayWorker(handle, unheard_seconds=lambda: by_replay)
    introduce(worker, 1 << 23, node)  # no process has such a number
    clock.now += 100
    assert not worker.is_cut_off(), "one without a first heartbeat is still starting"
    handle.newest("heartbeat").answer(BEAT)
    assert poll(worker) == 0
    assert not worker.is_cut_off()
    for _ in range(int(CUT_OFF_SECONDS) + 2):
        clock.now += 1
        worker.poll()
    assert worker.is_cut_off() == is_cut_off
    assert (worker.cut_off_at is not None) == is_cut_off


def test_the_start_of_a_worker_counts_from_when_it_got_a_node(clock: Clock) -> None:
    pending = [True]
    worker = RayWorker(FakeHandle(beat=None), is_pending=lambda handle: pending[0])
    for _ in range(1000):
        clock.now += 1
        assert poll(worker) == 0
        assert worker.is_waiting()
    pending[0] = False
    clock.now += 1
    assert poll(worker) == 1
    assert not worker.is_waiting()


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
        cpus=0.5,
        fence=lambda index, incarnation: order.append(f"fenced {index}.{incarnation}, {len(world[0].actors)}"),
    )
    role.fence(2, 3)
    role.start(2, 3)
    assert order == ["fenced 2.3, 0"]
    started = world[0].actors[0]
    assert started.arguments == (2, 3)
    assert started.options["name"] == "self_play 2 (7.3)"
    assert started.options["num_cpus"] == 0.5
    assert started.options["num_gpus"] == 0
    assert started.options["max_restarts"] == 0
    assert started.options["scheduling_strategy"] == "SPREAD"


def test_a_role_of_one_node_stays_there(world: tuple[FakeRay, Clock]) -> None:
    node = "ab" * 28
    make_role(node=node).start(0, 0)
    strategy = world[0].actors[0].options["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == (node, False)


@pytest.mark.parametrize(("beat", "reason"), [
    (None, "no first heartbeat within 120 s"),
    (Heartbeat("a gradient step", 400.0), "a gradient step has taken 400 s, and 0 s at most before"),
])
def test_the_supervisor_replaces_a_worker_that_is_silent_or_hangs(
    world: tuple[FakeRay, Clock], beat: Heartbeat | None, reason: str
) -> None:
    """Supervisor and RayWorker together."""
    fake, clock = world
    supervisor = Supervisor(clock.monotonic)
    supervisor.register(make_role(), 1)
    supervisor.reconcile()
    fake.actors[0].handle.beat = beat
    if beat is None:  # the first call was not answered either
        fake.actors[0].handle.made.clear()
        supervisor.groups["self_play"].replicas[0].worker = RayWorker(fake.actors[0].handle)
    for _ in range(250):
        supervisor.reconcile()
        clock.now += 0.5
    assert [actor.arguments for actor in fake.actors] == [(0, 0), (0, 1)]
    assert fake.actors[0].handle.is_killed
    assert not fake.actors[1].handle.is_killed
    (event,) = supervisor.take_events()
    assert event.startswith(f"self_play 0 ended: {reason}")


def test_want_of_the_replay_is_no_failure_of_its_own(worker: RayWorker, handle: FakeHandle) -> None:
    handle.newest("run").fail(task_error(ReplayUnavailable("no answer within 5 s")))
    assert poll_exit(worker) == "ReplayUnavailable: no answer within 5 s"
    assert not worker.has_raised()
