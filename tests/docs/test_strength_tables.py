"""The tables that are made from many runs: medians over seeds, and differences between runs of the same seed."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import lib, result_lines, strength_results
from benchmarks.strength import elo_curve
from benchmarks.strength_results import (
    at_equal_time,
    best_of_the_study,
    elo_over_minutes,
    every_game,
    of_the_longest,
    screenings,
)
from benchmarks.tune.study import Study, digest_of
from shusaku.actors.arena.rating_log import EloCurve, EloPoint
from shusaku.deploy.run.elo_files import write_curve

PROVENANCE = {"command": "c", "machine": "2 cores of X, 2.6 GHz", "commit": "abc", "date": "2026-11-28"}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lib, "RESULTS", tmp_path)
    monkeypatch.setattr(strength_results, "ROOT", tmp_path)  # of the studies
    return tmp_path


def write(file: Path, lines: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps({**PROVENANCE, **line}) + "\n" for line in lines))


def rows_of(text: str) -> list[list[str]]:
    table = text.partition("\n\n<details>")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def study_run(
    words: list[str], seed: int, value: float, foreign: float = 0.0, base_settings: str = "g"
) -> dict[str, Any]:
    return {"base": ["game=g"], "base_settings": base_settings, "settings": " ".join([base_settings, *words]),
            "minutes": 10, "metric": "m", "words": words, "seed": seed, "foreign_cores": foreign,
            "seconds": 600, "games": 1, "rows": 2000, "steps": 30, "evaluations": 5_000_000, "value": value}


def test_a_trial_is_compared_with_the_unchanged_run_of_its_seed(results: Path) -> None:
    write(results / "study_runs.jsonl", [
        study_run([], 1, 0.90), study_run([], 2, 0.95), study_run(["a=1"], 1, 0.93), study_run(["a=1"], 2, 0.94),
        study_run(["b=2"], 3, 0.99), study_run(["a=1"], 3, 0.10, foreign=0.5)])
    rows = rows_of(at_equal_time())
    assert [row[0] for row in rows] == ["**as it was**: `game=g` on 2026-11-28, 10 minutes, 2 cores of X, m",
                                     "`b=2`", "`a=1`"]
    assert rows[0][-3:] == ["92.5 % (90.0 % – 95.0 %)", "", ""]
    assert rows[1][1:] == ["1", "5.00 M", "2,000", "30", "", "99.0 %", "", ""], "nothing to compare with"
    assert rows[2][1:] == ["2", "5.00 M", "2,000", "30", "", "93.5 % (93.0 % – 94.0 %)", "", "+1.0 (-1.0 to +3.0)"]


def test_processors_of_one_name_are_told_apart(results: Path) -> None:
    """By what they compute in; the clock rate, which changes from hour to hour, tells nothing."""
    lines = [study_run([], 1, 0.90), study_run(["a=1"], 1, 0.93), study_run([], 1, 0.95), study_run(["a=1"], 1, 0.94)]
    machines = ["2 cores of X, 2.6 GHz, VNNI", "2 cores of X, 2.7 GHz, VNNI", *["2 cores of X, 2.6 GHz, AMX"] * 2]
    write(results / "study_runs.jsonl", [
        {**line, "machine": machine} for line, machine in zip(lines, machines, strict=True)])
    rows = rows_of(at_equal_time())
    assert [row[-1] for row in rows] == ["", "+3.0", "", "-1.0"]
    assert rows[2][0].endswith("2 cores of X, AMX, m")


@pytest.mark.parametrize(("machine", "said"), [
    ("2 cores of AMD EPYC, 2.6 GHz, AVX-512 VNNI", "Zen 4"),
    ("2 cores of AMD EPYC (Zen 5), 2.6 GHz, AVX-512 VNNI", "Zen 5"),
    ("2 cores of AMD EPYC (Zen 3), 2.4 GHz", "Zen 3"), ("1 cores of AMD EPYC, 2.4 GHz", "Zen 1"),
    ("2 cores of Intel(R) Xeon(R) Processor, 2.6 GHz, AMX, AVX-512 VNNI", "Intel Xeon with AMX"),
    ("2 cores of X, 2.6 GHz", "X"), ("a machine", "a machine"),
])
def test_a_table_says_what_computed(machine: str, said: str) -> None:
    assert result_lines.processor({"machine": machine}) == said


def test_generations_of_one_name_are_told_apart() -> None:
    zen_5 = {"vendor_id": "AuthenticAMD", "cpu family": "26", "model": "2", "model name": "AMD EPYC"}
    assert lib.processor(zen_5) == "AMD EPYC (Zen 5)"
    assert lib.processor({**zen_5, "cpu family": "25", "model": "17"}) == "AMD EPYC", "Zen 4, as in records of before"
    assert lib.processor({**zen_5, "cpu family": "25", "model": "1"}) == "AMD EPYC (Zen 3)"
    assert lib.processor({**zen_5, "cpu family": "25", "model": "33"}) == "AMD EPYC (Zen 3)"
    assert lib.processor({**zen_5, "cpu family": "23", "model": "1"}) == "AMD EPYC", "Zen 1"
    assert lib.processor({**zen_5, "model": "80"}) == "AMD EPYC", "may be of the next generation"
    assert lib.processor({**zen_5, "vendor_id": "other"}) == "AMD EPYC"
    assert lib.processor({}) == "unknown"


def test_a_study_without_its_base_says_what_its_trials_changed(results: Path) -> None:
    write(results / "study_runs.jsonl", [study_run(["a=1"], 1, 0.93)])
    rows = rows_of(at_equal_time())
    assert [row[0] for row in rows] == [
        "**as it was**, not run: `game=g` on 2026-11-28, 10 minutes, 2 cores of X, m", "`a=1`"]
    assert rows[1][-1] == "", "nothing to compare with"


def test_what_runs_have_measured_at_their_end_stands_beside_the_result(results: Path) -> None:
    final = {"policy.optimal": 0.7, "search_400.optimal": 0.9}
    write(results / "study_runs.jsonl", [
        {**study_run([], 1, 0.8), "final": final}, {**study_run(["a=1"], 1, 0.8), "final": {**final, "more": 1.0}},
        study_run(["a=1"], 2, 0.8)])
    rows = {row[0].strip("`"): row[5:8] for row in rows_of(at_equal_time())}
    assert rows.pop("a=1") == ["", "80.0 % (80.0 % – 80.0 %)", ""], "one of the two has none"
    assert list(rows.values()) == [["70.0 %", "80.0 %", "90.0 %"]]


def test_the_best_trial_of_a_study_has_all_its_seeds(results: Path) -> None:
    folder = results / "benchmarks" / "tune" / "studies"
    folder.mkdir(parents=True)
    (folder / "s.yaml").write_text("base: [game=connect_four]\nminutes: 5\nmetric: m\nseeds: [1, 2]\n"
                                   "each: [[learner.batch_size=64], [network.squeeze=4]]\n")
    study = Study.read(folder / "s.yaml")
    values = {(): (0.5, 0.7), ("learner.batch_size=64",): (0.6, 0.8), ("network.squeeze=4",): (0.9,)}
    write(results / "study_runs.jsonl", [
        {**study_run(list(words), seed, value), **study.identity(list(words), seed), "final": {"policy.optimal": seed}}
        for words, of_trial in values.items() for seed, value in enumerate(of_trial, 1)])
    assert best_of_the_study("s.yaml") == ("X", 5, pytest.approx(0.7), 1.5), "the third one has a single seed"


def test_a_preset_that_has_changed_is_another_one(results: Path) -> None:
    write(results / "study_runs.jsonl", [
        study_run([], 1, 0.90), study_run(["a=1"], 1, 0.93), study_run([], 1, 0.95, base_settings="h"),
        study_run(["a=1"], 1, 0.94, base_settings="h")])
    assert [row[-1] for row in rows_of(at_equal_time())] == ["", "+3.0", "", "-1.0"]


def test_a_screening_has_a_row_for_each_setting_once_all_its_runs_are_there(results: Path) -> None:
    folder = results / "benchmarks" / "tune" / "studies"
    folder.mkdir(parents=True)
    (folder / "s.yaml").write_text("base: [game=connect_four]\nminutes: 5\nmetric: m\n"
                                   "screen: [[learner.batch_size=64], [network.squeeze=4]]\n")
    study = Study.read(folder / "s.yaml")
    lines = [{**study_run(words, seed, 0.5 + 0.1 * ("network.squeeze=4" in words) + 0.001 * seed),
              **study.identity(words, seed)} for words, seed in study.screening()]
    write(results / "study_runs.jsonl", lines[:-1])
    assert "7 of 8 runs are made" in screenings()
    write(results / "study_runs.jsonl", lines)
    rows = [line for line in screenings().splitlines() if line.startswith("| `")]
    assert rows[0].startswith("| `network.squeeze=4` | +")
    assert rows[1].startswith("| `learner.batch_size=64` |")
    assert rows_of(at_equal_time()) == [], "runs of a screening are no trials of their own"
    for line in lines:
        line["final"] = {"policy.optimal": 0.4 + 0.2 * ("learner.batch_size=64" in line["words"])}
    write(results / "study_runs.jsonl", lines)
    rows_also = rows_of(screenings().partition("\n\n")[2])
    assert [row[2:] for row in rows_also] == [["+0.0", "+0 %"], ["+20.0", "+0 %"]], "what all of them measured"


def test_a_game_has_a_row_for_each_reference_and_number_of_minutes(results: Path) -> None:
    trained = {"runs": [{"rows": 1000, "steps": 20}]}
    lines = [{"name": f"hex_7 20 minutes seed {seed}", **trained} for seed in (1, 2, 3)]
    lines += [{"name": f"hex_7 20 minutes seed {seed}, 64 simulations against UCT 10000", "runs": [
        {"score": score, "moving_first": {"wins": wins, "draws": 0, "losses": 10 - wins}}]}
        for seed, score, wins in ((1, 0.5, 8), (2, 0.7, 10), (3, 0.6, 9))]
    lines += [{"name": "hex_7 60 minutes seed 1", **trained}]  # its matches are still to come
    lines += [{"name": "tic_tac_toe 1 minutes seed 1", **trained},
              {"name": "tic_tac_toe 1 minutes seed 1 exactly",
               "runs": [{"policy": {"optimal": 4519 / 4520}, "search_64": {"optimal": 1.0}}]}]
    write(results / "strength_table.jsonl", lines)
    assert rows_of(every_game()) == [
        ["hex_7", "20", "X", "1,000", "20", "UCT 10000", "64", "3", "60.0 % (50.0 % – 70.0 %)"],
        ["hex_7", "20", "X", "1,000", "20", "UCT 10000, moving first", "64", "3", "90.0 % (80.0 % – 100.0 %)"],
        ["tic_tac_toe", "1", "X", "1,000", "20", "exact results", "network alone", "1", "99.98 %"],
        ["tic_tac_toe", "1", "X", "1,000", "20", "exact results", "64", "1", "100.0 %"]]
    assert of_the_longest("hex_7", ("UCT 10000", "64")) == ("X", 20, 0.6)


def test_a_study_of_the_preset_as_it_is_stands_in_the_table_of_every_game(results: Path) -> None:
    final = {"policy.optimal": 0.7, "search_64.optimal": 0.8, "search_400.optimal": 0.9}
    preset, other = digest_of("experiment=connect_four"), digest_of("experiment=connect_four", "search.simulations=16")
    write(results / "study_runs.jsonl", [
        {**study_run([], seed, 0.8, foreign), "settings": settings, "final": {**final, "policy.optimal": alone}}
        for seed, alone, settings, foreign in ((1, 0.6, preset, 0), (2, 0.7, preset, 0), (3, 0.1, other, 0),
                                               (4, 0.1, preset, 0.5))])
    how = ["connect_four", "10", "X", "2,000", "30", "exact results"]
    assert rows_of(every_game()) == [[*how, "network alone", "2", "65.0 % (60.0 % – 70.0 %)"],
                                     [*how, "64", "2", "80.0 % (80.0 % – 80.0 %)"],
                                     [*how, "400", "2", "90.0 % (90.0 % – 90.0 %)"]]
    label = "connect_four 10 minutes seed 1"
    write(results / "strength_table.jsonl", [
        {"name": label, "runs": [{"rows": 4000, "steps": 30}]},
        {"name": f"{label} exactly", "runs": [{"policy": {"optimal": 0.8}}]}])
    assert rows_of(every_game())[0][3:] == ["3,000", "30", "exact results", "network alone", "2",
                                            "75.0 % (70.0 % – 80.0 %)"], "what was made for the table comes first"


def test_a_name_that_says_no_run_is_an_error(results: Path) -> None:
    write(results / "strength_table.jsonl", [{"name": "something else", "runs": [{}]}])
    with pytest.raises(LookupError, match="something else"):
        every_game()


def test_the_elo_of_a_run_is_kept_with_its_picture(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elo_curve, "ROOT", results)
    (results / "docs" / "images").mkdir(parents=True)
    run = results / "run"
    run.mkdir()
    elo = {60 * minute: 100.0 * minute for minute in range(1, 21)}  # 6,000 an hour
    curve = EloCurve(tuple(EloPoint(1, 10, seconds, value, value - 50, value + 50) for seconds, value in elo.items()),
                     {"random mover": 0.0})
    write_curve(run, curve, "hex_7")
    elo_curve.keep("hex_7 20 minutes seed 1", run, "c")
    assert rows_of(elo_over_minutes()) == [[
        "hex_7", "20", "20", "500 at 5", "1000 at 10", "2000 at 20", "+6000 ± 0",
        "[picture](../images/elo/hex_7_20.png)"]]
    assert (results / "docs" / "images" / "elo" / "hex_7_20.png").read_bytes() == (run / "elo.png").read_bytes()
    assert rows_of(every_game()) == [], "a curve is no result of that table"


@pytest.mark.parametrize(("name", "said"), [
    ("hex_7", "must name game, minutes and seed"), ("hex_7 20 minutes seed 1", r"no version of this run has a rating"),
])
def test_a_run_without_a_curve_is_said_to_have_none(results: Path, name: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        elo_curve.keep(name, results, "c")
