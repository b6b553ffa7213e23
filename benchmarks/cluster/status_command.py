"""A run that plays, as `shusaku status --json` of its own checkout tells; each call is a process beside the run."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def wait_for_games(shusaku: Sequence[str], run_dir: Path, process: subprocess.Popen[bytes]) -> float:
    """Seconds from the command to the first game; RuntimeError if none comes."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        state = status(shusaku, run_dir)
        if state and state["first_game_seconds"]:
            return float(state["first_game_seconds"])
        time.sleep(1)
    raise RuntimeError(f"no game was finished; exit code {process.poll()}")


def status(shusaku: Sequence[str], run_dir: Path) -> dict[str, Any]:
    """Empty while there is none."""
    done = subprocess.run([*shusaku, "status", f"run.dir={run_dir}", "--json"], capture_output=True, text=True,
                          check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else {}
