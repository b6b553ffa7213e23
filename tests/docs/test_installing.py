"""What the docs and `shusaku doctor` promise of installing, against the Makefile and the files of deploy/."""

import importlib.util
import os
import re
import shutil
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


# --- make install ----------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout without sources, in which `make install` has been done."""
    for name in ("Makefile", "constraints.txt", "pyproject.toml", "requirements.lock"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    for name in (".venv", "build", "common/core"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("build/built", "common/_core.cpython-311.so", ".venv/.tools", ".venv/.torch", ".venv/.installed"):
        (tmp_path / name).touch()
    return tmp_path


def commands(checkout: Path, *arguments: str) -> str:
    """What make would do."""
    variables = {name: value for name, value in os.environ.items() if name not in ("LOCKED", "MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-n", *arguments], cwd=checkout, env=variables, capture_output=True, text=True,
                          check=True, timeout=60)
    return done.stdout


def test_locked_looks_at_the_hashes_in_a_venv_that_was_made_without(checkout: Path) -> None:
    assert "pip" not in commands(checkout, "install")
    told = commands(checkout, "install", "LOCKED=1")
    # pip compares no hash of what is installed already.
    assert "install --quiet --no-deps --force-reinstall --require-hashes -r requirements.lock" in told
    assert "-c constraints.txt --editable" not in told


def test_a_locked_installation_is_one(checkout: Path) -> None:
    """`make test` after `make install LOCKED=1` installs nothing from elsewhere."""
    for name in (".tools", ".torch", ".installed"):
        (checkout / ".venv" / name).unlink()
    for line in commands(checkout, "install", "LOCKED=1").splitlines():
        if line.startswith("touch "):
            subprocess.run(line.split(), cwd=checkout, check=True)
    assert "pip" not in commands(checkout, "install", "LOCKED=1")
    assert "pip" not in commands(checkout, "install")
    (checkout / "requirements.lock").touch()
    assert "--require-hashes" in commands(checkout, "install", "LOCKED=1")


def test_clean_install_builds_the_core_again(checkout: Path) -> None:
    (checkout / ".venv" / ".installed-locked").touch()
    subprocess.run(["make", "clean"], cwd=checkout, check=True, capture_output=True, timeout=60)
    assert not (checkout / "build").exists()
    assert sorted(path.name for path in (checkout / "common").iterdir()) == ["core"]
    for locked in ("", "1"):
        assert "SHUSAKU_NATIVE=1" in commands(checkout, "install", f"LOCKED={locked}")


# --- ray up ----------------------------------------------------------------------------------------------------------


def write_wheel(folder: Path, text: str) -> None:
    """One of shusaku 0.1.0, with a file of that text."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "shusaku-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("shusaku_text.py", text)
        for name, content in (
            ("METADATA", "Metadata-Version: 2.1\nName: shusaku\nVersion: 0.1.0\n"),
            ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"), ("RECORD", ""),
        ):
            wheel.writestr(f"shusaku-0.1.0.dist-info/{name}", content)


def test_ray_up_replaces_a_wheel_of_the_same_version(tmp_path: Path) -> None:
    """Ray itself is left out of the command, and pip is that of this Python."""
    venv.create(tmp_path / ".shusaku", symlinks=True)
    (packages,) = (tmp_path / ".shusaku" / "lib").glob("python*/site-packages")
    pip = importlib.util.find_spec("pip")
    assert pip is not None
    assert pip.submodule_search_locations is not None
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "pip").symlink_to(pip.submodule_search_locations[0])
    (packages / "linked.pth").write_text(str(tmp_path / "linked"))
    setup = yaml.safe_load((ROOT / "deploy" / "ray-up.yaml").read_text(encoding="utf-8"))["setup_commands"]
    (command,) = [line for line in setup if "pip install" in line]
    command = re.sub(r'"ray\S*" ', "", command)
    for text in ("1", "2"):
        write_wheel(tmp_path / "wheels", text)
        subprocess.run(["bash", "-c", command], check=True, timeout=120, env={
            **os.environ, "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONPATH": ""})
        assert (packages / "shusaku_text.py").read_text() == text


# --- docker run ------------------------------------------------------------------------------------------------------


def test_the_containers_of_the_page_have_the_port_of_the_health_check() -> None:
    page = (ROOT / "docs" / "operations" / "launching.md").read_text(encoding="utf-8").replace("\\\n", "")
    runs = [line for line in page.splitlines() if re.match(r"docker run .* shusaku train", line)]
    assert runs
    assert all("run.http_port=9100" in line for line in runs)
