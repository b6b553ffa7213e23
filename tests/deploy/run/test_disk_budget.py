"""What a run may take of the disk, by hand for small numbers, and what is said if there is less."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.network.weights import random_weights
from shusaku.deploy.run import disk_budget
from shusaku.deploy.run.disk_budget import DiskBudget, DiskReport, checkpoint_bytes, report_disk

MB = 1 << 20


@pytest.fixture
def config() -> Config:
    config = Config()
    config.run.minutes, config.run.keep_checkpoints, config.run.keep_every_minutes = 90, 3, 60
    config.replay.capacity, config.replay.megabytes = 1_000_000, 4096
    return config


def budget(config: Config, **options: object) -> DiskBudget:
    return DiskBudget.of(config, Game("tic_tac_toe"), **options)  # type: ignore[arg-type]


def test_the_append_only_file_doubles_and_is_written_again_beside_itself(config: Config) -> None:
    assert budget(config, bytes_per_row=200.0).window == 3 * 200_000_000
    assert budget(config, bytes_per_row=1e6).window == 3 * 4096 * MB, "replay.megabytes is the cap"
    assert budget(config).window == 3 * 4096 * MB, "of rows whose size is unknown"
    assert budget(config, bytes_per_row=10.0).window == 256 * MB + 10_000_000, "below that nothing is rewritten"
    config.replay.url = "redis://elsewhere"
    assert budget(config, bytes_per_row=200.0).window == 0


def test_the_record_log_of_one_process(config: Config) -> None:
    whole = budget(config, bytes_per_row=200.0, is_local=True)
    assert whole.window == 300_000_000 + 2 * 64 * MB
    assert whole.ray == 0


def test_checkpoints_are_the_newest_those_of_each_hour_and_the_next(config: Config) -> None:
    assert budget(config, checkpoint_bytes=100).checkpoints == (3 + 2 + 1) * 100
    config.run.keep_every_minutes = 0
    assert budget(config, checkpoint_bytes=100).checkpoints == (3 + 1) * 100
    game = Game("tic_tac_toe")
    network = sum(tensor.nbytes for tensor in random_weights(game, config.network, 1).tensors.values())
    assert budget(config).checkpoints == 4 * (4 * network + MB)


def report(free: int, temporary_free: int = 10**12, used: int = 0, is_same_disk: bool = False) -> DiskReport:
    return DiskReport(DiskBudget(600, 300, 100, 50), used, free, temporary_free, is_same_disk)


@pytest.mark.parametrize(("found", "missing", "text"), [
    (report(1000), 0, ""),
    (report(999), 1, "the disk of the run may become full"),
    (report(999, used=1), 0, ""),
    (report(1000, is_same_disk=True), 50, "the disk of the run may become full"),
    (report(1000, temporary_free=49), 0, "name another directory with RAY_TMPDIR"),
    (report(0, used=5000), 0, ""),
])
def test_what_is_missing_is_said(found: DiskReport, missing: int, text: str) -> None:
    assert found.missing == missing
    assert text in found.trouble
    assert bool(text) == bool(found.trouble)


def test_a_directory_that_is_there_and_one_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run" / "checkpoints" / "000000010").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "000000010" / "network.safetensors").write_bytes(bytes(300))
    (tmp_path / "run" / "metrics.jsonl").write_bytes(bytes(50))
    assert checkpoint_bytes(tmp_path / "run") == 300
    assert checkpoint_bytes(tmp_path / "none") == 0
    small = DiskBudget(600, 300, 100, 50)
    assert report_disk(tmp_path / "run", small).used == 350
    assert report_disk(tmp_path / "none" / "deeper", small).used == 0
    monkeypatch.setattr(disk_budget.shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    found = report_disk(tmp_path / "run", small)
    assert found.missing == 1000 - 350 + (50 if found.is_same_disk else 0) - 10
    assert "0 MB are free" in found.line
    assert shutil.disk_usage(tmp_path).free == 10
