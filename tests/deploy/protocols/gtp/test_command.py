"""`shusaku gtp` and `shusaku play` as programs: pipes, exit codes, signals."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

SMALL = ("network=tiny", "network.filters=8", "network.blocks=1", "inference.runtime=torch", "engine.threads=1",
         "engine.simulations=16")
GO = ("gtp", "checkpoint=random", "game=go", "game.size=5", *SMALL)
PLAY = ("play", "checkpoint=random", "game=tic_tac_toe", *SMALL)


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "shusaku", *arguments], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(text: str, *arguments: str) -> tuple[int, str, str]:
    process = start(*arguments)
    said, logged = process.communicate(text, timeout=120)
    return process.returncode, said, logged


def test_only_the_protocol_is_on_stdout() -> None:
    code, said, logged = run("1 boardsize 5\n2 genmove b\n3 boardsize 9\n# nothing\n4 quit\n", *GO)
    assert code == 0
    assert re.fullmatch(r"=1\n\n=2 ([A-E][1-5]|pass)\n\n\?3 unacceptable size\n\n=4\n\n", said)
    assert "go, version 1" in logged


@pytest.mark.parametrize(("arguments", "reason"), [
    (("gtp", "checkpoint=random", "game=chess", *SMALL), "plays chess, and gtp is for go, othello, hex"),
    (("gtp", "checkpoint=/no/such/run"), "no such file"),
    (("gtp",), "checkpoint= is missing"),
    (("play", "checkpoint=random", "game=chess", "play.side=left", *SMALL), "play.side=left: must be one of"),
    (("play", "checkpoint=random", "play.temperature=-1"), "play.temperature=-1"),
])
def test_wrong_use_is_one_line_and_exit_2(arguments: tuple[str, ...], reason: str) -> None:
    code, said, logged = run("", *arguments)
    [line] = [line for line in logged.splitlines() if not line.endswith(": starting")]
    assert (code, said.removeprefix("shusaku play: starting\n")) == (2, "")  # which comes if the machine is busy
    assert reason in line


def test_a_game_through_a_pipe() -> None:
    code, said, _ = run("b2\nnonsense\nhint\nresign\n", *PLAY, "--json")
    assert code == 0
    report = json.loads(said.splitlines()[-1])
    assert report["moves"][0] == "b2"
    assert report["ended_by"] == "resignation"
    assert report["outcome"] == -1


@pytest.mark.parametrize("arguments", [GO, PLAY])
def test_ctrl_c_ends_it(arguments: tuple[str, ...]) -> None:
    process = start(*arguments)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("showboard\nboard\n")
    process.stdin.flush()
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130  # before its input is closed, which ends it as well
    _, logged = process.communicate()
    assert "Traceback" not in logged
