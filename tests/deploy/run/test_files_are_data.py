"""A game that a file names is data: no weights file, checkpoint or run directory makes a command import Python code."""

import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from shusaku.common.errors import UsageError
from shusaku.common.network.weights import load_weights, save_weights
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.cli.presets import Presets
from shusaku.deploy.run.saved_config import config_text, read_config

ROOT = Path(__file__).resolve().parents[3]
SMALL = ["actors.games_per_actor=4", "search.simulations=4", "replay.minimum=20", "replay.capacity=500",
         "learner.batch_size=16", "network.filters=8", "network.blocks=1", "actors.count=1", "strength.enabled=false",
         "rater.enabled=false"]
RUNS_CODE = "Path('has_run').touch()"  # what the files below would do if they were believed


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run directory of tic-tac-toe with a checkpoint."""
    run = tmp_path_factory.mktemp("files") / "run"
    code = main(["local", "game=tic_tac_toe", *SMALL, f"run.dir={run}", "run.minutes=0.02"])
    assert code == 0
    return run


@pytest.fixture
def hostile(trained, tmp_path):
    """The same, every file of which names a class whose construction runs a statement: timeit:Timer runs `setup`."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    params = {"entry": "evil:Timer", "setup": RUNS_CODE}
    for name in ("weights.safetensors", "weights_first.safetensors"):
        save_weights(run / name, replace(load_weights(run / name), game="python", params=params))
    tree = read_config(run)
    tree["game"] = {"name": "python", "params": params}
    (run / "config.yaml").write_text(config_text(tree))  # with a digest that is right again
    (run / "starts.jsonl").unlink()
    _rewrite_checkpoints(run / "checkpoints", config_text(tree))
    (tmp_path / "evil.py").write_text(f"from pathlib import Path\n{RUNS_CODE}\nclass Timer:\n    pass\n")
    return tmp_path


def _rewrite_checkpoints(directory: Path, config: str) -> None:
    """The game of every checkpoint becomes `python`, under a manifest that is right again."""
    from shusaku.learner.checkpoints import load_checkpoint, write_checkpoint

    for path in list(directory.iterdir()):
        checkpoint = load_checkpoint(path).checkpoint
        facts = {**checkpoint.facts, "game": "python", "driver": {**checkpoint.facts["driver"], "config": config}}
        write_checkpoint(directory, replace(checkpoint, facts=facts))


@pytest.mark.parametrize("name", [
    "run", "run/weights.safetensors", "run/weights_first.safetensors", "run/checkpoints", "run/checkpoints/*",
])
@pytest.mark.parametrize("command", [
    ["evaluate", "checkpoint={}"],
    ["match", "first.checkpoint={}", "second.engine=random", "games=2"],
    ["bench", "selfplay", "bench.seconds=1", "checkpoint={}"],
])
def test_no_command_imports_what_a_file_names(hostile, name, command):
    [path] = hostile.glob(name)
    argv = [part.format(path) for part in command]
    done = subprocess.run([sys.executable, "-m", "shusaku", *argv], cwd=hostile, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=120)
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.strip().splitlines()
    assert "game.entry=evil:Timer: named by a file" in line
    assert "add game=python game.entry=evil:Timer" in line
    assert not (hostile / "has_run").exists()


