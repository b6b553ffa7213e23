"""The runner of studies, with a trainer that ends at once: what is tried, given up, disturbed, resumed and refused."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import yaml

from benchmarks.lib import ROOT
from benchmarks.tune.foreign_load import ForeignLoad
from benchmarks.tune.screening import screening_runs, standard_error
from benchmarks.tune.study import Ledger, Runs, Study, conduct, digest_of
from shusaku.common.errors import UsageError

TRAINER = '''
import json, os, pathlib, sys
words = dict(word.split("=", 1) for word in sys.argv[2:] if "=" in word)
if sys.argv[1] == "diagnose":
    sides = {"values": "learner.value_weight=2", "draws": ""}
    print(json.dumps({"findings": [{"topic": topic, "setting": setting, "measured": "a slope of 1.3"}
                                   for topic, setting in sides.items()]}))
    sys.exit("run.seed=3" in pathlib.Path(__file__).with_name("calls").read_text() and 2)
calls = pathlib.Path(__file__).with_name("calls")
calls.open("a").write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1] == "match":
    print(json.dumps({"score": 0.75}))
    sys.exit()
if (limit := os.environ.get("CALLS")) and len(calls.read_text().splitlines()) > int(limit):
    sys.exit(9)
folder = pathlib.Path(words["run.dir"])
folder.mkdir(parents=True, exist_ok=True)
value = 0.8 + 0.1 * float(words.get("learner.root_value_share", 0)) + 0.01 * int(words["run.seed"])
value += 100 * min(0.0005, float(words.get("learner.learning_rate", 0)))
lines = [{"step": 1, "seconds": 10.0, "source": "self_play", "values": {"evaluations_per_s": 50.0}},
         {"step": 2, "seconds": 30.0, "source": "self_play", "values": {"evaluations_per_s": 100.0}},
         {"step": 3, "seconds": 30.0, "source": "final_strength", "values": {"search_64.optimal": value}}]
(folder / "metrics.jsonl").write_text("".join(json.dumps({"time": 0.0, **line}) + "\\n" for line in lines))
print(json.dumps({"games": 5, "rows": 50, "steps": 3}))
'''
BASE = {"base": ["experiment=tic_tac_toe"], "minutes": 0.1, "metric": "search_64.optimal"}
CHOICES = {"value label": [[], ["learner.root_value_share=0.5"]], "batch": [[], ["learner.batch_size=128"]]}


@pytest.fixture
def trainer(tmp_path: Path) -> list[str]:
    (tmp_path / "trainer.py").write_text(TRAINER)
    return [sys.executable, str(tmp_path / "trainer.py")]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests run beside others."""
    monkeypatch.setattr(ForeignLoad, "finish", lambda self: 0.0)


def study(folder: Path, **tree: Any) -> Study:
    path = folder / "a_study.yaml"
    path.write_text(yaml.safe_dump({**BASE, **tree}, sort_keys=False))
    return Study.read(path)


def made(asked: Study, folder: Path, trials: int, trainer: list[str], *more: Any) -> list[dict[str, Any]]:
    return conduct(asked, folder, trials, Runs(asked, folder, trainer, *more))


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_every_choice_is_tried_with_every_seed(tmp_path: Path, trainer: list[str]) -> None:
    rows = made(study(tmp_path, seeds=[1, 2, 3], choices=CHOICES), tmp_path / "runs", 0, trainer)
    assert len(calls(tmp_path)) == 12
    assert {tuple(row["words"]) for row in rows} == {
        (), ("learner.root_value_share=0.5",), ("learner.batch_size=128",),
        ("learner.root_value_share=0.5", "learner.batch_size=128")}
    assert [row["median"] for row in rows] == pytest.approx([0.87, 0.87, 0.82, 0.82])
    assert rows[0]["values"] == pytest.approx([0.86, 0.87, 0.88])
    assert (rows[0]["games"], rows[0]["evaluations"], rows[0]["seeds"]) == (5, 2500, 3)
    assert all("run.minutes=0.1" in call for call in calls(tmp_path))


def test_what_diagnose_says_of_a_run_is_kept_with_it(tmp_path: Path, trainer: list[str]) -> None:
    runs = Runs(study(tmp_path, choices=CHOICES), tmp_path / "runs", trainer)
    assert runs.result([], 1)["advice"] == ["values: learner.value_weight=2, since a slope of 1.3"]
    assert runs.result([], 3)["advice"] == [], "diagnose has refused it as too young"


