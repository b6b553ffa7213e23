"""Hydra's own machinery over our settings: launchers of several runs, `--info`, completion in the shell."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from hydra import compose as hydra_compose
from oracles import missing

from shusaku.common.errors import RunError
from shusaku.deploy.cli import main as cli
from shusaku.deploy.cli.overrides import compose_job, compose_jobs, to_config
from shusaku.deploy.cli.presets import Presets

ROOT = Path(__file__).resolve().parents[3]
QUICK = ["bench", "rules", "bench.seconds=0.1", "--json"]


def shusaku(directory: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "shusaku", *argv], cwd=directory, capture_output=True, text=True,
                          env={**os.environ, **more}, check=False)


@pytest.mark.parametrize("argv", [
    [], ["search=gumbel", "search.simulations=7"], ["game=go", "game.size=9", "game.komi=6"], ["run.dir=runs/ü b"],
    ["experiment=othello_6x6", "network=tiny", "actors.count=auto"],
    ["first.engine=gtp", "first.command=\"sh -c 'a \\ b'\"", "first.options={a: 1, b: 'y z'}"],
    ["first.search=gumbel"], ["game=open_spiel", "game.name=hex(board_size=3)"],
    ["run.dir=${oc.env:HOME}/x"], ["learner.targets=[policy,value,reply]", "learner.learning_rate=1e-4"],
])
def test_hydra_composes_the_same_configuration(argv: list[str]) -> None:
    """The overrides that a launcher gets mean what was typed."""
    job = compose_job(argv)
    with Presets().session():
        tree = hydra_compose("config", overrides=job.hydra_overrides)
    assert asdict(to_config(tree, job.config.overrides, job.config.asked)) == asdict(job.config)


def test_several_runs_follow_each_other_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*QUICK, "-m", "game=tic_tac_toe,connect_four", "+run.seed=3"]) == 0
    captured = capsys.readouterr()
    jobs = json.loads(captured.out)["jobs"]
    assert [job["game"] for job in jobs] == ["tic_tac_toe", "connect_four"]
    assert jobs[0]["overrides"] == ["bench.seconds=0.1", "game=tic_tac_toe", "+run.seed=3"]
    assert captured.err.splitlines() == ["job 1 of 2: runs/tic_tac_toe/game=tic_tac_toe",
                                         "job 2 of 2: runs/connect_four/game=connect_four"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [], "no files of Hydra's"


def test_a_run_that_fails_ends_no_other_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = []

    def measure(config: object) -> dict[str, object]:
        seeds.append(config.run.seed)  # type: ignore[attr-defined]
        if len(seeds) == 1:
            raise RunError("the first one fails")
        return {}

    monkeypatch.setattr("shusaku.deploy.bench.rules.measure_rules", measure)
    assert cli.main([*QUICK, "-m", "run.seed=1,2"]) == 1
    assert seeds == [1, 2]
    assert capsys.readouterr().err.splitlines()[-1] == "shusaku: the first one fails"


def test_a_launcher_of_others_runs_the_jobs_in_processes_of_its_own(tmp_path: Path) -> None:
    if importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is None:
        missing("hydra-joblib-launcher is missing: pip install hydra-joblib-launcher")
    presets = tmp_path / "presets" / "experiment"
    presets.mkdir(parents=True)
    body = "# @package _global_\ndefaults:\n  - override /game: othello\nexperiment: mine\n"
    (presets / "mine.yaml").write_text(body)
    done = shusaku(tmp_path, *QUICK, "-m", "--config-dir", "presets", "experiment=mine", "game.size=6,8",
                   "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    assert done.returncode == 0, done.stderr
    jobs = json.loads(done.stdout)["jobs"]
    assert [job["dir"] for job in jobs] == ["runs/mine/game.size=6", "runs/mine/game.size=8"]
    assert all(job["game"] == "othello" and job["moves_per_s"] > 0 for job in jobs)


@pytest.mark.parametrize(("words", "named"), [
    (["-m", "hydra/launcher=jobib"], "nearest: joblib"), (["hydra/launcher=basic"], "add --multirun"),
    (["-m", "hydra.launcher.n_jbs=2"], "n_jbs"), (["-m", "hydra.run.dir=x"], "nearest: run.dir"),
    (["--info", "--json", "confg=1"], "confg"), (["--info=confg"], "nearest: config"), (["--config-dir"], "DIR"),
    (["--config-dir", "nowhere"], "no such directory"), (["--config-dir", "."], "holds no preset"),
])
def test_what_hydra_does_not_know_is_one_line_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*QUICK, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert named in line


def test_info_shows_how_the_configuration_is_composed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "--info", "config", "game=go", "game.size=9", "replay.url=redis://u:pw@host"]) == 0
    shown = capsys.readouterr().out
    assert "Config search path" in shown
    assert "size: 9" in shown
    assert "redis://u:***@host" in shown
    assert "pw" not in shown
    assert cli.main(["train", "--info", "defaults-tree", "search=gumbel"]) == 0
    assert "search: gumbel" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [], "nothing is started"


@pytest.mark.parametrize(("line", "expected"), [
    ("shusaku tra", ["train"]), ("shusaku s", ["status", "scale", "submit", "stop"]),
    ("shusaku train search=gu", ["search=gumbel"]), ("shusaku train search=gumbel run.mi", ["run.minutes="]),
    ("shusaku local game.size=4 --json experiment=ches", ["experiment=chess", "experiment=chess_imitation", "experiment=chess_small"]),
    ("shusaku perft ch", []),
])
def test_completion(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, expected: list[str]
) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    assert cli.main(["-sc", "query=bash"]) == 0
    assert capsys.readouterr().out.split() == expected


def test_a_shell_completes_our_command_line(tmp_path: Path) -> None:
    """As a user sees it: the script is evaluated by bash, and its function asked."""
    bin_directory = Path(sys.executable).parent
    script = ('eval "$(shusaku --shell-completion install=bash)"; COMP_LINE="shusaku train network=ti"; COMP_CWORD=2; '
              'hydra_bash_completion; echo "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
                          env={**os.environ, "PATH": f"{bin_directory}:{os.environ['PATH']}"})
    assert done.stdout.split() == ["network=tiny"], done.stderr
    assert cli.main(["--shell-completion", "install=tcsh"]) == 2


def test_jobs_have_directories_of_their_own_with_a_preset_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "mine.yaml").write_text("policy: puct\nsimulations: 9\n")
    jobs = compose_jobs(["search=mine,gumbel", "first.search=mine"], Presets.read(str(tmp_path)))
    assert [job.config.search.simulations for job in jobs] == [9, 32]
    assert jobs[0].config.first.search["simulations"] == 9
