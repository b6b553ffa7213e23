"""An archive comes back as it was, or not at all."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from shusaku.common.errors import UsageError
from shusaku.deploy.run.archive import ArchiveWriter, unpack

FILES = {"config.yaml": b"a: 1\n", "checkpoints/000000010/network.safetensors": bytes(range(256)) * 40, "empty": b""}


def write(target: Path) -> Path:
    archive = ArchiveWriter(target)
    for name, data in FILES.items():
        archive.add(name, data)
    assert archive.finish({"step": 10}) == sum(map(len, FILES.values()))
    assert list(target.parent.glob(".*")) == [], "no temporary stays"
    return target


@pytest.fixture(params=["backup", "backup.tar"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "to").mkdir()
    return write(tmp_path / "to" / request.param)


def test_it_comes_back_as_it_was(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "back"
    facts = unpack(source, folder)
    assert facts["step"] == 10
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == FILES
    assert source.stat().st_mode & 0o077 == 0, "it holds what the run directory keeps from others"


def test_a_copy_a_part_of_a_file_and_a_stream(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"0123456789")
    archive = ArchiveWriter(tmp_path / "to")
    archive.copy("whole", tmp_path / "log")
    archive.copy("part", tmp_path / "log", 4)
    with pytest.raises(OSError, match="has 1 bytes less"):
        archive.copy("short", tmp_path / "log", 11)
    with archive.open("stream") as file:
        for piece in (b"ab", b"c"):
            file.write(piece)
    archive.add("gone/file", b"x")
    archive.drop("gone")
    (archive.folder / "short").unlink()
    archive.finish({})
    unpack(tmp_path / "to", tmp_path / "back")
    found = {path.name: path.read_bytes() for path in (tmp_path / "back").iterdir()}
    assert found == {"whole": b"0123456789", "part": b"0123", "stream": b"abc"}


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("damage", ["bit", "cut", "longer", "missing"])
def test_damage_anywhere_is_refused_by_name(tmp_path: Path, name: str, damage: str) -> None:
    source = write(tmp_path / "backup")
    path = source / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "longer":
        path.write_bytes(data + b"\n" if name != "manifest.json" else data[:-1] + b', "x": 1}')
    elif not data:
        return  # nothing to change
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:])
    with pytest.raises(UsageError, match="damaged") as error:
        unpack(source, tmp_path / "back")
    assert name in str(error.value)


def test_what_does_not_belong_there_is_refused(tmp_path: Path) -> None:
    for number, place in enumerate(("extra", "checkpoints/extra")):
        source = write(tmp_path / f"backup{number}")
        (source / place).write_bytes(b"")
        with pytest.raises(UsageError, match=f"{place} does not belong"):
            unpack(source, tmp_path / f"back{number}")
        (source / place).unlink()
        os.symlink("/etc/hostname", source / place)
        with pytest.raises(UsageError, match=f"{place} does not belong"):
            unpack(source, tmp_path / f"again{number}")


def test_a_tar_file_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        entry = tarfile.TarInfo("../outside")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    with pytest.raises(UsageError, match="cannot be read"):
        unpack(tmp_path / "evil.tar", tmp_path / "folder" / "back")
    assert not (tmp_path / "folder" / "outside").exists()


@pytest.mark.parametrize("content", [b"", b"no tar", json.dumps({}).encode()])
def test_no_archive_at_all(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        unpack(tmp_path / "file", tmp_path / "back")
    with pytest.raises(UsageError, match="no such file"):
        unpack(tmp_path / "none", tmp_path / "back2")


def test_nothing_is_overwritten(source: Path) -> None:
    with pytest.raises(UsageError, match="exists"):
        ArchiveWriter(source)
