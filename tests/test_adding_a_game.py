"""docs/adding-a-game.md says what is so: its gomoku is short, is the file beside it, and plays gomoku."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shusaku.common._core import Game, perft
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
        cwd=FILE.parent, env={**__import__("os").environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ok ") >= 14
