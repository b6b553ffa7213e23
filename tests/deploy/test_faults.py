"""What a run survives, each fault done for real to real processes (`deploy.supervisor`, `deploy.cluster`)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.redis_append import Appender, EncodedGame
from replay.redis_client import connect
from replay.redis_keys import RunKeys
from replay.redis_server import find_binary

sys.path.insert(0, str(Path(__file__).parent))
from cluster_process import ClusterProcess, answers, doubled

Start = Callable[..., ClusterProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Runs that are ended with the test, whatever happens."""
    started: list[ClusterProcess] = []

    def start_one(*overrides: str, run_dir: Path = tmp_path / "run", **options: Any) -> ClusterProcess:
        started.append(ClusterProcess(run_dir, *overrides, **options))
        return started[-1]

    yield start_one
    for run in started:
        run.close()


def incarnation(state: dict[str, Any], role: str) -> int:
    return int(state["processes"].get(role, {}).get("incarnation", -1))


def is_new(role: str, before: int) -> Callable[[dict[str, Any]], bool]:
    """A successor of this worker has been heard from."""
    return lambda s: incarnation(s, role) > before and s["processes"][role]["pid"] is not None


@pytest.mark.timeout(300)
def test_kill_9_of_everyone_but_the_driver(start: Start) -> None:
    """Actor <= 10 s, inference server <= 30 s, learner <= 60 s, Redis with its file <= 10 s; nothing lost, nothing
    doubled, versions and games never go back, at most a checkpoint interval of steps is redone."""
    run = start("inference.placement=server", "actors.count=2")
    run.until_learning()
    newest_version = newest_games = 0

    def check(state: dict[str, Any]) -> dict[str, Any]:
        nonlocal newest_version, newest_games
        assert state["status"]["version"] >= newest_version
        assert state["status"]["games"] >= newest_games
        newest_version, newest_games = state["status"]["version"], state["status"]["games"]
        return state

    state = check(run.status())
    before = incarnation(state, "self_play 0")
    run.hurt("self_play 0")
    state = check(run.until(lambda s: is_new("self_play 0", before)(s) and s["alive_actors"] == 2, 10, "a new actor"))

    games = run.counters()["games"]
    run.hurt("replay 0")
    state = check(run.until(lambda s: run.counters().get("games", 0) > games, 10, "games in the restarted Redis"))
    assert doubled(run.games()) == []

    before, games = incarnation(state, "inference 0"), run.counters()["games"]
    run.hurt("inference 0")
    run.until(is_new("inference 0", before), 30, "a new inference server")
    state = check(run.until(lambda s: run.counters()["games"] > games + 50, 30, "games by the new server"))

    before, step = incarnation(state, "learner 0"), int(state["status"]["step"])
    run.hurt("learner 0")
    state = check(run.until(is_new("learner 0", before), 60, "a new learner"))
    state = check(run.until(lambda s: s["status"]["step"] > step, 60, "steps of the new learner"))
    assert state["status"]["quarantined"] == 0

    assert doubled(run.games()) == []
    counters = run.counters()
    assert counters.get("duplicates", 0) == 0 or doubled(run.games()) == []
    assert run.stop() == 143
    run.until_nothing_is_left(30)


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
    run.until_nothing_is_left(30)
    again = start("actors.count=1")
    resumed = again.until(lambda s: s["status"]["step"] > state["status"]["step"], 90, "the resumed run learns on")
    assert resumed["epoch"] == state["epoch"] + 1
    assert resumed["status"]["version"] > state["status"]["version"]
    assert again.counters()["games"] >= games
    assert doubled(again.games()) == []
    assert again.stop(signal.SIGINT) == 130


