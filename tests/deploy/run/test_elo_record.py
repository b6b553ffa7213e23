"""What a run keeps of its ratings: one line of metrics for each version, elo.json, and the picture."""

from dataclasses import replace
from pathlib import Path

import pytest

from shusaku.actors.arena.rating_log import EloCurve, EloPoint
from shusaku.common.config.schema import Config
from shusaku.common.metrics import read_metrics
from shusaku.deploy.run.elo_files import ELO_JSON, ELO_PNG, read_curve
from shusaku.deploy.run.elo_record import EloRecord, is_rated
from shusaku.deploy.run.plots import plot_elo
from shusaku.deploy.run.run_status import MetricsWriter

FIRST, SECOND = EloPoint(1, 0, 0.0, -10.0, -200.0, 150.0), EloPoint(2, 50, 60.0, 120.0, 20.0, 2000.0)
OTHERS = {"random": 0.0, "uct_100": 80.0, "uct_400": 81.0}


def curve(*points: EloPoint) -> EloCurve:
    return EloCurve(points, OTHERS)


def test_each_version_is_written_once_and_the_last_picture_is_of_all(tmp_path: Path) -> None:
    lines: list[str] = []
    metrics = MetricsWriter(tmp_path, lines.append)
    record = EloRecord(tmp_path, "a game", metrics, lines.append)
    record.take(None)
    record.take(curve())
    for _ in range(3):  # the driver asks again and again
        record.take(curve(FIRST))
    # After a kill a newer version comes at an earlier training time.
    record.take(curve(FIRST, SECOND))
    third = replace(SECOND, version=3, seconds=30.0)
    record.take(curve(FIRST, SECOND, third))
    record.close()
    metrics.close()
    assert [line.values["version"] for line in read_metrics(tmp_path / "metrics.jsonl", "rating")] == [1, 2, 3]
    assert read_curve(tmp_path) == curve(FIRST, SECOND, third)
    assert (tmp_path / ELO_PNG).read_bytes().startswith(b"\x89PNG")
    assert lines == []
    # The next process goes on with it and writes nothing twice.
    again = EloRecord(tmp_path, "a game", MetricsWriter(tmp_path, lines.append), lines.append)
    again.take(curve(FIRST, SECOND, third))
    assert len(list(read_metrics(tmp_path / "metrics.jsonl", "rating"))) == 3


@pytest.mark.parametrize("content", ["", "{", "[]", '{"points": [], "others": {}}', '{"points": [{"elo": 1}]}'])
def test_another_file_is_no_curve(tmp_path: Path, content: str) -> None:
    (tmp_path / ELO_JSON).write_text(content, encoding="utf-8")
    assert read_curve(tmp_path) is None


def test_one_version_can_be_drawn(tmp_path: Path) -> None:
    plot_elo(EloCurve((FIRST,), {}), tmp_path / "elo.png", "a game")
    assert (tmp_path / "elo.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_is_rated_if_nothing_learns_or_no_network_answers() -> None:
    config = Config()
    assert is_rated(config)
    config.inference.runtime = "uniform"
    assert not is_rated(config)
    config = Config()
    config.learner.enabled = False
    assert not is_rated(config)
