"""What the tests compare with: engines and records of games, which `make oracles` fetches by this file, and packages.

An engine comes from SHUSAKU_<NAME>, from PATH, from the games directory, or from the cache, where its Debian package
was unpacked without root; records from SHUSAKU_<NAME> or from the cache, where a Debian source package was; a package
from this Python, where the group `oracles` of pyproject.toml was installed.  Where one is missing, tests skip with the
reason; under CI they fail.
"""

import importlib
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import NoReturn

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shusaku" / "oracles"
GAMES = Path("/usr/games")  # where Debian puts them; root's PATH lacks it
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")  # Debian's, wherever there is apt


@dataclass(frozen=True)
class Engine:
    """A program of a Debian package, and the packages of the libraries that a small system may lack."""

    package: str
    program: str  # inside the package
    libraries: tuple[str, ...]
    probe: tuple[str, ...]  # arguments with which it says its version and ends
    data: str = ""  # the package of what it reads when it plays
    home: tuple[str, str] = ("", "")  # the variable that says where in that package's files, and the folder


BOOST = tuple(f"libboost-{part}1.74.0" for part in ("filesystem", "iostreams", "program-options", "serialization"))

ENGINES = {
    "gnugo": Engine("gnugo", "usr/games/gnugo", ("libreadline8", "libtinfo6"), ("--version",)),
    "stockfish": Engine("stockfish", "usr/games/stockfish", (), ("uci",)),
    "fairy-stockfish": Engine("fairy-stockfish", "usr/games/fairy-stockfish", (), ("uci",)),
    "gpsusi": Engine(
        "gpsshogi", "usr/games/gpsusi", ("libosl1v5", "libtcmalloc-minimal4", *BOOST), ("--help",),
        "gpsshogi-data", ("GPSSHOGI_HOME", "usr/share/gpsshogi-data"),
    ),
}


@dataclass(frozen=True)
class Records:
    """Games that people and programs played: files of a source package."""

    package: str
    suffix: str  # of the files


RECORDS = {
    "pgn-extract-games": Records("pgn-extract", ".pgn"),
    "gpsshogi-games": Records("gpsshogi", ".csa"),
}


def variable(name: str) -> str:
    return "SHUSAKU_" + name.upper().replace("-", "_")


def find(name: str) -> Path | None:
    """The engine's program, or the folder of records, or None.  A path that the user names is taken as it is."""
    named = os.environ.get(variable(name))
    if named:
        return Path(named)
    if name in RECORDS:
        folder = CACHE / name
        return folder if folder.is_dir() else None
    on_path = shutil.which(name) or shutil.which(name, path=str(GAMES)) or shutil.which(name, path=str(CACHE / "bin"))
    return Path(on_path) if on_path else None


def is_required() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def engine(name: str) -> str:
    """The engine's program for a test; skips where there is none, fails under CI."""
    found = find(name)
    if found is not None:
        return str(found)
    missing(f"{name} is not here: `make oracles` fetches it, or set {variable(name)}")


def records(name: str) -> Path:
    """The folder of game records for a test; skips where there is none, fails under CI."""
    found = find(name)
    if found is not None:
        return found
    missing(f"{name} are not here: `make oracles` fetches them, or set {variable(name)} to their folder")


def package(name: str) -> ModuleType:
    """The package for a test; skips where there is none, fails under CI."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing(f"{name} cannot be imported ({error}): `make oracles` installs it")


def missing(reason: str) -> NoReturn:
    import pytest  # here: `make oracles` needs none

    if is_required():
        pytest.fail(reason)
    pytest.skip(reason)


def starts(name: str, program: Path) -> str:
    """The first line that the engine says of itself; OSError where it does not start."""
    done = subprocess.run([program, *ENGINES[name].probe], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise OSError(f"exit status {done.returncode}: {(done.stderr or done.stdout).strip()[:300]}")
    return next((line.strip() for line in done.stdout.splitlines() if line.strip()), "")


def fetch(name: str) -> Path:
    """Unpacks the engine's package into the cache; its libraries too, where it does not start without them."""
    what, folder, wrapper = ENGINES[name], CACHE / name, CACHE / "bin" / name
    shutil.rmtree(folder, ignore_errors=True)
    unpack(what.package, folder)
    variables = {}
    if what.data:
        unpack(what.data, folder)
        variables[what.home[0]] = str(folder / what.home[1])
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    write_wrapper(wrapper, folder / what.program, variables)
    try:
        starts(name, wrapper)
    except OSError:
        wrapper.unlink()
        for library in what.libraries:
            unpack(library, folder)
        # They come first, and never include libc, which must fit the loader.
        variables["LD_LIBRARY_PATH"] = ":".join(sorted({str(file.parent) for file in folder.rglob("*.so*")}))
        write_wrapper(wrapper, folder / what.program, variables)
    return wrapper


