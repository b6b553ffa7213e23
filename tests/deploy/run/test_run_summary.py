"""How far a run came and how to go on, in a line; a start that is refused leaves nothing."""

from pathlib import Path

import pytest

from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.commands import train
from shusaku.deploy.ray_runtime.session import RaySession
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.deploy.run.run_summary import resume_line, totals_line


def test_a_run_that_is_used_up_says_how_to_go_on() -> None:
    assert resume_line(Path("runs/x"), 1200.0, 20.0) == (
        "the 20 minutes of runs/x are used up; go on with run.minutes=40")
    assert resume_line(Path("runs/x"), 75.0, 20.0) == "runs/x goes on: 1:15 of 20:00 are done"


def test_the_totals_of_a_run_that_was_stopped() -> None:
    totals = {"games": 1234, "rows": 5, "steps": 6}
    line = totals_line(Path("runs/x"), 61.0, 20.0, **totals)
    assert "1,234 games, 5 rows and 6 steps in 1:01 of training" in line
    assert line.endswith("the same command goes on")
    assert "stopped" not in totals_line(Path("runs/x"), 1200.0, 20.0, **totals)


def test_a_refused_start_leaves_no_run_directory(tmp_path: Path) -> None:
    config = compose([f"run.dir={tmp_path / 'runs' / 'x'}"])
    with pytest.raises(UsageError, match="no"), RunDirectory(config):
        raise UsageError("no")
    assert not (tmp_path / "runs" / "x").exists()
    with pytest.raises(RuntimeError), RunDirectory(config):
        raise RuntimeError
    assert (tmp_path / "runs" / "x" / "config.yaml").exists(), "a run that failed stays"
    with pytest.raises(UsageError, match="no"), RunDirectory(config):
        raise UsageError("no")
    assert (tmp_path / "runs" / "x" / "config.yaml").exists(), "and so does one that there was"


def test_train_says_that_a_run_is_used_up_before_ray_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = compose(["game=tic_tac_toe", f"run.dir={tmp_path}", "run.minutes=2"])
    RunDirectory(config).close()
    RunProgress(seconds=130.0).save(tmp_path)

    def start(session: RaySession) -> None:
        assert "are used up; go on with run.minutes=4.33" in " ".join(capsys.readouterr().out.split())
        raise RunError("Ray is started")

    monkeypatch.setattr(RaySession, "start", start)
    with pytest.raises(RunError, match="Ray is started"):
        train.run(config, as_json=False)