@pytest.mark.parametrize("command", ["doctor", "plan"])
def test_no_look_at_a_run_imports_what_it_names(hostile, command):
    """doctor reads the configuration of the run itself."""
    done = subprocess.run([sys.executable, "-m", "shusaku", command, "run.dir=run"], cwd=hostile, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=120)
    assert done.returncode in (0, 1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert not (hostile / "has_run").exists()


EVIL_GAME = "game:\n  name: python\n  params: {entry: 'evil_preset:Timer'}\n"


@pytest.fixture
def presets(tmp_path, monkeypatch):
    """A directory of presets beside a module that does something when it is imported."""
    (tmp_path / "presets" / "experiment").mkdir(parents=True)
    (tmp_path / "evil_preset.py").write_text(f"from pathlib import Path\n{RUNS_CODE}\nclass Timer:\n    pass\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "presets"


def test_a_preset_names_no_class(presets):
    """Only what is typed counts: a preset is a file like any other."""
    (presets / "experiment" / "evil.yaml").write_text(f"# @package _global_\nexperiment: evil\n{EVIL_GAME}")
    with pytest.raises(UsageError, match=r"game.entry=evil_preset:Timer: named by a file"):
        compose(["experiment=evil"], Presets.read(str(presets)))
    assert not Path("has_run").exists()


def test_the_configuration_of_a_run_names_no_class(presets):
    (presets / "config.yaml").write_text(f"{EVIL_GAME}run:\n  minutes: 3\n")
    with pytest.raises(UsageError, match=r"game.entry=evil_preset:Timer: named by a file"):
        compose([f"config={presets / 'config.yaml'}"])
    assert not Path("has_run").exists()


@pytest.mark.parametrize("body", [
    "hydra:\n  job_logging:\n    handlers:\n      evil: {class: evil_preset.Timer}\n",
    "hydra:\n  launcher: {_target_: evil_preset.Timer}\n", "hydra:\n  callbacks: {e: {_target_: evil_preset.Timer}}\n",
    "hydra:\n  job: {env_set: {PYTHONPATH: here}}\n",
])
def test_a_preset_says_nothing_of_hydra(presets, body, capsys):
    """What stands below `hydra` may name code that Hydra would run."""
    (presets / "experiment" / "evil.yaml").write_text(f"# @package _global_\nexperiment: evil\n{body}")
    for more in ([], ["--multirun"], ["--info"], ["--cfg", "job"]):
        assert main(["local", "--config-dir", str(presets), "experiment=evil", *more]) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert "a preset sets hydra." in line
    assert not Path("has_run").exists()


def test_a_file_does_not_trust_itself(presets, capsys):
    """`trust: true` in a file is an unknown setting."""
    (presets / "experiment" / "evil.yaml").write_text(
        f"# @package _global_\nexperiment: evil\ntrust: true\n{EVIL_GAME}")
    (presets / "config.yaml").write_text(f"trust: true\n{EVIL_GAME}")
    for words in (["--config-dir", str(presets), "experiment=evil"], [f"config={presets / 'config.yaml'}"]):
        assert main(["local", *words]) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert "trust" in line
    assert not Path("has_run").exists()
    assert main(["local", "trust=perhaps"]) == 2
    assert capsys.readouterr().err == "shusaku: trust=perhaps: must be true or false\n"


def test_a_preset_that_is_no_yaml_is_one_line(presets, capsys):
    (presets / "experiment" / "evil.yaml").write_text("first: {a: 'b' c}\n")
    assert main(["match", "--config-dir", str(presets), "experiment=evil"]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "evil.yaml" in line


@pytest.mark.parametrize("words", [["--config-dir", "presets", "experiment=evil"], ["config=presets/config.yaml"]])
def test_a_file_names_no_program(presets, words, capsys):
    """The command of an engine is run, so it must be typed."""
    player = "first: {engine: gtp, command: touch has_run}\n"
    (presets / "experiment" / "evil.yaml").write_text(f"# @package _global_\nexperiment: evil\n{player}")
    (presets / "config.yaml").write_text(f"game: {{name: tic_tac_toe}}\n{player}")
    assert main(["match", *words, "second.engine=random", "games=2"]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "first.command: named by a file" in line
    assert "add first.command='" in line
    assert not Path("has_run").exists()


def test_a_class_that_is_no_game_is_not_constructed(tmp_path, monkeypatch, capsys):
    """Even one that is typed: its methods are checked first."""
    (tmp_path / "no_game.py").write_text(
        f"from pathlib import Path\nclass Timer:\n    def __init__(self):\n        {RUNS_CODE}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for entry in ("no_game:Timer", "timeit:Timer"):
        assert main(["local", "game=python", f"game.entry={entry}"]) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert f"game.entry={entry}: Timer has no method start()" in line
    assert not Path("has_run").exists()


def test_a_process_of_a_launcher_obeys_the_command_line(presets):
    """What the user trusts travels with the configuration that the driver composed, in no file."""
    code = ("import pickle, sys\nfrom shusaku.deploy.cli.overrides import to_config\n"
            "tree, asked = pickle.load(sys.stdin.buffer)\nconfig = to_config(tree, [], asked)\n"
            "from shusaku.common._core import Game\nGame(config.game.name, config.game.params)\n")
    (presets / "config.yaml").write_text(EVIL_GAME)
    tree = Presets().compose(["game=python", "++game.params={entry: 'evil_preset:Timer'}"])
    for asked, has_run in ((frozenset(), False), (frozenset({"trust"}), True), (frozenset({"game.entry"}), True)):
        done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps((tree, asked)), capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=120)
        assert (b"named by a file" in done.stderr) == (not has_run), done.stderr
        assert Path("has_run").exists() == has_run
        Path("has_run").unlink(missing_ok=True)


def test_a_class_that_is_typed_is_imported(trained, tmp_path):
    """The same files are believed as soon as the user names the class: the way out that the refusal gives works."""
    shutil.copy(ROOT / "docs" / "examples" / "gomoku.py", tmp_path)
    gomoku = ["game=python", "game.entry=gomoku:Gomoku"]

    def shusaku(*argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, "-m", "shusaku", *argv], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=120)

    size = ["game.size=4", "game.row=3"]
    trains = shusaku("local", *gomoku, *size, *SMALL, "run.dir=run", "run.minutes=0.02")
    assert trains.returncode == 0, trains.stderr
    match = ["match", "first.checkpoint=run", "second.engine=random", "games=2", "first.search.simulations=4"]
    refused, played, trusted = shusaku(*match), shusaku(*match, *gomoku), shusaku(*match, "trust=true")
    assert (refused.returncode, played.returncode) == (2, 0), played.stderr
    assert trusted.returncode == 0, trusted.stderr
    again = shusaku("local", "config=run/config.yaml", "run.dir=run", "run.minutes=0.03")
    assert again.returncode == 2
    assert "add game=python game.entry=gomoku:Gomoku to this command, or trust=true" in again.stderr
    assert "add game=python game.entry=gomoku:Gomoku" in refused.stderr
