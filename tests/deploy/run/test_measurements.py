"""When the strength is due, and what of it is written."""

import json
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from shusaku.actors.arena.strength import Share, Strength
from shusaku.actors.arena.strength_sets import strength_set
from shusaku.common._core import Game
from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink
from shusaku.deploy.run.measurements import conclude, measurements_due, strength_metrics, write_strength


def strength(optimal: float = 0.5) -> Strength:
    share = Share(optimal, {"all": optimal}, 3)
    searches = {16: Share(0.6, {"all": 0.6}, 2), 64: Share(0.75, {"all": 0.75}, 1)}
    return Strength("tic_tac_toe", 10, share, searches, never_loses=True)


@pytest.mark.parametrize(("minutes", "every", "due"), [
    (0.0, 5, 1),  # untrained
    (0.99, 5, 1), (1.0, 5, 2), (2.5, 5, 3), (4.99, 5, 5), (5.0, 5, 6),
    (9.99, 5, 6), (10.0, 5, 7), (14.99, 5, 7), (15.0, 5, 8), (20.0, 5, 9), (60.0, 5, 17),
    (5.0, 1, 6), (6.0, 1, 7), (10.5, 1, 11),
    (5.0, 20, 6), (19.9, 20, 6), (20.0, 20, 7), (40.0, 20, 8),
    (5.0, 2, 6), (6.0, 2, 7), (8.0, 2, 8),
    (1.0, 0.5, 2), (5.5, 0.5, 7), (6.0, 0.5, 8),
])
def test_how_many_should_have_been_made(minutes: float, every: float, due: int) -> None:
    assert measurements_due(minutes, every) == due


@pytest.mark.parametrize("every", [0.3, 1.0, 2.0, 5.0, 7.0, 20.0])
def test_none_is_taken_back_and_none_comes_in_a_pair(every: float) -> None:
    counts = [measurements_due(tick / 100, every) for tick in range(6000)]
    assert {after - before for before, after in pairwise(counts)} == {0, 1}


def test_figures_for_the_metrics() -> None:
    assert strength_metrics(strength()) == {"policy.optimal": 0.5, "search_16.optimal": 0.6, "search_64.optimal": 0.75}


def test_the_table_and_the_picture_of_a_run(tmp_path: Path) -> None:
    with closing(MetricsSink(tmp_path)) as sink:
        for minute in range(3):
            sink.write(Metrics(minute * 100, minute * 60.0, "strength", strength_metrics(strength(0.4 + minute / 10))))
    write_strength(strength(), tmp_path, "tic_tac_toe")
    content = json.loads((tmp_path / "strength.json").read_text())
    assert content["policy"] == {"optimal": 0.5, "by_bucket": {"all": 0.5}, "mistakes": 3}
    assert content["search_64"]["optimal"] == 0.75
    assert content["never_loses"] is True
    assert (tmp_path / "strength.png").read_bytes().startswith(b"\x89PNG")
    assert not list(tmp_path.glob("*.new"))


def test_a_run_is_concluded_with_the_baselines_beside_it(tmp_path: Path) -> None:
    positions = strength_set(Game("tic_tac_toe"))
    assert positions is not None
    with closing(MetricsSink(tmp_path)) as sink:
        sink.write(Metrics(100, 60.0, "strength", strength_metrics(strength())))
    lines: list[str] = []
    concluded = conclude(strength(), positions, tmp_path, lines.append)
    assert set(concluded.baselines) == {"random", "puct_64_uniform", "uct_64", "uct_400"}
    assert json.loads((tmp_path / "strength.json").read_text()) == concluded.to_json()
    assert (tmp_path / "strength.png").exists()
    assert lines[-1].startswith(f"the run is complete; {tmp_path}/strength.png")
