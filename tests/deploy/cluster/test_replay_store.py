"""The driver's Redis: what its death, its frozen hours, lost data and damaged files cost, and who else may use it."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shusaku.common.config.schema import Config
from shusaku.common.errors import ResumeError, UsageError
from shusaku.deploy.cluster import replay_store
from shusaku.deploy.cluster.replay_store import DEADLINE, ReplayStore
from shusaku.replay.stream.access import acl_rules
from shusaku.replay.stream.append import Appender, EncodedGame
from shusaku.replay.stream.client import ReplayUnavailable, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer

RUN = "run"
AT_ONCE = 0.2  # seconds that the driver's loop can spare


class Tended:
    """A store, looked after as the driver does it."""

    def __init__(self, directory: Path, url: str = "") -> None:
        config = Config()
        config.replay.url, config.replay.megabytes = url, 32
        self.lines: list[str] = []
        self.begun = 0
        self.fail_before: list[Exception] = []  # what the next `begin`s raise, before they have done anything
        self.fail_behind: list[Exception] = []  # or behind it
        self.slowest = 0.0  # seconds that one call of `tend` took
        self.store = ReplayStore(config, directory, RUN, self.lines.append)

    def start(self) -> "Tended":
        self.store.start()
        self.store.begin(self.begin)
        return self

    def begin(self, control: RedisControl) -> None:
        self.begun += 1
        if self.fail_before:
            raise self.fail_before.pop(0)
        control.begin(1, capacity=1000, max_bytes=1 << 20, actors=2)
        if self.fail_behind:
            raise self.fail_behind.pop(0)

    def tend(self) -> bool:
        begun = time.monotonic()
        answer = self.store.check_health()
        self.slowest = max(self.slowest, time.monotonic() - begun)
        return answer

    def until(self, answer: bool, seconds: float = 10.0) -> float:
        """Seconds until `tend` says so."""
        begun = time.monotonic()
        while self.tend() is not answer:
            assert time.monotonic() - begun < seconds, (self.store.trouble, self.lines)
            time.sleep(0.02)
        return time.monotonic() - begun

    def kill(self) -> int:
        """Ends our server as a fault would; returns when it is gone."""
        pid = self.store.pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while self.store._server is not None and self.store._server.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return pid

    def play(self, games: int) -> None:
        appender = Appender(self.store.url, RUN, actor=0, epoch=1, incarnation=0)
        for sequence in range(games):
            appender.append([EncodedGame(sequence, 9, os.urandom(300))])
        appender.close()

    @property
    def games(self) -> int:
        return self.store.control.counters().get("games", 0)


@pytest.fixture
def tended(tmp_path: Path) -> Iterator[Tended]:
    tended = Tended(tmp_path).start()
    yield tended
    tended.store.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server of the user's."""
    server = EmbeddedServer(tmp_path / "elsewhere", max_megabytes=32)
    server.start()
    yield server
    server.stop()


def test_a_killed_server_is_started_again_on_the_same_files(tended: Tended) -> None:
    assert tended.tend()
    assert tended.store.trouble == ""
    tended.play(20)
    url, before = tended.store.url, tended.kill()
    assert not tended.tend()
    assert tended.store.trouble == "it is being started again"
    assert tended.until(True) < 10
    assert tended.slowest < AT_ONCE, "the driver's loop goes on meanwhile"
    assert (tended.store.url, tended.games, tended.begun) == (url, 20, 1)
    assert tended.store.pid not in (0, before)
    assert (tended.store.restarts, tended.store.losses, tended.store.trouble) == (1, 0, "")
    assert tended.lines == ["the replay server ended; it is started again on the same files"]


def test_the_second_death_is_mended_like_the_first(tended: Tended) -> None:
    for death in range(1, 3):
        tended.kill()
        assert not tended.tend()
        assert tended.until(True) < 5
        assert tended.store.restarts == death


def test_a_frozen_server_is_waited_for_and_not_replaced(tended: Tended) -> None:
    pid = tended.store.pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert not tended.tend()
        assert tended.slowest < DEADLINE + 0.5
        assert "no answer in time" in tended.store.trouble
        assert not tended.tend()
    finally:
        os.kill(pid, signal.SIGCONT)
    tended.until(True)
    assert (tended.store.restarts, tended.store.pid, tended.store.trouble) == (0, pid, "")


