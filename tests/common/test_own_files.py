"""Data that this user's programs wrote is told from a stranger's."""

from pathlib import Path

import pytest

from shusaku.common.own_files import MARK_BYTES, mark, marked_data


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "shusaku"


def test_own_data_comes_back(home: Path) -> None:
    marked = mark(b"a tree")
    assert marked_data(marked) == b"a tree"
    assert marked_data(mark(b"")) == b""
    assert (home / "key").stat().st_mode & 0o777 == 0o600
    assert list(home.iterdir()) == [home / "key"]


def test_any_other_data_is_refused(home: Path) -> None:
    marked = mark(b"a tree")
    for strange in (b"", b"a tree", marked[:-1], marked + b"!", bytes(MARK_BYTES) + b"a tree",
                    marked[:5] + bytes([marked[5] ^ 1]) + marked[6:]):
        with pytest.raises(ValueError, match="was not written by this user"):
            marked_data(strange)


def test_another_user_has_another_key(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked = mark(b"a tree")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(ValueError, match="was not written by this user"):
        marked_data(marked)


@pytest.mark.parametrize("key", [b"", b"short", bytes(33)])
def test_a_damaged_key_makes_nothing_own(home: Path, key: bytes) -> None:
    home.mkdir()
    (home / "key").write_bytes(key)
    with pytest.raises(ValueError, match="was not written by this user"):
        marked_data(mark(b"a tree"))


def test_without_a_home_nothing_is_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(ValueError, match="was not written by this user"):
        marked_data(mark(b"a tree"))
