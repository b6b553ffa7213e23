"""AlphaGo's line as one command, killed in the middle of each stage: what was done stays, what was begun goes on."""

import contextlib
import json
import lzma
import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from shusaku.common.messages import Metrics
from shusaku.common.metrics import read_metrics

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks" / "alphago_9x9.sh"
STAGES = ("records", "imitation", "rollout", "reinforce", "value", "errors", "table_0.01")
RUNS = ("imitation", "reinforce", "value")
SHORT = {"MINUTES_IMITATION": "1.5", "MINUTES_REINFORCE": "1.5", "MINUTES_VALUE": "1.5", "SECONDS_A_MOVE": "0.01",
         "PLAYERS": "rvp vp", "PAIRS": "2", "POSITIONS": "20"}
KILLED_AFTER = 66.0  # seconds of training: a checkpoint is written every 60
STAGE_SECONDS = 240.0  # that a stage may take until it is as far as it is to be killed


def is_behind_a_checkpoint(run: Path) -> bool:
    return max((line.seconds for line in metrics_of(run)), default=0.0) > KILLED_AFTER


def metrics_of(run: Path) -> list[Metrics]:
    return list(read_metrics(run / "metrics.jsonl")) if (run / "metrics.jsonl").exists() else []


def starts_of(run: Path) -> int:
    return sum("started" in json.loads(line) for line in (run / "starts.jsonl").read_text().splitlines())


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_line_goes_on_after_a_kill_in_every_stage(tmp_path: Path) -> None:
    games, line = tmp_path / "games", tmp_path / "line"
    games.mkdir()
    with lzma.open(ROOT / "tests/fixtures/gnugo_9x9.sgf.xz") as packed:
        (games / "gnugo.sgf").write_bytes(packed.read())
    variables = {**os.environ, **SHORT, "DIR": str(line), "GAMES": str(games), "BENCHMARK_RESULTS": str(tmp_path)}
    log = tmp_path / "log"

    def start() -> "subprocess.Popen[bytes]":
        with log.open("ab") as output:
            return subprocess.Popen([str(SCRIPT)], cwd=ROOT, env=variables, stdout=output, stderr=output,
                                    start_new_session=True)

    finished: dict[str, int] = {}
    for stage in STAGES:
        process, deadline = start(), time.monotonic() + STAGE_SECONDS * len(STAGES)
        earlier = STAGES[: STAGES.index(stage)]
        while not all((line / f"{name}.done").exists() for name in earlier):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        deadline = time.monotonic() + STAGE_SECONDS
        while stage in RUNS and not is_behind_a_checkpoint(line / stage):
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        time.sleep(2)
        assert not (line / f"{stage}.done").exists(), f"{stage} was over before it could be killed"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for name in earlier:
            modified = (line / f"{name}.done").stat().st_mtime_ns
            assert finished.setdefault(name, modified) == modified, f"{name} was made twice"
    last = start()
    assert last.wait(STAGE_SECONDS * 2) == 0, log.read_text()[-3000:]
    assert all((line / f"{stage}.done").exists() for stage in STAGES)
    for run in RUNS:
        assert starts_of(line / run) == 2
        seconds = [entry.seconds for entry in metrics_of(line / run)]
        assert max(seconds) < 1.5 * 60 + 20
        back = [now for before, now in pairwise(seconds) if now < before]
        assert all(second > KILLED_AFTER - 20 for second in back), "a run that was killed goes on from its checkpoint"
    assert "rvp above vp" in log.read_text()
    assert (tmp_path / "round_robin.jsonl").exists()
    assert (tmp_path / "value_error.jsonl").exists()