def write_wrapper(wrapper: Path, program: Path, variables: dict[str, str]) -> None:
    """A script that starts the program with these variables."""
    path = "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items())
    wrapper.write_text(f'#!/bin/sh\n{path}exec {shlex.quote(str(program))} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)


def unpack(package: str, folder: Path) -> None:
    """Downloads a Debian package, checked against the signed package lists, and unpacks it.  Needs no root."""
    needs("apt-get", "dpkg-deb")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run(apt_get("download", package), folder)
    except OSError:  # no package lists: a fresh container
        own = own_lists("apt")
        run(apt_get(*own, "update"), folder)
        run(apt_get(*own, "download", package), folder)
    for archive in folder.glob("*.deb"):
        run(["dpkg-deb", "--extract", str(archive), "."], folder)
        archive.unlink()


def fetch_records(name: str) -> Path:
    """The files of the source package that are games, into the cache."""
    what, folder, work = RECORDS[name], CACHE / name, CACHE / f"{name}.part"
    for stale in (folder, work):
        shutil.rmtree(stale, ignore_errors=True)
    work.mkdir(parents=True)
    archive = download_source(what.package, work)
    run(["tar", "--extract", "--file", archive.name, "--strip-components=1", "--wildcards", f"*{what.suffix}"], work)
    archive.unlink()
    work.rename(folder)  # whole or not at all
    return folder


def download_source(package: str, folder: Path) -> Path:
    """The upstream archive of a Debian source package, checked against the signed lists of sources.  Few systems have
    those: they come from where the lists of packages came from."""
    needs("apt-get", "tar")
    wanted = ("indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
              "Identifier: Packages", "Origin: Debian")
    archives = run(apt_get(*wanted), folder)
    if not archives.strip():  # no package lists: a fresh container
        own = own_lists("apt")
        run(apt_get(*own, "update"), folder)
        archives = run(apt_get(*own, *wanted), folder)
    own = own_lists("apt-sources")
    sources = CACHE / "apt-sources" / "sources.list"
    keys = f"[signed-by={KEYS}] " if KEYS.exists() else ""
    lines = {f"deb-src {keys}{archive}\n" for archive in archives.splitlines()}
    sources.write_text("".join(sorted(lines)), encoding="utf-8")
    own += ["-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null"]
    run(apt_get(*own, "update"), folder)
    run(apt_get(*own, "source", "--download-only", "--tar-only", "--only-source", package), folder)
    for archive in folder.glob("*.orig.tar.*"):
        return archive
    raise OSError(f"apt-get downloaded no upstream archive of {package}")


def needs(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            raise OSError(f"{tool} is not on PATH: this system is not Debian's")


def apt_get(*arguments: str) -> list[str]:
    options = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []  # _apt may not enter our folder
    return ["apt-get", *options, *arguments]


def own_lists(name: str) -> list[str]:
    """Options for package lists in the cache, which need no root."""
    lists = CACHE / name
    (lists / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (lists / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    return ["-o", f"Dir::State::Lists={lists / 'lists'}", "-o", f"Dir::Cache={lists / 'cache'}"]


def run(command: list[str], folder: Path) -> str:
    """What the command wrote; OSError where it failed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return done.stdout


def describe(name: str, found: Path) -> str:
    """What it says of itself, or the number of files; OSError where it is of no use."""
    if name in ENGINES:
        return starts(name, found)
    files = sum(1 for _ in found.rglob(f"*{RECORDS[name].suffix}"))
    if not files:
        raise OSError(f"{found} holds no {RECORDS[name].suffix} files")
    return f"{files} files"


def provide(name: str) -> tuple[Path, str]:
    """Where the engine or the records are, and their description; OSError where they are not and cannot be fetched."""
    found = find(name)
    if found is not None:
        try:
            return found, describe(name, found)
        except (OSError, subprocess.TimeoutExpired):
            if CACHE not in found.parents:  # the user's own: not ours to replace
                raise
    fetched = fetch(name) if name in ENGINES else fetch_records(name)
    return fetched, describe(name, fetched)


def main() -> int:
    missing = 0
    for name in (*ENGINES, *RECORDS):
        try:
            path, description = provide(name)
            print(f"{name}: {path}: {description}")
        except (OSError, subprocess.TimeoutExpired) as error:
            missing += 1
            fate = "fail" if is_required() else "be skipped"
            remedy = (f"install it and put it on PATH, or set {variable(name)} to the program" if name in ENGINES
                      else f"set {variable(name)} to their folder")
            print(f"{name}: missing: {error}", file=sys.stderr)
            print(f"{name}: tests that compare with it will {fate}: {remedy}", file=sys.stderr)
    return 1 if missing and is_required() else 0


if __name__ == "__main__":
    sys.exit(main())
