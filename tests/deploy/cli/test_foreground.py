"""The process in front of a command: its first line, its answers to signals, its exit code, and what it leaves."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from process_family import all_below, wait_until_gone

FIRST_BYTE_S = 1.0  # of the issue; the best of three tries counts, for the load of the machine
ANSWER_S = 2.0
PRELUDE = """
import ctypes, os, subprocess, sys, time
from pathlib import Path
from shusaku.deploy.cli.foreground import run_in_child
from shusaku.deploy.run.foreground_link import LINK, Ending
from shusaku.deploy.run.stop_signals import StopSignals
def native(seconds):
    ctypes.PyDLL(None).sleep(seconds)  # keeps Python's lock, as an import of a large library does
def ready():
    Path(sys.argv[1]).touch()
"""
BUSY = """
def work():
    ready()
    native(60)
    return 0
"""
ORDERLY = """
def work():
    LINK.expect(Ending.{ending})
    with StopSignals() as signals:
        ready()
        while not signals.should_stop():
            time.sleep(0.01)
        {then}
        print("saved", flush=True)
        try:
            signals.raise_received()
        except KeyboardInterrupt:
            return 99  # the signal says which code it is
"""


class Started:
    """A command of the test's own behind a foreground process."""

    def __init__(self, tmp_path: Path, work: str, first_line: str = "") -> None:
        ready = tmp_path / "ready"
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{PRELUDE}{work}\nsys.exit(run_in_child(work, {first_line!r}))", str(ready)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        deadline = time.monotonic() + 20
        while not ready.exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.family: list[psutil.Process] = all_below(self.process.pid)

    def press(self, number: signal.Signals = signal.SIGINT) -> None:
        """As a terminal does: to all of the foreground group."""
        os.killpg(self.process.pid, number)

    def line_within(self, seconds: float) -> str:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], seconds)[0], "no line in time"
        return self.process.stdout.readline()

    def ends_within(self, seconds: float) -> tuple[int, str]:
        """Its exit code and the rest of its output; no process of it is left."""
        output = self.process.communicate(timeout=seconds)[0]
        wait_until_gone(self.family, 0.5)
        return self.process.returncode, output


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    started: list[Started] = []

    def start_one(work: str, **options: str) -> Started:
        started.append(Started(tmp_path, work, **options))
        return started[-1]

    yield start_one
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize(("number", "code", "name"), [
    (signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM"), (signal.SIGHUP, 143, "SIGHUP"),
])
def test_a_signal_in_native_code_is_answered_and_ends_it(
    start: Callable[..., Started], number: signal.Signals, code: int, name: str
) -> None:
    command = start(BUSY)
    command.press(number)
    assert command.line_within(ANSWER_S) == f"shusaku: {name}: ending\n"
    assert command.ends_within(5.0) == (code, "")


def test_a_command_that_does_not_end_in_time_is_ended(start: Callable[..., Started]) -> None:
    command = start(ORDERLY.format(ending="IN_ORDER", then="native(60)"))
    command.press()
    assert "a second one ends at once" in command.line_within(ANSWER_S)
    assert command.ends_within(5.0) == (130, "")


def test_a_command_with_a_checkpoint_to_write_gets_its_time(start: Callable[..., Started]) -> None:
    """Of 25 s; others are ended after 0.5 s here."""
    work = "from shusaku.deploy.cli.foreground import END_S\nEND_S[Ending.IN_ORDER] = 0.5\n"
    command = start(work + ORDERLY.format(ending="WITH_CHECKPOINT", then="time.sleep(1.0)"))
    command.press()
    assert "saving a checkpoint" in command.line_within(ANSWER_S)
    assert command.ends_within(25.0) == (130, "saved\n")


def test_the_second_one_ends_at_once(start: Callable[..., Started]) -> None:
    command = start(ORDERLY.format(ending="WITH_CHECKPOINT", then="native(60)"))
    command.press()
    command.line_within(ANSWER_S)
    time.sleep(0.5)
    command.press()
    assert command.line_within(ANSWER_S) == "shusaku: Ctrl-C again: ending at once\n"
    assert command.ends_within(2.0) == (130, "")


def test_a_signal_that_is_sent_twice_is_one(start: Callable[..., Started]) -> None:
    """`timeout` and `ray job stop` send it to the process and to its group or children."""
    command = start(ORDERLY.format(ending="IN_ORDER", then=""))
    command.press(signal.SIGTERM)
    command.press(signal.SIGTERM)
    os.kill(command.family[0].pid, signal.SIGTERM)
    code, output = command.ends_within(5.0)
    assert code == 143
    assert output.endswith("saved\n")


@pytest.mark.parametrize("way", ["return 7", "os._exit(7)", "os.kill(os.getpid(), 9)"])
def test_nothing_that_was_started_stays(start: Callable[..., Started], way: str) -> None:
    """A daemon with a session of its own, whose parent has ended, is still ended."""
    daemon = "import os,time; os.fork() and os._exit(0); os.setsid(); time.sleep(60)"
    command = start(f"""
def work():
    subprocess.run([sys.executable, "-c", {daemon!r}], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ready()
    time.sleep(0.3)
    {way}
""")
    assert len(command.family) == 2
    code, output = command.ends_within(5.0)
    assert code == (7 if way == "return 7" else 1)
    if "kill" in way:
        assert "ended by signal 9 (SIGKILL)" in output
    elif "_exit" in way:
        assert "ended by exit code 7" in output
    else:
        assert output == ""


def test_last_words_are_printed_if_the_command_cannot(start: Callable[..., Started]) -> None:
    command = start("""
def work():
    LINK.say_last_words("Ray's GCS server ended", 0.5)
    ready()
    native(60)
""")
    assert command.ends_within(5.0) == (1, "shusaku: Ray's GCS server ended\n")


def test_the_end_of_a_process_that_the_command_depends_on_is_its_reason(start: Callable[..., Started]) -> None:
    """Ray ends the driver without a word when its object store is gone."""
    command = start("""
def work():
    raylet = subprocess.Popen(["sleep", "60"])
    LINK.say_how_to_go_on("the same command goes on from step 7")
    LINK.depend_on({raylet.pid: f"Ray's raylet (process {raylet.pid})"})
    ready()
    time.sleep(0.2)
    raylet.kill()
    os._exit(1)
""")
    pid = command.family[1].pid
    code, output = command.ends_within(5.0)
    assert (code, output) == (1, f"shusaku: Ray's raylet (process {pid}) has ended; the same command goes on from "
                                 "step 7\n")


def test_the_command_ends_with_its_foreground_process(start: Callable[..., Started]) -> None:
    command = start(BUSY)
    command.process.kill()
    assert command.ends_within(5.0) == (-signal.SIGKILL, "")


def test_ctrl_z_stops_the_command_too(start: Callable[..., Started]) -> None:
    command = start(ORDERLY.format(ending="IN_ORDER", then=""))

    def until(status: str) -> None:
        deadline = time.monotonic() + 5
        all_of_it = [psutil.Process(command.process.pid), *command.family]
        while {process.status() for process in all_of_it} != {status}:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    command.press(signal.SIGTSTP)
    until(psutil.STATUS_STOPPED)
    command.process.send_signal(signal.SIGCONT)
    until(psutil.STATUS_SLEEPING)
    command.press()
    assert command.ends_within(5.0)[0] == 130


# --- a terminal ------------------------------------------------------------------------------------------------------

SHOWN = """
from shusaku.deploy.run.console import Console, Status
def work():
    LINK.expect(Ending.IN_ORDER)
    with StopSignals() as signals, Console() as console:
        ready()
        while not signals.should_stop() or {is_stuck}:
            console.show(Status("a game", "a directory"))
            time.sleep(0.01)
        time.sleep(0.5)
    return 130
"""


@pytest.mark.parametrize("is_stuck", [False, True])
def test_ctrl_c_in_a_terminal_is_answered_above_the_block(tmp_path: Path, is_stuck: bool) -> None:
    """The terminal itself sends the signal, to the foreground group; the cursor is there again at the end."""
    ready = tmp_path / "ready"
    terminal, own = pty.openpty()
    command = f"{PRELUDE}{SHOWN.format(is_stuck=is_stuck)}\nsys.exit(run_in_child(work))"
    process = subprocess.Popen([sys.executable, "-c", command, str(ready)], stdin=own, stdout=own, stderr=own,
                               env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(own)
    try:
        output = read_terminal(terminal, lambda text: "a directory" in text and ready.exists(), 20.0)
        os.write(terminal, b"\x03")
        pressed = time.monotonic()
        output = read_terminal(terminal, lambda text: "Ctrl-C: ending; a second one ends at once" in text, ANSWER_S)
        output += read_terminal(terminal, lambda text: process.poll() is not None, 5.0)
        assert time.monotonic() - pressed < 5.5
        assert process.returncode == 130
        assert output.rstrip().endswith("\x1b[?25h"), "the cursor is shown"
        assert is_stuck or "Ctrl-C: ending; a second one ends at once" in output
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def read_terminal(terminal: int, is_enough: Callable[[str], bool], seconds: float) -> str:
    """What is shown until that is enough."""
    deadline = time.monotonic() + seconds
    text = ""
    while not is_enough(text):
        assert time.monotonic() < deadline, text[-2000:]
        if select.select([terminal], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):  # the last process that had it open has ended
                text += os.read(terminal, 65536).decode(errors="replace")
    return text


# --- the first line --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    ["train"], ["local"], ["evaluate", "checkpoint=random"], ["match", "first.checkpoint=random"],
    ["bench", "selfplay"], ["plan"], ["local", "--json"],
])
def test_the_first_line_comes_within_a_second(tmp_path: Path, words: list[str]) -> None:
    assert any(first_byte(tmp_path, words) < FIRST_BYTE_S for _ in range(3))


def first_byte(tmp_path: Path, words: list[str]) -> float:
    """Seconds from the start of the process."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "shusaku", *words], cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert select.select([process.stderr if "--json" in words else process.stdout], [], [], 20)[0]
        return time.monotonic() - began
    finally:
        process.terminate()  # it ends all that it started
        process.communicate()


SLOW_IMPORT = """
import runpy, sys, time
from pathlib import Path
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "shusaku.deploy.cli.main":
            Path(sys.argv[1]).touch()
            time.sleep(60)
sys.meta_path.insert(0, Slow())
runpy.run_module("shusaku", run_name="__main__")
"""


@pytest.mark.parametrize(("number", "name", "code"), [
    (signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143), (signal.SIGHUP, "SIGHUP", 143)])
def test_a_signal_before_the_command_line_is_imported(
    tmp_path: Path, number: signal.Signals, name: str, code: int
) -> None:
    ready = tmp_path / "ready"
    process = subprocess.Popen([sys.executable, "-c", SLOW_IMPORT, str(ready)], stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        _, error = process.communicate(timeout=ANSWER_S)
    finally:
        process.kill()
    assert error == f"shusaku: {name}: ended before it began\n"
    assert process.returncode == code
