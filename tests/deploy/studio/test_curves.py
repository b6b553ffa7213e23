"""The curves of a run while it writes them."""

import json
from pathlib import Path

import pytest

from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink
from shusaku.deploy.studio.curves import MAX_POINTS, MetricsTail, Runs


def write(directory: Path, *moments: Metrics) -> None:
    sink = MetricsSink(directory)
    for moment in moments:
        sink.write(moment)
    sink.close()


def titles(tail: MetricsTail) -> list[str]:
    return [chart["title"] for chart in tail.charts()]


def test_what_a_run_writes_becomes_charts(tmp_path: Path) -> None:
    tail = MetricsTail(tmp_path)
    assert (tail.poll(), tail.charts()) == (False, [])
    write(tmp_path, Metrics(10, 60.0, "learner", {"loss/policy": 1.5, "loss/value": 0.5, "steps_per_s": 3}),
          Metrics(10, 60.0, "strength", {"search_64.optimal": 0.8, "policy.optimal": 0.5}))
    assert tail.poll()
    assert not tail.poll()
    assert titles(tail) == ["Optimal moves", "Losses", "Learning"]
    write(tmp_path, Metrics(20, 120.0, "learner", {"loss/policy": 1.25, "loss/value": float("nan")}))
    assert tail.poll()
    [losses] = [chart for chart in tail.charts() if chart["title"] == "Losses"]
    [policy, value] = losses["series"]
    assert policy == {"name": "policy", "steps": [10, 20], "minutes": [1.0, 2.0], "values": [1.5, 1.25]}
    assert value["values"] == [0.5]
    [optimal] = [chart for chart in tail.charts() if chart["title"] == "Optimal moves"]
    assert [series["name"] for series in optimal["series"]] == ["network alone", "64 simulations"]


def test_elo_comes_with_its_error_bars(tmp_path: Path) -> None:
    write(tmp_path, Metrics(5, 60.0, "rating", {"elo": 100.0, "elo_low": 80.0, "elo_high": 125.0}),
          Metrics(9, 90.0, "rating", {"elo": 150.0, "elo_low": 130.0, "elo_high": 175.0}))
    tail = MetricsTail(tmp_path)
    tail.poll()
    [chart] = tail.charts()
    [series] = chart["series"]
    assert (chart["title"], series["values"]) == ("Elo", [100, 150])
    assert (series["low"], series["high"]) == ([80, 130], [125, 175])


def test_a_torn_line_waits_and_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    line = json.dumps({"step": 1, "seconds": 1.0, "source": "learner", "values": {"loss/total": 1}})
    path.write_text(line + "\n" + "nonsense\n[]\n{}\n" + line[:20])
    tail = MetricsTail(tmp_path)
    tail.poll()
    assert len(tail.series["learner/loss/total"]) == 1
    with path.open("a") as file:
        file.write(line[20:] + "\n")
    tail.poll()
    assert len(tail.series["learner/loss/total"]) == 2
    path.write_text(line + "\n")  # begun anew
    tail.poll()
    assert len(tail.series["learner/loss/total"]) == 1


def test_long_series_are_thinned_and_keep_their_ends(tmp_path: Path) -> None:
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for step in range(5000):
            content = {"step": step, "seconds": step, "source": "learner", "values": {"loss/total": step}}
            file.write(json.dumps(content) + "\n")
    tail = MetricsTail(tmp_path)
    tail.poll()
    [series] = tail.charts()[0]["series"]
    assert len(series["steps"]) == MAX_POINTS
    assert (series["steps"][0], series["steps"][-1]) == (0, 4999)


def test_runs_beside_it_can_be_laid_over_it_and_no_others(tmp_path: Path) -> None:
    for name in ("first", "second", "empty"):
        (tmp_path / name).mkdir()
    for name in ("first", "second"):
        write(tmp_path / name, Metrics(1, 1.0, "learner", {"loss/total": 1.0}))
    runs = Runs(tmp_path / "first")
    assert runs.names() == ["second"]
    assert titles(runs.tail("second")) == ["Losses"]
    for name in ("empty", "../first", "/etc", "..", "first"):
        with pytest.raises(KeyError):
            runs.tail(name)
