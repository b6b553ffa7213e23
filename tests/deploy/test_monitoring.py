"""The dashboard, the alerts and the scrape configuration speak of metrics that there are, and Prometheus agrees."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_process import ClusterProcess
from oracles import engine

from shusaku.common.prometheus import EXPORTED
from shusaku.deploy.run.grafana_dashboard import dashboard, expressions

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
NAMES = {f"ray_{exported.name}" for exported in EXPORTED.values()}
# What a sound run of self-play does not have: games kept aside, and refused ones, whose reason would be the tag.
ABSENT = ("ray_shusaku_unseen_games", "ray_shusaku_quarantined_records_by_reason_total")


def alerts() -> dict[str, str]:
    """Name -> expression."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def metrics_of(expression: str) -> set[str]:
    return set(re.findall(r"ray_shusaku_\w+", expression))


def test_the_dashboard_is_what_its_table_makes() -> None:
    """`python -m shusaku.deploy.run.grafana_dashboard > deploy/grafana/shusaku.json` writes it."""
    assert json.loads((ROOT / "deploy" / "grafana" / "shusaku.json").read_text(encoding="utf-8")) == dashboard()


def test_panels_and_alerts_name_metrics_that_there_are() -> None:
    named = [metrics_of(expression) for expression in (*expressions(), *alerts().values())]
    assert all(named)
    assert set().union(*named) <= NAMES
    texts = " ".join(re.findall(r"ray_shusaku_\w+", RULES.read_text(encoding="utf-8")))
    assert set(texts.split()) <= NAMES, "also in what an alert says"


def test_every_metric_that_grows_or_fails_is_on_the_dashboard() -> None:
    """All but the settings of a run, and what another panel says in another unit."""
    shown = set().union(*map(metrics_of, expressions()))
    left_out = {name.removeprefix("ray_shusaku_") for name in NAMES - shown}
    assert left_out == {
        "training_seconds_total", "asked_training_seconds", "games_per_second", "rows_per_second", "steps_per_second",
        "resign_value", "resigned_games_ratio", "wrongly_resigned_games_ratio", "played_on_games_total",
        "learning_rate", "rollbacks_total", "send_failures_total", "restored_games_total", "dropped_open_games_total",
        "skipped_rows_total", "sample_age_steps", "sample_age_max_steps", "quarantined_records_total", "rated_version",
        "inference_stale_weights_total",
    }


def test_panels_do_not_overlap() -> None:
    cells = [(x, y) for panel in dashboard()["panels"] for place in [panel["gridPos"]]
             for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_each_alert_fires_and_keeps_silent_as_its_cases_say() -> None:
    cases = yaml.safe_load((RULES.parent / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]
    expected = [(one["alertname"], bool(one["exp_alerts"])) for case in cases for one in case["alert_rule_test"]]
    assert set(expected) >= {(name, fires) for name in alerts() for fires in (False, True)}
    for words in (["check", "config", "--syntax-only", "scrape.yaml"], ["check", "rules", "alerts.yaml"],
                  ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run([engine("promtool"), *words], cwd=RULES.parent, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def prometheus(folder: Path, targets: Path) -> Iterator[str]:
    """A server that reads what Ray lists in this file; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = yaml.safe_load((RULES.parent / "scrape.yaml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["file_sd_configs"][0]["files"] = [str(targets)]
    shutil.copy(RULES, folder)
    (folder / "scrape.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    process = subprocess.Popen(
        [engine("prometheus"), f"--config.file={folder / 'scrape.yaml'}", f"--storage.tsdb.path={folder / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def ask(address: str, expression: str) -> list[dict[str, Any]]:
    url = f"{address}/api/v1/query?query={urllib.parse.quote(expression)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return found


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_prometheus_finds_every_panel_and_rule_of_a_live_run(tmp_path: Path) -> None:
    run = ClusterProcess(tmp_path / "run", "actors.count=1", "inference.placement=server", "strength.enabled=true",
                         "strength.minutes=0.1", "cluster.dashboard=true", "run.checkpoint_seconds=2")
    try:
        run.until_learning()
        logs = re.search(r"Ray's logs: (\S+)/session_\S+", run.text)
        assert logs is not None
        with prometheus(tmp_path, Path(logs[1]) / "prom_metrics_service_discovery.json") as address:
            wanted = [one for one in expressions(".*") if not metrics_of(one) & set(ABSENT)]
            deadline = time.monotonic() + 120
            while missing := [one for one in wanted if not _is_there(address, one)]:
                assert time.monotonic() < deadline, missing
                time.sleep(2)
            rules = _rules(address)
            assert {rule["name"] for rule in rules} == set(alerts())
            assert {rule["health"] for rule in rules} == {"ok"}
            for name, expression in alerts().items():
                for metric in metrics_of(expression):
                    assert ask(address, metric), f"{name}: {metric}"
    finally:
        run.close()


def _is_there(address: str, expression: str) -> bool:
    try:
        return bool(ask(address, expression))
    except OSError:  # the server is starting
        return False


def _rules(address: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{address}/api/v1/rules", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["groups"][0]["rules"]
    return found
