"""`inference.precision=auto`: what is fastest is taken, new versions included, measured once and kept."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from shusaku.common import measured_choices
from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError
from shusaku.common.hardware import choose_precision
from shusaku.common.measured_choices import MeasuredChoice
from shusaku.deploy.bench import precision_setting, precision_speed
from shusaku.deploy.bench.precision_setting import settle_precision
from shusaku.deploy.bench.precision_speed import (
    Speed,
    best_rates,
    choose,
    precisions_to_measure,
    versions_per_s,
)
from shusaku.deploy.cli.overrides import compose

SMALL = ["game=tic_tac_toe", "network.filters=8", "network.blocks=1", "search.simulations=8",
         "actors.games_per_actor=8"]
USUAL = choose_precision("auto", "cpu", "").name
HAS_CHOICE = len(precisions_to_measure(compose(SMALL))) > 1
needs_choice = pytest.mark.skipif(not HAS_CHOICE, reason="this processor has one precision")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return measured_choices.user_cache(precision_setting.FILE)


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Config]:
    """Measurements that were asked for; each one answers this precision."""
    asked: list[Config] = []

    def measured(function: object, config: Config, seconds: float) -> MeasuredChoice:
        asked.append(config)
        return MeasuredChoice(name, {name: 2.0, "fp32": 1.0}, "2026-11-25", precision_speed.UNIT)

    monkeypatch.setattr(precision_setting, "run_in_subprocess", measured)
    return asked


def test_the_fastest_is_taken_if_it_is_worth_it() -> None:
    config = compose(["learner.enabled=false"])
    paces = {USUAL: Speed(1000, 0), "int8": Speed(1800, 0)}
    assert choose(config, paces).name == "int8"
    assert choose(config, {USUAL: Speed(1000, 0), "int8": Speed(1020, 0)}).name == USUAL, "2 % is noise"
    assert choose(config, {"fp32": Speed(1000, 0)}).name == "fp32"


def test_new_versions_are_paid_for() -> None:
    """Eight bits that are a tenth faster lose if compiling them takes a fifth of the time."""
    config = compose(["actors.count=2", "search.simulations=64", "replay.samples_per_position=4",
                      "learner.batch_size=256", "learner.publish_every=10"])
    fast = Speed(70_400, 0.1)
    # 2 actors x 1,100 searches/s x 4 / 256 steps/s, a version each 10 of them
    assert versions_per_s(config, fast) == pytest.approx(2 * 1100 * 4 / 256 / 10)
    assert choose(config, {USUAL: Speed(64_000, 0.0), "int8": fast}).name == USUAL
    rare = replace(config, learner=replace(config.learner, publish_every=1000))
    assert choose(rare, {USUAL: Speed(64_000, 0.0), "int8": fast}).name == "int8"
    assert choose(rare, {USUAL: Speed(64_000, 0.0), "int8": replace(fast, scales_s=50)}).name == USUAL


def test_slices_are_taken_in_turns_and_the_best_counts() -> None:
    order = []
    rates = iter([1.0, 5.0, 3.0, 4.0, 2.0, 6.0, *[1.0] * (2 * precision_speed.SLICES - 6)])

    def rate(name: str) -> float:
        order.append(name)
        return next(rates)

    assert best_rates(rate, ["a", "b"]) == {"a": 3.0, "b": 6.0}
    assert order == ["a", "b"] * precision_speed.SLICES


def test_slow_slices_are_few() -> None:
    """A slice of a large network lasts longer than all the time that there is: each has one."""
    now = itertools.count(0.0, precision_speed.MEASURING_SECONDS)
    order: list[str] = []
    assert best_rates(lambda name: order.append(name) or 1.0, ["a", "b"], lambda: next(now)) == {"a": 1.0, "b": 1.0}
    assert order == ["a", "b"]


@needs_choice
def test_a_measurement_that_fails_costs_no_run(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    def fail(*_: object) -> MeasuredChoice:
        raise RunError("a process of the bench was killed")

    monkeypatch.setattr(precision_setting, "run_in_subprocess", fail)
    config = compose(SMALL)
    assert settle_precision(config) == (config, None)
    assert not cache.exists()


@needs_choice
def test_it_is_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    asked = counted(monkeypatch, "int8")
    for _ in range(3):
        settled, choice = settle_precision(compose(SMALL))
        assert settled.inference.precision == "int8"
        assert str(choice) == "int8, by evaluations/s of one actor (int8 2, fp32 1; measured on 2026-11-25)"
    assert len(asked) == 1
    settle_precision(compose([*SMALL, "network.filters=16"]))
    settle_precision(compose([*SMALL, "search.simulations=9"]))
    assert len(asked) == 3, "another network, and another search"
    unknown = json.dumps({key: {"name": "bf17"} for key in json.loads(cache.read_text())})
    for damaged in ("", "[1]", "{", unknown):
        cache.write_text(damaged)
        assert settle_precision(compose(SMALL))[0].inference.precision == "int8"
    assert len(asked) == 7, "what cannot be read is measured again"


@needs_choice
def test_a_run_goes_on_in_the_precision_that_it_began_with(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    counted(monkeypatch, "int8")
    assert settle_precision(compose(SMALL), run)[0].inference.precision == "int8"
    cache.unlink()
    asked = counted(monkeypatch, "fp32")
    assert settle_precision(compose([*SMALL, "search.simulations=9"]), run)[0].inference.precision == "int8"
    monkeypatch.setattr(precision_setting, "processor_name", lambda: "another processor")
    assert settle_precision(compose(SMALL), run)[0].inference.precision == "fp32", "it may have no 8-bit products"
    assert len(asked) == 1
    assert len(json.loads((run / precision_setting.FILE).read_text())) == 2


@needs_choice
def test_a_cache_that_cannot_be_written_costs_a_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    asked = counted(monkeypatch, "fp32")
    for _ in range(2):
        assert settle_precision(compose(SMALL))[0].inference.precision == "fp32"
    assert len(asked) == 2


@needs_choice
def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(measured_choices, "MOST_KEPT", 3)
    counted(monkeypatch, "fp32")
    for simulations in range(8, 14):
        settle_precision(compose([*SMALL, f"search.simulations={simulations}"]))
    assert len(json.loads(cache.read_text())) == 3


@pytest.mark.parametrize("overrides", [
    ["inference.precision=fp32"], ["inference.runtime=uniform"], ["inference.placement=server"],
    ["inference.device=cuda"], ["run.minutes=1"],
])
def test_nothing_is_measured_where_nothing_is_to_choose(
    overrides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = counted(monkeypatch, "int8")
    config = compose([*SMALL, *overrides])
    assert settle_precision(config) == (config, None)
    assert not asked


def test_it_really_measures() -> None:
    config = compose(SMALL)
    choice = precision_speed.measure(config)
    assert set(choice.rates) <= set(precisions_to_measure(config))
    assert USUAL in choice.rates
    assert choice.name in choice.rates
    assert all(rate > 0 for rate in choice.rates.values())
