"""`shusaku scale`, `status` and `stop` beside a run that obeys them, late or never, through a real replay server."""

import fcntl
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.cli import main as cli
from shusaku.deploy.commands import control as control_commands
from shusaku.deploy.commands.control import scale, status, stop
from shusaku.deploy.run.console import Status, Waiting
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer, server_url

MAX_ACTORS = 4


class Driver:
    """What the commands see of `shusaku train`: the lock, the run's keys, and a status that follows the wishes."""

    def __init__(self, directory: Path, url: str) -> None:
        self.run_id, self.obeys, self.lag = RunIdentity.of(directory).run_id, True, 0.3
        self.control = RedisControl(url, self.run_id)
        self.control.begin(3, capacity=1000, max_bytes=1 << 20, actors=1)
        self.desired = self.alive = 1
        self.wishes: list[int] = []
        self.status = Status("tic_tac_toe", str(directory), seconds=61.0, minutes=20.0, games=1234, step=77,
                             workers=[("1 of 1", "actors")], strength=[(0.0, 0.25), (60.0, 0.875)],
                             limit="self-play: the learner waits 40% of its time for rows",
                             waiting=Waiting("rows before the first step", 10, 500, 25.0), losses={"policy": 1.5})
        self.released = 0.0
        self.is_silent = False
        self.clock_error = self.late = 0.0
        self._lock = (directory / "lock").open("a+", encoding="utf-8")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._over = threading.Event()
        self._say()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _say(self) -> None:
        self.control.put_status(json.dumps({
            "status": asdict(self.status), "time": time.time() + self.clock_error, "desired_actors": self.desired,
            "alive_actors": self.alive, "max_actors": MAX_ACTORS, "cpus_per_actor": 0.5, "epoch": 3,
            "replay_time": self.control.server_time() - self.late,
        }).encode())

    def _run(self) -> None:
        changed = 0.0
        while not self._over.wait(0.02):
            wish = self.control.desired_actors()
            if self.obeys and wish != self.desired:
                self.desired, changed = wish, time.monotonic()
                self.wishes.append(wish)
            if self.alive != self.desired and time.monotonic() - changed > self.lag:
                self.alive = self.desired
            if self.obeys and self.control.is_run_stop_requested():
                time.sleep(2 * self.lag)  # its last checkpoint
                self.release()
            if not self.is_silent and not self.released:
                self._say()

    def release(self) -> None:
        if not self.released:
            self.released = time.monotonic()
            self._lock.close()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self.release()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    made = Config()
    made.run.dir = str(tmp_path / "run")
    return made


@pytest.fixture
def server(config: Config) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(Path(config.run.dir) / "redis", max_megabytes=32)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def driver(config: Config, server: EmbeddedServer) -> Iterator[Driver]:
    RunIdentity.of(Path(config.run.dir)).next_epoch(2)
    driver = Driver(Path(config.run.dir), server.url)
    yield driver
    driver.end()


# --- scale -----------------------------------------------------------------------------------------------------------


