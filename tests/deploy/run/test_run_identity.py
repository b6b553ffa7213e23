"""Who a run is, which life of its driver this is, and how far it came."""

from pathlib import Path

import pytest

from shusaku.common.checked_json import DamagedFileError
from shusaku.common.errors import UsageError
from shusaku.deploy.run.run_identity import RunIdentity, RunProgress


def test_the_name_stays_and_epochs_rise(tmp_path: Path) -> None:
    first = RunIdentity.of(tmp_path)
    assert first.next_epoch(-1) == 1
    second = RunIdentity.of(tmp_path)
    assert second.run_id == first.run_id
    assert second.next_epoch(-1) == 2, "also when Redis has forgotten everything"
    assert RunIdentity.of(tmp_path).next_epoch(40) == 41, "and when an older copy of the directory is used"


def test_names_of_two_runs_differ(tmp_path: Path) -> None:
    (tmp_path / "a" / "x").mkdir(parents=True)
    (tmp_path / "b" / "x").mkdir(parents=True)
    one, other = RunIdentity.of(tmp_path / "a" / "x"), RunIdentity.of(tmp_path / "b" / "x")
    assert one.run_id != other.run_id


def test_a_name_that_was_asked_for(tmp_path: Path) -> None:
    identity = RunIdentity.of(tmp_path, "mine")
    identity.next_epoch(0)
    assert identity.run_id == RunIdentity.of(tmp_path).run_id == RunIdentity.of(tmp_path, "mine").run_id == "mine"
    with pytest.raises(UsageError, match=r"run.name=yours: .* holds the run mine"):
        RunIdentity.of(tmp_path, "yours")


@pytest.mark.parametrize("name", ["Größe 9x9!", "a" * 200, "-", "go{9}"])
def test_any_directory_gives_a_name_that_redis_keys_take(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    run_id = RunIdentity.of(directory).run_id
    assert len(run_id) <= 64
    assert set(run_id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize("damage", [b"", b'{"run_id": "x"', b'{"run_id": "else", "epoch": 1, "sha256": "0"}', b"\xff"])
def test_a_damaged_file_is_made_again_from_the_starts(tmp_path: Path, damage: bytes) -> None:
    before = RunIdentity.of(tmp_path)
    before.next_epoch(4)
    (tmp_path / "run.json").write_bytes(damage)
    found = RunIdentity.of(tmp_path)
    assert (found.run_id, found.epoch) == (before.run_id, 5)
    assert "run.json is damaged" in found.note
    assert "starts.jsonl" in found.note
    assert found.next_epoch(-1) == 6
    assert RunIdentity.of(tmp_path) == RunIdentity(tmp_path / "run.json", before.run_id, 6)


def test_a_damaged_file_that_nothing_else_tells_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"run_id": "x"')
    with pytest.raises(UsageError, match=r"run.json is damaged .*give its run.name"):
        RunIdentity.of(tmp_path)
    assert RunIdentity.of(tmp_path, "given").run_id == "given"
    (tmp_path / "progress.json").write_text("[]")
    with pytest.raises(DamagedFileError):
        RunProgress.load(tmp_path)


def test_progress_comes_back(tmp_path: Path) -> None:
    assert RunProgress.load(tmp_path) == RunProgress()
    progress = RunProgress(61.5, 3, [(0.0, 0.4), (60.0, 0.7)], 2, resign_value=-0.75,
                           counted={"games": 5, "inserted": 40}, lost_counts={"games": 1000, "inserted": 9000})
    progress.save(tmp_path)
    assert RunProgress.load(tmp_path) == progress


@pytest.mark.parametrize("counted", [[1], {"games": "many"}, {"games": None}, 3])
def test_counts_that_are_none_are_damage(counted: object) -> None:
    with pytest.raises(DamagedFileError):
        RunProgress.of({"seconds": 1.0, "strength": [], "counted": counted})
