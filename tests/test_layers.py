"""Imports point one way, Ray stays in its rooms, self-play loads no torch, and files stay small."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("actors", "common", "configs", "deploy", "learner", "replay")
MAY_IMPORT = {  # the table of the folders: what each may import besides itself
    "common": set(),
    "configs": set(),
    "replay": {"common"},
    "actors": {"common", "replay"},
    "learner": {"common", "replay"},
    "deploy": {"actors", "common", "configs", "learner", "replay"},
}
MAY_USE_RAY = {  # and all of deploy/
    "actors/remote.py", "actors/inference/transport.py", "learner/remote.py", "common/prometheus.py",
}
WITHOUT_TORCH = (
    "common.messages", "common.config", "common.codec", "common.network.tower", "common.network.weights",
    "common.metrics", "replay", "actors.self_play", "deploy.cli",
)
NAMES_WITHOUT_A_NOUN = ("utils", "helpers", "base", "manager", "util", "helper", "misc")
PICKLERS = ("cloudpickle", "dill", "marshal", "pickle", "shelve")
MOST_LINES = 450


def python_files(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names that a module imports anywhere, in functions too; ours without `shusaku.`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.removeprefix("shusaku.") for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module] if node.module != "shusaku" else [f"shusaku.{name.name}" for name in node.names]
            yield from (name.removeprefix("shusaku.") for name in names)


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


def test_files_are_short() -> None:
    folders = [ROOT / folder for folder in (*PACKAGES, "benchmarks", "tests")]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in (".py", ".pyi", ".cpp", ".h")]
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert {str(file.relative_to(ROOT)): lines for file, lines in lengths.items() if lines > MOST_LINES} == {}


def test_tests_are_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
