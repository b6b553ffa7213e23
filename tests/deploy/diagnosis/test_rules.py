"""Runs that are sick in one way each: that way is named, with a setting, and nothing else is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.diagnosis.finding import Finding, Verdict
from shusaku.deploy.diagnosis.fit import Fit, Loss, Mean
from shusaku.deploy.diagnosis.game_facts import Calibration, GameFacts
from shusaku.deploy.diagnosis.metric_series import MetricSeries
from shusaku.deploy.diagnosis.rules import RunFacts, judge
from shusaku.deploy.run.composed_config import ComposedConfig
from shusaku.replay.window import window_rows

HOUR = 3600.0
HEALTHY_GAMES = GameFacts(
    games=2000, plies=30.0, first_score=0.6, draws=0.1, cut_off=0.0, decided=0.1, openings=0.6,
    calibration=tuple(Calibration(part, 5000, 0.6, 0.0, 1.0) for part in ("first", "second", "last")))


def fit_of(unseen: tuple[float, float], learned: tuple[float, float], error: float = 0.01, aside: bool = False) -> Fit:
    """Of policy and value each."""
    return Fit(*(Loss(4000, *(Mean(value, error) for value in part)) for part in (unseen, learned)), aside)


HEALTHY_FIT = fit_of((0.2, 0.6), (0.18, 0.58))


def series(path: Path, *, paused: float | None = 0.05, waiting: float = 0.1, gain: float = 0.05, loss: float = -0.02,
           source: tuple[str, str] = ("strength", "search_64.optimal"), scale: float = 1.0, actors: float = 4.0,
           best: float = 0.9, window: int = 15000) -> MetricSeries:
    """Of an hour, from an accuracy of `best`, with some noise.

    `gain` of the accuracy and `loss` of the policy's loss are what the hour changes.
    """
    random = np.random.default_rng(1)
    with (path / "metrics.jsonl").open("w") as file:
        for minute in range(0, 61, 5):
            noise = random.normal(0, 0.001)
            columns: dict[str, dict[str, float]] = {
                "self_play": {"actors": actors} if paused is None else {"paused_share": paused, "actors": actors},
                "learner": {"waiting_share": waiting, "loss/policy": 1.5 + loss * minute / 60 + noise},
                "replay": {"window": window},
                source[0]: {source[1]: scale * (best + gain * minute / 60 + noise)},
            }
            for name, values in columns.items():
                file.write(json.dumps({"time": 0.0, "step": 100 * minute, "seconds": 60.0 * minute, "source": name,
                                       "values": values}) + "\n")
    return MetricSeries(path / "metrics.jsonl")


def saved(*overrides: str) -> dict[str, Any]:
    config = compose(["experiment=connect_four", *overrides])
    assert isinstance(config, ComposedConfig)
    return dict(config.unresolved)


def advised(facts: RunFacts) -> dict[str, Finding]:
    return {finding.topic: finding for finding in judge(facts) if finding.verdict is not Verdict.GOOD}


def facts(path: Path, *overrides: str, games: GameFacts = HEALTHY_GAMES, fit: Fit | None = HEALTHY_FIT,
          **metrics: Any) -> RunFacts:
    return RunFacts(saved(*overrides), series(path, **metrics), games, fit)


def test_a_healthy_run_gets_no_advice(tmp_path: Path) -> None:
    assert advised(facts(tmp_path)) == {}


@pytest.mark.parametrize(("overrides", "sick", "topic", "setting"), [
    (["replay.samples_per_position=2"], {"paused": 0.5}, "balance", "replay.samples_per_position=1"),
    (["replay.samples_per_position=1"], {"paused": 0.5}, "balance", "actors.count=2"),
    (["replay.samples_per_position=2"], {"waiting": 0.8}, "balance", "replay.samples_per_position=3"),
    (["replay.samples_per_position=4"], {"fit": fit_of((0.6, 0.6), (0.18, 0.58))}, "fit",
     "replay.samples_per_position=2"),
    (["replay.samples_per_position=1", "replay.window_factor=0.4"],
     {"fit": fit_of((0.2, 0.8), (0.18, 0.58))}, "fit", "replay.window_factor=0.8"),
    (["replay.samples_per_position=1", "replay.window_factor=0.7"],
     {"fit": fit_of((0.2, 0.8), (0.18, 0.58))}, "fit", "replay.window_factor=1"),
    (["replay.samples_per_position=1", "replay.window_factor=1"],
     {"fit": fit_of((0.2, 0.8), (0.18, 0.58))}, "fit", "replay.window=fixed"),
    (["replay.samples_per_position=1", "replay.capacity=20000"],
     {"fit": fit_of((0.2, 0.8), (0.18, 0.58)), "window": 20000}, "fit", "replay.capacity=40000"),
    (["network.filters=32"],
     {"fit": fit_of((0.6, 0.6), (0.58, 0.6)), "loss": 0.0}, "fit", "network.filters=64"),
    ([], {"gain": -0.05}, "progress", "learner.learning_rate="),
    (["learner.schedule=constant"], {"gain": 0.0}, "progress", "learner.schedule=cooldown"),
    (["learner.schedule=cooldown", "network.blocks=5"], {"gain": 0.0}, "progress", "network.blocks=10"),
    (["self_play.resign_errors=0"], {"games": replace(HEALTHY_GAMES, decided=0.5)}, "decided games",
     "self_play.resign_errors=0.05"),
    (["self_play.resign_errors=0.05"], {"games": replace(HEALTHY_GAMES, decided=0.5)}, "decided games",
     "self_play.decided_value=0.9"),
    (["self_play.random_plies=0"], {"games": replace(HEALTHY_GAMES, draws=0.95)}, "draws", "self_play.random_plies=4"),
    (["self_play.resign_errors=0"], {"games": replace(HEALTHY_GAMES, cut_off=0.2)}, "length",
     "self_play.resign_errors=0.05"),
    (["self_play.random_plies=3"], {"games": replace(HEALTHY_GAMES, first_score=0.95)}, "first player",
     "self_play.random_plies=6"),
    (["self_play.random_plies=0"], {"games": replace(HEALTHY_GAMES, first_score=0.05)}, "first player",
     "self_play.random_plies=4"),
    (["self_play.policy_plies=0"], {"games": replace(HEALTHY_GAMES, openings=0.01)}, "openings",
     "self_play.policy_plies=2"),
    (["replay.samples_per_position=1", "replay.window=fixed", "replay.capacity=20000"],
     {"fit": fit_of((0.2, 0.8), (0.18, 0.58))}, "fit", "replay.capacity=40000"),
    (["self_play.resign_errors=0.05", "self_play.decided_value=0.9"], {"games": replace(HEALTHY_GAMES, cut_off=0.2)},
     "length", "learner.cut_off_value=search"),
])
def test_one_sickness_is_one_finding(
    overrides: list[str], sick: dict[str, Any], topic: str, setting: str, tmp_path: Path
) -> None:
    found = advised(facts(tmp_path, *overrides, **sick))
    assert list(found) == [topic]
    assert found[topic].setting.startswith(setting)
    assert found[topic].reason
    words = ["experiment=connect_four", *overrides]
    assert compose([*words, found[topic].setting]) != compose(words), "what is in force already helps nobody"


@pytest.mark.parametrize("gap", [(0.6, 0.58), (0.18, 0.8)])
def test_a_network_that_remembers_its_games_gets_no_advice_for_more_samples(
    gap: tuple[float, float], tmp_path: Path
) -> None:
    """Whatever self-play's share: `fit` advises fewer of them."""
    sick: dict[str, Any] = {"waiting": 0.8, "fit": fit_of(gap, (0.18, 0.58))}
    found = advised(facts(tmp_path, "replay.samples_per_position=4", "actors.count=4", **sick))
    assert {topic: finding.setting for topic, finding in found.items()} == {
        "balance": "actors.count=auto", "fit": "replay.samples_per_position=2"}
    assert compose(["actors.count=4", "actors.count=auto"]).actors.count == 0
    run = facts(tmp_path, "replay.samples_per_position=4", "actors.count=0", **sick)
    assert list(advised(run)) == ["fit"]
    assert "more cores alone would help" in judge(run)[1].measured


