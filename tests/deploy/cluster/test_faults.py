"""What a run survives, each fault real (`deploy.cluster.supervisor`, `deploy.cluster.driver`)."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from cluster_process import ClusterProcess

from shusaku.common.metrics import read_metrics
from shusaku.replay.stream.append import Appender, AppendStatus, EncodedGame
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.keys import RunKeys

Start = Callable[..., ClusterProcess]
SLACK = 2.0  # seconds to write a checkpoint, and to read here how old it is


def incarnation(state: dict[str, Any], role: str) -> int:
    return int(state["processes"].get(role, {}).get("incarnation", -1))


def incarnations(state: dict[str, Any]) -> dict[str, int]:
    return {role: incarnation(state, role) for role in state["processes"]}


def is_new(role: str, before: int) -> Callable[[dict[str, Any]], bool]:
    """A successor of this worker has been heard from."""
    return lambda s: incarnation(s, role) > before and s["processes"][role]["pid"] is not None


def until_it_goes_on(run: ClusterProcess, resumed: int, step: int) -> dict[str, Any]:
    """One more learner has gone on from a checkpoint, of `step` or newer, and learns."""
    run.until(lambda s: len(run.resumed_steps()) > resumed, 60, "what the new learner goes on from")
    assert run.resumed_steps()[-1] >= step
    moment = time.time() + 1  # a status is shown for so long
    return run.until(lambda s: s["time"] > moment and s["status"]["step"] > step, 60, "steps of the new learner")


def kill_learner(run: ClusterProcess, state: dict[str, Any]) -> dict[str, Any]:
    """Its successor goes on from the newest checkpoint, which is no older than the interval (of 2 s here)."""
    before, resumed = incarnation(state, "learner 0"), len(run.resumed_steps())
    run.hurt("learner 0")
    step, age = run.newest_checkpoint()
    assert age < 2 + SLACK, "so much is done again, in seconds of learning"
    run.until(is_new("learner 0", before), 60, "a new learner")
    return until_it_goes_on(run, resumed, step)


@pytest.mark.timeout(300)
def test_kill_9_of_everyone_but_the_driver(start: Start) -> None:
    """Actor <= 10 s, inference server <= 30 s, learner <= 60 s, Redis with its file <= 10 s; nothing lost, nothing
    doubled, versions and games never go back, at most a checkpoint interval of steps is redone."""
    run = start("inference.placement=server", "actors.count=2")
    state = run.until_learning()
    state = run.until(lambda s: any("through shared memory" in way for way in s["status"]["runtimes"]), 10,
                      "an actor that shares memory with the server")  # what an actor says of itself comes once a second
    newest_version = newest_games = 0

    def check() -> None:
        nonlocal newest_version, newest_games
        games, version = run.counters()["games"], run.control.newest_version()
        assert games >= newest_games
        assert version >= newest_version
        newest_version, newest_games = version, games

    check()
    before = incarnation(state, "self_play 0")
    run.hurt("self_play 0")
    run.until(lambda s: is_new("self_play 0", before)(s) and s["alive_actors"] == 2, 10, "a new actor")
    check()
    run.hurt("replay 0")
    run.until(lambda s: run.counters().get("games", 0) > newest_games, 10, "games in the restarted Redis")
    check()
    run.check_games()

    before = incarnation(state, "inference 0")
    run.hurt("inference 0")
    run.until(is_new("inference 0", before), 30, "a new inference server")
    games = run.counters()["games"]
    state = run.until(lambda s: run.counters()["games"] > games + 50, 30, "games by the new server")
    check()
    kill_learner(run, state)
    check()
    run.until(lambda s: run.counters()["games"] > newest_games, 30, "games for the new learner")
    run.check_games()
    assert run.published() == sorted(set(run.published()))
    assert run.published()[-1] >= newest_version
    assert run.stop() == 143
    run.until_nothing_is_left(30)


@pytest.mark.faults
@pytest.mark.timeout(240)
def test_kill_9_of_the_driver_leaves_no_process_and_the_same_command_goes_on(start: Start) -> None:
    run = start("actors.count=1")
    state = run.until_learning()
    refused = start("actors.count=1")
    assert refused.process.wait(60) == 2
    assert "in use by process" in refused.text
    assert run.process.poll() is None, "and the first one goes on"
    games = run.counters()["games"]
    run.note_processes()
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    step, age = run.newest_checkpoint()
    assert age < 2 + SLACK
    run.until_nothing_is_left(30)
    lines = len(list(read_metrics(run.run_dir / "metrics.jsonl")))
    again = start("actors.count=1")
    resumed = again.until(  # a status before the learner has begun shows the step of the newest checkpoint
        lambda s: again.resumed_steps() and s["status"]["step"] > again.resumed_steps()[-1], 90, "it learns on")
    assert again.resumed_steps()[-1] >= step, "one more may have been written while its processes ended"
    again.until(lambda _: len(list(read_metrics(run.run_dir / "metrics.jsonl"))) > lines, 30, "a line of metrics")
    later = list(read_metrics(run.run_dir / "metrics.jsonl"))[lines:]
    assert min(metrics.step for metrics in later) >= step, "no metrics show step 0"
    assert resumed["epoch"] == state["epoch"] + 1
    assert resumed["status"]["version"] > state["status"]["version"]
    assert again.check_games() >= games
    pid = again.hurt("replay 0", signal.SIGSTOP)
    try:
        assert again.stop(signal.SIGTERM, 25) == 143, "a replay server that does not answer delays no end"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    again.until_nothing_is_left(10)


@pytest.mark.faults
@pytest.mark.timeout(240)
def test_scaled_up_and_down_stopped_and_over(start: Start) -> None:
    """Effective within 15 s while it learns, no game lost; `stop` ends it in order; a run that is over stays over."""
    run = start("actors.count=1", "actors.cpus=0.5")
    run.until_learning()
    for count in (4, 2):
        done = run.command("scale", str(count), "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["alive"] == count
        assert result["seconds"] <= 15
        run.until(lambda s, count=count: s["alive_actors"] == count, 5, "the status for other machines")
    games = run.check_games()
    state = run.until(lambda s: run.counters()["games"] > games, 10, "games of those who are left")
    assert state["desired_actors"] == 2
    assert state["status"]["step"] > 40
    stopped = run.command("stop", "--json")
    assert stopped.returncode == 0, stopped.stderr
    assert run.process.wait(5) == 0
    assert "ended: " not in run.text, "no worker that stopped was taken for dead"
    assert "wrote no last checkpoint" not in run.text
    run.until_nothing_is_left(10)
    assert run.command("stop").returncode == 2
    for _ in range(2):
        over = start("actors.count=1", "actors.cpus=0.5", "run.minutes=0.02")
        assert over.process.wait(60) == 0, over.text[-3000:]
    assert "ended: " not in run.text


@pytest.mark.timeout(120)
def test_more_actors_than_fit_are_refused_before_anything_is_started(start: Start) -> None:
    run = start("actors.count=64", "actors.cpus=3")
    assert run.process.wait(60) == 2
    assert "actors.count=64: with actors.cpus=3 they need 192 CPUs, and Ray has" in run.text
    assert not (run.run_dir / "redis").exists()


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_a_stopped_redis_costs_nothing_but_time(start: Start) -> None:
    """SIGSTOP for 20 s: calls end by their deadline, actors play on into their send queue, nothing is doubled."""
    # Games so slow (some 10 a second) that the send queues (256 games an actor) take those of 20 s.
    run = start("actors.count=2", "search.simulations=40000", "search.cache=0", "learner.batch_size=32")
    run.until_learning()
    begun = time.monotonic()
    first = run.status()["totals"]["searches"]
    time.sleep(6)
    state = run.status()
    rate = (state["totals"]["searches"] - first) / (time.monotonic() - begun)
    assert rate > 0
    pid = run.hurt("replay 0", signal.SIGSTOP)
    time.sleep(20)
    os.kill(pid, signal.SIGCONT)
    games = run.counters()["games"]
    after = run.until(lambda s: s["time"] > state["time"] + 20 and run.counters()["games"] > games, 15, "games")
    time.sleep(2)
    after = run.status()
    searches = after["totals"]["searches"] - state["totals"]["searches"]
    assert searches > 0.5 * rate * 20, "they played on meanwhile: 4 s of playing would be a fifth of that"
    assert incarnations(after) == incarnations(state), "no worker was replaced for it"
    assert after["alive_actors"] == 2
    run.check_games()
    assert run.counters().get("fenced", 0) == 0


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_a_stopped_learner_and_a_stopped_actor_are_replaced(start: Start) -> None:
    run = start("actors.count=2")
    state = run.until_learning()
    for role in ("self_play 1", "learner 0"):
        before = incarnation(state, role)
        pid = run.hurt(role, signal.SIGSTOP)
        state = run.until(is_new(role, before), 60, f"a new {role}")
        assert not psutil.pid_exists(pid), "the stopped one is gone"
    step = state["status"]["step"]
    run.until(lambda s: s["status"]["step"] > step, 60, "steps of the new learner")
    run.check_games()


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_a_redis_that_forgot_everything_is_noticed(
    start: Start, serve: Callable[..., tuple[Path, subprocess.Popen[bytes]]]
) -> None:
    """The window begins anew, learning waits for the minimum and goes on, versions never go back."""
    socket, server = serve()
    run = start("actors.count=2", url=f"unix://{socket}")
    run.until(lambda s: s["status"]["window_rows"] >= 8000, 120, "a window")
    state = run.status()
    server.kill()
    server.wait()
    serve()
    run.until(lambda s: "has lost the run's games" in run.text, 10, "the loss to be noticed")
    emptied = run.until(lambda s: s["status"]["window_rows"] < 6000, 20, "a new window")
    assert run.control.newest_version() >= state["status"]["version"], "the new keys know the weights that are in use"
    after = run.until(lambda s: s["status"]["step"] > emptied["status"]["step"] + 20, 60, "learning again")
    assert after["status"]["window_rows"] >= 500, "and not before the minimum was there"
    assert after["status"]["games"] > state["status"]["games"], "what was played stays counted"
    run.check_games(has_forgotten=True)
    assert run.published() == sorted(set(run.published()))


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_poisoned_records_are_kept_out(start: Start) -> None:
    run = start("actors.count=1")
    state = run.until_learning()
    client: Any = connect(run.url, 5.0)
    keys = RunKeys.of(run.run_id)
    good = client.xrange(keys.games, count=1)[0][1][b"d"]
    random = np.random.default_rng(7)

    def appender(incarnation: int) -> Appender:
        return Appender(run.url, run.run_id, actor=999, epoch=state["epoch"], incarnation=incarnation)

    for sequence in range(200):
        data = bytearray(good)
        for place in random.integers(0, len(data), 1 + sequence % 5):
            data[place] ^= 1 << int(random.integers(0, 8))
        some = bytes(data[: int(random.integers(36, len(data) + 1))])
        # Few of each incarnation, or the learner would have it fenced.
        appender(sequence // 10).append([EncodedGame(sequence, 9, some)])
    state = run.until(lambda s: s["status"]["quarantined"] >= 190, 30, "the quarantine")
    liar = appender(20)
    for sequence in range(11):
        liar.append([EncodedGame(sequence, 1, good)])
    words = "actor 999 was fenced: 11 of its newest 11 games were refused, the last: "
    run.until(lambda s: any(text.startswith(words) for text in s["status"]["troubles"]), 30, "the trouble")
    assert liar.append([EncodedGame(11, 1, good)]).status is AppendStatus.FENCED
    assert client.xlen(keys.quarantine) <= 100
    step = state["status"]["step"]
    run.until(lambda s: s["status"]["step"] > step + 40, 60, "learning to go on")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [pytest.param(1, marks=pytest.mark.faults), pytest.param(2, marks=pytest.mark.long)])
def test_killed_again_and_again(start: Start, seed: int) -> None:
    """Any process at any moment, also in the middle of a checkpoint: they are written all the time here."""
    random = np.random.default_rng(seed)
    run = start("actors.count=2", "run.checkpoint_seconds=0.05")
    state = run.until_learning()
    version, games = 0, 0
    for _ in range(12):
        role = str(random.choice(["self_play 0", "self_play 1", "learner 0", "replay 0"]))
        is_there, resumed = is_new(role, incarnation(state, role)), len(run.resumed_steps())
        time.sleep(float(random.uniform(0, 3)))
        run.hurt(role)
        saved = run.newest_checkpoint()[0]

        def is_whole(state: dict[str, Any], is_there: Callable[[dict[str, Any]], bool] = is_there) -> bool:
            return is_there(state) and state["alive_actors"] == 2

        state = run.until(is_whole, 60, f"a new {role}")
        assert run.control.newest_version() >= version, role
        assert run.counters()["games"] >= games, role
        version, games = run.control.newest_version(), run.counters()["games"]
        if role == "learner 0":
            state = until_it_goes_on(run, resumed, saved)
    step = state["status"]["step"]
    run.until(lambda s: s["status"]["step"] > step + 40, 90, "learning to go on")
    assert run.check_games() > games
    assert run.published() == sorted(set(run.published()))
    assert run.stop() == 143
    run.until_nothing_is_left(30)


BROKEN_IMPORT = '''
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "shusaku.actors.self_play":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
if any("default_worker" in word for word in sys.orig_argv):
    sys.meta_path.insert(0, Broken())
'''


@pytest.mark.faults
def test_a_broken_import_in_a_worker_is_named(tmp_path: Path) -> None:
    """The driver has the module, the workers do not: as with another installation on the cluster."""
    (tmp_path / "sitecustomize.py").write_text(BROKEN_IMPORT)
    run = ClusterProcess(tmp_path / "run", environment={"PYTHONPATH": str(tmp_path)})
    try:
        assert run.process.wait(180) == 1
        (last,) = [line for line in run.text.splitlines() if line.startswith("shusaku: ")]
        assert "self_play 0 failed 6 times in a row" in last or "self_play 1 failed 6 times in a row" in last
        assert "No module named 'shusaku.actors.self_play'" in last
    finally:
        run.close()
