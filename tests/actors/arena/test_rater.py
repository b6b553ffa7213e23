"""Rating the versions of a run: whom each meets, what is kept, and what a restart goes on with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shusaku.actors.arena.rater import Rater
from shusaku.actors.arena.rating_log import Meeting, Moment, append_meeting, elo_curve, played_pairs, read_meetings
from shusaku.actors.arena.ratings import rate
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, NetworkConfig, RaterConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import Weights
from shusaku.common.network.weights import random_weights

GAME = Game("tic_tac_toe")


def make_config() -> Config:
    config = Config(search=PuctConfig(simulations=4), network=NetworkConfig(4, 1))
    config.inference.runtime = "torch"  # which has nothing to compile
    config.rater = RaterConfig(games=4, simulations=4, anchors=["random", "uct_10"], opening_plies=2)
    return config


def make_rater(directory: Path, should_stop: Callable[[], bool] = lambda: False) -> Rater:
    return Rater(make_config(), GAME, directory, threads=1, should_stop=should_stop)


def version(number: int) -> Weights:
    weights = random_weights(GAME, NetworkConfig(4, 1), number, version=number)
    return Weights(number, 100 * number, weights.tensors, weights.network, weights.game, weights.params)


@pytest.fixture(scope="module")
def rated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five versions, with a restart after the third one."""
    directory = tmp_path_factory.mktemp("run")
    rater = make_rater(directory)
    for number in range(1, 6):
        curve = rater.rate(version(number), 60.0 * number)
        assert curve is not None
        assert [point.version for point in curve.points] == list(range(1, number + 1))
        assert rater.trouble == ""
        if number == 3:
            rater = make_rater(directory)
    return directory


def test_a_version_meets_the_ones_before_and_the_anchors(rated: Path) -> None:
    met: dict[str, set[str]] = {}
    for meeting in read_meetings(rated):
        met.setdefault(meeting.first, set()).add(meeting.second)
        assert sum(map(len, meeting.points)) + meeting.repeated == 4
    assert met["version 1"] == {"random", "uct_10"}
    assert {"version 1"} <= met["version 2"]
    assert {"version 4", "version 2"} <= met["version 5"]  # the previous and the third last one
    assert all(opponents & {"random", "uct_10"} for opponents in met.values())
    assert len(list((rated / "rated").iterdir())) in (3, 4)  # the newest three, and the best


def test_a_version_is_rated_once(rated: Path) -> None:
    rater = make_rater(rated)
    before = len(read_meetings(rated))
    rater.offer(version(5), 300.0)
    rater.offer(version(4), 240.0)
    assert not rater.step()
    assert len(read_meetings(rated)) == before
    assert rater.curve is not None
    assert rater.curve.points[-1].seconds == 300.0
    assert set(rater.curve.others) == {"random", "uct_10"}


def test_only_the_newest_waits(tmp_path: Path) -> None:
    rater = make_rater(tmp_path)
    for number in (3, 1, 2):
        rater.offer(version(number), 1.0)
    while rater.step():
        pass
    assert {meeting.first for meeting in read_meetings(tmp_path)} == {"version 3"}


def test_a_stopped_rating_goes_on_after_a_restart(tmp_path: Path) -> None:
    stopping: list[bool] = []
    rater = make_rater(tmp_path, lambda: bool(stopping))
    rater.offer(version(1), 1.0)
    while not read_meetings(tmp_path):
        rater.step()
    stopping.append(True)
    assert rater.rate(version(1), 1.0) is None
    assert make_rater(tmp_path).rate(version(1), 1.0) is not None
    assert [(m.first, m.second) for m in read_meetings(tmp_path)] == [("version 1", "random"), ("version 1", "uct_10")]


def test_a_disk_that_refuses_costs_lines_and_no_ratings(tmp_path: Path) -> None:
    (tmp_path / "ratings.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        append_meeting(tmp_path, Meeting("version 1", "random", ((1.0, 0.0),)), 4)
    (tmp_path / "ratings.jsonl").rmdir()
    rater = make_rater(tmp_path)
    (tmp_path / "ratings.jsonl").mkdir()
    curve = rater.rate(version(1), 1.0)
    assert curve is not None
    assert curve.points[0].version == 1
    assert "could not be written" in rater.trouble


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    append_meeting(tmp_path, Meeting("version 1", "random", ((1.0, 1.0), (0.5, 1.0)), Moment(100, 60.0)), 4)
    with (tmp_path / "ratings.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"first": "version 2", "second": "random", "points": [[7, 1]]}\n')
        file.write('{"first": "version 2", "second": "version 2", "points": [[1, 1]]}\n[]\n{"first": "ver')
    meetings = read_meetings(tmp_path)
    assert [meeting.first for meeting in meetings] == ["version 1"]
    point, = elo_curve(rate(played_pairs(meetings), "random"), meetings).points
    assert (point.version, point.step, point.seconds) == (1, 100, 60.0)
    assert point.elo_low < point.elo < point.elo_high
    make_rater(tmp_path)
    assert (tmp_path / "ratings.jsonl").read_text(encoding="utf-8").count("\n") == 1
