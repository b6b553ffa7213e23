"""The figures as a Prometheus server reads them, from a real Ray's metrics port."""

import json
import math
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shusaku.common.prometheus import EXPORTED, exposition, look_up
from shusaku.common.ray_metrics import RayMetrics
from shusaku.deploy.run.console import Status

ROOT = Path(__file__).resolve().parents[2]

WRITER = '''
import json, sys, time, urllib.request
from pathlib import Path
from shusaku.common.config.schema import ClusterConfig
from shusaku.common.ray_metrics import RayMetrics
from shusaku.deploy.ray_runtime.session import RaySession

with RaySession(ClusterConfig(dashboard=False), notify=print) as session:
    import ray
    port = ray.nodes()[0]["MetricsExportPort"]
    metrics = RayMetrics("run-1", "connect_four")
    for figures in json.loads(sys.argv[1]):
        metrics.write(figures)
    wanted = json.loads(sys.argv[2])
    deadline = time.monotonic() + 40
    while True:
        url = f"http://{session.own_address}:{port}/metrics"
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        lines = [line for line in text.splitlines() if "shusaku" in line]
        if all(any(name in line for line in lines) for name in wanted) or time.monotonic() > deadline:
            break
        time.sleep(0.5)
print("ANSWER " + json.dumps("\\n".join(lines)))
'''


def figures_of(value: float) -> dict[str, float]:
    """Every figure of the table at once."""
    return {f"{name}policy" if name.endswith("/") else name: value for name in EXPORTED}


def test_every_number_of_the_block_has_a_name_outside() -> None:
    numbers = {each.name for each in fields(Status) if each.type in (int, float)}
    assert numbers - set(EXPORTED) == set()


def test_names_follow_prometheus_rules() -> None:
    names = [exported.name for exported in EXPORTED.values()]
    assert len(set(names)) == len(names)
    for exported in EXPORTED.values():
        assert exported.name.startswith("shusaku_")
        assert exported.name.endswith("_total") == exported.is_total
        assert not exported.name.endswith(("_ms", "_hour", "_share", "_rate_ratio"))
        assert exported.help.endswith(".")


def tag_of(labels: dict[str, str]) -> str:
    """The value of the label that only metrics of a group have; empty: it is of none."""
    return next((labels[exported.tag] for exported in EXPORTED.values() if exported.tag in labels), "")


def test_a_figure_of_a_group_becomes_a_tag_and_an_unknown_one_nothing() -> None:
    exported, tags = look_up("loss/value")
    assert exported is EXPORTED["loss/"]
    assert tags == {"target": "value"}
    assert look_up("inference/rows_per_s") == (EXPORTED["inference/rows_per_s"], {})
    assert look_up("inference/nonsense") == (None, {})
    assert look_up("nonsense") == (None, {})


def test_the_text_for_prometheus_is_read_back_by_its_own_parser() -> None:
    metrics = {**figures_of(120.0), "loss/value": 0.5, "games": 30.0, "version": math.nan, "nonsense": 1.0}
    tags = {"run": 'a "name"\\', "game": "go"}
    families = list(text_string_to_metric_families(exposition(metrics, tags).decode()))
    samples = {(s.name, tag_of(s.labels)): s for family in families for s in family.samples}
    for name, exported in EXPORTED.items():
        if name == "version":  # which is no finite number here
            assert (exported.name, "") not in samples
            continue
        sample = samples[exported.name, "policy" if exported.tag else ""]
        assert sample.value == pytest.approx((30.0 if name == "games" else 120.0) * exported.scale), name
        assert sample.labels == {**tags, **({exported.tag: "policy"} if exported.tag else {})}
    assert samples["shusaku_loss", "value"].value == 0.5
    assert len(samples) == len(EXPORTED)
    assert {family.name: family.type for family in families}["shusaku_games"] == "counter"


class Recorder:
    """Stands for one of Ray's metrics."""

    def __init__(self, name: str, help_text: str, tag_keys: tuple[str, ...]) -> None:
        self.values: list[float] = []

    def set(self, value: float, tags: dict[str, str]) -> None:
        self.values.append(value)


def test_a_total_that_falls_is_neither_an_error_nor_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shusaku.common.ray_metrics.Gauge", Recorder)
    metrics = RayMetrics("run", "game")
    for total in (0, 5, 5, 9, 2, math.nan, 4):
        metrics.write({"games": total})
    counter: Any = metrics._gauges["shusaku_games_total"]
    assert counter.values == [0, 5, 5, 9, 9, 11]  # nothing for the fall, and 2 from 2 to 4


@pytest.fixture(scope="module")
def scraped() -> dict[tuple[str, str], tuple[float, dict[str, str]]]:
    """What the metrics port of a real Ray says, by name and target."""
    writes = [figures_of(60.0), {**figures_of(120.0), "games": 30.0, "loss/value": 0.5, "strength": math.inf}]
    names = [f"ray_{exported.name}" for exported in EXPORTED.values()]
    environ = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "RAY_AUTH_MODE")}
    done = subprocess.run(
        [sys.executable, "-c", WRITER, json.dumps(writes), json.dumps(names)], cwd=ROOT, check=False,
        env={**environ, "RAY_AUTH_TOKEN": "t" * 64, "RAY_metrics_report_interval_ms": "1000"},
        capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    text = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("ANSWER "))[7:])
    return {
        (sample.name, tag_of(sample.labels)): (sample.value, sample.labels)
        for family in text_string_to_metric_families(text + "\n") for sample in family.samples
    }


def test_every_figure_is_read_back_from_the_metrics_port(
    scraped: dict[tuple[str, str], tuple[float, dict[str, str]]]
) -> None:
    for name, exported in EXPORTED.items():
        value, labels = scraped[f"ray_{exported.name}", "policy" if exported.tag else ""]
        assert (labels["run"], labels["game"]) == ("run-1", "connect_four")
        expected = {"games": 60.0, "strength": 60.0}.get(name, 120.0)  # the total that fell, and no finite number
        assert value == pytest.approx(expected * exported.scale), name
    assert scraped["ray_shusaku_loss", "value"][0] == 0.5