def test_up_and_down_and_each_waits_for_its_effect(
    config: Config, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    for count in (4, 2):
        result = scale(str(count), config, as_json=False)
        assert (result["actors"], result["alive"]) == (count, count)
        assert driver.alive == count, "not before they play"
        assert driver.lag <= result["seconds"] < 5
        assert capsys.readouterr().out == f"{count} actors play, after {result['seconds']} s\n"
    assert driver.wishes == [4, 2]
    scale("2", config, as_json=True)
    assert capsys.readouterr().out == "", "what is printed with --json is the result"


@pytest.mark.parametrize(("what", "text"), [
    ("five", "scale five: must be a number of actors"), ("2.5", "scale 2.5: must be a number of actors"),
    ("0", "scale 0: must be at least 1; `shusaku stop` ends a run"), ("-1", "scale -1: must be at least 1"),
    ("5", "scale 5: 5 actors of actors.cpus=0.5 do not fit; this cluster takes 4 at most"),
])
def test_a_number_that_cannot_be_is_refused(config: Config, driver: Driver, what: str, text: str) -> None:
    with pytest.raises(UsageError) as error:
        scale(what, config, as_json=False)
    assert str(error.value).startswith(text)
    time.sleep(0.1)
    assert driver.wishes == [], "and no request was sent"


def test_the_driver_hears_that_it_was_the_user_who_set_the_number(config: Config, driver: Driver) -> None:
    """Also if it is the present one, which ends actors.count=auto; until the next start."""
    control = driver.control
    control.set_actors(1, by_user=False)
    assert not control.has_user_set_actors()
    scale("1", config, as_json=True)
    assert control.has_user_set_actors()
    control.begin(4, capacity=1000, max_bytes=1 << 20, actors=1)
    assert not control.has_user_set_actors()


def test_a_run_on_finished_games_has_no_actors(config: Config, driver: Driver) -> None:
    driver.control.set_actors(0)
    while driver.alive:
        time.sleep(0.01)
    time.sleep(0.1)
    with pytest.raises(UsageError, match=r"scale 2: this run learns from finished games \(dataset\.records\)"):
        scale("2", config, as_json=False)
    assert driver.wishes == [0], "and no request was sent"


def test_as_many_as_fit_is_no_mistake(config: Config, driver: Driver) -> None:
    assert scale(str(MAX_ACTORS), config, as_json=True)["alive"] == MAX_ACTORS


def test_a_number_that_is_not_reached_is_a_failure(
    config: Config, driver: Driver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(control_commands, "EFFECT_SECONDS", 0.3)
    driver.lag = 60.0
    with pytest.raises(RunError, match=r"scale 3: 1 of 3 actors play after 0\.\d s; the run goes on trying"):
        scale("3", config, as_json=False)
    assert capsys.readouterr().out == ""
    driver.obeys = False
    with pytest.raises(RunError, match="scale 2: 1 of 2 actors play"):
        scale("2", config, as_json=False)


def test_a_wish_that_the_driver_has_not_seen_is_not_taken_for_done(
    config: Config, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One actor plays, two were wished for, now one is: the driver has to have heard the last word."""
    monkeypatch.setattr(control_commands, "EFFECT_SECONDS", 0.3)
    driver.lag = 60.0
    driver.control.set_actors(2)
    while driver.desired != 2:
        time.sleep(0.01)
    driver.obeys = False
    with pytest.raises(RunError):
        scale("1", config, as_json=False)


# --- status ----------------------------------------------------------------------------------------------------------


def test_the_block_is_printed(config: Config, driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    state = status(config, as_json=False)
    out = capsys.readouterr().out
    for text in ("tic_tac_toe", "1:01 of 20:00", "1,234 games", "77 steps", "1.500 policy loss", "1 of 1 actors",
                 "waiting: 10 of 500 rows before the first step",
                 "self-play: the learner waits 40% of its time for rows", "0.875"):
        assert text in out, out
    assert state["status"]["games"] == 1234


def test_as_json_it_is_the_last_line(config: Config, driver: Driver, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", f"run.dir={config.run.dir}", "--json"]) == 0
    out = capfd.readouterr().out
    (line,) = out.splitlines()
    state = json.loads(line)
    assert state["status"]["strength"] == [[0.0, 0.25], [60.0, 0.875]]
    assert state["status"]["waiting"]["total"] == 500
    assert (state["desired_actors"], state["alive_actors"], state["epoch"]) == (1, 1, 3)
    assert time.time() - state["time"] < 5


# --- stop ------------------------------------------------------------------------------------------------------------


def test_stop_returns_when_the_run_has_let_go(
    config: Config, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    result = stop(config, as_json=False)
    assert driver.released, "it has ended"
    assert time.monotonic() - driver.released < 2
    assert 2 * driver.lag <= result["seconds"] < 5
    assert capsys.readouterr().out == f"the run has ended, after {result['seconds']} s\n"
    with pytest.raises(UsageError, match="no process runs it; `shusaku train` resumes it"):
        stop(config, as_json=False)


def test_a_run_that_does_not_stop_is_a_failure(
    config: Config, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_commands, "STOP_SECONDS", 0.5)
    driver.obeys = False
    with pytest.raises(RunError, match=r"was asked to stop 0\.\d s ago and has not ended yet"):
        stop(config, as_json=False)
    assert driver.control.is_run_stop_requested()


# --- no run to talk to -----------------------------------------------------------------------------------------------

COMMANDS: list[Callable[[Config], Any]] = [
    lambda config: scale("2", config, as_json=False),
    lambda config: status(config, as_json=False),
    lambda config: stop(config, as_json=False),
]


def refusals(config: Config) -> set[str]:
    """What the three commands say: one line each."""
    said = set()
    for command in COMMANDS:
        with pytest.raises(UsageError) as error:
            command(config)
        said.add(str(error.value))
    assert not [text for text in said if "\n" in text]
    return said


def test_a_directory_without_a_run(config: Config, tmp_path: Path) -> None:
    directory = config.run.dir
    assert refusals(config) == {f"run.dir={directory} holds no run of `shusaku train`; name the one that is running"}
    assert not Path(directory).exists(), "and none is made"


def test_a_run_that_has_ended(config: Config, server: EmbeddedServer, driver: Driver) -> None:
    driver.end()
    server.stop()
    (said,) = refusals(config)
    assert said.startswith(f"run.dir={config.run.dir}: its replay server is not running, so neither is the run")


def test_a_run_whose_driver_was_killed(config: Config, driver: Driver) -> None:
    driver.end()  # and its server lives on for a moment, or its socket
    (said,) = refusals(config)
    assert said == f"run.dir={config.run.dir}: no process runs it; `shusaku train` resumes it"


def test_a_driver_that_says_nothing(config: Config, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen, say: it holds the lock."""
    monkeypatch.setattr(control_commands, "STALE_SECONDS", 0.5)
    driver.is_silent = True
    time.sleep(0.8)
    for said in refusals(config):
        assert "its driver has written no status for 1 s" in said
    connect(server_url(Path(config.run.dir) / "redis")).delete(RunKeys.of(driver.run_id).status)
    for said in refusals(config):
        assert "the run has not begun yet, or is over" in said


@pytest.mark.parametrize("clock_error", [-100.0, 100.0])
def test_the_clock_of_the_drivers_machine_does_not_matter(
    config: Config, driver: Driver, clock_error: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.clock_error = clock_error
    time.sleep(0.2)
    assert status(config, as_json=True)["epoch"] == 3
    driver.late = control_commands.STALE_SECONDS + 5
    time.sleep(0.2)
    for said in refusals(config):
        assert "its driver has written no status for 20 s" in said


def test_a_replay_server_that_is_gone(config: Config, server: EmbeddedServer, driver: Driver) -> None:
    driver._over.set()
    driver._thread.join()
    assert server._process is not None
    server._process.kill()
    server._process.wait()
    for said in refusals(config):
        assert said.startswith(f"the replay server of run.dir={config.run.dir} does not answer: ")
        assert (server.directory / "password").read_text().strip() not in said


def test_a_run_that_has_just_lost_its_data(config: Config, driver: Driver) -> None:
    """The status is fresh, but wishes have no place until the driver has begun anew: one line, no traceback."""
    driver._over.set()
    driver._thread.join()
    connect(server_url(Path(config.run.dir) / "redis")).delete(RunKeys.of(driver.run_id).control)
    for command in (COMMANDS[0], COMMANDS[2]):
        with pytest.raises((UsageError, RunError), match="lost"):
            command(config)


def test_with_a_server_of_the_users_its_url_is_needed_and_enough(
    config: Config, tmp_path: Path, driver: Driver, server: EmbeddedServer
) -> None:
    copy = Config()
    copy.run.dir = str(tmp_path / "elsewhere")
    Path(copy.run.dir).mkdir()
    (Path(copy.run.dir) / "run.json").write_text((Path(config.run.dir) / "run.json").read_text())
    with pytest.raises(UsageError, match=r"if it uses your own server, give its replay\.url"):
        status(copy, as_json=True)
    copy.replay.url = server.url
    assert status(copy, as_json=True)["epoch"] == 3


# --- as commands -----------------------------------------------------------------------------------------------------


def test_exit_codes(
    config: Config, driver: Driver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(control_commands, "EFFECT_SECONDS", 0.2)
    where = f"run.dir={config.run.dir}"
    assert cli.main(["scale", "9", where]) == 2
    assert capsys.readouterr().err == (
        "shusaku: scale 9: 9 actors of actors.cpus=0.5 do not fit; this cluster takes 4 at most\n"
    )
    assert cli.main(["scale", where]) == 2
    assert "scale: missing argument N" in capsys.readouterr().err
    driver.lag = 60.0
    assert cli.main(["scale", "2", where]) == 1
    assert capsys.readouterr().err.startswith("shusaku: scale 2: 1 of 2 actors play after ")
    driver.lag = 0.1
    assert cli.main(["stop", where]) == 0
    assert cli.main(["status", where]) == 2
