"""Checkpoints: whole or not there, and every damage is named."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import ResumeError
from shusaku.common.network.weights import load_weights, random_weights
from shusaku.learner.checkpoints import (
    FIRST_WEIGHTS,
    Checkpoint,
    is_checkpoint,
    keep_first_weights,
    load_checkpoint,
    load_latest,
    prune,
    set_damaged_aside,
    write_checkpoint,
)

FILES = ["facts.json", "games.bin", "manifest.json", "network.safetensors", "random.safetensors"]


def checkpoint(step: int) -> Checkpoint:
    random = np.random.default_rng(step)
    return Checkpoint(
        step,
        {
            "network": {"a.weight": random.random((3, 4), np.float32), "b": np.array(2.5, np.float32)},
            "random": {"cpu": random.integers(0, 255, 100).astype(np.uint8)},
        },
        {"version": step // 10, "seconds": 1.5, "counters": {"rows": 10}, "config_hash": "abc"},
        {"games": random.bytes(500)},
    )


def assert_same(one: Checkpoint, other: Checkpoint) -> None:
    assert (one.step, one.facts, one.extra) == (other.step, other.facts, other.extra)
    assert one.tensors.keys() == other.tensors.keys()
    for part, tensors in one.tensors.items():
        assert tensors.keys() == other.tensors[part].keys()
        for name, array in tensors.items():
            assert array.dtype == other.tensors[part][name].dtype
            assert np.array_equal(array, other.tensors[part][name])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two checkpoints, of steps 10 and 20."""
    for step in (10, 20):
        write_checkpoint(tmp_path / "checkpoints", checkpoint(step))
    return tmp_path / "checkpoints"


def test_the_newest_is_loaded(directory: Path) -> None:
    found = load_latest(directory)
    assert found is not None
    assert found.damaged == ()
    assert found.path == directory / "000000020"
    assert_same(found.checkpoint, checkpoint(20))
    assert sorted(os.listdir(found.path)) == FILES


def test_there_may_be_none(tmp_path: Path) -> None:
    assert load_latest(tmp_path) is None
    assert load_latest(tmp_path / "missing") is None
    (tmp_path / ".000000010.77.part").mkdir()  # left by a process that was killed
    assert load_latest(tmp_path) is None


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.99, 0.9999])
@pytest.mark.parametrize("name", FILES)
def test_a_cut_file_is_named_and_the_previous_checkpoint_is_used(directory: Path, name: str, share: float) -> None:
    path = directory / "000000020" / name
    data = path.read_bytes()
    path.write_bytes(data[: min(int(share * len(data)), len(data) - 1)])
    assert_falls_back(directory, name)


