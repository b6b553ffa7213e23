"""Commands, exit codes and what goes to which stream, as a shell sees them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shusaku.common.config.schema import Config
from shusaku.common.errors import ResumeError, RunError, UsageError
from shusaku.deploy.cli import main as cli
from shusaku.replay.stream.client import ReplayUnavailable

ROOT = Path(__file__).resolve().parents[3]


def shusaku(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shusaku", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def stand_in(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    """Makes `run` the body of the command `local`."""
    monkeypatch.setitem(sys.modules, "shusaku.deploy.local.driver", SimpleNamespace(run=run))


@pytest.mark.parametrize("argv", [["locl"], ["perft", "chss", "3"], ["perft", "tic_tac_toe", "x"], ["perft"],
                                  ["perft", "tic_tac_toe", "-1"], ["games", "--jsn"], ["local", "--jsn"],
                                  ["local", "a.b=1"], ["local", "--cfg", "hydra"], ["bench"], ["bench", "everything"],
                                  ["perft", "tic_tac_toe", "2", "--param", "size=3"],
                                  ["perft", "connect_four", "2", "--position", "nonsense"],
                                  ["perft", "othello", "2", "--param", "size=7"],
                                  ["perft", "othello", "2", "--position", "...\n..."],
                                  ["perft", "othello", "2", "--position", "(;GM[2])"],
                                  ["perft", "tic_tac_toe", "1", "--position", ".../.../..é"],  # half of the é is quoted
                                  ["perft", "chess", "1", "--position", "a" * 59 + "é/"],
                                  ["perft", "chess", "1", "--position", "\u2028/\u0085"],
                                  ["perft", "chess", "1", "--position", "\udcff/"],  # a byte that is no UTF-8
                                  ["perft", "tic_tac_toe", "0", "--position=--"],
                                  ["perft", "tic_tac_toe", "0", "--param=--"]])
def test_wrong_usage_is_one_line_and_exit_2(argv: list[str]) -> None:
    done = shusaku(*argv)
    assert done.returncode == 2
    assert done.stdout.removeprefix(f"shusaku {argv[0]}: starting\n") == ""  # which comes if the machine is busy
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("shusaku: ")


def test_an_unknown_command_names_the_nearest() -> None:
    assert "nearest: perft" in shusaku("pertf").stderr


def test_help_is_quick_and_lists_the_commands() -> None:
    began = time.perf_counter()
    done = shusaku("--help")
    assert time.perf_counter() - began < 3  # 0.1 s where nothing else runs
    assert done.returncode == 0
    assert all(name in done.stdout for name in cli.COMMANDS)
    script = "import sys; from shusaku.deploy.cli.main import main; main(['--help']); sys.exit('hydra' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", ["local", "evaluate", "bench"])
def test_help_of_a_command_lists_choices_and_settings(name: str) -> None:
    done = shusaku(name, "--help")
    assert done.returncode == 0
    assert "search.simulations=64" in done.stdout
    assert "tic_tac_toe" in done.stdout


def test_every_command_of_the_table_has_its_module() -> None:
    for name, command in cli.COMMANDS.items():
        assert callable(command.load()), name


def test_games_as_json_and_as_text() -> None:
    games = json.loads(shusaku("games", "--json").stdout)["games"]
    by_name = {game["name"]: game for game in games}
    assert by_name["tic_tac_toe"]["observation_shape"] == [3, 3, 3]
    assert by_name["connect_four"]["actions"] == 7
    text = shusaku("games").stdout
    assert all(name in text for name in by_name)


def test_perft_counts() -> None:
    result = json.loads(shusaku("perft", "tic_tac_toe", "9", "--json").stdout)
    assert result["nodes"] == 127_872  # sequences of nine plies; 255,168 games end at five or later
    assert set(result) == {"nodes", "seconds"}
    assert "16,807 sequences of 5 plies" in shusaku("perft", "connect_four", "5").stdout


def test_perft_divides_and_starts_anywhere() -> None:
    whole = json.loads(shusaku("perft", "connect_four", "4", "--divide", "--json").stdout)
    assert whole["nodes"] == sum(whole["divide"].values()) == 7**4
    move = next(iter(whole["divide"]))
    behind = json.loads(shusaku("perft", "connect_four", "3", "--position", move, "--json").stdout)
    assert behind["nodes"] == whole["divide"][move]


@pytest.mark.parametrize("position", ["XO./.../...", "XO.\n...\n...\n", "a3 b3"])
def test_perft_starts_from_a_position_as_text(position: str) -> None:
    result = json.loads(shusaku("perft", "tic_tac_toe", "2", "--position", position, "--json").stdout)
    assert result["nodes"] == 7 * 6


def test_perft_says_what_is_wrong_with_a_position() -> None:
    assert "row 2 has 2 cells" in shusaku("perft", "tic_tac_toe", "2", "--position", "XO./../...").stderr
    assert "6 rows of 6" in shusaku("perft", "othello", "2", "--param", "size=6", "--position", "../..").stderr
    assert "move 2, d3: illegal move 'd3'" in shusaku("perft", "othello", "2", "--position", "d3 d3").stderr


def test_cfg_prints_the_configuration_and_stops() -> None:
    done = shusaku("local", "--cfg", "job", "search=gumbel", "run.minutes=7")
    assert done.returncode == 0
    assert "policy: gumbel" in done.stdout
    assert "minutes: 7.0" in done.stdout
    assert shusaku("local", "--cfg=job", "-m", "run.seed=1,2").stdout.count("experiment:") == 2


def test_json_is_the_last_line_and_alone_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(config: Config, as_json: bool) -> dict[str, Any]:
        print("a word")
        os.write(1, b"a library's word\n")
        return {"minutes": config.run.minutes, "as_json": as_json}

    stand_in(monkeypatch, run)
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    assert cli.main(["local", "run.minutes=2", "--json"]) == 0
    out, err = capfd.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [{"minutes": 2.0, "as_json": True}]
    assert "a word" in err
    assert "a library's word" in err


def test_multirun_runs_every_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(config: Config, as_json: bool) -> dict[str, Any]:
        return {"seed": config.run.seed}

    stand_in(monkeypatch, run)
    assert cli.main(["local", "-m", "run.seed=1,2", "--json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert [job["seed"] for job in jobs] == [1, 2]
    assert jobs[1]["dir"] == "runs/connect_four/run.seed=2"
    assert jobs[1]["overrides"] == ["run.seed=2"]


@pytest.mark.parametrize(("error", "code"), [
    (UsageError("a=1: must not"), 2), (ResumeError("no good checkpoint"), 3), (RunError("learner 0 failed"), 1),
    (ReplayUnavailable("no answer in time"), 1), (KeyboardInterrupt(), 130), (cli.Terminated(), 143),
])
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    def run(config: Config, as_json: bool) -> dict[str, Any]:
        raise error

    stand_in(monkeypatch, run)
    assert cli.main(["local"]) == code
    assert capsys.readouterr().err == (f"shusaku: {error}\n" if code in (1, 2, 3) else "")


def test_a_diagnosis_of_several_lines_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(config: Config, as_json: bool) -> dict[str, Any]:
        raise RunError("learner 0 failed 6 times in a row:\n  CUDA\n  out of memory")

    stand_in(monkeypatch, run)
    assert cli.main(["local", "--json"]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", "shusaku: learner 0 failed 6 times in a row: CUDA out of memory\n")


# --- a command that takes the whole line -----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    [], ["--", "train", "actors.count=2"], ["--help"], ["--json", "--", "games", "--json"],
    ["--address", "http://h:1", "--no-wait", "--", "bench", "rules", "-m", "run.seed=1,2", "--cfg", "job"],
])
@pytest.mark.parametrize("code", [0, 1, 7, 143])
def test_submit_gets_every_word_and_its_code_is_ours(
    monkeypatch: pytest.MonkeyPatch, words: list[str], code: int
) -> None:
    """The words behind -- are another command's: nothing may be taken out of them here."""
    seen: list[list[str]] = []

    def run(arguments: list[str]) -> int:
        seen.append(list(arguments))
        return code

    monkeypatch.setitem(sys.modules, "shusaku.deploy.commands.submit", SimpleNamespace(run=run))
    assert cli.main(["submit", *words]) == code
    assert seen == [words]


def test_submit_explains_itself() -> None:
    done = shusaku("submit", "--help")
    assert done.returncode == 0
    assert "--no-wait" in done.stdout
    assert done.stdout.startswith("usage: shusaku submit")


@pytest.mark.parametrize(("words", "named"), [
    ([], "submit needs a command"), (["train"], "train"), (["--", "trian"], "nearest: train"),
    (["--addres", "x", "--", "train"], "--addres"),
])
def test_wrong_usage_of_submit_is_one_line_and_exit_2(words: list[str], named: str) -> None:
    done = shusaku("submit", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_sigterm_reaches_the_command_as_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = []

    def run(config: Config, as_json: bool) -> dict[str, Any]:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt:
            saved.append(True)
            raise
        return {}

    stand_in(monkeypatch, run)
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(["local"]) == 143
    assert saved == [True]
    assert signal.getsignal(signal.SIGTERM) is before
