"""A run directory is locked, remembers how it was started, and refuses what cannot be resumed in it."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from shusaku.common.config.search import GumbelConfig, PuctConfig, SearchConfig
from shusaku.common.errors import ResumeError, UsageError
from shusaku.common.messages import Metrics
from shusaku.common.metrics import MetricsSink
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.run.chosen_weights import search_of_run
from shusaku.deploy.run.composed_config import ComposedConfig
from shusaku.deploy.run.plots import plot_strength
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.saved_config import config_text, read_config


def config(path: Path, *argv: str) -> ComposedConfig:
    return compose([f"run.dir={path}", *argv])


def test_it_keeps_what_it_was_started_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUSAKU_TEST_HOME", str(tmp_path))
    asked = compose(["run.dir=${oc.env:SHUSAKU_TEST_HOME}/run", "run.seed=7", "checkpoint=http://u:pw@host/file"])
    with RunDirectory(asked) as run:
        assert run.path == tmp_path / "run"
        assert not run.is_resumed
    text = (run.path / "config.yaml").read_text()
    assert "${oc.env:SHUSAKU_TEST_HOME}/run" in text
    start = json.loads((run.path / "starts.jsonl").read_text())
    assert start["seed"] == 7
    assert start["overrides"][1:] == ["run.seed=7", "checkpoint=http://u:***@host/file"]
    assert start["packages"]["numpy"]
    assert set(start) >= {"started", "git", "python", "machine"}
    assert "pw" not in text


@pytest.mark.parametrize("has_begun", [False, True])
def test_only_a_start_that_is_refused_leaves_no_directory(tmp_path: Path, has_begun: bool) -> None:
    """Hours later a GPU may be gone, or a user's game break its contract: also a UsageError, and nothing is lost."""
    path = tmp_path / "run"

    def start(has_begun: bool) -> None:
        with RunDirectory(compose([f"run.dir={path}"])) as directory:
            (path / "weights.safetensors").write_bytes(b"learned for hours")
            if has_begun:
                directory.keep()
            raise UsageError("the GPU is gone")

    for begins in (has_begun, False):
        with pytest.raises(UsageError, match="gone"):
            start(begins)
        assert (path / "weights.safetensors").exists() == has_begun


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with RunDirectory(config(tmp_path)), pytest.raises(UsageError, match=f"in use by process {os.getpid()}"):
        RunDirectory(config(tmp_path))
    RunDirectory(config(tmp_path)).close()


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    script = (
        "import os, sys; from shusaku.deploy.cli.overrides import compose\n"
        "from shusaku.deploy.run.run_directory import RunDirectory\n"
        "run = RunDirectory(compose([f'run.dir={sys.argv[1]}'])); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    with RunDirectory(config(tmp_path)) as run:
        assert run.is_resumed


@pytest.mark.parametrize("folder", [".", "rated"])
def test_a_process_that_was_killed_while_it_wrote_leaves_nothing_for_long(tmp_path: Path, folder: str) -> None:
    written = tmp_path / folder
    written.mkdir(exist_ok=True)
    script = (
        "import os, sys; from pathlib import Path; from shusaku.common import durable_files\n"
        "durable_files.os.replace = lambda *paths: os.kill(os.getpid(), 9)\n"
        "durable_files.write_atomically(Path(sys.argv[1], 'progress.json'), b'{}')"
    )
    subprocess.run([sys.executable, "-c", script, str(written)], check=False)
    assert [path.name.rpartition(".")[0].rstrip("0123456789") for path in written.iterdir()] == [".progress.json."]
    under_way = written / f".elo.json.{os.getpid()}.part"  # of a program that writes beside the run
    under_way.touch()
    with RunDirectory(config(tmp_path)):
        assert [path.name for path in written.glob("*.part")] == [under_way.name]


def test_resuming_notes_what_differs(tmp_path: Path) -> None:
    RunDirectory(config(tmp_path, "run.minutes=1", "search.simulations=64")).close()
    with RunDirectory(config(tmp_path, "run.minutes=2", "bench.seconds=3", "search.simulations=32")) as run:
        assert run.is_resumed
        assert len(run.notes) == 1
        assert run.notes[0].endswith("run.minutes 1.0 -> 2.0, search.simulations 64 -> 32")
    with RunDirectory(config(tmp_path, "run.minutes=2", "search.simulations=32")) as run:
        assert run.notes == []


def test_a_parameter_of_the_rules_at_its_default_may_be_named_or_left_out(tmp_path: Path) -> None:
    RunDirectory(config(tmp_path, "game=go", "game.size=5")).close()
    with RunDirectory(config(tmp_path, "game=go", "game.size=5", "game.planes=zero")) as run:
        assert run.is_resumed
        assert run.notes == []
    with RunDirectory(config(tmp_path, "game=go", "game.size=5")) as run:
        assert run.notes == []
    with pytest.raises(UsageError, match=r"game.params.planes 'zero' -> 'liberties'"):
        RunDirectory(config(tmp_path, "game=go", "game.size=5", "game.planes=liberties"))


def test_a_parameter_that_is_left_out_may_depend_on_the_others(tmp_path: Path) -> None:
    """The komi is 7 on 9 x 9, and 7.5 on larger boards."""
    RunDirectory(config(tmp_path, "game=go", "game.size=9")).close()
    with RunDirectory(config(tmp_path, "game=go", "game.size=9", "game.komi=7")) as run:
        assert run.notes == []
    with pytest.raises(UsageError, match=r"game.params.komi 7.0 -> 7.5"):
        RunDirectory(config(tmp_path, "game=go", "game.size=9", "game.komi=7.5"))


def test_a_run_of_an_older_program_had_the_defaults_of_what_it_did_not_know(tmp_path: Path) -> None:
    RunDirectory(config(tmp_path, "search=puct")).close()
    path = tmp_path / "config.yaml"
    lines = path.read_text().splitlines()
    new = ("average_symmetries", "lcb_stdevs", "sha256")
    path.write_text("\n".join(line for line in lines if not any(word in line for word in new)))
    (tmp_path / "starts.jsonl").unlink()
    with RunDirectory(config(tmp_path, "search=puct", "search.lcb_stdevs=4")) as run:
        assert len(run.notes) == 1
        assert run.notes[0].endswith("settings that differ from the last start: search.lcb_stdevs 5.0 -> 4.0")


OLD_RUNS = [
    ("gumbel_at_1e2d214.yaml", [  # the preset as it was then
        "experiment=connect_four", "learner.targets=[policy,value]", "learner.root_value_share=0",
        "learner.value_lambda=0", "learner.schedule=constant", "learner.learning_rate=0.002",
        "learner.max_grad_norm=4", "learner.soft_policy_weight=8", "search.proven_results=false",
        "search.solved_empties=0", "self_play.solved_empties=-1"],
     GumbelConfig(simulations=32, value_scale=0.5, rescale_values=False)),
    ("katago_at_1e2d214.yaml", ["game=tic_tac_toe", "search=katago", "search.reuse=true", "search.simulations=32"],
     PuctConfig(simulations=32, c_puct=1.1, dirichlet_total=10.83, root_policy_temperature=1.1,
                root_policy_temperature_early=1.25, root_policy_temperature_half_life=19.0, forced_playouts=2.0,
                prune_policy=True, temperature=0.75, temperature_half_life=19.0, temperature_final=0.15,
                temperature_plies=1_000_000, reuse=True)),
]


@pytest.mark.parametrize(("file", "argv", "search"), OLD_RUNS)
def test_a_run_that_was_saved_with_the_settings_of_all_policies_goes_on(
    tmp_path: Path, file: str, argv: list[str], search: SearchConfig
) -> None:
    """Its config.yaml is of commit 1e2d214, where the section search had the settings of every policy."""
    shutil.copy(Path(__file__).parent / file, tmp_path / "config.yaml")
    saved = read_config(tmp_path)
    assert "c_uct" not in saved["search"]
    assert search_of_run(saved, compose(["checkpoint=elsewhere"])) == search
    assert search_of_run(saved, compose(["checkpoint=elsewhere", "search.cache=5"])) == replace(search, cache=5)
    assert search_of_run(saved, compose(["checkpoint=elsewhere", "search=mcts"])).policy == "mcts"
    asked = config(tmp_path, *argv)
    assert asked.search == search
    with RunDirectory(asked) as run:
        assert run.is_resumed
        assert run.notes == []


def test_the_order_of_the_targets_changes_nothing(tmp_path: Path) -> None:
    RunDirectory(config(tmp_path, "learner.targets=[policy,value,reply]")).close()
    with RunDirectory(config(tmp_path, "learner.targets=[reply,value,policy]")) as run:
        assert run.notes == []


@pytest.mark.parametrize(("override", "difference"), [
    ("game=tic_tac_toe", "game.name 'connect_four' -> 'tic_tac_toe'"),
    ("network.blocks=9", "network.blocks"),
])
def test_other_shapes_are_refused_and_named(tmp_path: Path, override: str, difference: str) -> None:
    RunDirectory(config(tmp_path, "game=connect_four")).close()
    before = (tmp_path / "config.yaml").read_text()
    with pytest.raises(UsageError) as error:
        RunDirectory(config(tmp_path, override))
    assert difference in str(error.value)
    assert "choose another run.dir" in str(error.value)
    assert (tmp_path / "config.yaml").read_text() == before
    RunDirectory(config(tmp_path, "game=connect_four")).close()


def test_never_resume_refuses_a_directory_that_holds_a_run(tmp_path: Path) -> None:
    RunDirectory(config(tmp_path, "run.resume=never")).close()
    with pytest.raises(UsageError, match=r"run\.resume=never"):
        RunDirectory(config(tmp_path, "run.resume=never"))


DAMAGED = ["", "a: [", "- 1", "a: b: c", "game: 1", "a: 1\n# sha256 0"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_configuration_is_taken_from_the_last_start(tmp_path: Path, text: str) -> None:
    with RunDirectory(config(tmp_path, "run.minutes=3")) as run:
        before = (run.path / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UsageError, match="holds a run with another game"):
        RunDirectory(config(tmp_path, "game=tic_tac_toe"))
    with RunDirectory(config(tmp_path, "run.minutes=3")) as run:
        assert len(run.notes) == 1
        assert "config.yaml is damaged" in run.notes[0]
        assert "taken from starts.jsonl" in run.notes[0]
    assert (tmp_path / "config.yaml").read_text() == before


@pytest.mark.parametrize("text", DAMAGED)
def test_a_configuration_that_nothing_else_tells_is_named(tmp_path: Path, text: str) -> None:
    RunDirectory(config(tmp_path)).close()
    (tmp_path / "config.yaml").write_text(text)
    (tmp_path / "starts.jsonl").write_bytes(b"\0" * 100)
    with pytest.raises(UsageError, match=r"config\.yaml is damaged.*put a good copy there"):
        RunDirectory(config(tmp_path))


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose a directory that can be written"):
        RunDirectory(config(tmp_path / "file" / "run"))


def test_the_saved_configuration_is_data(tmp_path: Path) -> None:
    RunDirectory(config(tmp_path)).close()
    path = tmp_path / "config.yaml"
    path.write_text(config_text({**read_config(tmp_path), "experiment": "${oc.env:HOME}"}))
    assert read_config(tmp_path)["experiment"] == "${oc.env:HOME}"


def test_numbers_are_saved_as_numbers_and_texts_as_they_were_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMS", "24")
    monkeypatch.setenv("WHERE", "here")
    words = ["experiment=connect_four", f"run.dir={tmp_path}", "search.simulations=${oc.env:SIMS}",
             "network.filters=${oc.env:SIMS}", "run.name=${oc.env:WHERE}"]
    RunDirectory(compose(words)).close()
    saved = read_config(tmp_path)
    assert (saved["search"]["simulations"], saved["network"]["filters"]) == (24, 24)
    assert saved["run"]["name"] == "${oc.env:WHERE}"
    assert search_of_run(saved, compose([])).simulations == 24


@pytest.mark.parametrize(("saved", "asked", "is_refused"), [
    ("adamw", "sgd", True), ("adamw", "adam", False), ("sgd", "muon", True), ("sgd", "sgd", False),
])
def test_another_optimizer_is_refused_before_anything_is_written(
    tmp_path: Path, saved: str, asked: str, is_refused: bool
) -> None:
    def open_with(optimizer: str) -> None:
        RunDirectory(compose(["experiment=connect_four", f"run.dir={tmp_path}", "learner.momentum=0.9",
                              f"learner.optimizer={optimizer}"])).close()

    open_with(saved)
    open_with(asked)  # there is no checkpoint yet
    open_with(saved)
    (tmp_path / "checkpoints" / "000000100").mkdir(parents=True)
    (tmp_path / "checkpoints" / "000000100" / "manifest.json").write_text("{}")
    before = (tmp_path / "config.yaml").read_text()
    if is_refused:
        with pytest.raises(UsageError, match=rf"another .*optimizer.* \(learner\.optimizer '{saved}' -> '{asked}'\)"):
            open_with(asked)
        assert (tmp_path / "config.yaml").read_text() == before
    else:
        with pytest.raises(ResumeError, match="no checkpoint"):  # this one is none; the settings were taken
            open_with(asked)


def test_strength_over_time_is_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "strength.png"
    plot_strength(tmp_path / "metrics.jsonl", picture, {}, "connect four")
    assert not picture.exists()
    with closing(MetricsSink(tmp_path)) as sink:
        for minute, share in enumerate((0.4, 0.6, 0.7)):
            values = {"policy.optimal": share, "search_64.optimal": share + 0.1, "other": 3.0}
            sink.write(Metrics(minute * 100, minute * 60.0, "strength", values))
        sink.write(Metrics(300, 180.0, "final_strength", {"policy.optimal": 0.72, "search_400.optimal": 0.9}))
    plot_strength(tmp_path / "metrics.jsonl", picture, {"random": 0.31, "UCT-400": 0.87}, "connect four")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert not list(tmp_path.glob("*.new"))