def test_a_study_that_was_killed_goes_on(tmp_path: Path, trainer: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = study(tmp_path, seeds=[1, 2], choices=CHOICES)
    monkeypatch.setenv("CALLS", "3")
    with pytest.raises(SystemExit, match="exit code 9"):
        made(asked, tmp_path / "runs", 0, trainer)
    monkeypatch.delenv("CALLS")
    rows = made(asked, tmp_path / "runs", 0, trainer)
    assert len(rows) == 4
    assert all(row["seeds"] == 2 for row in rows)
    assert len(calls(tmp_path)) == 9, "only the run that failed was made twice"
    assert made(asked, tmp_path / "runs", 0, trainer) == rows
    assert len(calls(tmp_path)) == 9


def test_a_study_that_is_ended_ends_its_training(tmp_path: Path, trainer: list[str]) -> None:
    """Which would be work beside the next one, and hold its directory."""
    (tmp_path / "trainer.py").write_text(SLEEPER)
    study(tmp_path, choices=CHOICES)
    command = ["-c", SCRIPT, str(tmp_path / "a_study.yaml"), str(tmp_path / "runs"), *trainer]
    process = subprocess.Popen([sys.executable, *command], cwd=ROOT)
    begun = tmp_path / "begun"
    deadline = time.monotonic() + 60
    while not begun.exists() or not begun.read_text():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait(30) == 143
    assert (tmp_path / "ended").exists(), "it was told, and could write its checkpoint"
    assert not psutil.pid_exists(int(begun.read_text()))
    assert "what the training says" in (tmp_path / "runs" / "stderr.log").read_text()


SLEEPER = '''
import os, pathlib, signal, sys, time
here = pathlib.Path(__file__)
def end(number, frame):
    here.with_name("ended").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
print("what the training says", file=sys.stderr, flush=True)
here.with_name("begun").write_text(str(os.getpid()))
time.sleep(60)
'''
SCRIPT = '''
import signal, sys
from pathlib import Path
from benchmarks.tune.study import Runs, Study, conduct, end_by_signal
signal.signal(signal.SIGTERM, end_by_signal)
asked, folder = Study.read(Path(sys.argv[1])), Path(sys.argv[2])
conduct(asked, folder, 0, Runs(asked, folder, sys.argv[3:]))
'''


def test_all_trials_have_had_a_seed_before_the_next_begins(tmp_path: Path, trainer: list[str]) -> None:
    each = [["learner.root_value_share=0.5"], ["learner.batch_size=128", "learner.root_value_share=0.25"]]
    rows = made(study(tmp_path, seeds=[7, 8], each=each), tmp_path / "runs", 0, trainer)
    said = [call.split() for call in calls(tmp_path)]
    assert [next(word for word in words if word.startswith("run.seed=")) for words in said] == [
        *["run.seed=7"] * 3, *["run.seed=8"] * 3]
    assert sorted(row["words"] for row in rows) == sorted([[], *each])
    more = {tuple(row["words"]): row["more"] for row in rows}
    assert more == {(): 0, tuple(each[0]): pytest.approx(0.05), tuple(each[1]): pytest.approx(0.025)}


def test_recorded_runs_are_not_made_again(tmp_path: Path, trainer: list[str]) -> None:
    """On another machine, too: only the results are there."""
    asked, ledger = study(tmp_path, seeds=[1, 2], choices=CHOICES), tmp_path / "results.jsonl"
    with pytest.raises(SystemExit, match="begin-within is over before as they are, seed 1"):
        made(asked, tmp_path / "late", 0, trainer, Ledger("a command", ledger), 0.0)
    first = made(asked, tmp_path / "runs", 0, trainer, Ledger("a command", ledger))
    assert len(calls(tmp_path)) == 8
    assert len(ledger.read_text().splitlines()) == 8
    assert made(asked, tmp_path / "elsewhere", 0, trainer, Ledger("a command", ledger)) == first
    assert len(calls(tmp_path)) == 8
    no_ledger_yet = made(asked, tmp_path / "runs", 0, trainer, Ledger("a command", tmp_path / "second.jsonl"))
    assert no_ledger_yet == first
    assert len((tmp_path / "second.jsonl").read_text().splitlines()) == 8, "runs from before are recorded, too"
    longer = study(tmp_path, seeds=[1, 2], choices=CHOICES, minutes=0.2)
    made(longer, tmp_path / "longer", 0, trainer, Ledger("a command", ledger))
    assert len(calls(tmp_path)) == 16, "runs of another length are other runs"
    same = study(tmp_path, seeds=[1, 2], choices=CHOICES, base=[*BASE["base"], "learner.root_value_share=0"])
    made(same, tmp_path / "same", 0, trainer, Ledger("a command", ledger))
    assert len(calls(tmp_path)) == 16, "the same settings in other words are the same runs"
    other = study(tmp_path, seeds=[1, 2], choices=CHOICES, base=[*BASE["base"], "learner.ema_decay=0.5"])
    made(other, tmp_path / "other", 0, trainer, Ledger("a command", ledger))
    assert len(calls(tmp_path)) == 24, "a preset that has changed makes other runs"


def test_a_run_is_known_by_what_it_was_made_with(tmp_path: Path, trainer: list[str]) -> None:
    """Not by its place in the file, which may change."""
    one, other = ["learner.root_value_share=0.5"], ["learner.root_value_share=1"]
    for each, made_before in (([one, other], 0), ([other, one], 3), ([["learner.batch_size=128"], one, other], 3)):
        rows = made(study(tmp_path, seeds=[1], each=each), tmp_path / "runs", 0, trainer)
        values = {tuple(row["words"]): row["median"] for row in rows}
        assert values[tuple(one)] == pytest.approx(0.86)
        assert values[tuple(other)] == pytest.approx(0.91)
        assert len(calls(tmp_path)) == max(3, made_before + len(each) - 2)
    made(study(tmp_path, seeds=[1], each=[one], minutes=9), tmp_path / "runs", 0, trainer)
    assert len(calls(tmp_path)) == 6


def test_ranges_are_searched_and_the_hopeless_given_up(tmp_path: Path, trainer: list[str]) -> None:
    asked = study(tmp_path, seeds=[1, 2, 3], ranges={"learner.learning_rate": {"low": 1e-5, "high": 1e-3, "log": True}})
    rows = made(asked, tmp_path / "runs", 15, trainer)
    assert len(rows) == 15
    given_up = [row for row in rows if row["pruned"]]
    assert given_up
    assert all(row["seeds"] < 3 for row in given_up)
    best = next(row for row in rows if not row["pruned"])
    assert best["median"] == pytest.approx(0.8 + 0.02 + 0.05, abs=0.01), "the rate of the best value was found"
    assert max(row["values"][0] for row in given_up) <= best["values"][0]


def test_disturbed_runs_are_made_again_and_not_counted(
    tmp_path: Path, trainer: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = iter([0.9, 0.1, 0.3, 0.0])
    monkeypatch.setattr(ForeignLoad, "finish", lambda self: next(loads))
    [row] = made(study(tmp_path, seeds=[1, 2], choices={"x": [[]]}), tmp_path / "runs", 0, trainer)
    assert (row["seeds"], row["disturbed"]) == (2, 2)
    assert len(calls(tmp_path)) == 4
    monkeypatch.setattr(ForeignLoad, "finish", lambda self: 0.9)
    with pytest.raises(SystemExit, match="3 runs of as they are, seed 1, were disturbed"):
        made(study(tmp_path, seeds=[1], choices={"x": [[]]}), tmp_path / "others", 0, trainer)
    loads = iter([0.9, 0.1])
    monkeypatch.setattr(ForeignLoad, "finish", lambda self: next(loads))
    [row] = made(study(tmp_path, seeds=[1], choices={"x": [[]]}), tmp_path / "others", 0, trainer)
    assert (row["seeds"], row["disturbed"]) == (1, 4), "the same command, on a quiet machine, goes on"


def test_work_beside_a_run_counts_also_after_it_was_killed(
    tmp_path: Path, trainer: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 seconds with 0.6 cores of others beside them, and then the rest in quiet."""
    asked = study(tmp_path, seeds=[1], choices={"x": [[]]})
    monkeypatch.setenv("CALLS", "0")
    with pytest.raises(SystemExit, match="exit code 9"):
        made(asked, tmp_path / "runs", 0, trainer)
    monkeypatch.delenv("CALLS")
    [load] = (tmp_path / "runs").glob("*.load")
    assert len(json.loads(load.read_text())) == 1
    load.write_text(json.dumps([[300.0, 180.0]]))
    [row] = made(asked, tmp_path / "runs", 0, trainer)
    assert row["disturbed"] == 1
    assert len(calls(tmp_path)) == 3, "and so it was made once more"


def test_a_study_of_ranges_goes_on_with_other_values_and_belongs_to_what_it_asks(
    tmp_path: Path, trainer: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = {"learner.learning_rate": {"low": 1e-5, "high": 1e-3, "log": True}}
    asked = study(tmp_path, seeds=[1], ranges=ranges)
    monkeypatch.setenv("CALLS", "4")
    with pytest.raises(SystemExit, match="exit code 9"):
        made(asked, tmp_path / "runs", 6, trainer)
    monkeypatch.delenv("CALLS")
    rows = made(asked, tmp_path / "runs", 6, trainer)
    assert len(rows) == 6
    assert len({tuple(row["words"]) for row in rows}) == 6, "no value is tried twice"
    count = len(calls(tmp_path))
    longer = study(tmp_path, seeds=[1], ranges=ranges, minutes=0.2)
    assert len(made(longer, tmp_path / "runs", 3, trainer)) == 3
    assert len(calls(tmp_path)) == count + 3, "other minutes make other trials"


def test_matches(tmp_path: Path, trainer: list[str]) -> None:
    asked = study(tmp_path, seeds=[4], metric="match", match=["second.engine=mcts", "games=20"], choices={"x": [[]]})
    [row] = made(asked, tmp_path / "runs", 0, trainer)
    assert row["median"] == 0.75
    assert calls(tmp_path)[1].startswith("match first.checkpoint=")
    assert calls(tmp_path)[1].endswith("second.engine=mcts games=20 --json")


@pytest.mark.parametrize(("tree", "said"), [
    ({"choices": {"x": [["learner.no_such=1"]]}}, "no_such"),
    ({"ranges": {"no.such": {"low": 0.0, "high": 1.0}}}, "no"),
    ({"choices": {"x": [[]]}, "pruner": "x"}, "pruner|only"),
    ({}, "either choices"),
    ({"each": None}, "list of lists"),
    ({"each": ["learner.optimizer=muon"]}, "list of lists"),
    ({"each": [[]], "choices": {"x": [[]]}}, "takes the place of choices"),
    ({"choices": {"x": [[]]}, "ranges": {"learner.learning_rate": {"low": 1e-5, "high": 1e-3}}}, "either choices"),
    ({"choices": {"x": [[]]}, "metric": "match"}, "against whom"),
    ({"choices": {"x": [[]]}, "match": ["games=20"]}, "other metrics take none"),
    ({"choices": {"x": [[]]}, "metric": "match", "match": ["second.no_such=1"]}, "match: .*no_such"),
    ({"choices": {"x": [[]]}, "seeds": 3}, "seeds=3: must be a list of whole numbers"),
    ({"ranges": {"learner.learning_rate": {"lo": 1}}}, "low and high"),
    ({"ranges": {"learner.learning_rate": {"low": "3e-4", "high": 3e-3}}}, "low='3e-4' is no number; YAML"),
    ({"ranges": {"learner.learning_rate": {"low": True, "high": 3e-3}}}, "low=True is no number"),
    ({"choices": [["learner.learning_rate=0.1"]]}, "each has a name"),
    ({"choices": {"x": []}}, "each has a name"),
    ({"choices": {"x": [[]]}, "base": "experiment=tic_tac_toe"}, "base is a list of settings"),
    ({"choices": {"x": [[]]}, "minutes": "5"}, "minutes a number"),
    ({"choices": {"x": [[]]}, "minutes": 0}, "minutes a number"),
])
def test_a_file_that_cannot_be_meant_is_refused(tree: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        study(tmp_path, **tree)


def test_a_metric_that_no_run_reports_ends_the_study(tmp_path: Path, trainer: list[str]) -> None:
    asked = study(tmp_path, metric="search_65.optimal", choices={"x": [[]]})
    with pytest.raises(SystemExit, match=r"search_65\.optimal: no run reports it at its end, only search_64"):
        made(asked, tmp_path / "runs", 0, trainer)


def test_foreign_load_is_what_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that computes for two seconds counts as ours, and as foreign, depending on who asks."""
    monkeypatch.undo()
    burn = [sys.executable, "-c", "import time\nend = time.process_time() + 2\nwhile time.process_time() < end: pass"]
    process = subprocess.Popen(burn)
    ours, nobodys = ForeignLoad(process.pid, 0.1), ForeignLoad(None)
    began = time.monotonic()
    while process.poll() is None:
        time.sleep(0.02)
    seconds = time.monotonic() - began
    without, everything = ours.finish(), nobodys.finish()
    assert everything - without == pytest.approx(2 / seconds, rel=0.15)


def test_the_committed_studies_can_be_meant() -> None:
    folder = Path(__file__).resolve().parents[1] / "benchmarks" / "tune" / "studies"
    files = sorted(folder.glob("*.yaml"))
    assert len(files) >= 2
    for file in files:
        Study.read(file)


@pytest.mark.parametrize("settings", range(1, 24))
def test_a_screening_turns_each_setting_and_each_pair_on_equally_often(settings: int) -> None:
    runs = np.array(screening_runs(settings))
    assert len(runs) > settings
    signs = 2 * runs.astype(int) - 1
    assert not (signs.sum(0)).any(), "on in half of the runs"
    assert (signs.T @ signs == len(runs) * np.eye(settings)).all(), "whatever another one is"


def test_a_screening_finds_what_each_setting_is_worth(tmp_path: Path, trainer: list[str]) -> None:
    """The trainer adds 0.05 for one of them; all others are worth what the seeds make of them."""
    screen = [["learner.root_value_share=0.5"], ["learner.batch_size=128"], ["network.squeeze=4"],
              ["replay.window_scale=50000"]]
    asked = study(tmp_path, screen=screen)
    rows = made(asked, tmp_path / "runs", 0, trainer)
    assert len(calls(tmp_path)) == 8
    assert {word for call in calls(tmp_path) for word in call.split() if word.startswith("run.seed=")} == {
        f"run.seed={seed}" for seed in range(1, 9)}
    runs = np.array(screening_runs(4))
    values = 0.8 + 0.05 * runs[:, 0] + 0.01 * np.arange(1, 9) + 0.05
    expected = [values[on].mean() - values[~on].mean() for on in runs.T]
    found = {tuple(row["words"]): row["more"] for row in rows}
    assert found == pytest.approx({tuple(words): effect for words, effect in zip(screen, expected, strict=True)})
    assert rows[0]["words"] == screen[0]


def test_the_error_of_an_effect_comes_from_those_that_are_noise() -> None:
    """Lenth: 1.5 times the median of those that are not far from it."""
    assert standard_error([1.0, -2.0, 3.0, 100.0]) == 1.5 * 2.0
    assert standard_error([0.0, 0.0, 0.0]) == 0.0


@pytest.mark.parametrize(("tree", "reason"), [
    ({"screen": [["learner.optimizer=muon"]], "seeds": [1]}, "seeds: a screening takes another one"),
    ({"screen": [["network.filters=8"], ["network.filters=16"]]}, r"network\.filters is set twice"),
    ({"screen": [[f"run.seed={n}"] for n in range(24)]}, "at most 23"),
    ({"screen": ["learner.optimizer=muon"]}, "list of lists"),
    ({"screen": [["learner.optimiser=muon"]]}, "learner.optimiser"),
    ({"screen": [["learner.optimizer=muon"]], "choices": CHOICES}, "give either choices"),
])
def test_a_screening_that_cannot_be_is_refused(tmp_path: Path, tree: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        study(tmp_path, **tree)


def test_a_study_that_does_not_exist_is_named_with_where_studies_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml: no such file; .* benchmarks/tune/studies"):
        Study.read(tmp_path / "absent.yaml")


def test_a_default_that_is_named_changes_no_digest() -> None:
    plain = digest_of("game=go", "game.size=9")
    assert digest_of("game=go", "game.size=9", "game.planes=zero", "learner.value_lambda=0") == plain
    assert digest_of("game=go", "game.size=9", "game.planes=liberties") != plain
    assert digest_of("game=go", "game.size=9", "game.komi=7") == plain, "what is left out depends on the board"
    assert digest_of("game=go", "game.size=9", "game.komi=7.5") != plain
    assert digest_of("game=go", "game.komi=7.5") == digest_of("game=go")
