"""The pool of opponents: who joins, who is drawn, and what a process that comes later finds."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.messages import Weights
from shusaku.common.network.weights import random_weights
from shusaku.learner.opponent_pool import OpponentPool

WEIGHTS = random_weights(Game("tic_tac_toe"), NetworkConfig(filters=4, blocks=1, value_hidden=4), 1)


def weights_of(version: int, step: int) -> Weights:
    return replace(WEIGHTS, version=version, step=step)


def test_the_first_publication_joins_and_then_one_after_every_so_many_updates(tmp_path: Path) -> None:
    pool = OpponentPool(tmp_path, every=50)
    assert pool.versions() == []
    assert pool.draw(np.random.default_rng(1)) is None
    for step in range(0, 200):
        pool.offer(weights_of(step + 1, step))
    assert pool.versions() == [1, 51, 101, 151]
    assert [pool.load(version).step for version in pool.versions()] == [0, 50, 100, 150]


def test_a_publication_that_was_missed_is_made_up_for_by_the_next_one(tmp_path: Path) -> None:
    pool = OpponentPool(tmp_path, every=10)
    for step in (0, 7, 14, 21, 28):
        pool.offer(weights_of(step + 1, step))
    assert pool.versions() == [1, 15, 29]


def test_another_process_finds_the_members(tmp_path: Path) -> None:
    pool = OpponentPool(tmp_path, every=2)
    for step in range(5):
        pool.offer(weights_of(step + 1, step))
    again = OpponentPool(tmp_path, every=2)
    assert again.versions() == [1, 3, 5]
    again.offer(weights_of(6, 5))
    assert again.versions() == [1, 3, 5], "the newest member is one update old"
    assert np.array_equal(again.load(3).tensors["stem.conv.weight"], WEIGHTS.tensors["stem.conv.weight"])


def test_a_run_that_goes_back_to_a_checkpoint_makes_the_later_members_again(tmp_path: Path) -> None:
    pool = OpponentPool(tmp_path, every=10)
    for step in range(0, 41):
        pool.offer(weights_of(step + 1, step))
    assert pool.versions() == [1, 11, 21, 31, 41]
    later = OpponentPool(tmp_path, every=10)
    later.offer(weights_of(50, 25))  # the checkpoint of step 25, published under a number that was never used
    assert later.versions() == [1, 11, 21]
    for step in range(26, 32):
        later.offer(weights_of(step + 25, step))
    assert later.versions() == [1, 11, 21, 55]
    assert later.load(55).step == 30


def test_each_member_is_drawn_equally_often(tmp_path: Path) -> None:
    """By chi-square: 16.3 is the 99.9 % quantile of three degrees of freedom."""
    pool = OpponentPool(tmp_path)
    for step in range(4):
        pool.offer(weights_of(step + 1, step))
    random, counts = np.random.default_rng(3), np.zeros(4)
    for _ in range(2000):
        drawn = pool.draw(random)
        assert drawn is not None
        counts[drawn.version - 1] += 1
    assert float(((counts - 500) ** 2 / 500).sum()) < 16.3, counts


def test_a_damaged_member_is_passed_over(tmp_path: Path) -> None:
    pool = OpponentPool(tmp_path)
    for step in range(2):
        pool.offer(weights_of(step + 1, step))
    damaged = tmp_path / "reinforce" / "pool" / "00000001.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-7])
    pool = OpponentPool(tmp_path)
    random = np.random.default_rng(1)
    assert {drawn.version for _ in range(20) if (drawn := pool.draw(random))} == {2}
    pool.offer(weights_of(3, 2))
    assert pool.versions() == [1, 2, 3]


def test_a_disk_that_refuses_costs_a_member_some_updates(tmp_path: Path) -> None:
    blocker = tmp_path / "reinforce"
    blocker.write_text("no directory")
    pool = OpponentPool(tmp_path)
    pool.offer(weights_of(1, 0))
    assert "version 1 did not join the pool" in pool.trouble
    assert pool.versions() == []
    blocker.unlink()
    pool.offer(weights_of(2, 1))
    assert pool.trouble == ""
    assert pool.versions() == [2]