@pytest.mark.parametrize("name", FILES)
def test_any_flipped_bit_is_noticed(directory: Path, name: str) -> None:
    path = directory / "000000020" / name
    data = path.read_bytes()
    for position in range(0, len(data), max(1, len(data) // 60)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(ResumeError, match="use another checkpoint"):
                load_checkpoint(path.parent)
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 16
    path.write_bytes(damaged)
    assert_falls_back(directory, name)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(directory: Path, name: str) -> None:
    (directory / "000000020" / name).unlink()
    assert_falls_back(directory, name)


def test_a_file_that_nobody_listed_is_named(directory: Path) -> None:
    (directory / "000000020" / "more.bin").write_bytes(b"x")
    assert_falls_back(directory, "more.bin")


def test_a_checkpoint_under_a_wrong_name_is_refused(directory: Path) -> None:
    (directory / "000000020").rename(directory / "000000030")
    assert_falls_back(directory, "manifest.json", "000000030")


def assert_falls_back(directory: Path, name: str, damaged: str = "000000020") -> None:
    found = load_latest(directory)
    assert found is not None
    assert_same(found.checkpoint, checkpoint(10))
    assert len(found.damaged) == 1
    # A damaged manifest accuses itself or the file whose entry is hurt.
    assert damaged in found.damaged[0]
    assert name in found.damaged[0] or name == "manifest.json"


def test_none_good_is_an_error_that_names_them_all(directory: Path) -> None:
    (directory / "000000020" / "manifest.json").unlink()
    (directory / "000000010" / "facts.json").write_bytes(b"{}")
    with pytest.raises(ResumeError, match=r"000000020.*manifest\.json.*000000010.*facts\.json.*run\.dir"):
        load_latest(directory)


def test_pruning_keeps_the_newest_that_are_whole_and_reads_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (30, 40):
        write_checkpoint(directory, checkpoint(step))
    (directory / "000000040" / "games.bin").write_bytes(b"")
    found = load_latest(directory)
    assert found is not None
    set_damaged_aside(directory, found)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", None)
        prune(directory, 2)
    assert sorted(os.listdir(directory)) == ["000000020", "000000030", "000000040.damaged"]
    write_checkpoint(directory, checkpoint(40))  # the run comes to that step again
    prune(directory, 2)
    assert sorted(os.listdir(directory)) == ["000000030", "000000040", "000000040.damaged"]


def test_the_history_is_the_last_of_each_hour(tmp_path: Path) -> None:
    """Whenever it is pruned: what was kept once stays."""
    for minutes in range(10, 400, 25):
        path = write_checkpoint(tmp_path, checkpoint(minutes))
        os.utime(path, (minutes * 60, minutes * 60))
        prune(tmp_path, 2, 3600.0)
    steps = [int(path.name) for path in sorted(tmp_path.iterdir())]
    assert steps == [35, 110, 160, 235, 285, 335, 360, 385]  # the two newest are of one hour


def test_a_step_may_be_written_again(directory: Path) -> None:
    again = Checkpoint(20, checkpoint(7).tensors, {"again": True})
    write_checkpoint(directory, again)
    found = load_latest(directory)
    assert found is not None
    assert_same(found.checkpoint, again)
    assert sorted(os.listdir(directory)) == ["000000010", "000000020"]


def test_killed_between_the_two_renames_the_old_one_is_found(directory: Path) -> None:
    (directory / "000000020").rename(directory / "000000020.old")
    found = load_latest(directory)
    assert found is not None
    assert_same(found.checkpoint, checkpoint(20))


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _full_at_the_third() -> Callable[..., Any]:
    opened: list[Path] = []

    def open_or_fail(path: Path, mode: str) -> Any:
        opened.append(path)
        if len(opened) == 3:
            path.write_bytes(b"half")
            _full()
        return open(path, mode)

    return open_or_fail


def test_a_full_disk_leaves_the_previous_ones_and_nothing_else(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "shusaku.common.durable_files.open"
    monkeypatch.setattr(module, _full_at_the_third(), raising=False)
    for step in (20, 30):
        with pytest.raises(OSError, match="No space left"):
            write_checkpoint(directory, checkpoint(step))
        monkeypatch.setattr(module, _full, raising=False)
    assert sorted(os.listdir(directory)) == ["000000010", "000000020"]
    found = load_latest(directory)
    assert found is not None
    assert_same(found.checkpoint, checkpoint(20))


def test_a_disk_that_takes_long_for_each_file_takes_no_longer_for_many(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files are synced at once, before any of them has its name; then the rename is."""
    fsync = os.fsync

    def slow(descriptor: int) -> None:
        time.sleep(0.3)
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", slow)
    begin = time.monotonic()
    write_checkpoint(directory, checkpoint(30))
    assert 0.6 <= time.monotonic() - begin < 1.2


def test_leftovers_of_a_killed_process_are_removed(directory: Path) -> None:
    (directory / ".000000015.77.part").mkdir()
    (directory / ".000000015.77.part" / "network.safetensors").write_bytes(b"half")
    write_checkpoint(directory, checkpoint(30))
    assert sorted(os.listdir(directory)) == ["000000010", "000000020", "000000030"]
    shutil.rmtree(directory)


def test_one_of_them_is_loaded_by_its_name(directory: Path) -> None:
    assert is_checkpoint(directory / "000000010")
    assert not is_checkpoint(directory)
    assert_same(load_checkpoint(directory / "000000010").checkpoint, checkpoint(10))
    (directory / "000000010" / "games.bin").write_bytes(b"")
    with pytest.raises(ResumeError, match=r"games.bin has 0 bytes.*use another checkpoint"):
        load_checkpoint(directory / "000000010")


def test_the_weights_of_the_first_checkpoint_are_kept(tmp_path: Path) -> None:
    def weights(version: int):
        return random_weights(Game("tic_tac_toe"), NetworkConfig(8, 1), seed=version, version=version)

    def kept() -> int:
        return load_weights(tmp_path / FIRST_WEIGHTS).version

    keep_first_weights(tmp_path, weights(1))
    keep_first_weights(tmp_path, weights(2))  # the checkpoint of the first time could not be written
    assert kept() == 2
    for step in (10, 20, 30):
        write_checkpoint(tmp_path / "checkpoints", checkpoint(step))
        prune(tmp_path / "checkpoints", 1)
        keep_first_weights(tmp_path, weights(step))
        assert kept() == 2
