"""Where `shusaku submit` takes the wheel from that it sends: a file, this installation, or a build of this checkout.

Ray would install a wheel file with pip, all its requirements with it, into a folder of each node.  So what is sent is
the unpacked wheel: its package and its metadata, as two `py_modules`, which Ray sends once for equal content.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path
from typing import Protocol

from shusaku.common import _core
from shusaku.common.errors import RunError, UsageError
from shusaku.common.measured_choices import user_cache
from shusaku.deploy.ray_runtime.wheel_fit import WheelFacts, needed_glibc

PACKAGES = ("actors", "common", "configs", "deploy", "learner", "replay")
FILES = ("pyproject.toml", "README.md", "LICENSE", ".gitignore")  # .gitignore keeps compiled files out of a wheel
NOT_COPIED = ("__pycache__", "node_modules", "*.so", "*.so.*", "*.pyc")
KEPT = 3  # wheels in the cache
BUILD_TOOLS = ("scikit_build_core", "nanobind")
DIGITS = 12  # of a digest that is shown

Notify = Callable[[str], None]


@dataclass(frozen=True)
class UnpackedWheel:
    """What Ray sends."""

    folders: tuple[Path, ...]  # the package, and its metadata
    digest: str  # of the wheel's content, in hexadecimal digits


class WheelSource(Protocol):
    """A wheel whose needs are known before it is made."""

    @property
    def facts(self) -> WheelFacts:
        """What it asks of a machine."""

    def unpack(self, notify: Notify) -> UnpackedWheel:
        """Makes the folders, or finds them in the cache; `notify` is told of what takes long."""


class WheelFile:
    """A wheel that the user names, perhaps for another platform than this one."""

    def __init__(self, path: Path) -> None:
        """UsageError if it is no wheel of Shusaku."""
        self._path = path
        try:
            with zipfile.ZipFile(path) as wheel:
                self._info = next(name for name in wheel.namelist() if re.fullmatch(r"shusaku-[^/]+/METADATA", name))
                about = wheel.read(self._info).decode()
                tags = wheel.read(self._info.replace("METADATA", "WHEEL")).decode()
                cores = [name for name in wheel.namelist() if re.fullmatch(r"shusaku/common/_core[^/]*\.so", name)]
                self.facts = read_facts(about, tags, b"".join(map(wheel.read, cores)))
        except (OSError, zipfile.BadZipFile, KeyError, StopIteration, UnicodeDecodeError):
            raise UsageError(f"--wheel {path}: is no wheel of Shusaku; make one with `python -m pip wheel --no-deps .` "
                             "in a checkout, or leave the option out") from None

    def unpack(self, notify: Notify) -> UnpackedWheel:
        """Into the cache."""
        digest = hashlib.sha256(self._path.read_bytes()).hexdigest()[:DIGITS]
        return unpack_wheel(self._path, digest)


class InstalledWheel:
    """This installation, which came from a wheel: it is sent as it lies there."""

    def __init__(self, distribution: metadata.Distribution) -> None:
        """`distribution`: of Shusaku."""
        self.facts = facts_of(distribution)
        self._distribution = distribution

    def unpack(self, notify: Notify) -> UnpackedWheel:
        """Nothing has to be made."""
        folders = {str(file).partition("/")[0] for file in self._distribution.files or ()}
        names = sorted(name for name in folders if name == "shusaku" or re.fullmatch(r"shusaku-.*\.dist-info", name))
        digest = hashlib.sha256((self._distribution.read_text("RECORD") or "").encode()).hexdigest()[:DIGITS]
        return UnpackedWheel(tuple(Path(str(self._distribution.locate_file(name))) for name in names), digest)


class Checkout:
    """A checkout that is installed editable: its wheel is built once for each content of its files, and kept."""

    def __init__(self, root: Path, distribution: metadata.Distribution) -> None:
        """`root`: of the checkout; `distribution`: of Shusaku, which tells what a build here will ask for."""
        self._root, self.facts = root, facts_of(distribution)

    def unpack(self, notify: Notify) -> UnpackedWheel:
        """Builds if the cache has no wheel of this content; RunError if that fails, with the compiler's last line."""
        digest = digest_of_sources(self._root, (sys.version, *self.facts.tags))
        with _lock():
            folder = _cache() / digest
            if not folder.is_dir():
                notify(f"building the wheel of {self._root}: minutes for a new core, seconds for new Python files")
                with tempfile.TemporaryDirectory(dir=_cache()) as work:
                    unpack_wheel(self._build(Path(work)), digest)
            folder.touch()
            _drop_old()
        return _unpacked(folder, digest)

    def _build(self, work: Path) -> Path:
        """In a copy of the sources, because a build writes its core into the tree, where processes may run from it.

        Copy and build folder stay, so that the next build compiles only what changed.
        """
        place = hashlib.sha256(str(self._root).encode()).hexdigest()[:DIGITS]
        sources, build = _cache() / f"sources-{place}", _cache() / f"build-{place}"
        copy_sources(self._root, sources)
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--wheel-dir",
                   str(work), "--config-settings", f"build-dir={build}", str(sources)]
        if all(importlib.util.find_spec(name) for name in BUILD_TOOLS):
            command.insert(-1, "--no-build-isolation")
        variables = {name: value for name, value in os.environ.items() if name != "SHUSAKU_NATIVE"}
        log = _cache() / f"build-{place}.log"
        with log.open("w") as output:
            done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=variables, check=False)
        built = list(work.glob("shusaku-*.whl"))
        if done.returncode != 0 or len(built) != 1:
            lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
            raise RunError(f"the wheel of {self._root} cannot be built: {lines[-1][:200] if lines else 'pip failed'}; "
                           f"all that pip said is in {log}")
        return built[0]


