"""Mutation tests: one small fault after the other in the source, and the tests that must notice it.

    python -m benchmarks.reliability.mutants [--only WORD] [--list]

Of each mutant the named tests are run, and must fail.  One that they do not notice "survives": then a test is missing,
or the mutant changes nothing that a user could see.  The checkout stays as it is: a Python module is mutated while it
is imported, and all mutants of the core are compiled into one library of a few games, which stands in for common._core
and behaves as the environment variable SHUSAKU_MUTANT says.  The library takes minutes, each mutant some seconds.

The lists of mutants are in mutants.toml, beside this file: see there.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.toml")
GAMES = {"connect_four": "kConnectFour", "go": "kGo", "hex": "kHex", "othello": "kOthello", "tic_tac_toe": "kTicTacToe"}

# Runs pytest with a mutated module or a mutated library in place of the one of the checkout.
BOOT = """
import importlib.abc, importlib.machinery, importlib.util, pathlib, sys
name, file, kind = sys.argv[1:4]
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname != name:
            return None
        loader = importlib.machinery.ExtensionFileLoader if kind == "library" else importlib.machinery.SourceFileLoader
        return importlib.util.spec_from_file_location(name, file, loader=loader(name, file))
sys.meta_path.insert(0, Finder())
import pytest
sys.exit(pytest.main(sys.argv[4:]))
"""


@dataclass(frozen=True)
class Mutant:
    """`old` stands once in `file` and becomes `new`; one of `tests` (arguments of pytest) must fail then."""

    number: int
    file: str
    old: str
    new: str
    tests: str

    @property
    def is_core(self) -> bool:
        return self.file.startswith("common/core/")

    @property
    def title(self) -> str:
        return f"{self.number:3} {self.file}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants whose title has this word")
    parser.add_argument("--list", action="store_true", help="print the titles, and run nothing")
    parser.add_argument("--build", type=Path, help="folder of the mutated library; kept for the next time")
    options = parser.parse_args()
    mutants = read_mutants()
    chosen = [mutant for mutant in mutants if options.only in mutant.title]
    if options.list:
        print(*(mutant.title for mutant in chosen), sep="\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        build = options.build or Path(folder) / "core"
        core = [mutant for mutant in mutants if mutant.is_core]
        library = build_core(core, build) if any(mutant.is_core for mutant in chosen) else Path()
        check_tests_pass(chosen, library)
        survivors = [mutant for mutant in chosen if not is_killed(mutant, library, Path(folder))]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    sys.exit(1 if survivors else 0)


def read_mutants() -> list[Mutant]:
    """Of the list; ValueError if a text does not stand exactly once in its file."""
    mutants = []
    for number, entry in enumerate(tomllib.loads(LIST.read_text())["mutant"], 1):
        mutant = Mutant(number, **entry)
        count = (ROOT / mutant.file).read_text().count(mutant.old)
        if count != 1:
            raise ValueError(f"{LIST.name}: {mutant.title}: stands {count} times in its file, must stand once")
        mutants.append(mutant)
    return mutants


def build_core(mutants: list[Mutant], build: Path) -> Path:
    """The library of all mutants: a copy of the core in which each `old` is `(kMutant == n ? (new) : (old))`."""
    source = build / "common" / "core"
    if source.exists():
        shutil.rmtree(source)
    shutil.copytree(ROOT / "common" / "core", source)
    games = source / "bindings" / "games"
    for file in games.glob("*.cpp"):
        if not file.stem.startswith(("external", "python")) and file.stem not in GAMES:
            file.unlink()
    (games / "list.def").write_text("".join(f"GAME({entry})\n" for entry in GAMES.values()))
    (source / "mutant.h").write_text(
        "#pragma once\n#include <cstdlib>\ninline const int kMutant = [] {\n  const char* number ="
        ' std::getenv("SHUSAKU_MUTANT");\n  return number ? std::atoi(number) : 0;\n}();\n'
    )
    for mutant in mutants:
        file = build / mutant.file
        switched = f"(kMutant == {mutant.number} ? ({mutant.new}) : ({mutant.old}))"
        text = file.read_text()
        if text.count(mutant.old) != 1:
            raise ValueError(f"{mutant.title}: overlaps with another mutant")
        file.write_text(text.replace(mutant.old, switched))
    lists = (source / "CMakeLists.txt").read_text().replace(" -O3 ", " -O1 -include mutant.h ").replace(" LTO ", " ")
    (source / "CMakeLists.txt").write_text(lists)
    tools = Path(sys.executable).parent
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    for command in (
        ["cmake", "-S", source, "-B", build / "build", "-G", "Ninja", "-DSHUSAKU_NATIVE=ON", "-DCMAKE_BUILD_TYPE=Debug",
         "-DCMAKE_CXX_FLAGS_DEBUG=", f"-DPython_EXECUTABLE={sys.executable}", *launcher],
        ["cmake", "--build", build / "build"],
    ):
        subprocess.run(["nice", *map(str, command)], env=environment, check=True, stdout=sys.stderr)
    return next((build / "common").glob("_core*.so"))


def run_tests(
    arguments: list[str], name: str, file: Path, kind: str, number: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BOOT, name, str(file), kind, "-q", "-x", "--no-header", "-p", "no:cacheprovider",
               "--timeout=120", *arguments]
    return subprocess.run(command, env=os.environ | {"SHUSAKU_MUTANT": str(number)}, cwd=ROOT, text=True,
                          capture_output=True)


def check_tests_pass(mutants: list[Mutant], library: Path) -> None:
    """Exits unless all tests pass without a mutant: else no failure would mean anything."""
    for tests in sorted({(mutant.tests, mutant.is_core) for mutant in mutants}):
        done = run_tests(tests[0].split(), "shusaku.common._core" if tests[1] else "", library, "library")
        if done.returncode:
            sys.exit(f"{tests[0]} fails without any mutant:\n{done.stdout[-3000:]}")


def is_killed(mutant: Mutant, library: Path, folder: Path) -> bool:
    if mutant.is_core:
        done = run_tests(mutant.tests.split(), "shusaku.common._core", library, "library", mutant.number)
    else:
        file = folder / "module.py"
        file.write_text((ROOT / mutant.file).read_text().replace(mutant.old, mutant.new))
        name = "shusaku." + mutant.file.removesuffix(".py").replace("/", ".")
        done = run_tests(mutant.tests.split(), name, file, "source")
    if done.returncode not in (0, 1):  # neither passed nor failed: the tests could not be run, or crashed
        killed_by = f"exit status {done.returncode}: {done.stdout.strip().splitlines()[-1:]}"
    else:
        failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
        killed_by = failed[0].split(" - ")[0].removeprefix("FAILED ") if failed else ""
    is_noticed = done.returncode != 0
    print(mutant.title, f"      {'killed by ' + killed_by if is_noticed else 'SURVIVED'}", sep="\n", flush=True)
    return is_noticed


if __name__ == "__main__":
    main()
