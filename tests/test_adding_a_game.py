"""docs/adding-a-game.md is true: its gomoku is the file beside it and plays gomoku; its steps in C++ make a game."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shusaku.common._core import Game, game_names, perft
from shusaku.common.external.contract import check_game
from shusaku.common.external.entry import trust
from shusaku.common.external.loader import METHODS, OPTIONAL_METHODS, load_game

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "adding-a-game.md").read_text(encoding="utf-8")
FILE = ROOT / "docs" / "examples" / "gomoku.py"


@pytest.fixture(autouse=True)
def beside_the_example(monkeypatch):
    monkeypatch.chdir(FILE.parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    trust("gomoku:Gomoku")
    sys.modules.pop("gomoku", None)  # another test's, which may have broken its copy


def gomoku(**params):
    return Game("python", {"entry": "gomoku:Gomoku", **params})


def test_the_file_is_short_and_the_page_shows_it():
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 5
    for block in blocks:
        assert block in text
    for method in (*METHODS, *OPTIONAL_METHODS):
        assert f"`{method}(" in PAGE


@pytest.mark.parametrize("params", [{"size": 4, "row": 3}, {"size": 7, "row": 5}])
def test_it_keeps_the_contract(params):
    rules = load_game("python", {"entry": "gomoku:Gomoku", **params}).rules
    assert check_game(gomoku(**params), 8, rules=rules).violations == {}


def test_it_is_open_spiels_mnk_move_by_move():
    ours, theirs = gomoku(size=5, row=4), Game("open_spiel", {"name": "mnk(m=5,n=5,k=4)"})
    outcomes = set()
    for seed in range(60):
        rng, a, b = random.Random(seed), ours.start(), theirs.start()
        while not a.is_terminal:
            assert a.legal_actions == b.legal_actions
            action = rng.choice(a.legal_actions)
            a.play(action)
            b.play(action)
        assert b.is_terminal
        outcome = a.outcome if a.to_play == 0 else -a.outcome
        assert outcome == b.outcome  # OpenSpiel's ends are for player 0
        outcomes.add(outcome)
    assert outcomes == {-1, 0, 1}


def test_the_figures_of_the_page():
    assert perft(gomoku().start(), 3) == 511_920 == 81 * 80 * 79


def test_the_command_of_the_page():
    done = subprocess.run(
        [sys.executable, "-m", "shusaku", "games", "check", "gomoku:Gomoku", "--param", "size=5", "--games", "3"],
        cwd=FILE.parent, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ok ") >= 14


def cpp_steps():
    """File -> code block, in the order of the page's steps in C++."""
    return dict(re.findall(r"^\d\. [^`]*`(common/core/[\w./]+)`.*?```cpp\n(.*?)```", PAGE, re.S | re.M))


def test_the_steps_in_cpp_are_a_header_a_binding_file_and_one_line():
    header, binding, table = cpp_steps().items()
    assert (header[0], binding[0]) == ("common/core/games/takeaway.h", "common/core/bindings/games/takeaway.cpp")
    assert table == ("common/core/bindings/games/list.def", "GAME(kTakeaway)\n")
    listed = re.findall(r"GAME\((\w+)\)", (ROOT / table[0]).read_text(encoding="utf-8"))
    assert len(listed) == len(game_names())


PLAY = """
import json, random
from shusaku.common._core import Game, game_names, perft
game = Game("takeaway", {"stones": 9})
position, rng = game.start(), random.Random(1)
while not position.is_terminal:
    position.play(rng.choice(position.legal_actions))
print(json.dumps({"names": game_names(), "perft": perft(game.start(), 4), "outcome": position.outcome,
                  "default": Game("takeaway").params, "left": str(game.position("2"))}))
"""


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_steps_in_cpp_make_a_game_that_keeps_the_contract(tmp_path):
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "dist", "runs", "*.so", "__pycache__"))
    for path, block in cpp_steps().items():
        file = copy / path
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(before + block, encoding="utf-8")

    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index",
         "--target", site, copy],
        check=True, cwd=tmp_path, env={**os.environ, "SHUSAKU_NATIVE": "1"},
    )

    def run(*arguments):
        packages = [str(site), *(path for path in sys.path if path.endswith("site-packages"))]
        done = subprocess.run(
            # -S: the checkout's own editable installation must not come first
            [sys.executable, "-S", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(packages)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    played = json.loads(run("-c", PLAY))
    assert "takeaway" in played["names"]
    assert played["perft"] == 3**4 - 3 - 6 - 6  # less: no stone is left after 3 moves, or 1, or 2
    assert (played["outcome"], played["default"], played["left"]) == (-1, {"stones": 21}, "oo\n")
    checked = run("-m", "shusaku", "games", "check", "takeaway", "--param", "stones=9", "--games", "10")
    assert checked.count("ok ") >= 13
    assert json.loads(run("-m", "shusaku", "perft", "takeaway", "4", "--json").splitlines()[-1])["nodes"] == 81
