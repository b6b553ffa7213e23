"""game=open_spiel and game=python through the commands: what they mean, run and refuse."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from shusaku.common.errors import UsageError
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose, compose_jobs
from shusaku.deploy.run.chosen_weights import choose_weights

ROOT = Path(__file__).resolve().parents[3]
GOMOKU = ["game=python", "game.entry=gomoku:Gomoku"]
SMALL = [
    "game.size=4", "game.row=3", "actors.games_per_actor=8", "search.simulations=8",
    "replay.minimum=100", "replay.capacity=2000", "learner.batch_size=32", "network.filters=8", "network.blocks=1",
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory with gomoku.py in it."""
    shutil.copy(ROOT / "docs" / "examples" / "gomoku.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "gomoku", raising=False)
    return tmp_path


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def shusaku(capsys):
    """The command, given in that directory."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        return Done(code, *capsys.readouterr())

    return run


def refusal(*argv: str) -> str:
    with pytest.raises(UsageError) as error:
        compose(argv)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("value", "name", "directory"), [
    ("breakthrough", "breakthrough", "runs/open_spiel-breakthrough"),
    ("hex(board_size=5)", "hex(board_size=5)", "runs/open_spiel-hex-board_size-5"),
    ("'hex(board_size=5)'", "hex(board_size=5)", "runs/open_spiel-hex-board_size-5"),
    ("mnk(m=4,n=4,k=3)", "mnk(m=4,n=4,k=3)", "runs/open_spiel-mnk-m-4-n-4-k-3"),
])
def test_an_open_spiel_game_is_named_as_it_names_it(value, name, directory):
    config = compose(["game=open_spiel", f"game.name={value}", "run.minutes=1"])
    assert (config.game.name, config.game.params) == ("open_spiel", {"name": name})
    assert (config.experiment, config.run.dir) == ("", directory)
    assert compose(["game=open_spiel", "game.name=chess", "game.max_plies=50"]).game.params["max_plies"] == 50
    assert compose(["game.name=open_spiel", "game.params.name=hex"]).game.params == {"name": "hex"}


def test_several_games_make_several_runs():
    jobs = [job.config for job in compose_jobs(["game=open_spiel", "game.name=breakthrough,clobber"])]
    assert [job.game.params["name"] for job in jobs] == ["breakthrough", "clobber"]
    named = "game.name=hex(board_size=3),hex(board_size=4,swap=True),nim"
    jobs = [job.config for job in compose_jobs(["game=open_spiel", named])]
    assert [job.game.params["name"] for job in jobs] == ["hex(board_size=3)", "hex(board_size=4,swap=True)", "nim"]
    assert len({job.run.dir for job in jobs}) == 3


def test_a_python_game_takes_its_own_parameters(here):
    config = compose([*GOMOKU, "game.size=6"])
    assert config.game.params == {"entry": "gomoku:Gomoku", "size": 6}
    assert config.run.dir == "runs/python-gomoku-Gomoku"


@pytest.mark.parametrize(("argv", "words"), [
    (["game=open_spiell"], "nearest: open_spiel"),
    (["game=open_spiel"], "needs game.name=...: as pyspiel.load_game takes it"),
    (["game=open_spiel", "game.name=breaktrough"], "nearest: breakthrough"),
    (["game=open_spiel", "game.nam=hex"], "nearest: name"),
    (["game=open_spiel", "game.name=hex", "game.max_plies=many"], "a whole number"),
    (["game=open_spiel", "game.name=hex(bord_size=5)"], "hex has no parameter bord_size"),
    (["game=open_spiel", "game.name=kuhn_poker"], "information is IMPERFECT_INFORMATION"),
    (["game.name=breakthrough"], "game=open_spiel game.name=breakthrough"),
    (["game=python"], "needs game.entry=...: module:Class"),
    (["game.entry=gomoku:Gomoku"], "add game=python"),
    (["game=python", "game.entry=gomoko:Gomoku"], "nearest: gomoku.py"),
    (["game=python", "game.entry=gomoku:Gomok"], "nearest: Gomoku"),
    ([*GOMOKU, "search=puct", "search.graph=true"], "add the method or use search.graph=false"),
    ([*GOMOKU, "game.siez=9"], "nearest: size; there are entry, size, row"),
    ([*GOMOKU, "game.size=9.5"], "a whole number, such as its default 9"),
    ([*GOMOKU, "game.size=99"], "Gomoku(size=99, row=5) raised ValueError: row must lie"),
    (["game=tic_tac_toe", "game.entry=gomoku:Gomoku"], "tic_tac_toe has no parameters"),
])
def test_one_wrong_word_is_named_with_the_way_out(here, argv, words):
    assert words in refusal(*argv)
    assert not (here / "runs").exists()


def test_local_trains_resumes_and_its_weights_know_the_game(here, shusaku):
    command = ["local", *GOMOKU, *SMALL, "actors.count=2"]
    done = shusaku(*command, "run.minutes=0.1", "--json")
    assert done.returncode == 0, done.stderr
    run = here / "runs" / "python-gomoku-Gomoku"
    figures = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert figures[-1]["step"] > 0
    chosen = choose_weights(compose([f"checkpoint={run}"]))
    assert (chosen.game.name, chosen.game.params["size"]) == ("python", 4)
    chosen = choose_weights(compose([f"checkpoint={run / 'weights.safetensors'}"]))
    assert chosen.weights.params == {"entry": "gomoku:Gomoku", "size": 4, "row": 3}

    again = shusaku(*command, "run.minutes=0.2")
    assert again.returncode == 0, again.stderr
    assert re.search(r"goes on: 0:0\d of 0:12 are done", again.stdout + again.stderr)
    other = shusaku(*command, "game.row=4", "run.minutes=1")
    assert other.returncode == 2
    assert "game.params.row 3 -> 4" in other.stderr


def test_a_game_that_breaks_while_it_trains_is_one_line(here, shusaku):
    text = (here / "gomoku.py").read_text().replace("stones[action] = b", "stones[action + (state.ply > 3) * 99] = b")
    (here / "gomoku.py").write_text(text)
    done = shusaku("local", *GOMOKU, *SMALL, "run.minutes=1")
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("shusaku: game.entry=gomoku:Gomoku: play(state, ")
    assert "raised IndexError: bytearray index out of range (gomoku.py, line" in last
    assert "from the start after the actions" in last


def test_check_says_what_holds_and_what_does_not(here, shusaku):
    done = shusaku("games", "check", "open_spiel:dots_and_boxes", "--games", "3", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["game"], result["games"]) == ("open_spiel", 3)
    assert all(row["violation"] is None and row["is_checked"] for row in result["rules"])

    (here / "gomoku.py").write_text((here / "gomoku.py").read_text().replace("% self.size)}", "% 2)}"))
    params = ["--param", "entry=gomoku:Gomoku", "--param", "size=5"]
    done = shusaku("games", "check", "python", *params, "--games", "2")
    assert done.returncode == 1
    assert "breaks 1 of 14 rules" in done.stderr
    assert "BROKEN  the moves of a position differ" in done.stdout
    as_json = shusaku("games", "check", "gomoku:Gomoku", "--games", "1", "--json")
    assert as_json.returncode == 1
    rows = {row["rule"]: row["violation"] for row in json.loads(as_json.stdout)["rules"]}
    assert "actions are called" in rows.pop("moves")
    assert set(rows.values()) == {None}


@pytest.mark.parametrize(("argv", "words"), [
    (["games", "check"], "the following arguments are required: NAME"),
    (["games", "check", "gomok"], "no such game"),
    (["games", "check", "gomoku:Gomok"], "nearest: Gomoku"),
    (["games", "check", "gomoku:Gomoku", "--param", "sise=5"], "nearest: size"),
    (["games", "check", "gomoku:Gomoku", "--games", "0"], "must be at least 1"),
    (["games", "chek"], "unrecognized arguments"),
    (["perft", "python", "2"], "needs game.entry"),
    (["perft", "pyton", "2"], "nearest: python"),
    (["perft", "open_spiel", "2", "--param", "name=hexx"], "nearest: hex"),
])
def test_wrong_words_of_the_small_commands(shusaku, argv, words):
    done = shusaku(*argv)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_perft_counts_games_from_outside(shusaku, here):
    for argv, nodes in (
        (["open_spiel", "4", "--param", "name=tic_tac_toe"], 3024),
        (["open_spiel", "2", "--param", "name=tic_tac_toe", "--position", "x(1,1) o(0,0)"], 42),
        (["python", "2", "--param", "entry=gomoku:Gomoku", "--param", "size=5", "--position", "a1,b1"], 23 * 22),
    ):
        done = shusaku("perft", *argv, "--json")
        assert json.loads(done.stdout)["nodes"] == nodes, done.stderr


def test_games_lists_them(shusaku):
    listed = json.loads(shusaku("games", "--json").stdout)
    assert "breakthrough" in listed["open_spiel"]
    assert [game["name"] for game in listed["external"]] == ["open_spiel", "python"]
    text = shusaku("games").stdout
    assert all(words in text for words in ("game.name=...", "game.entry=...", "breakthrough, "))


def test_bench_measures_them(shusaku, here):
    for argv in ((*GOMOKU, "game.size=5"), ("game=open_spiel", "game.name=clobber")):
        done = shusaku("bench", "rules", *argv, "bench.seconds=0.3", "--json")
        assert json.loads(done.stdout)["moves_per_s"] > 1000, done.stderr


@pytest.mark.long
def test_train_finds_the_class_on_rays_workers(here):
    command = [sys.executable, "-m", "shusaku", "train", *GOMOKU, *SMALL, "actors.count=1", "run.minutes=0.2",
               "cluster.dashboard=false"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = (here / "runs" / "python-gomoku-Gomoku" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] > 0
    text = (here / "gomoku.py").read_text().replace("stones[action] = b", "stones[action + (state.ply > 3) * 99] = b")
    (here / "gomoku.py").write_text(text)
    done = subprocess.run([*command, "run.dir=broken"], cwd=here, env=environment, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2, done.stderr  # as by the game itself, not by Ray
    assert "raised IndexError: bytearray index out of range" in done.stderr
