"""Weights files: what is written is read, and every kind of damage is noticed."""

import dataclasses
import errno
import os
from pathlib import Path

import numpy as np
import pytest
from network_fixtures import weights_of

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.messages import Weights
from shusaku.common.network.network import Network
from shusaku.common.network.weights import (
    is_finite,
    load_weights,
    random_weights,
    save_weights,
    weights_from_bytes,
    weights_to_bytes,
)

CONFIG = NetworkConfig(filters=4, blocks=1, value_hidden=8)


@pytest.fixture
def weights() -> Weights:
    return dataclasses.replace(random_weights(Game("tic_tac_toe"), CONFIG, seed=3, version=7), step=700)


def test_a_file_gives_back_what_was_written(weights: Weights, tmp_path: Path) -> None:
    written = save_weights(tmp_path / "w.safetensors", weights)
    read = load_weights(tmp_path / "w.safetensors", written.sha256)
    assert (read.version, read.step, read.game, read.params) == (7, 700, "tic_tac_toe", weights.params)
    assert read.network == dataclasses.asdict(CONFIG)
    assert read.sha256 == written.sha256 != ""
    assert read.tensors.keys() == weights.tensors.keys()
    assert all(np.array_equal(read.tensors[name], weights.tensors[name]) for name in read.tensors)
    assert os.listdir(tmp_path) == ["w.safetensors"]


def test_random_weights_are_those_of_a_new_network(weights: Weights) -> None:
    game = Game("tic_tac_toe")
    network = Network(game.observation_shape, game.num_actions, CONFIG, seed=3)
    other = weights_of(network, game, version=7, step=0)
    assert all(np.array_equal(other.tensors[name], tensor) for name, tensor in weights.tensors.items())


def test_the_same_weights_make_the_same_bytes(weights: Weights) -> None:
    assert weights_to_bytes(weights) == weights_to_bytes(weights)


def test_every_cut_is_noticed(weights: Weights) -> None:
    data = weights_to_bytes(weights)
    for length in {0, 1, 7, 8, 100, len(data) // 10, len(data) // 2, len(data) * 99 // 100, len(data) - 1}:
        with pytest.raises(UsageError, match=r"somewhere\.safetensors"):
            weights_from_bytes(data[:length], "somewhere.safetensors")


def test_every_flipped_bit_is_noticed(weights: Weights) -> None:
    data = weights_to_bytes(weights)
    header = 8 + int.from_bytes(data[:8], "little")
    positions = [*range(header), *np.random.default_rng(0).integers(header, len(data), 200).tolist(), len(data) - 1]
    for position in positions:
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        with pytest.raises(UsageError, match=r"damaged|format"):
            weights_from_bytes(bytes(damaged), "file")


def test_a_file_that_is_not_the_named_one_is_refused(weights: Weights, tmp_path: Path) -> None:
    save_weights(tmp_path / "w.safetensors", weights)
    with pytest.raises(UsageError, match="SHA-256"):
        load_weights(tmp_path / "w.safetensors", "0" * 64)
    with pytest.raises(UsageError, match="cannot be read"):
        load_weights(tmp_path / "none.safetensors")


def test_a_full_disk_leaves_the_old_file(
    weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, weights)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_weights(path, dataclasses.replace(weights, version=8))
    monkeypatch.undo()
    assert load_weights(path).version == 7
    assert os.listdir(tmp_path) == ["w.safetensors"]


def test_non_finite_numbers_are_seen(weights: Weights) -> None:
    assert is_finite(weights.tensors)
    weights.tensors["stem.norm.running_var"][1] = np.inf
    assert not is_finite(weights.tensors)