@pytest.mark.parametrize("seen", [100_000, 1_000_000, 6_000_000])
def test_the_larger_window_is_about_twice_as_large(seen: int, tmp_path: Path) -> None:
    overrides = ["replay.samples_per_position=1", "replay.capacity=2000000"]
    before = compose(["experiment=connect_four", *overrides])
    found = advised(facts(tmp_path, *overrides, fit=fit_of((0.2, 0.8), (0.18, 0.58)),
                          window=window_rows(before.replay, seen)))["fit"]
    after = compose(["experiment=connect_four", *overrides, found.setting])
    assert window_rows(after.replay, seen) > 1.7 * window_rows(before.replay, seen)


@pytest.mark.parametrize(("overrides", "sick"), [
    (["self_play.resign_errors=0.05", "self_play.decided_value=0.9"], {"games": replace(HEALTHY_GAMES, decided=0.5)}),
    (["self_play.resign_errors=0.05", "self_play.decided_value=0.9", "learner.cut_off_value=search"],
     {"games": replace(HEALTHY_GAMES, cut_off=0.2)}),
    (["replay.samples_per_position=8"], {"waiting": 0.8}),
    (["replay.samples_per_position=10"], {"waiting": 0.8}),
    (["replay.samples_per_position=1"], {"paused": 0.5, "actors": 1.0}),
    (["learner.schedule=constant"], {"gain": 0.0, "best": 0.999}),
])
def test_what_is_set_or_reached_already_is_not_advised(
    overrides: list[str], sick: dict[str, Any], tmp_path: Path
) -> None:
    assert advised(facts(tmp_path, *overrides, **sick)) == {}


