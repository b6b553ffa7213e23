"""What deploy/slurm/shusaku.sbatch does at each signal, with programs in the place of SLURM, Ray and Shusaku."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "deploy" / "slurm" / "shusaku.sbatch"
PROGRAMS = {
    "hostname": 'echo "10.9.8.7 172.17.0.1 "',
    "ray": 'exit "${TOKEN_CODE:-0}"',
    "scontrol": 'echo 9 > "$FOLDER/over"',  # which ends the job
    "srun": 'until [ -e "$FOLDER/over" ]; do sleep 0.05; done; exit "$(cat "$FOLDER/over")"',
    "shusaku": 'if [ -e "$FOLDER/no-run" ]; then exit 2; fi; echo 0 > "$FOLDER/over"',
}
WORDS = ["run.dir=/shared/my runs", "experiment=tic_tac_toe"]


class Job:
    def __init__(self, folder: Path, **variables: str) -> None:
        self._folder = folder
        (folder / "bin").mkdir()
        for name, text in PROGRAMS.items():
            program = folder / "bin" / name
            call = 'printf "%s " "${0##*/}" >> "$FOLDER/calls"; printf "[%s]" "$@" >> "$FOLDER/calls"'
            program.write_text(f'#!/bin/bash\n{call}; echo >> "$FOLDER/calls"\n{text}\n')
            program.chmod(0o755)
        self.process = subprocess.Popen(
            ["bash", str(SCRIPT), *WORDS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "FOLDER": str(folder), "SLURM_JOB_ID": "31234",
                 "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": "2", **variables})

    def calls(self) -> list[str]:
        path = self._folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def until_training(self) -> None:
        deadline = time.monotonic() + 20
        while not any(call.startswith("srun") for call in self.calls()):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=20)
        return self.process.returncode, output


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def begin(**variables: str) -> Job:
        jobs.append(Job(tmp_path, **variables))
        return jobs[-1]

    yield begin
    (tmp_path / "over").write_text("0")
    for job in jobs:
        job.process.kill()
        job.process.wait()


def test_the_training_gets_the_words_as_they_are_and_its_code_is_that_of_the_job(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start(HEAD_ADDRESS="10.1.1.1", SLURM_RESTART_COUNT="2")
    job.until_training()
    (tmp_path / "over").write_text("3")
    code, output = job.end()
    assert code == 3
    assert "start 3 on n[1-2], Ray at 10.1.1.1:21234" in output
    [call] = [call for call in job.calls() if call.startswith("srun")]
    assert "[symmetric-run][--address][10.1.1.1:21234][--min-nodes][2]" in call
    assert call.endswith("[--][shusaku][train][run.dir=/shared/my runs][experiment=tic_tac_toe]")


def test_near_the_limit_it_saves_and_then_goes_back_to_the_queue(start: Callable[..., Job]) -> None:
    job = start()
    job.until_training()
    os.kill(job.process.pid, signal.SIGUSR1)
    code, output = job.end()
    assert code == 0
    assert "Ray at 10.9.8.7:21234" in output
    assert job.calls()[-2:] == ["shusaku [stop][run.dir=/shared/my runs][experiment=tic_tac_toe]",
                                "scontrol [requeue][31234]"]


def test_a_run_that_has_not_begun_goes_back_to_the_queue_as_well(start: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "no-run").touch()
    job = start()
    job.until_training()
    os.kill(job.process.pid, signal.SIGUSR1)
    assert "no run had begun" in job.end()[1]
    assert job.calls()[-1] == "scontrol [requeue][31234]"


def test_a_job_that_is_asked_to_end_saves_and_stays_out_of_the_queue(start: Callable[..., Job]) -> None:
    job = start()
    job.until_training()
    os.kill(job.process.pid, signal.SIGTERM)
    assert job.end()[0] == 143
    assert job.calls()[-1].startswith("shusaku [stop]")


def test_without_a_token_nothing_starts(start: Callable[..., Job]) -> None:
    job = start(TOKEN_CODE="1")
    assert job.end()[0] == 1
    assert not any(call.startswith("srun") for call in job.calls())
