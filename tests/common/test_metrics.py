"""The sink writes JSON lines and TensorBoard events, survives a kill, and rates follow the clock."""

import json
import math
import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink, Rate, Share, mean_plies, read_metrics


def moment(step: int = 1, **values: object) -> Metrics:
    return Metrics(step=step, seconds=2.5, source="learner", values=dict(values))


def test_a_line_holds_everything_and_is_there_at_once(tmp_path: Path) -> None:
    sink = MetricsSink(tmp_path)
    sink.write(moment(7, loss=np.float32(0.5), rows=np.int64(3), note="x"))
    line = json.loads((tmp_path / "metrics.jsonl").read_text())
    sink.close()
    assert line.pop("time") > 0
    assert line == {"step": 7, "seconds": 2.5, "source": "learner", "values": {"loss": 0.5, "rows": 3, "note": "x"}}


def test_what_is_not_finite_becomes_null(tmp_path: Path) -> None:
    with closing(MetricsSink(tmp_path)) as sink:
        sink.write(moment(loss=math.nan, rate=math.inf, nested={"a": np.float64("nan")}))
    assert next(read_metrics(tmp_path / "metrics.jsonl")).values == {"loss": None, "rate": None, "nested": {"a": None}}


@pytest.mark.parametrize("torn", ["", '{"step": 3, "sec', "x" * 10_000])
def test_a_torn_last_line_is_dropped_on_resume(tmp_path: Path, torn: str) -> None:
    for step in (1, 2):
        with closing(MetricsSink(tmp_path)) as sink:
            sink.write(moment(step))
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text() + torn)
    assert [m.step for m in read_metrics(path)] == [1, 2]
    with closing(MetricsSink(tmp_path)) as sink:
        sink.write(moment(3))
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"ste')
    MetricsSink(tmp_path).close()
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_tensorboard_reads_tags_by_group_and_name(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with closing(MetricsSink(tmp_path)) as sink:
        sink.write(Metrics(5, 1.0, "learner", {"loss/policy": 1.5, "steps_per_s": 9, "bad": math.nan}))
        sink.write(Metrics(6, 2.0, "strength", {"search_64": {"optimal": 0.75, "by_bucket": {"end_easy": 0.5}}}))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "loss/policy", "learner/steps_per_s", "strength/search_64/optimal", "strength/search_64/by_bucket/end_easy"
    }
    assert [(event.step, event.value) for event in events.Scalars("strength/search_64/optimal")] == [(6, 0.75)]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A write behind this many bytes of a file is cut short, and the next one refused, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_event_that_the_disk_refuses_costs_only_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    many = {f"rating/of_player_{number}": 0.5 for number in range(100)}
    with closing(MetricsSink(tmp_path)) as sink:
        sink.write(Metrics(1, 1.0, "rating", {"elo": 1.0, **many}))  # more bytes of events than of lines
        [file] = (tmp_path / "tensorboard").iterdir()
        whole = file.read_bytes()
        with largest_file(len(whole) + 30), pytest.raises(OSError, match="too large"):
            sink.write(Metrics(2, 2.0, "learner", {"loss": 0.5, "steps_per_s": 9.0}))
        assert file.read_bytes() == whole
        sink.write(Metrics(3, 3.0, "rating", {"elo": 3.0}))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("rating/elo")] == [1, 3]
    assert capfd.readouterr().err == ""


def test_a_disk_without_any_room_gets_no_empty_event_file(tmp_path: Path) -> None:
    with closing(MetricsSink(tmp_path)) as sink:
        with largest_file(0), pytest.raises(OSError, match="too large"):
            sink.write(Metrics(1, 1.0, "learner", {"steps_per_s": 9.0}))
        assert list((tmp_path / "tensorboard").glob("*")) == []
        sink.write(Metrics(2, 2.0, "learner", {"steps_per_s": 9.0}))
        assert len(list((tmp_path / "tensorboard").iterdir())) == 1


def test_only_one_source_is_read_when_asked(tmp_path: Path) -> None:
    with closing(MetricsSink(tmp_path)) as sink:
        sink.write(Metrics(1, 0.0, "learner", {}))
        sink.write(Metrics(2, 0.0, "strength", {}))
    assert [m.step for m in read_metrics(tmp_path / "metrics.jsonl", "strength")] == [2]
    assert list(read_metrics(tmp_path / "absent.jsonl")) == []


def test_a_rate_is_that_of_its_window() -> None:
    now = 0.0
    rate = Rate(window=10, clock=lambda: now)
    assert rate.update(0) == 0
    for second in range(1, 31):
        now = float(second)
        rate.update(100 * second if second <= 10 else 1000 + 5 * (second - 10))
    assert rate.value == pytest.approx(5)


def test_a_rate_starts_again_with_its_counter() -> None:
    now = 0.0
    rate = Rate(clock=lambda: now)
    rate.update(1000)
    now = 1.0
    assert rate.update(10) == 0
    now = 3.0
    assert rate.update(30) == pytest.approx(10)


def test_a_share_is_that_of_its_window() -> None:
    now = 0.0
    share = Share(window=10, clock=lambda: now)
    assert share.value == 0
    assert share.update(50, 100) == 0, "one sample gives no rate"
    for second in range(1, 31):
        now = float(second)
        share.update(50 + 8 * min(second, 10), 100 + 10 * second)
        assert share.value == pytest.approx(min(0.8, 0.08 * max(0, 20 - second)))


def test_a_share_starts_again_with_its_counters_and_is_never_negative() -> None:
    share = Share(clock=lambda: 0.0)
    share.update(50, 100)
    assert share.update(90, 150) == 0.8
    assert share.update(90, 150) == 0.8, "the counters stand still"
    assert share.update(1, 2) == 0.0
    assert share.update(2, 4) == 0.5


def test_no_mean_before_a_game_has_ended() -> None:
    assert mean_plies({"plies": 534, "games": 0}) == mean_plies({}) == 0.0
    assert mean_plies({"plies": 21, "games": 3}) == 7.0
