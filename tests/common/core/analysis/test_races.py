"""ThreadSanitizer and AddressSanitizer find nothing while threads search, report, stop and advance at once."""

import shutil
import subprocess
from pathlib import Path

import pytest
from oracles import missing

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.long
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads_do_not_race(sanitizer: str, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        missing("there is no g++, which `make install` needs too")
    program = tmp_path / "races"
    command = ["g++", "-std=c++20", "-O1", "-g", f"-fsanitize={sanitizer}", "-march=native", "-ffp-contract=off",
               "-I", str(ROOT / "common" / "core"), str(Path(__file__).with_name("races.cpp")), "-o", str(program)]
    subprocess.run(command, check=True, timeout=900)
    for game, policy, leaves, rounds in (("connect_four", "puct", 4, 90), ("go", "puct", 16, 45),
                                         ("connect_four", "alphago", 4, 90), ("go", "alphago", 16, 45)):
        done = subprocess.run([program, game, policy, "3", str(leaves), str(rounds)], capture_output=True, text=True,
                              timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert int(done.stdout) > rounds
