"""What fails beside other tests is run again alone, as `make test` does: in a group, too, whose name xdist adds."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FAILS = """
def test_fails():
    assert False

def test_passes():
    pass
"""


@pytest.mark.parametrize("folder", ["deploy/cli", "deploy/cluster", "common"])
def test_only_what_has_failed_is_run_again(folder: str, tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    (tests / folder).mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "conftest.py", tests)
    (tests / folder / "test_one.py").write_text(FAILS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*options: str) -> str:
        return subprocess.run([sys.executable, "-m", "pytest", *options, "tests"], cwd=tmp_path, capture_output=True,
                              text=True, check=False).stdout

    assert "1 failed, 1 passed" in run("-n", "1", "--dist", "loadgroup")
    again = run("--last-failed", "--last-failed-no-failures", "none")
    assert "1 failed" in again
    assert "passed" not in again
