"""The faster program is taken, once measured; and the compiled one answers as the other."""

import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import torch
from evaluator_fixtures import CONFIG

from shusaku.actors.evaluators.timed_rate import timed_rate
from shusaku.common._core import Game
from shusaku.common.measured_choices import user_cache
from shusaku.common.network.gpu_program import FILE, choose_program, make_program
from shusaku.common.network.torch_tower import TorchTower
from shusaku.common.network.weights import random_weights, tower_shape

GAME = Game("connect_four")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return user_cache(FILE)


@pytest.mark.parametrize(("eager", "compiled", "name"), [
    (100, 120, "compiled"), (100, 102, "eager"), (100, 50, "eager"),
])
def test_the_faster_one_is_taken_if_it_is_worth_it(eager: float, compiled: float, name: str) -> None:
    rates = {"eager": eager, "compiled": compiled}
    choice = choose_program(rates.__getitem__, "a GPU", clock=lambda: datetime(2026, 11, 25, tzinfo=UTC))
    assert choice.name == name
    assert str(choice) == (f"{name}, by positions/s (eager {eager}, compiled {compiled}; measured on 2026-11-25)")


def test_it_is_measured_once_for_a_gpu_and_a_network(cache: Path) -> None:
    asked: list[str] = []

    def rate(name: str) -> float:
        asked.append(name)
        return 1.0 + len(name)

    for _ in range(2):
        assert choose_program(rate, "a GPU", {"filters": 64}).name == "compiled"
    assert asked == ["eager", "compiled"]
    choose_program(rate, "a GPU", {"filters": 65})
    choose_program(rate, "another GPU", {"filters": 64})
    assert len(asked) == 6
    for damaged in ("", "[1]", cache.read_text().replace("compiled", "comp")):
        cache.write_text(damaged)
        assert choose_program(rate, "a GPU", {"filters": 64}).name == "compiled"
    assert len(asked) == 12


def test_a_compiler_that_fails_leaves_the_eager_program() -> None:
    def rate(name: str) -> float:
        if name == "compiled":
            raise RuntimeError("no compiler for C++ is found")
        return 1.0

    choice = choose_program(rate, "a GPU")
    assert (choice.name, dict(choice.rates)) == ("eager", {"eager": 1.0})
    with pytest.raises(RuntimeError, match="the GPU itself"):
        choose_program(lambda name: (_ for _ in ()).throw(RuntimeError("the GPU itself")), "another")


def test_a_rate_counts_whole_batches() -> None:
    calls: list[int] = []

    def run_raw(batches: int) -> None:
        calls.append(batches)
        time.sleep(0.002 * batches)

    assert 100_000 < timed_rate(run_raw, 1024, seconds=0.1) <= 1024 / 0.002
    assert calls[:4] == [1, 1, 2, 4], "more of them in one call, so that a device never waits for the host"


@pytest.mark.long
@torch.inference_mode()
def test_the_compiled_program_answers_as_the_tower_with_every_weights() -> None:
    tower = TorchTower(tower_shape(GAME, CONFIG), "fp32", torch.device("cpu"))
    compiled = make_program("compiled", tower)
    assert make_program("eager", tower) is tower
    planes = torch.rand(8, *GAME.observation_shape).contiguous(memory_format=torch.channels_last)
    for seed in (1, 2):
        tower.load(random_weights(GAME, CONFIG, seed, version=seed))
        for found, expected in zip(compiled(planes), tower(planes), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
