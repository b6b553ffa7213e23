"""Each target of tests/fuzz/fuzz_bytes.py holds for its seeds and their damaged copies; atheris runs a minute each."""

import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_bytes import TARGETS
from oracles import missing

PROGRAM = Path(__file__).with_name("fuzz_bytes.py")


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_damaged_seeds(name: str) -> None:
    target, rng = TARGETS[name](), random.Random(1)
    for seed in target.seeds:
        target.read(seed)
        for _ in range(200):
            data = bytearray(seed)
            for _ in range(rng.randrange(1, 4)):
                place = rng.randrange(len(data) + 1)
                if rng.random() < 0.3:
                    del data[place:]
                else:
                    data[place:place + rng.randrange(2)] = rng.randbytes(rng.randrange(4))
            target.read(bytes(data))
    for size in range(64):
        target.read(rng.randbytes(size))


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_a_minute_of_fuzzing(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        missing("atheris is not installed: pip install -c constraints.txt atheris")
    done = subprocess.run([sys.executable, PROGRAM, name, "-max_total_time=60", f"-artifact_prefix={tmp_path}/"],
                          capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done " in done.stderr, done.stderr[-1000:]