@pytest.mark.timeout(120)
def test_more_actors_than_fit_are_refused_before_anything_is_started(start: Start) -> None:
    run = start("actors.count=64", "actors.cpus=3")
    assert run.process.wait(60) == 2
    assert "actors.count=64: with actors.cpus=3 they need 192 CPUs, and Ray has" in run.text
    assert not (run.run_dir / "redis").exists()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_stopped_redis_costs_nothing_but_time(start: Start) -> None:
    """SIGSTOP for 20 s: calls end by their deadline, actors play on into their spool, nothing is doubled."""
    run = start("actors.count=2")
    run.until_learning()
    pid = run.hurt("replay 0", signal.SIGSTOP)
    time.sleep(20)
    os.kill(pid, signal.SIGCONT)
    games = run.counters()["games"]
    state = run.until(lambda s: run.counters()["games"] > games + 50, 15, "games after the pause")
    assert state["alive_actors"] == 2
    assert "self_play" not in run.text.replace("self_play 0 ended", ""), "no actor was replaced for it"
    assert doubled(run.games()) == []
    assert run.counters().get("fenced", 0) == 0


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_stopped_learner_and_a_stopped_actor_are_replaced(start: Start) -> None:
    run = start("actors.count=2")
    state = run.until_learning()
    for role in ("self_play 1", "learner 0"):
        before = incarnation(state, role)
        run.hurt(role, signal.SIGSTOP)
        state = run.until(is_new(role, before), 60, f"a new {role}")
    step = state["status"]["step"]
    run.until(lambda s: s["status"]["step"] > step, 60, "steps of the new learner")


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Callable[[], tuple[str, subprocess.Popen[bytes]]]]:
    """A Redis of the user's that keeps nothing on disk, started as often as asked at the same address."""
    folder = Path(tempfile.mkdtemp(prefix="forgetful-"))
    servers: list[subprocess.Popen[bytes]] = []

    def start_one() -> tuple[str, subprocess.Popen[bytes]]:
        command = [find_binary(), "--port", "0", "--unixsocket", str(folder / "s"), "--save", "", "--appendonly", "no",
                   "--maxmemory-policy", "noeviction", "--dir", str(folder)]
        servers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        url = f"unix://{folder / 's'}"
        deadline = time.monotonic() + 10
        while not answers(url) and time.monotonic() < deadline:
            time.sleep(0.05)
        return url, servers[-1]

    yield start_one
    for server in servers:
        server.kill()
        server.wait()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_redis_that_forgot_everything_is_noticed(
    start: Start, forgetful: Callable[[], tuple[str, subprocess.Popen[bytes]]]
) -> None:
    """The window begins anew, learning waits for the minimum and goes on, versions never go back."""
    url, server = forgetful()
    run = start("actors.count=2", url=url)
    run.until(lambda s: s["status"]["window_rows"] >= 8000, 120, "a window")
    state = run.status()
    server.kill()
    server.wait()
    forgetful()
    run.until(lambda s: "has lost the run's games" in run.text, 10, "the loss to be noticed")
    emptied = run.until(lambda s: s["status"]["window_rows"] < 6000, 20, "a new window")
    assert emptied["status"]["version"] >= state["status"]["version"]
    after = run.until(lambda s: s["status"]["step"] > emptied["status"]["step"] + 20, 60, "learning again")
    assert after["status"]["window_rows"] >= 500, "and not before the minimum was there"
    assert after["status"]["quarantined"] == 0
    assert doubled(run.games()) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_poisoned_records_hurt_nobody(start: Start) -> None:
    run = start("actors.count=1")
    state = run.until_learning()
    client, keys = connect(run.url, 5.0), RunKeys.of(run.run_id)
    good = client.xrange(keys.games, count=1)[0][1][b"d"]
    random = np.random.default_rng(7)
    appender = Appender(run.url, run.run_id, actor=999, epoch=state["epoch"], incarnation=0)
    for sequence in range(200):
        data = bytearray(good)
        for place in random.integers(0, len(data), 1 + sequence % 5):
            data[place] ^= 1 << int(random.integers(0, 8))
        appender.append([EncodedGame(sequence, 9, bytes(data[: int(random.integers(1, len(data) + 1))]))])
    state = run.until(lambda s: s["status"]["quarantined"] >= 190, 30, "the quarantine")
    assert client.xlen(keys.quarantine) <= 100
    step = state["status"]["step"]
    run.until(lambda s: s["status"]["step"] > step + 40, 60, "learning to go on")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_again_and_again(start: Start, seed: int) -> None:
    """Anybody at any moment, also in the middle of a checkpoint: they are written all the time here."""
    random = np.random.default_rng(seed)
    run = start("actors.count=2", "run.checkpoint_seconds=0.05")
    state = run.until_learning()
    version, games = 0, 0
    for _ in range(12):
        role = str(random.choice(["self_play 0", "self_play 1", "learner 0", "replay 0"]))
        before = incarnation(state, role)
        time.sleep(float(random.uniform(0, 3)))
        run.hurt(role)
        state = run.until(
            lambda s, role=role, before=before: is_new(role, before)(s) and s["alive_actors"] == 2, 60, f"a new {role}"
        )
        assert state["status"]["version"] >= version, role
        assert state["status"]["games"] >= games, role
        version, games = state["status"]["version"], state["status"]["games"]
    step = state["status"]["step"]
    state = run.until(lambda s: s["status"]["step"] > step + 40, 90, "learning to go on")
    assert state["status"]["quarantined"] == 0
    assert doubled(run.games()) == []
    published = [json.loads(line)["version"] for line in (run.run_dir / "versions.jsonl").read_text().splitlines()]
    assert published == sorted(set(published))
    assert run.stop() == 143
    run.until_nothing_is_left(30)