@pytest.mark.parametrize(("rules", "score", "komi"), [
    (["game.komi=5.5"], 0.95, "7.5"), ([], 0.95, "9"), ([], 0.05, "5"),  # 7 unless the rules say otherwise
])
def test_one_sided_go_gets_another_komi(rules: list[str], score: float, komi: str, tmp_path: Path) -> None:
    games = replace(HEALTHY_GAMES, first_score=score)
    tree = dict(compose(["experiment=go_9x9", *rules]).unresolved)  # type: ignore[attr-defined]
    found = advised(RunFacts(tree, series(tmp_path), games, HEALTHY_FIT))
    assert [finding.setting for finding in found.values()] == [f"game.komi={komi}"]


@pytest.mark.parametrize(("slope", "overrides", "setting"), [
    (0.5, ["learner.root_value_share=0"], "learner.root_value_share=0.5"),
    (0.5, ["learner.root_value_share=0.5", "learner.value_lambda=0"], "learner.value_lambda=0.8"),
    (0.5, ["learner.root_value_share=0.5", "learner.value_lambda=0.8"], "replay.window_factor=0.8"),
    (1.6, ["learner.value_weight=1"], "learner.value_weight=2"),
])
def test_values_that_do_not_fit_the_outcomes(
    slope: float, overrides: list[str], setting: str, tmp_path: Path
) -> None:
    parts = list(HEALTHY_GAMES.calibration)
    parts[1] = parts[1]._replace(slope=slope)
    found = advised(facts(tmp_path, *overrides, games=replace(HEALTHY_GAMES, calibration=tuple(parts))))
    assert list(found) == ["values"]
    assert found["values"].setting == setting
    few = tuple(part._replace(rows=100) for part in parts)
    found = advised(facts(tmp_path, games=replace(HEALTHY_GAMES, calibration=few)))
    assert found["values"].verdict is Verdict.UNKNOWN, "too few rows to judge"


def test_elo_is_judged_where_there_is_no_accuracy(tmp_path: Path) -> None:
    rated = facts(tmp_path, source=("rating", "elo"), scale=1000.0, gain=0.0)
    assert "Elo" in advised(rated)["progress"].measured
    nothing = facts(tmp_path, source=("other", "x"))
    assert advised(nothing)["progress"].verdict is Verdict.UNKNOWN


def test_a_loss_that_still_falls_is_no_underfitting(tmp_path: Path) -> None:
    lacking = fit_of((0.6, 0.6), (0.58, 0.6))
    assert advised(facts(tmp_path, fit=lacking, loss=-0.5)) == {}


def test_a_gap_that_chance_alone_would_give_is_no_overfitting(tmp_path: Path) -> None:
    gap = (0.4, 0.8), (0.18, 0.58)
    assert "fit" in advised(facts(tmp_path, fit=fit_of(*gap, error=0.05)))
    assert "fit" not in advised(facts(tmp_path, fit=fit_of(*gap, error=0.1)))


def test_a_user_reads_which_games_were_compared(tmp_path: Path) -> None:
    for aside, games in ((False, "on the newest games"), (True, "on games kept aside")):
        found = judge(facts(tmp_path, fit=fit_of((0.2, 0.6), (0.18, 0.58), aside=aside)))
        [said] = [finding.measured for finding in found if finding.topic == "fit"]
        assert said.startswith(f"{games} the policy lacks 0.20 ± 0.02 nats")


def test_one_process_has_no_balance_to_judge(tmp_path: Path) -> None:
    found = judge(facts(tmp_path, paused=None))
    [balance] = [finding for finding in found if finding.topic == "balance"]
    assert balance.verdict is Verdict.GOOD
    assert "take turns" in balance.measured
