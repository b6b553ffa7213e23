"""What waits is never killed: slow batches, absent servers, cut lines; each fault real, longer than any silence."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster_process import ClusterProcess
from tcp_proxy import TcpProxy

from shusaku.deploy.cluster.supervisor import SILENT_SECONDS

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
Start = Callable[..., ClusterProcess]
LONG = SILENT_SECONDS + 8  # seconds: 30 s were deadly


def incarnations(state: dict[str, Any], role: str) -> list[int]:
    return [process["incarnation"] for name, process in state["processes"].items() if name.startswith(role)]


def names(state: dict[str, Any], text: str) -> bool:
    return any(text in trouble for trouble in state["status"]["troubles"])


def test_a_batch_may_take_longer_than_any_silence(start: Start) -> None:
    """Go 19x19 with a large network on two cores took 35 s a batch: its actors were killed for ever."""
    run = start("inference.runtime=simulated_gpu", f"inference.simulated_gpu_batch_ms={1000 * LONG:.0f}",
                "actors.count=2", "inference.placement=actor", "search.simulations=2", "search.considered_actions=2",
                "search.cache=0")
    state = run.until(lambda s: s["status"]["evaluations_per_second"] > 0 or s["totals"].get("evaluations", 0) > 0,
                      120, "the answers of a first batch")
    assert set(incarnations(state, "self_play")) == {0}
    state = run.until(lambda s: s["totals"]["evaluations"] > 16, 120, "those of a second one")
    assert set(incarnations(state, "self_play")) == {0}
    assert "ended: " not in run.text


def test_actors_outlive_an_inference_server_that_hangs(start: Start) -> None:
    """Stopped by SIGSTOP; it is shown who waits for whom, and only the server is replaced."""
    run = start("inference.placement=server", "actors.count=2")
    state = run.until_learning()
    games = run.counters()["games"]
    pid = run.hurt("inference 0", signal.SIGSTOP)
    run.until(lambda s: names(s, "inference 0: no heartbeat for"), 20, "the silence to be shown")
    run.until(lambda s: incarnations(s, "inference") == [1] and s["processes"]["inference 0"]["pid"] not in (None, pid),
              90, "a new server")
    run.until(lambda s: run.counters()["games"] > games + 20, 40, "games by the new server")
    after = run.status()
    assert incarnations(after, "self_play") == incarnations(state, "self_play") == [0, 0]
    run.check_games()


def test_actors_that_are_cut_off_from_redis_play_on_and_say_so(
    start: Start, serve: Callable[..., tuple[Path, Any]]
) -> None:
    """The driver and the learner reach it all the time, so no outage is theirs; the audit's actors were killed."""
    server, _ = serve()
    proxy = TcpProxy(server)
    run = start("actors.count=2", f"replay.actor_url=redis://127.0.0.1:{proxy.port}/0", url=f"unix://{server}")
    state = run.until_learning()
    proxy.cut()
    began = time.monotonic()
    shown = run.until(lambda s: names(s, "self_play 0: the replay has taken nothing for"), 20, "their trouble")
    assert not names(shown, "learner 0: "), "it still reaches the replay"
    while time.monotonic() - began < 75:
        time.sleep(1)
        assert incarnations(run.status() or shown, "self_play") == [0, 0]
    games = run.counters()["games"]
    proxy.mend()
    state = run.until(lambda s: run.counters()["games"] > games + 20 and not names(s, "self_play"), 30, "games again")
    assert incarnations(state, "self_play") == [0, 0]
    assert "ended: " not in run.text
    run.check_games()


def test_a_learner_that_starts_waits_for_redis_and_the_clock_stands_still(start: Start) -> None:
    """Redis was away for 2.5 minutes: "failed 7 times in a row", exit 1."""
    run = start("actors.count=1")
    state = run.until_learning()
    pid = run.hurt("replay 0", signal.SIGSTOP)
    os.kill(int(state["processes"]["learner 0"]["pid"]), signal.SIGKILL)
    time.sleep(3)
    began, before = time.monotonic(), seconds_of(run)
    time.sleep(LONG)
    passed, trained = time.monotonic() - began, seconds_of(run) - before
    os.kill(pid, signal.SIGCONT)
    state = run.until(lambda s: incarnations(s, "learner") == [1] and s["status"]["step"] > 0, 60, "a new learner")
    step = state["status"]["step"]
    run.until(lambda s: s["status"]["step"] > step + 20, 60, "steps")
    assert trained < 0.3 * passed, "nothing was learned, so no training time has passed"
    assert "times in a row" not in run.text
    assert "nothing can be learned (replay: " in run.text
    assert "nothing is missing any more" in run.text
    run.check_games()


def test_an_outage_that_lasts_too_long_ends_the_run_with_a_checkpoint(start: Start) -> None:
    run = start("actors.count=1", "run.max_outage_minutes=0.25", "run.checkpoint_seconds=1000")
    run.until_learning()
    pid = run.hurt("replay 0", signal.SIGSTOP)
    try:
        assert run.process.wait(60) == 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    last = run.text.strip().splitlines()[-1]
    assert "nothing could be learned for 0.25 minutes, because of replay: " in last
    assert "run.max_outage_minutes=N waits longer" in last
    assert run.newest_checkpoint()[0] >= 40
    run.until_nothing_is_left(30)


def seconds_of(run: ClusterProcess) -> float:
    """Training time as the run directory has it; the driver saves it every 5 s."""
    return float(json.loads((run.run_dir / "progress.json").read_text())["seconds"])
