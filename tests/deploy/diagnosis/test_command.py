"""`shusaku diagnose` on a run that was trained for some seconds."""

import json
from pathlib import Path
from typing import Any

import pytest
from runs_in_process import GAMES

from shusaku.common.errors import UsageError
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.commands import diagnose
from shusaku.deploy.local.driver import run as train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnosed") / "run"
    train(compose([*GAMES["connect_four"], f"run.dir={folder}", "run.minutes=0.1"]), True)
    return folder


def test_it_says_something_of_each_side(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(diagnose, "LEAST", {"games": 5, "gradient steps": 1, "seconds of training": 1})
    result = diagnose.run(compose([f"run.dir={trained}"]), True)
    topics = ["progress", "balance", "fit", "values", "openings", "first player", "draws", "length", "decided games"]
    assert [finding["topic"] for finding in result["findings"]] == topics
    assert result["games"] >= 5
    json.dumps(result)
    text = capsys.readouterr().out
    assert all(f"{topic}: " in text for topic in topics)
    for finding in result["findings"]:
        assert (finding["verdict"] == "advice") == bool(finding["setting"]) == bool(finding["reason"])
        if finding["setting"]:
            compose(["experiment=connect_four", finding["setting"]])


def test_a_run_too_young_is_told_how_long_it_needs(trained: Path) -> None:
    with pytest.raises(UsageError, match=r"too young to be judged \(.* of 500 games, .*\); it needs \d+ more minutes"):
        diagnose.run(compose([f"run.dir={trained}"]), True)


def test_a_run_without_a_game_is_told_how_long_it_needs_at_least(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnose.MetricSeries, "last", lambda *_: None)
    with pytest.raises(UsageError, match=r"0 of 500 games, .*; it needs at least \d+ more minutes"):
        diagnose.run(compose([f"run.dir={trained}"]), True)


@pytest.mark.parametrize(("section", "settings"), [
    ("dataset", {"dataset": {"records": "x"}}), ("reinforce", {"reinforce": {"enabled": True}}),
    ("value", {"value": {"enabled": True}}),
])
def test_runs_without_self_play_are_refused(
    section: str, settings: dict[str, Any], trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = diagnose.find_config(trained)
    tree = {**found.tree, **settings}
    monkeypatch.setattr(diagnose, "find_config", lambda _: found._replace(tree=tree))
    with pytest.raises(UsageError, match=f"learns from {section}"):
        diagnose.run(compose([f"run.dir={trained}"]), True)


def test_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        diagnose.run(compose([f"run.dir={tmp_path}"]), True)
