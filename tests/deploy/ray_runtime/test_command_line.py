"""The command line that other programs read has no secrets; our own keeps them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHOW = """
import json, pathlib, sys
import psutil
from shusaku.deploy.ray_runtime.command_line import mask_command_line
mask_command_line()
print(json.dumps([psutil.Process().cmdline(), sys.argv]))
"""


@pytest.mark.parametrize(("word", "shown"), [
    ("replay.url=redis://me:long-password@host:1/0", "replay.url=redis://me:***@host:1/0"),
    ("replay.password=long-password", "replay.password=***"),
    ("replay.url=redis://me:x@host", "replay.url=redis://me:***@host"[:len("replay.url=redis://me:x@host")]),
    ("game=go", "game=go"), ("run.dir=ü", "run.dir=ü"),
])
def test_a_secret_is_masked_for_others_only(word: str, shown: str) -> None:
    done = subprocess.run([sys.executable, "-c", SHOW, "first", word, "last"], cwd=ROOT, capture_output=True,
                          text=True, check=True)
    others, own = json.loads(done.stdout)
    assert [text.rstrip() for text in others[-3:]] == ["first", shown, "last"]
    assert own[1:] == ["first", word, "last"]