def find_wheel_source() -> WheelSource:
    """Of this installation; UsageError if it is neither a checkout nor a wheel."""
    try:
        distribution = metadata.distribution("shusaku")
    except metadata.PackageNotFoundError:
        raise UsageError("this Python runs Shusaku from files that are not installed, so there is no wheel to send; "
                         "run `make install` in the checkout, or name a wheel with --wheel FILE") from None
    root = Path(_core.__file__).resolve().parents[1]
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        return Checkout(root, distribution)
    return InstalledWheel(distribution)


def read_facts(about: str, tags: str, core: bytes) -> WheelFacts:
    """From the files METADATA and WHEEL of a wheel, and its core."""
    headers = HeaderParser().parsestr(about)
    needs = [text for text in headers.get_all("Requires-Dist", []) if "extra ==" not in text]
    kinds = HeaderParser().parsestr(tags).get_all("Tag", [])
    return WheelFacts(headers["Version"], tuple(kinds), tuple(needs), needed_glibc(core))


def facts_of(distribution: metadata.Distribution) -> WheelFacts:
    """Of an installation; the core is that of this process."""
    return read_facts(distribution.read_text("METADATA") or "", distribution.read_text("WHEEL") or "",
                      Path(_core.__file__).read_bytes())


def digest_of_sources(root: Path, more: Sequence[str]) -> str:
    """Of all that goes into a wheel, and of `more`."""
    digest = hashlib.sha256("\0".join(more).encode())
    for path in _sources(root):
        content = (root / path).read_bytes()
        digest.update(f"\0{path.as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:DIGITS]


def copy_sources(root: Path, target: Path) -> None:
    """Makes `target` the same; files that are the same already keep their time, so that they are not compiled again."""
    wanted = set(_sources(root))
    if target.is_dir():
        for path in [path for path in _sources(target) if path not in wanted]:
            (target / path).unlink()
    for path in wanted:
        there = target / path
        if not there.is_file() or there.read_bytes() != (root / path).read_bytes():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, there)


def unpack_wheel(path: Path, digest: str) -> UnpackedWheel:
    """Into the cache, under its digest; whole or not at all."""
    folder = _cache() / digest
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=_cache()) as work:
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(Path(work) / "wheel")
            with contextlib.suppress(OSError):  # another process was faster
                os.rename(Path(work) / "wheel", folder)
    return _unpacked(folder, digest)


def _unpacked(folder: Path, digest: str) -> UnpackedWheel:
    info = next(folder.glob("shusaku-*.dist-info"))
    return UnpackedWheel((folder / "shusaku", info), digest)


def _sources(root: Path) -> Iterator[Path]:
    """Relative to `root`, in a fixed order."""
    patterns = [re.compile(pattern.replace(".", r"\.").replace("*", ".*")) for pattern in NOT_COPIED]
    found = [root / name for name in FILES]
    for package in PACKAGES:
        for folder, folders, files in os.walk(root / package):
            folders[:] = [name for name in folders if not any(p.fullmatch(name) for p in patterns)]
            found += [Path(folder) / name for name in files if not any(p.fullmatch(name) for p in patterns)]
    yield from sorted(path.relative_to(root) for path in found if path.is_file())


def _cache() -> Path:
    folder = user_cache("wheels")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """One build at a time."""
    with (_cache() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _drop_old() -> None:
    """Of the wheels, those beyond the newest `KEPT`."""
    wheels = [path for path in _cache().iterdir() if re.fullmatch(rf"[0-9a-f]{{{DIGITS}}}", path.name)]
    for path in sorted(wheels, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)
