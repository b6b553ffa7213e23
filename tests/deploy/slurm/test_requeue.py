"""deploy/slurm/shusaku.sbatch on real SLURM, two machines of namespaces: the time limit costs nothing."""

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from slurm_machines import SlurmMachines

from shusaku.learner.checkpoints import newest_step

SCRIPT = Path(__file__).resolve().parents[3] / "deploy" / "slurm" / "shusaku.sbatch"
SAVE_S = 10.0  # from the signal to the checkpoint
# The only checkpoints are those of a stop.
WORDS = ("experiment=tic_tac_toe", "run.minutes=30", "run.checkpoint_seconds=3000", "actors.count=2", "actors.cpus=0.5",
         "actors.games_per_actor=8", "search.simulations=8", "search.considered_actions=8", "strength.enabled=false",
         "rater.enabled=false", "cluster.dashboard=false", "replay.minimum=500", "inference.precision=fp32")


@pytest.fixture
def slurm() -> Iterator[SlurmMachines]:
    machines = SlurmMachines()
    yield machines
    machines.close()


def until(condition: Callable[[], bool], seconds: float, log: Path) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, log.read_text() if log.exists() else "the job has not begun"
        time.sleep(0.5)


def moment(line: str) -> float:
    """Seconds since 1970 at which the script wrote the line."""
    found = re.search(r"(\S+)Z: ", line)
    assert found is not None
    return datetime.fromisoformat(f"{found[1]}+00:00").timestamp()


@pytest.mark.nodes
@pytest.mark.timeout(900)
def test_the_job_saves_before_its_limit_and_goes_on_in_the_queue(slurm: SlurmMachines) -> None:
    log, run_dir = slurm.shared / "job.log", slurm.shared / "run"
    words = (*WORDS, f"run.dir={run_dir}")

    def text() -> str:
        return log.read_text(errors="replace") if log.exists() else ""

    def status() -> dict[str, Any]:
        done = slurm.run("shusaku", "status", *words, "--json", seconds=120.0)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
        return found

    sent = slurm.run("sbatch", "--parsable", "--time=4", f"--output={log}", f"--chdir={slurm.shared}", str(SCRIPT),
                     *words)
    assert sent.returncode == 0, sent.stderr
    job = sent.stdout.strip()
    until(lambda: "back to the queue" in text(), 300, log)
    [signalled] = [line for line in text().splitlines() if "the time limit is near" in line]
    saved = newest_step(run_dir / "checkpoints")
    assert saved > 0, text()
    [checkpoint] = (run_dir / "checkpoints").glob(f"*{saved}")
    assert 0 < checkpoint.stat().st_mtime - moment(signalled) < SAVE_S
    until(lambda: "start 2 on machine[0-1]" in text(), 120, log)
    until(lambda: bool(status()), 240, log)
    until(lambda: status().get("status", {"step": 0})["step"] > saved, 120, log)
    assert f"learning goes on after {saved:,} steps" in text().split("start 2 on", 1)[1]
    assert text().count("On worker node. Connecting to Ray cluster") == 2
    ended = slurm.run("scancel", "--batch", "--signal=TERM", job)
    assert ended.returncode == 0, ended.stderr
    until(lambda: not slurm.run("squeue", "--noheader", "--job", job).stdout.strip(), 120, log)
    assert "asked to end: saving" in text()
    assert newest_step(run_dir / "checkpoints") > saved
    assert "start 3" not in text()
