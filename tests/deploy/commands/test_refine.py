"""`shusaku refine`: its settings, tasks of the user's own, the trace, bad input and interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import pytest
from chat_server import ChatServer

from shusaku.actors.refine import draw
from shusaku.deploy.cli.main import main

KEY = "sk-not-a-real-key"
GUESS = '''
class Guess:
    """Guesses a number between 0 and 1000 by hints."""

    parameter_help = {"goal": "the number"}

    def __init__(self, goal: int, step=64, name="x", loud=False):
        self.goal, self.step, self.name, self.loud = goal, step, name, loud

    def first(self):
        return f"{self.name} 500"

    def critique(self, answer):
        return "low" if int(answer.split()[1]) < self.goal else "high"

    def refine(self, answer, critique):
        number = int(answer.split()[1]) + (self.step if critique == "low" else -self.step)
        self.step = max(1, self.step // 2)
        return f"{self.name} {number}"

    def score(self, answer):
        if answer == "I do not know.":
            return -100
        return max(-100, 100 - abs(int(answer.split()[1]) - self.goal))


class Broken(Guess):
    def first(self):
        raise RuntimeError("not today")


class Short:
    def first(self):
        return 1

    def critique(self, answer):
        return ""

    def refine(self, answer):
        return 1

    def score(self, answer):
        return 1


class Angry(Guess):
    def __init__(self):
        raise OSError("no disk")


class Slow(Guess):
    def __init__(self):
        super().__init__(600)

    def refine(self, answer, critique):
        import time
        if answer != "x 500":
            print("waiting", flush=True)
            time.sleep(60)
        return super().refine(answer, critique)
'''


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def result(self):
        return json.loads(self.out.splitlines()[-1])


@pytest.fixture
def refine(tmp_path, monkeypatch, capsys):
    """The command, given in a directory with guess.py in it."""
    (tmp_path / "guess.py").write_text(GUESS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "guess", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def run(*arguments):
        capsys.readouterr()
        code = main(["refine", *arguments])
        return Done(code, *capsys.readouterr())

    return run


def test_a_full_disk_hides_no_answer(refine, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shusaku.deploy.commands.refine.write_atomically", full)
    shown = refine("task=queens", "rollouts=12", "seed=3", "trace=tree.json")
    assert shown.code == 1
    assert "best answer, score" in shown.out
    assert "trace=tree.json: No space left on device" in shown.err
    found = refine("task=queens", "rollouts=12", "seed=3", "trace=tree.json", "--json")
    assert (found.code, found.result["rollouts"]) == (1, 12)


def test_queens_as_text_as_json_and_as_a_file_are_one_tree(refine, tmp_path):
    words = ["task=queens", "rollouts=12", "seed=3"]
    shown = refine(*words, "trace=tree.json")
    assert shown.code == 0
    found = refine(*words, "--json")
    assert found.code == 0
    assert found.err == ""
    result = found.result
    assert {key: result[key] for key in ("task", "solved", "ended_by", "rollouts", "failures", "calls")} == {
        "task": "queens", "solved": False, "ended_by": "rollouts", "rollouts": 12, "failures": 0, "calls": None}
    assert json.loads((tmp_path / "tree.json").read_text(encoding="utf-8")) == result["trace"]
    assert draw(result["trace"]) in shown.out
    assert shown.out.splitlines()[-1] == str(result["answer"])
    assert shown.out.splitlines()[-2] == f"best answer, score {result['score']:g} after 12 rollouts (rollouts):"
    assert len(result["trace"]["nodes"]) == 14
    assert refine(*words[:2], "task.seed=3", "--json").result == result
    assert refine(*words[:2], "seed=4", "--json").result != result


def test_the_settings_reach_the_search(refine):
    words = ["task=queens", "task.size=20", "rollouts=40", "seed=1", "--json"]
    plain = refine(*words).result
    assert len(plain["answer"]) == 20
    wide = refine(*words, "exploration=300").result
    assert plain["trace"] != wide["trace"]
    assert wide["trace"] != refine(*words, "exploration=300", "children=1").result["trace"]
    assert refine(*words, "workers=4").result["rollouts"] <= 40


def test_a_class_of_ones_own_finds_its_parameters_and_stops_when_it_is_solved(refine):
    found = refine("task=guess:Guess", "task.goal=532", "rollouts=200", "task.name=007", "task.loud=true", "--json")
    assert found.code == 0
    assert (found.result["answer"], found.result["solved"]) == ("007 532", True)
    shown = refine("task=guess:Guess", "task.goal=532", "rollouts=200")
    assert shown.out.endswith("(solved):\nx 532\n")
    assert "score 100" in shown.err  # as it is found


def test_a_language_model_behind_a_local_server(refine, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def model(prompt):
        answer = prompt.rpartition("Answer:\n")[2].partition("\n")[0]
        if "Score: NUMBER" in prompt:
            return f"Score: {min(95, 10 * answer.count('more'))}"
        return f"{answer} more" if "Criticism:\n" in prompt else "longer, please"

    with ChatServer() as server:
        server.script = model
        found = refine("task=endpoint", f"task.url={server.url}", "task.model=tiny", "task.question=Say more.",
                       "rollouts=6", "workers=2", "trace=tree.json", "--json")
        assert found.code == 0
        assert all(request.headers["Authorization"] == f"Bearer {KEY}" for request in server.requests)
        assert found.result["calls"] == len(server.requests) == 3 + 6 * 4
        assert found.result["failures"] == 0
        assert found.result["answer"].count("more") == found.result["score"] / 10 >= 2
        assert KEY not in found.out + found.err
        assert KEY not in (tmp_path / "tree.json").read_text(encoding="utf-8")
        server.statuses = [404] * 3
        gone = refine("task=endpoint", f"task.url={server.url}", "task.model=tiny", "task.question=Say more.")
    assert gone.code == 1
    assert gone.err.startswith("shusaku: refine: no answer was scored; http://127.0.0.1:")
    assert "status 404" in gone.err
    assert gone.err.count("\n") == 1


def test_a_task_without_any_answer_fails_in_one_line(refine):
    found = refine("task=guess:Broken", "task.goal=1", "--json")
    assert (found.code, found.err) == (
        1, "shusaku: refine: no answer was scored; first raised RuntimeError: not today\n")
    assert (found.result["answer"], found.result["failures"]) == (None, 1)


@pytest.mark.parametrize(("words", "text"), [
    ([], "refine: task= is missing (one of queens, endpoint, or module:Class); for example: shusaku refine"),
    (["rollouts=3"], "task= is missing"),
    (["queens"], "refine queens: no setting; write key=value"),
    (["task=quens"], "task=quens: no such task; nearest: queens; there are queens, endpoint, and module:Class"),
    (["task=queens", "rolouts=3"], "rolouts=3: refine has no setting rolouts; nearest: rollouts;"),
    (["task=queens", "rollouts=-1"], "rollouts=-1: must be in [0, 10000]"),
    (["task=queens", "rollouts=2.5"], "rollouts=2.5: must be a whole number"),
    (["task=queens", "children=0"], "children=0: must be in [1, "),
    (["task=queens", "workers=65"], "workers=65: must be in [1, 64]"),
    (["task=queens", "exploration=-1"], "exploration=-1: must be at least 0"),
    (["task=queens", "exploration=nan"], "exploration=nan: must be a number"),
    (["task=queens", "exploration=inf"], "exploration=inf: must be a number"),
    (["task=queens", "seed=x"], "seed=x: must be a whole number"),
    (["task=queens", "seed=1", "task.seed=1"], "seed=1: task.seed= says it already; leave it out"),
    (["task=guess:Guess", "task.goal=1", "seed=1"], "seed=1: task=guess:Guess has no parameter seed; leave it out"),
    (["task=queens", "trace=not/there.json"], "trace=not/there.json: must name a file in a folder that there is"),
    (["task=queens", "trace=."], "trace=.: must name a file"),
    (["task=queens", "task.size=3"], "task.size=3: must be in [4, 256]"),
    (["task=queens", "task.size=eight"], "task.size=eight: must be a whole number"),
    (["task=queens", "task.sise=8"], "task.sise=8: task=queens has no parameter sise; nearest: size;"),
    (["task=guess:Guess"], "task=guess:Guess needs task.goal=...: the number"),
    (["task=guess:Guess", "task.goal=1", "task.loud=yes"], "task.loud=yes: must be true or false"),
    (["task=guess:Guess", "task.goal=1", "task.step=inf"], "task.step=inf: must be a whole number"),
    (["task=guess:Gues"], "has no class Gues; nearest: Guess"),
    (["task=gess:Guess"], "task=gess:Guess: there is no module gess in "),
    (["task=guess.Guess"], "task=guess.Guess: no such task"),
    (["task=guess:Guess:x"], "names no class; write task=module:Class"),
    (["task=guess:Short"], "refine cannot be called as refine(answer, critique)"),
    (["task=guess:Angry"], "task=guess:Angry: Angry() raised OSError: no disk (guess.py, line "),
    (["task=json:loads"], "loads is no class but function"),
    (["task=endpoint", "task.model=m", "task.question=q"], "task=endpoint needs task.url=...: such as http://"),
    (["task=endpoint", "task.url=x", "task.model=m", "task.question=q"], "task.url=x: no address of an endpoint"),
    (["task=endpoint", "task.url=x", "task.model=m", "task.key=abc"], "task=endpoint has no parameter key; nearest: "),
])
def test_bad_input_is_one_line_that_names_value_rule_and_way_out(refine, words, text):
    found = refine(*words)
    assert found.code == 2
    assert found.err.startswith("shusaku: ")
    assert found.err.count("\n") == 1
    assert text in found.err
    assert found.out == ""


def test_bytes_that_are_no_text_are_refused(refine):
    found = refine("task=queens", "trace=a\udcffb")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "no text in UTF-8" in found.err


def test_help_names_every_setting_and_the_parameters_of_the_tasks(refine):
    found = refine("--help")
    assert found.code == 0
    for word in ("task=", "rollouts=8", "children=3", "exploration=1.4", "workers=1", "seed=", "trace=", "task.size=8",
                 "task.url=", "task.calls=200", "task.key_variable=OPENAI_API_KEY"):
        assert f"  {word}" in found.out


@pytest.mark.parametrize(("workers", "number", "code"), [
    (1, signal.SIGINT, 130), (3, signal.SIGINT, 130), (1, signal.SIGTERM, 143),
])
def test_an_interrupted_search_shows_its_best_answer(refine, tmp_path, workers, number, code):
    process = subprocess.Popen(
        [sys.executable, "-m", "shusaku", "refine", "task=guess:Slow", "rollouts=50", f"workers={workers}",
         "trace=tree.json", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        assert process.stderr is not None
        assert "waiting" in process.stderr.readline()  # what tasks print goes to stderr under --json
        process.send_signal(number)
        began = time.monotonic()
        out, err = process.communicate(timeout=60)
        assert time.monotonic() - began < 30
    finally:
        process.kill()
    assert process.returncode == code, err
    assert "Traceback" not in err
    result = json.loads(out)
    assert (result["answer"], result["ended_by"]) == ("x 564", "stop")
    assert json.loads((tmp_path / "tree.json").read_text(encoding="utf-8")) == result["trace"]
