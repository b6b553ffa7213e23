"""The wheel that is sent: named by its content, built once, unpacked whole or not at all."""

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.ray_runtime import wheel_sources
from shusaku.deploy.ray_runtime.wheel_sources import (
    Checkout,
    InstalledWheel,
    WheelFile,
    copy_sources,
    digest_of_sources,
    find_wheel_source,
)

ABOUT = "Metadata-Version: 2.2\nName: shusaku\nVersion: 0.2.0\nRequires-Dist: ray>=2.59\n" \
        "Requires-Dist: mypy; extra == 'test'\n\nText\n"
# What pip is given in its place: it writes a wheel of the sources that it was given, and counts.
PIP = '''
import pathlib, sys, zipfile
words = sys.argv[1:]
sources, place = pathlib.Path(words[-1]), pathlib.Path(words[words.index("--wheel-dir") + 1])
with (sources.parent / "builds").open("a") as file:
    file.write("1")
if (sources / "common" / "broken.py").exists():
    sys.exit("gcc: no such thing")
with zipfile.ZipFile(place / "shusaku-0.2.0-cp311-cp311-linux_x86_64.whl", "w") as wheel:
    for path in sources.rglob("*.py"):
        wheel.write(path, pathlib.Path("shusaku") / path.relative_to(sources))
    wheel.writestr("shusaku-0.2.0.dist-info/METADATA", "Version: 0.2.0")
'''


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "shusaku" / "wheels"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, text in (("common/a.py", "1"), ("common/_core.so", "native"), ("learner/__pycache__/b.pyc", ""),
                       ("pyproject.toml", "p"), (".gitignore", "*.so"), ("tests/c.py", ""), ("notes.txt", "")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def write_wheel(path: Path, core: bytes = b"\0GLIBC_2.34\0") -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("shusaku/common/_core.abi3.so", core)
        wheel.writestr("shusaku-0.2.0.dist-info/METADATA", ABOUT)
        wheel.writestr("shusaku-0.2.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp311-cp311-linux_aarch64\n\n")
    return path


def test_the_digest_is_that_of_what_goes_into_a_wheel(tree: Path) -> None:
    first = digest_of_sources(tree, ("3.11",))
    for name in ("common/_core.so", "tests/c.py", "notes.txt", "learner/__pycache__/b.pyc"):
        (tree / name).write_text("changed")
    assert digest_of_sources(tree, ("3.11",)) == first
    assert digest_of_sources(tree, ("3.12",)) != first
    (tree / "common" / "a.py").write_text("2")
    second = digest_of_sources(tree, ("3.11",))
    (tree / "common" / "a.py").rename(tree / "common" / "b.py")
    assert len({first, second, digest_of_sources(tree, ("3.11",))}) == 3


def test_a_copy_follows_the_tree_and_leaves_alone_what_is_the_same(tree: Path, tmp_path: Path) -> None:
    (tree / "common" / "b.py").write_text("b")
    copy_sources(tree, tmp_path / "copy")
    kept = (tmp_path / "copy" / "pyproject.toml").stat().st_mtime_ns
    (tmp_path / "copy" / "common" / "_core.so").write_text("built here")
    (tree / "common" / "b.py").unlink()
    (tree / "common" / "a.py").write_text("2")
    copy_sources(tree, tmp_path / "copy")
    files = {path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*.*")}
    assert files == {"common/a.py", "common/_core.so", "pyproject.toml", ".gitignore"}
    assert (tmp_path / "copy" / "common" / "a.py").read_text() == "2"
    assert (tmp_path / "copy" / "common" / "_core.so").read_text() == "built here"
    assert (tmp_path / "copy" / "pyproject.toml").stat().st_mtime_ns == kept


def test_a_wheel_file_says_what_it_needs(cache: Path, tmp_path: Path) -> None:
    wheel = WheelFile(write_wheel(tmp_path / "some.whl"))
    assert wheel.facts.tags == ("cp311-cp311-linux_aarch64",)
    assert wheel.facts.requirements == ("ray>=2.59",)
    assert (wheel.facts.version, wheel.facts.glibc) == ("0.2.0", "2.34")
    unpacked = wheel.unpack(print)
    assert unpacked == wheel.unpack(print)
    assert [folder.name for folder in unpacked.folders] == ["shusaku", "shusaku-0.2.0.dist-info"]
    assert (unpacked.folders[0] / "common" / "_core.abi3.so").read_bytes() == b"\0GLIBC_2.34\0"
    assert [path.name for path in cache.iterdir()] == [unpacked.digest]


@pytest.mark.parametrize("content", [None, b"", b"PK", "another"])
def test_what_is_no_wheel_of_ours_is_refused(cache: Path, tmp_path: Path, content: bytes | str | None) -> None:
    path = tmp_path / "some.whl"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("numpy-2.0.dist-info/METADATA", "Version: 2.0")
    with pytest.raises(UsageError, match="is no wheel of Shusaku"):
        WheelFile(path)


@pytest.fixture
def builds(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python whose pip is the one above; the file that it counts in."""
    python = tmp_path / "python"
    (tmp_path / "pip.py").write_text(PIP)
    python.write_text(f'#!/bin/sh\nshift 2\n{sys.executable} {tmp_path / "pip.py"} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(wheel_sources.sys, "executable", str(python))
    return cache / "builds"


def test_a_checkout_is_built_once_for_each_content(tree: Path, cache: Path, builds: Path) -> None:
    said: list[str] = []
    checkout = Checkout(tree, metadata.distribution("shusaku"))
    first = checkout.unpack(said.append)
    assert checkout.unpack(said.append) == first
    assert builds.read_text() == "1"
    assert len(said) == 1
    assert "building the wheel" in said[0]
    assert (tree / "common" / "_core.so").read_text() == "native"
    for n in range(4):
        (tree / "common" / "a.py").write_text(f"n = {n}")
        newest = checkout.unpack(said.append)
    assert builds.read_text() == "11111"
    assert (newest.folders[0] / "common" / "a.py").read_text() == "n = 3"
    assert not first.folders[0].exists()  # the cache keeps three
    assert len([path for path in cache.iterdir() if (path / "shusaku").is_dir()]) == wheel_sources.KEPT


def test_a_build_that_fails_is_one_line_and_leaves_no_wheel(tree: Path, cache: Path, builds: Path) -> None:
    (tree / "common" / "broken.py").write_text("")
    with pytest.raises(RunError, match=r"cannot be built: gcc: no such thing; all that pip said is in .*\.log"):
        Checkout(tree, metadata.distribution("shusaku")).unpack(print)
    assert not [path for path in cache.iterdir() if (path / "shusaku").is_dir()]


def test_this_checkout_is_a_source(cache: Path) -> None:
    source = find_wheel_source()
    assert isinstance(source, Checkout)
    assert source.facts.tags[0].startswith("cp3")
    assert any(text.startswith("ray[default]") for text in source.facts.requirements)


def test_an_installed_wheel_is_sent_as_it_lies_there(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_wheel(tmp_path / "some.whl")) as wheel:
        wheel.extractall(tmp_path / "site")
    record = tmp_path / "site" / "shusaku-0.2.0.dist-info" / "RECORD"
    record.write_text("shusaku/common/_core.abi3.so,,\nshusaku-0.2.0.dist-info/METADATA,,\n../../bin/shusaku,,\n")
    unpacked = InstalledWheel(metadata.Distribution.at(record.parent)).unpack(print)
    assert sorted(folder.name for folder in unpacked.folders) == ["shusaku", "shusaku-0.2.0.dist-info"]
    assert all(folder.is_dir() for folder in unpacked.folders)
