"""Every command line that README and docs show is one that `shusaku` takes; a long test runs them, shortened.

A block that cannot run here has a comment before it: `<!-- not run: needs a cluster -->`.  Its settings are checked all
the same.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from shusaku.deploy.cli.main import main
from shusaku.deploy.commands.table import COMMANDS, Takes

ROOT = Path(__file__).resolve().parents[2]
OF_OTHER_TESTS = ("docs/games.md",)  # tests/test_games_page.py compares what its commands print
NEEDS_A_BUILD = "takeaway"  # the game in C++ of docs/adding-a-game.md; the page's own test builds it
AS_THEY_WERE = "docs/results/"  # result lines show their commands as they were spelt then
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)
BLOCK = re.compile(
    r"(?:<!-- (not run: [^>]+) -->\s*)?^( *)```(?:sh|bash|console)?\n(.*?)^\2```$", re.DOTALL | re.MULTILINE
)
INLINE = re.compile(r"`((?:\.venv/bin/)?shusaku [^`…|]+=[^`…|]+)`")
PLACEHOLDER = re.compile(r"\b(COMMAND|NAME|GAME|DEPTH|N|DIR|FILE|RUN_DIR|HOST|ADDRESS|KEY|VALUE|WHAT)\b")
VARIABLE = re.compile(r"^[A-Z_]+=\S*$")
# Shorter durations, and what a page's commands need to be quick.
SHORTER = {
    "train": ("run.minutes=0.05", "strength.enabled=false",
              "rater.enabled=false", "strength.final=false", "replay.minimum=200"),
    "local": ("run.minutes=0.05", "strength.enabled=false",
              "rater.enabled=false", "strength.final=false", "replay.minimum=200"),
    "bench": ("bench.seconds=1",),
    "plan": ("bench.seconds=1",),
    "match": ("games=2",),
}


class Shown(NamedTuple):
    """A command line of a page."""

    page: str
    words: tuple[str, ...]  # without variables before it
    variables: dict[str, str]
    reason: str  # why it is not run; empty: it is

    @property
    def arguments(self) -> list[str]:
        return list(self.words[1:])

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def shown_in(page: str) -> list[Shown]:
    """The command lines of a page's blocks, and those that its text quotes whole."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for reason, indent, block in BLOCK.findall(text):
        lines = [line.removeprefix(indent) for line in block.replace("\\\n", " ").splitlines()]
        prompts = [line[2:] for line in lines if line.startswith("$ ")]
        for line in prompts or lines:
            found += parsed(page, line, reason)
    for line in INLINE.findall(text):
        if not PLACEHOLDER.search(line):
            found += parsed(page, line, "quoted in a sentence")
    return found


def parsed(page: str, line: str, reason: str) -> list[Shown]:
    """One command, or none if the line is output of one."""
    words = [] if line.startswith((">>>", "...")) else split(line)
    variables = dict(word.split("=", 1) for word in words if VARIABLE.match(word))
    words = [word for word in words if not VARIABLE.match(word)]
    if not words or words[0].endswith("/") or NEEDS_A_BUILD in line:
        return []
    if Path(words[0]).name not in ("shusaku", "python", "make"):
        return []
    return [Shown(page, (Path(words[0]).name, *words[1:]), variables, reason)]


def split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a sentence with an apostrophe
        return []


CHECKED = [page for page in PAGES if page not in OF_OTHER_TESTS and not page.startswith(AS_THEY_WERE)]
ALL = [shown for page in CHECKED for shown in shown_in(page)]
OF_SHUSAKU = [shown for shown in ALL if shown.words[0] == "shusaku"]


def test_commands_are_found() -> None:
    assert len({shown.page for shown in OF_SHUSAKU}) >= 6
    assert len([shown for shown in OF_SHUSAKU if not shown.reason]) >= 10


@pytest.mark.parametrize("shown", OF_SHUSAKU, ids=str)
def test_the_command_line_is_taken(
    shown: Shown, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its command exists and its settings compose; what takes plain options shows its help instead."""
    monkeypatch.setenv("REPLAY_URL", "redis://localhost")
    shutil.copy(ROOT / "docs/examples/gomoku.py", tmp_path)
    (tmp_path / "presets/experiment").mkdir(parents=True)
    preset = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/guides/presets.md").read_text(encoding="utf-8"), re.DOTALL)
    assert preset is not None
    (tmp_path / "presets/experiment/mine.yaml").write_text(preset[1], encoding="utf-8")
    (tmp_path / "runs/second").mkdir(parents=True)
    (tmp_path / "runs/second/config.yaml").write_text("run:\n  minutes: 5.0\n")  # of a run that was restored
    monkeypatch.chdir(tmp_path)
    arguments = shown.arguments
    if arguments[0] == "submit":
        arguments = arguments[arguments.index("--") + 1 :] if "--" in arguments else ["submit", "--help"]
    if arguments[0].startswith("-") or "--help" in arguments or "=" in arguments[0]:
        return
    assert arguments[0] in COMMANDS, shown
    if COMMANDS[arguments[0]].takes in (Takes.OPTIONS, Takes.COMMAND_LINE):
        return
    code = main([word for word in arguments if word != "--json"] + ["--cfg", "job"])
    assert code == 0, f"{shown}\n{capsys.readouterr().err}"


@pytest.mark.long
@pytest.mark.parametrize("page", sorted({shown.page for shown in ALL if not shown.reason}))
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    """In the order of the page, in one folder, so that a match finds the run before it."""
    shutil.copy(ROOT / "docs/examples/gomoku.py", tmp_path)
    for shown in [shown for shown in ALL if shown.page == page and not shown.reason]:
        if shown.words[0] == "make":
            continue  # this test runs inside `make`
        is_ours = shown.words[0] == "shusaku"
        command = [sys.executable, *(["-m", "shusaku"] if is_ours else []), *shorter(shown.arguments)]
        where = tmp_path if is_ours else ROOT
        done = subprocess.run(command, cwd=where, env={**os.environ, **shown.variables}, capture_output=True, text=True,
                              check=False, timeout=240)
        assert done.returncode == 0, f"{shown}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def shorter(arguments: list[str]) -> list[str]:
    """The same command for moments; a run that the page takes on to more minutes goes on here, too."""
    added = SHORTER.get(arguments[0], ())
    if any(word.startswith("run.minutes=") for word in arguments):
        added = tuple("run.minutes=0.1" if word.startswith("run.minutes=") else word for word in added)
    keys = {word.partition("=")[0] for word in added}
    return [*(word for word in arguments if word.partition("=")[0] not in keys), *added]
