"""Imports and includes point one way, Ray stays in its places, and self-play loads no torch."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("actors", "common", "configs", "deploy", "learner", "replay")
MAY_IMPORT = {  # what each top-level folder may import besides itself
    "common": set(),
    "configs": set(),
    "replay": {"common"},
    "actors": {"common", "replay"},
    "learner": {"common", "replay"},
    "deploy": {"actors", "common", "configs", "learner", "replay"},
}
# Bottom first.  A file may import files of its own entry or of earlier ones; the longest entry that fits counts.
ORDER = (
    "common/core/games", "common/core/games/chess", "common/core/games/external", "common/core/games/go",
    "common/core/games/shogi", "common/core/search", "common/core/serving", "common/core/analysis",
    "common/core/rows", "common/core/ranks", "common/core/network",
    "common/core/bindings/erased.h", "common/core/bindings/arrays.h", "common/core/bindings/leaves.h",
    "common/core/bindings/model.h", "common/core/bindings/games", "common/core/bindings",
    "common/errors.py", "common/activity.py", "common/device_failure.py", "common/mps.py", "common/device_memory.py",
    "common/remote_worker.py",
    "common/durable_files.py", "common/measured_choices.py", "common/checked_json.py", "common/json_lines.py",
    "common/masking.py", "common/own_files.py", "common/suggestions.py", "common/hardware.py", "common/stage_timer.py",
    "common/cpu_share.py", "common/tls", "common/config",
    "common/messages.py", "common/resignation.py",
    "common/codec.py", "common/leaves_codec.py", "common/open_game_codec.py",
    "common/external", "common/search.py", "common/network", "common/metrics.py", "common/prometheus.py",
    "common/ray_metrics.py",
    "configs",
    "replay", "replay/stream", "replay/backends.py",
    "learner", "learner/training_loop.py", "learner/remote_ranks.py", "learner/remote.py",
    "actors/evaluators", "actors/inference", "actors/self_play.py", "actors/pipelined_self_play.py",
    "actors/policy_games",
    "actors/open_games.py", "actors/actor_loop.py", "actors/analysis", "actors/arena", "actors/opponents",
    "actors/remote.py", "actors/refine.py", "actors/refine_tasks",
    "deploy/run", "deploy/ray_runtime", "deploy/records", "deploy/match", "deploy/cluster",
    "deploy/bench", "deploy/local", "deploy/protocols", "deploy/protocols/gtp", "deploy/protocols/play",
    "deploy/protocols/uci", "deploy/protocols/usi",
    "deploy/studio", "deploy/diagnosis", "deploy/commands", "deploy/cli", "deploy/api",
)
MAY_USE_RAY = {  # and all of deploy/
    "actors/arena/remote.py", "actors/remote.py", "actors/inference/transport.py", "learner/remote.py",
    "learner/remote_ranks.py",
    "common/ray_metrics.py", "common/remote_worker.py",
}
WITHOUT_TORCH = (
    "common.messages", "common.config", "common.codec", "common.network.tower", "common.network.weights",
    "common.metrics", "replay", "actors.self_play", "deploy.cli",
)
LATER = (  # rooms that were added to the house after it was counted
    "analysis", "protocols", "records", "refine", "refine_tasks", "studio", "policy_games",
    "diagnosis", "ranks",
)
NAMES_WITHOUT_A_NOUN = ("utils", "helpers", "base", "manager", "util", "helper", "misc")
PICKLERS = ("cloudpickle", "dill", "marshal", "pickle", "shelve")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def python_files(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names that a module imports anywhere, in functions and for type checkers too; ours without `shusaku.`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.removeprefix("shusaku.") for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{name.name}".removeprefix("shusaku.") for name in node.names)


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def violations(file: Path, tree: ast.AST) -> list[str]:
    """What this file of a package imports against the table."""
    package, path = file.relative_to(ROOT).parts[0], file.relative_to(ROOT).as_posix()
    found = []
    for name in imports(tree):
        top = name.partition(".")[0]
        if top in PACKAGES and top != package and top not in MAY_IMPORT[package]:
            found.append(f"{path} imports {name}: {package} may import only {sorted(MAY_IMPORT[package])}")
        if top == "ray" and package != "deploy" and path not in MAY_USE_RAY:
            found.append(f"{path} imports {name}: only deploy/ and {sorted(MAY_USE_RAY)} may")
    return found


def test_imports_follow_the_table() -> None:
    assert [text for file in python_files(*PACKAGES) for text in violations(file, parsed(file))] == []


@pytest.mark.parametrize("line", [
    "import shusaku.learner.learner", "from shusaku.deploy.cli.main import main", "from shusaku import deploy",
    "def f():\n    import ray",
])
def test_the_table_is_enforced(line: str) -> None:
    assert violations(ROOT / "replay" / "invented.py", ast.parse(line))


def arrows() -> dict[str, set[str]]:
    """File -> the files of ours that it imports or includes, for the whole product."""
    modules = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in python_files(*PACKAGES)}
    found: dict[str, set[str]] = defaultdict(set)
    for file in modules.values():
        for name in imports(parsed(file)):
            while name and name not in modules:  # a name inside a module; a package's own `__init__` is empty
                name = name.rpartition(".")[0]
            if name and modules[name] != file:
                found[path_of(file)].add(path_of(modules[name]))
    core = ROOT / "common" / "core"
    for file in (file for file in core.rglob("*") if file.suffix in (".cpp", ".h")):
        for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            assert (core / name).is_file(), f"{path_of(file)} includes {name}: no file of common/core"
            found[path_of(file)].add(path_of(core / name))
    return found


def path_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def line_of(path: str) -> int:
    """The place of a file in ORDER."""
    fitting = [name for name in ORDER if path == name or path.startswith(f"{name}/")]
    assert fitting, f"{path} has no line in ORDER"
    return ORDER.index(max(fitting, key=len))


def arrows_back(found: dict[str, set[str]]) -> list[str]:
    return [f"{a} imports {b}" for a in sorted(found) for b in sorted(found[a]) if line_of(a) < line_of(b)]


def circle(found: dict[str, set[str]]) -> list[str]:
    """Files that import each other in a circle; empty if there is none."""
    done: set[str] = set()

    def search(path: list[str]) -> list[str]:
        for name in sorted(found.get(path[-1], ())):
            if name in path:
                return [*path[path.index(name):], name]
            if name not in done and (seen := search([*path, name])):
                return seen
        done.add(path[-1])
        return []

    return next((seen for name in sorted(found) if name not in done and (seen := search([name]))), [])


def test_no_arrow_runs_back() -> None:
    assert arrows_back(arrows()) == []


def test_there_is_no_circle() -> None:
    assert circle(arrows()) == []


def test_circles_and_arrows_back_are_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert arrows_back({"common/errors.py": {"common/metrics.py"}}) == ["common/errors.py imports common/metrics.py"]
    below = "if TYPE_CHECKING:\n    from shusaku.deploy.cli import main\ndef f():\n    import shusaku.learner.ema"
    assert sorted(imports(ast.parse(below))) == ["deploy.cli.main", "learner.ema"]


@pytest.mark.parametrize("folder", ["actors", "deploy"])
def test_a_folder_shows_its_plan(folder: str) -> None:
    """At most nine entries with Python in them beside `__init__` and `__main__`."""
    entries = [entry.name for entry in (ROOT / folder).iterdir()
               if (entry.suffix == ".py" or (entry.is_dir() and any(entry.rglob("*.py"))))
               and entry.stem not in ("__init__", "__main__", "__pycache__", *LATER)]
    assert len(entries) <= 9, sorted(entries)


def test_no_relative_imports() -> None:
    relative = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in python_files(*PACKAGES)
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_loads_without_torch_or_ray(module: str) -> None:
    folder = ROOT / module.replace(".", "/")
    files = [file for file in sorted(folder.rglob("*.py")) if file.stem not in ("__init__", "remote")]
    names = [".".join(file.relative_to(folder).with_suffix("").parts) for file in files]
    modules = [f"{module}.{name}" for name in names] if folder.is_dir() else [module]
    imported = ", ".join(f"shusaku.{name}" for name in modules)
    script = f"import sys, {imported}; sys.exit(', '.join({{'torch', 'ray'}} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{module} loads {done.stderr}"


def test_nothing_is_pickled() -> None:
    found = []
    for file in python_files(*PACKAGES, "benchmarks"):
        tree, place = parsed(file), file.relative_to(ROOT)
        found += [f"{place} imports {name}" for name in imports(tree) if name.split(".")[0] in PICKLERS]
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            if ast.unparse(call.func) == "torch.load" and keywords.get("weights_only") != "True":
                found.append(f"{place}:{call.lineno} torch.load without weights_only=True")
            if keywords.get("allow_pickle") == "True":
                found.append(f"{place}:{call.lineno} allow_pickle=True")
    assert found == []


def test_names_have_a_noun() -> None:
    files = [file for folder in PACKAGES for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".cpp", ".h")]
    assert [str(file) for file in files if file.stem.split("_")[-1] in NAMES_WITHOUT_A_NOUN] == []


def test_tests_are_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
