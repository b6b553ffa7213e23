"""Each command line of `shusaku` in the files of deploy/ is one that it takes: its settings compose."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shusaku.deploy.cli.main import main
from shusaku.deploy.commands.table import COMMANDS, Takes

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = {".sbatch", ".sh"}
SEPARATORS = re.compile(r"[;|&\n]|\b(?:do|then|exec)\b|\\\n")
WORDS = re.compile(r'"\$\{\w+\[@\]\}"')  # that a user adds: any number of them
VARIABLE = re.compile(r"\$\{?\w[^}\s\"']*\}?|\$\{[^}]*\}")  # of a shell, of Compose


def strings(node: Any) -> Iterator[str]:
    """Every text of a YAML document; a list of words that begins with `shusaku` is one."""
    if isinstance(node, dict):
        for value in node.values():
            yield from strings(value)
    elif isinstance(node, list):
        if node and node[0] == "shusaku":
            yield shlex.join(map(str, node))
        for value in node:
            yield from strings(value)
    elif isinstance(node, str):
        yield node


def texts_of(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".yaml":
        for document in yaml.safe_load_all(text):
            yield from strings(document)
    elif file.name == "Dockerfile":
        for words in re.findall(r"^(?:CMD|ENTRYPOINT) (\[.*\])$", text, re.M):
            yield shlex.join(json.loads(words))
    elif file.suffix in SCRIPTS:
        yield re.sub(r"^\s*#.*$", "", text, flags=re.M).replace("\\\n", " ")


def commands_in(text: str) -> Iterator[list[str]]:
    """The words after `shusaku` of each command line."""
    for line in SEPARATORS.split(text):
        if re.match(r"\s*(\w+ )?shusaku [a-z]", line):  # `srun shusaku train …`, too
            words = shlex.split(VARIABLE.sub("x", WORDS.sub("", line)))
            yield words[words.index("shusaku") + 1 :]


SHOWN = [
    pytest.param(words, id=f"{file.relative_to(ROOT)}: {' '.join(words)}")
    for file in sorted((ROOT / "deploy").rglob("*"))
    if file.name == "Dockerfile" or file.suffix in {".yaml", *SCRIPTS}
    for text in texts_of(file) for words in commands_in(text)
]


def test_commands_are_found() -> None:
    assert len(SHOWN) >= 3
    assert list(commands_in("for f in *; do shusaku stop run.dir=\"${f%/*}\" & done; wait")) == [["stop", "run.dir=x"]]
    assert list(commands_in('shusaku train "${words[@]}" &')) == [["train"]]
    assert list(strings({"command": ["shusaku", "games"]})) == ["shusaku games", "shusaku", "games"]


@pytest.mark.parametrize("words", SHOWN)
def test_the_command_line_is_taken(words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.touch(mode=0o600)
    secret.write_text("redis://localhost")
    words = [re.sub(r"_file=/secrets/url$", f"_file={secret}", word) for word in words]
    if words[0] == "submit":
        words = words[words.index("--") + 1 :]
    assert words[0] in COMMANDS
    if COMMANDS[words[0]].takes not in (Takes.OPTIONS, Takes.COMMAND_LINE):
        assert main([*words, "--cfg", "job"]) == 0, capsys.readouterr().err
