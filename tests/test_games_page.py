"""docs/games.md says what is so: its commands print what stands there, and its lines of Python answer that."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from shusaku.deploy.cli.main import main

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "games.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.S | re.M)
COMMANDS = [part.partition("\n")[::2] for block in BLOCKS for part in re.split(r"^\$ shusaku ", block, flags=re.M)[1:]]


def without_times(text):
    return re.sub(r"in \d+\.\d\d s", "in ... s", text)


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command(command, shown, capsys):
    code = main(shlex.split(command))
    output, error = capsys.readouterr()
    assert code == (2 if error else 0)
    assert doctest.OutputChecker().check_output(without_times(shown), without_times(output + error), doctest.ELLIPSIS)


def test_the_lines_of_python():
    lines = "".join(block for block in BLOCKS if ">>>" in block)
    page = doctest.DocTestParser().get_doctest(lines, {}, "docs/games.md", None, 0)
    assert len(page.examples) > 10
    assert doctest.DocTestRunner().run(page).failed == 0


def test_every_command_and_line_is_found():
    assert len(COMMANDS) == PAGE.count("$ shusaku ")
    assert sum(block.count(">>>") for block in BLOCKS) == PAGE.count(">>>")