def test_damaged_files_are_said_and_tried_again_with_pauses(tended: Tended, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user may put a good copy there; until then nothing is raised, and nothing deleted."""
    monkeypatch.setattr(replay_store, "RESTART_PAUSES", (0.0, 0.3, 0.6, 0.9))
    tended.play(100)
    tended.kill()
    (file,) = (tended.store._directory / "redis" / "appendonlydir").glob("*.incr.aof")
    good = file.read_bytes()
    middle = len(good) // 2
    damaged = good[:middle] + b"\xff" * 40 + good[middle + 40 :]
    file.write_bytes(damaged)
    attempts: list[float] = []
    begun = time.monotonic()
    while time.monotonic() - begun < 10 and len(attempts) < 4:
        restarts = tended.store.restarts
        assert not tended.tend()
        if tended.store.restarts > restarts:
            attempts.append(time.monotonic() - begun)
        time.sleep(0.02)
    assert len(attempts) == 4, tended.lines
    for pause, one, other in zip((0.3, 0.6, 0.9), attempts, attempts[1:], strict=False):
        assert other - one >= pause - 0.05
    assert tended.slowest < AT_ONCE
    assert "is damaged and was left as it is" in tended.store.trouble
    said = [line for line in tended.lines if line.startswith("the replay server does not start: ")]
    assert 3 <= len(said) <= 4
    assert all("\n" not in line for line in said)
    assert file.read_bytes() == damaged
    file.write_bytes(good)
    tended.until(True)
    assert (tended.games, tended.store.losses, tended.store.trouble) == (100, 0, "")


def test_lost_data_is_noticed_once_and_begun_anew(tended: Tended) -> None:
    tended.play(5)
    connect(tended.store.url).flushall()
    assert tended.tend()
    assert (tended.begun, tended.store.losses, tended.games) == (2, 1, 0)
    assert not tended.store.control.is_lost()
    assert tended.tend()
    assert (tended.begun, tended.store.losses) == (2, 1)
    assert len([line for line in tended.lines if "has lost the run's games" in line]) == 1


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_a_beginning_that_fails_is_begun_again(tended: Tended, moment: str) -> None:
    """The keys may have been made or not when the server stopped answering."""
    errors = tended.fail_before if moment == "before" else tended.fail_behind
    errors += [ReplayUnavailable("no answer in time"), ReplayUnavailable("still none")]
    connect(tended.store.url).flushall()
    for reason in ("no answer in time", "still none"):
        assert not tended.tend()
        assert tended.store.trouble == reason
    assert tended.tend()
    assert tended.store.trouble == ""
    assert tended.begun == 4
    assert not tended.store.control.is_lost()
    assert tended.tend()
    assert tended.begun == 4
    assert tended.store.losses == 1, "the data was lost once"
    assert len([line for line in tended.lines if "has lost the run's games" in line]) == 1


def test_the_first_beginning_may_fail_loudly(tmp_path: Path) -> None:
    """No actor plays yet: the command ends."""
    tended = Tended(tmp_path)
    tended.fail_before = [ReplayUnavailable("no answer in time")]
    try:
        with pytest.raises(ReplayUnavailable):
            tended.start()
    finally:
        tended.store.stop()


def test_a_newer_driver_ends_this_one(tended: Tended) -> None:
    connect(tended.store.url).flushall()
    tended.store.control.begin(2, capacity=1000, max_bytes=1 << 20, actors=2)
    connect(tended.store.url).hdel(RunKeys.of(RUN).control, "boot")
    with pytest.raises(ResumeError, match="newer driver term of this run"):
        tended.tend()


def test_at_the_end_a_dead_server_stays_dead(tended: Tended) -> None:
    """`ray job stop` sends SIGTERM to our server, too, while the learner writes its last checkpoint."""
    assert tended.tend()
    tended.store.expect_end()
    assert tended.tend()
    pid = tended.store.pid
    assert pid
    tended.kill()
    for _ in range(20):
        assert not tended.tend()
        time.sleep(0.02)
    assert (tended.store.restarts, tended.store.pid, tended.lines) == (0, pid, [])
    tended.store.stop()


def test_stop_ends_a_server_that_was_just_started_again(tended: Tended) -> None:
    tended.kill()
    assert not tended.tend()
    tended.store.stop()
    assert tended.store._server is not None
    assert not tended.store._server.is_alive()
    with pytest.raises(UsageError, match="does not answer"):
        Tended(tended.store._directory, "unix:///nonexistent/s").start()


# --- a server of the user's ------------------------------------------------------------------------------------------


def test_a_server_of_the_users_is_never_started_by_us(tmp_path: Path, server: EmbeddedServer) -> None:
    tended = Tended(tmp_path, server.url).start()
    assert tended.tend()
    assert tended.store.pid is None
    assert tended.store.actor_url.partition("@")[2] == server.url.partition("@")[2]
    os.kill(server.pid, signal.SIGKILL)
    tended.until(False)
    time.sleep(0.3)
    assert not tended.tend()
    assert tended.store.restarts == 0
    server.start()
    tended.until(True)
    assert (tended.begun, tended.store.losses) == (1, 0)
    tended.store.stop()
    assert server.is_alive()


@pytest.fixture
def say(server: EmbeddedServer) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A thread that writes this status again and again, with the current time if it has none."""
    control = RedisControl(server.url, RUN)
    control.begin(1, capacity=1000, max_bytes=1 << 20, actors=2)
    done = threading.Event()
    threads: list[threading.Thread] = []

    def speak(content: dict[str, Any]) -> None:
        def run() -> None:
            while not done.is_set():
                control.put_status(json.dumps({"time": time.time(), **content}).encode())
                done.wait(0.2)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        while not control.status():
            time.sleep(0.01)

    yield speak
    done.set()
    for thread in threads:
        thread.join()


def test_a_second_driver_of_the_same_run_is_refused(
    tmp_path: Path, server: EmbeddedServer, say: Callable[[dict[str, Any]], None]
) -> None:
    """A copy of the run directory, say: the lock of the directory does not see that."""
    say({"driver": 4711, "host": "node-9", "run_dir": "/runs/go"})
    begun = time.monotonic()
    with pytest.raises(UsageError, match="driven by process 4711 on node-9, in /runs/go; stop that"):
        Tended(tmp_path, server.url).start()
    assert time.monotonic() - begun < replay_store.SECOND_DRIVER_SECONDS + 1
    assert RedisControl(server.url, RUN).newest_epoch() == 1, "and nothing was taken from it"


@pytest.mark.parametrize("age", [0.0, 30.0, 1e6])
def test_a_status_that_does_not_change_is_of_no_driver(
    tmp_path: Path, server: EmbeddedServer, say: Callable[[dict[str, Any]], None], age: float
) -> None:
    say({"time": time.time() - age, "driver": 4711, "host": "node-9", "run_dir": "/runs/go"})
    Tended(tmp_path, server.url).start().store.stop()


@pytest.mark.parametrize("status", [b"", b"{", b"[1, 2]", b"\xff\xfe"])
def test_an_invalid_status_is_of_no_driver(tmp_path: Path, server: EmbeddedServer, status: bytes) -> None:
    RedisControl(server.url, RUN).put_status(status)
    Tended(tmp_path, server.url).start().store.stop()


def test_the_status_names_its_driver(tmp_path: Path, server: EmbeddedServer) -> None:
    identity = Tended(tmp_path, server.url).store.identify()
    assert identity["driver"] == os.getpid()
    assert identity["run_dir"] == str(tmp_path)
    assert identity["host"]


def test_actors_have_a_user_of_their_own_which_survives_a_restart(tmp_path: Path) -> None:
    tended = Tended(tmp_path).start()
    try:
        store = tended.store
        assert f"//shusaku-{RUN}-actor:" in store.actor_url
        assert store.actor_url.partition("@")[2] == store.url.partition("@")[2]
        appender = Appender(store.actor_url, RUN, actor=0, epoch=1, incarnation=0)
        assert appender.append([EncodedGame(0, 9, os.urandom(300))]).appended == 1
        tended.kill()
        tended.until(True)
        store._granted_at = 0.0
        tended.until(True)
        with pytest.raises(ReplayUnavailable):  # the connection broke
            appender.append([])
        assert appender.append([EncodedGame(1, 9, os.urandom(300))]).appended == 1
    finally:
        tended.store.stop()


def test_actors_have_a_user_in_a_server_of_the_users_if_it_may_be_made(tmp_path: Path, server: EmbeddedServer) -> None:
    client: Any = connect(server.url)
    may_not = acl_rules(RUN)["learner"].split()
    client.execute_command("ACL", "SETUSER", "may-not", "on", ">pw", *may_not)
    client.execute_command("ACL", "SETUSER", "may", "on", ">pw", *may_not, "+acl|setuser", "+acl|deluser")
    place = server.url.partition("@")[2]
    for name in ("may", "may-not"):
        tended = Tended(tmp_path / name, f"unix://{name}:pw@{place}").start()
        store = tended.store
        assert tended.tend()
        appender = Appender(store.actor_url, RUN, actor=0, epoch=1, incarnation=0)
        assert appender.append([]).control.epoch == 1
        if name == "may":
            assert store.actor_url.startswith(f"unix://shusaku-{RUN}-actor:")
            assert tended.lines == []
        else:
            assert store.actor_url == store.url
            [line] = tended.lines
            assert "may not make one" in line
            assert "replay.actor_url" in line
        store.stop()
        assert client.execute_command("ACL", "USERS") == [b"default", b"may", b"may-not"], "none is left behind"
        client.delete(*RunKeys.of(RUN))
