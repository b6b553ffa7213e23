"""The metrics of a run over its time: medians of late, and slopes with their errors."""

import json
from pathlib import Path

import numpy as np
import pytest

from shusaku.deploy.diagnosis.metric_series import MetricSeries


def write(path: Path, source: str, name: str, seconds: list[float], values: list[float]) -> None:
    with (path / "metrics.jsonl").open("a") as file:
        for moment, value in zip(seconds, values, strict=True):
            file.write(json.dumps({"time": 0.0, "step": int(moment), "seconds": moment, "source": source,
                                   "values": {name: value}}) + "\n")


def test_recent_is_the_median_of_the_last_part(tmp_path: Path) -> None:
    write(tmp_path, "self_play", "paused_share", [0, 50, 71, 80, 100], [0.9, 0.9, 0.1, 0.4, 0.2])
    series = MetricSeries(tmp_path / "metrics.jsonl")
    assert series.recent("self_play", "paused_share") == 0.2
    assert series.last("self_play", "paused_share") == 0.2
    assert series.recent("learner", "paused_share") is None
    assert (series.seconds, series.step) == (100.0, 100)


def test_a_slope_is_that_of_least_squares_with_its_error(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    seconds = np.linspace(0, 7200, 41)
    found = []
    for draw in range(200):
        folder = tmp_path / str(draw)
        folder.mkdir()
        values = 0.5 + 0.1 * seconds / 3600 + random.normal(0, 0.01, 41)
        write(folder, "strength", "search_64.optimal", seconds.tolist(), values.tolist())
        slope = MetricSeries(folder / "metrics.jsonl").slope("strength", "search_64.optimal")
        assert slope is not None
        half = seconds >= 3600
        assert slope.per_hour == pytest.approx(np.polyfit(seconds[half] / 3600, values[half], 1)[0])
        assert slope.points == 21
        found.append((slope.per_hour - 0.1) / slope.error)
    assert abs(np.mean(found)) < 0.25
    assert np.std(found) == pytest.approx(1.0, abs=0.2), "the error is that of many runs"


def test_three_points_have_no_slope(tmp_path: Path) -> None:
    write(tmp_path, "rating", "elo", [0, 60, 70, 80], [0, 1, 2, 3])
    assert MetricSeries(tmp_path / "metrics.jsonl").slope("rating", "elo") is None


def test_a_run_without_metrics_has_none(tmp_path: Path) -> None:
    series = MetricSeries(tmp_path / "metrics.jsonl")
    assert (series.seconds, series.step) == (0.0, 0)
    assert series.names("strength") == []
