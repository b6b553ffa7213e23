"""No file of ours is loaded under two names, and a user's own `common.py` or `actors.py` is none of ours."""

import json
import os
import shutil
import subprocess
import sys
import venv
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

from shusaku.deploy.run.chosen_weights import SHIPPED

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("actors", "common", "configs", "deploy", "learner", "replay")
EVERY_PROCESS = (  # what driver and workers are made of, the extension too
    "shusaku", "shusaku.common._core", "shusaku.actors.remote", "shusaku.learner.remote", "shusaku.replay.backends",
    "shusaku.deploy.api.player", "shusaku.deploy.cli.main", "shusaku.deploy.cluster.driver",
)
NETWORK = ["network.filters=8", "network.blocks=1", "search.simulations=4", "actors.games_per_actor=4"]
SMALL = [*NETWORK, "game=tic_tac_toe", "actors.count=1", "replay.minimum=20", "replay.capacity=500",
         "learner.batch_size=16", "strength.enabled=false", "rater.enabled=false", "cluster.dashboard=false"]

# Source, for a process of Ray has no tests on its path.
DOUBLES = f"""
def doubles():
    import importlib, os, sys
    for name in {EVERY_PROCESS!r}:
        importlib.import_module(name)
    names = {{}}
    for name, module in list(sys.modules.items()):
        file = getattr(module, '__file__', None)
        if file and any(os.path.realpath(file).startswith(os.path.join({str(ROOT)!r}, folder) + os.sep)
                        for folder in {FOLDERS!r}):
            names.setdefault(os.path.realpath(file), {{}})[id(module)] = name
    assert len(names) > 50, names
    return [sorted(found.values()) for found in names.values() if len(found) > 1]
"""


def find_doubles(modules: dict[str, ModuleType]) -> list[list[str]]:
    """Names of modules that are several objects of one file below our folders."""
    names: dict[str, dict[int, str]] = defaultdict(dict)
    for name, module in list(modules.items()):
        file = os.path.realpath(getattr(module, "__file__", None) or "/")
        if any(Path(file).is_relative_to(ROOT / folder) for folder in FOLDERS):
            names[file][id(module)] = name
    return [sorted(found.values()) for found in names.values() if len(found) > 1]


def test_pytest_loads_each_file_once() -> None:
    namespace: dict[str, object] = {}
    exec(DOUBLES, namespace)
    assert namespace["doubles"]() == find_doubles(sys.modules) == []  # type: ignore[operator]


def test_a_second_name_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import shusaku.common.errors as errors

    other = ModuleType("common.errors")
    other.__file__ = errors.__file__
    monkeypatch.setitem(sys.modules, "common.errors", other)
    assert find_doubles(sys.modules) == [["common.errors", "shusaku.common.errors"]]


def test_driver_and_worker_load_each_file_once(tmp_path: Path) -> None:
    """Started in the root of the checkout, where every folder could be imported by its bare name, too."""
    script = f"""{DOUBLES}
import json, ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, namespace="names")
print(json.dumps([doubles(), ray.get(ray.remote(doubles).remote())]))
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False,
                          env={**environment, "HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"}, timeout=240)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[], []]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with our wheel, which sees the other packages of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir",
             str(folder), "--config-settings", f"build-dir={folder / 'build'}", str(ROOT)]
    subprocess.run(build, check=True, cwd=folder)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    place = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], text=True,
                           capture_output=True, check=True).stdout.strip()
    packages = next(path for path in map(Path, sys.path) if (path / "ray").is_dir())
    (Path(place) / "others.pth").write_text(f"{packages}\n")  # whose own .pth files, the editable one, are not read
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    return python


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_wheel_trains_beside_files_with_the_names_of_our_folders(installed: Path, tmp_path: Path) -> None:
    for name in FOLDERS:
        (tmp_path / f"{name}.py").write_text("raise ImportError('this file is the user\\'s own')\n")
    where = "import shusaku.common._core as c; print(c.__file__)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTHON"))}
    place = subprocess.run([installed, "-c", where], cwd=tmp_path, env=environment, capture_output=True, text=True,
                           check=True)
    assert str(installed.parents[1]) in place.stdout
    done = subprocess.run([installed.parent / "shusaku", "train", *SMALL, "run.dir=run", "run.minutes=0.1", "--json"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["games"] > 0
    shutil.rmtree(tmp_path / "run")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("game", SHIPPED)
def test_the_wheel_plays_before_anything_was_trained(installed: Path, tmp_path: Path, game: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTHON"))}
    done = subprocess.run([installed.parent / "shusaku", "match", f"game={game}", "first.checkpoint=shipped",
                           "second.engine=random", "games=2", "search.simulations=8", "--json"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["wins"] == 2
    assert list(tmp_path.iterdir()) == []
