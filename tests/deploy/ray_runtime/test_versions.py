"""A short run with each minor version of Ray that pyproject.toml accepts, in a virtual environment of its own."""

import json
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from ray_variables import environment_without_ray

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / "build" / "ray"


def accepted_minors() -> list[str]:
    """`ray>=2.59,<2.61` -> 2.59, 2.60."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (requirement,) = (text for text in project["dependencies"] if text.startswith("ray["))
    found = re.fullmatch(r"ray\[default\]>=(\d+)\.(\d+),<\1\.(\d+)", requirement)
    assert found is not None, requirement
    major, first, end = found.groups()
    return [f"{major}.{minor}" for minor in range(int(first), int(end))]


def python_with(minor: str) -> Path:
    """The interpreter of an environment with this Ray, and all other packages of ours; made once."""
    directory = CACHE / f"venv-{minor}"
    python = directory / "bin" / "python"
    if not (directory / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", directory], check=True)
        subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps",
                        f"ray=={minor}.*"], check=True)
        (packages,) = directory.glob("lib/python*/site-packages")
        ours = sysconfig.get_path("purelib")
        (packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
        (directory / "complete").touch()
    return python


def test_at_least_two_minor_versions_of_ray_are_accepted() -> None:
    assert len(accepted_minors()) >= 2


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("quiet_ray", [False, True])
@pytest.mark.parametrize("minor", accepted_minors())
def test_a_run_with_this_version(minor: str, quiet_ray: bool, tmp_path: Path) -> None:
    python = python_with(minor)
    version = subprocess.run([python, "-c", "import ray; print(ray.__version__)"], capture_output=True, text=True,
                             check=True).stdout
    assert version.startswith(f"{minor}.")
    done = subprocess.run(
        [python, "-m", "shusaku", "train", "experiment=tic_tac_toe", f"run.dir={tmp_path / 'run'}", "run.minutes=0.2",
         "search.simulations=8", "search.considered_actions=8", "strength.enabled=false",
         "rater.enabled=false", "replay.minimum=500",
         f"cluster.quiet_ray={str(quiet_ray).lower()}", "--json"],
        env=environment_without_ray(), capture_output=True, text=True, check=False, timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["games"] > 0
    assert result["steps"] > 0
    assert result["restarts"] == 0
    assert "no effect" not in done.stderr
