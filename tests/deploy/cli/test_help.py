"""What `shusaku COMMAND --help` says: the settings that the command reads, in a length that fits its use."""

import ast
import re
from pathlib import Path

import pytest

from shusaku.deploy.cli import main as cli
from shusaku.deploy.cli.config_reference import settings
from shusaku.deploy.commands.table import COMMANDS, Takes

ROOT = Path(__file__).resolve().parents[3]
# Read, and not listed: train refuses the one; the measurements that settle games and precision are shared with commands
# that take the others; rate sets them for the code of matches that it calls.
EXTRA = {"bench": {"run.grow"}, "train": {"run.evaluations", "checkpoint", "bench", "bench.seconds"},
         "local": {"bench", "bench.seconds", "actors.cpus", "actors.where", "inference.placement", "inference.servers"},
         "rate": {"first", "games", "network", "run.seed", "search"}}
COMPOSED = [name for name, command in COMMANDS.items() if command.takes in (Takes.CONFIG, Takes.WHAT_AND_CONFIG)]


def help_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main([name, "--help"]) == 0
    return capsys.readouterr().out


def shown_settings(text: str) -> set[str]:
    return set(re.findall(r"^  ([a-z_]+(?:\.[a-z_]+)*)=(?=\S+ {1,})(?!.* \| )", text, re.M)) & {
        setting.key for setting in settings()
    }


@pytest.mark.parametrize("name", ["status", "scale", "stop"])
def test_help_of_a_small_command_is_short(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(name, capsys)
    assert len(text.splitlines()) <= 60
    assert shown_settings(text) == {"run.dir", "replay.url", "replay.url_file"}
    assert "search=" not in text


def read_settings(place: str, without: str) -> set[str]:
    """Sections and settings `config.a` and `config.a.b` in a module of deploy/ and in all that it imports of ours.

    The rules of `common/config` look at every configuration, so they say nothing; nor do modules of `without`.
    """
    known = {setting.key for setting in settings()} | {setting.section for setting in settings()}
    found, seen, modules = set(), set(), [f"deploy.{place}"]
    while modules:
        module = modules.pop()
        path = ROOT / f"{module.replace('.', '/')}.py"
        if module in seen or not path.exists() or module.startswith("common.config"):
            continue
        seen.add(module)
        source = path.read_text(encoding="utf-8")
        modules += re.findall(r"\bfrom shusaku\.([\w.]+) import", source)
        if not module.startswith(without):
            found |= {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    return {key for text in found for key in [re.sub(r"^(self\._?)?(config|whole|alone)\.", "", text)]
            if key != text and key in known}


@pytest.mark.parametrize("name", COMPOSED)
def test_help_lists_what_the_command_reads(name: str) -> None:
    """The table of commands is held to their code, in both directions."""
    command = COMMANDS[name]
    place = command.place.partition(":")[0]
    read = read_settings(place, without="none")
    listed = {key for key in command.reads if key != "actors.games_per_actor"}  # read as `actors.games`
    assert {key for key in listed if not any(one == key or one.startswith(f"{key}.") or key.startswith(f"{one}.")
                                             for one in read)} == set()
    read = read_settings(place, without="deploy.run.")  # which serves commands of several kinds
    whole = {key for key in read if "." not in key}  # a section that is passed on, or a setting at the top
    unlisted = {key for key in read - whole if not command.reads_setting(key)}
    unlisted |= {key for key in whole if not any(one.split(".")[0] == key for one in command.reads)}
    assert unlisted == EXTRA.get(name, set())


@pytest.mark.parametrize("name", COMPOSED)
def test_settings_stand_below_headings(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(name, capsys)
    assert text.startswith(f"usage: shusaku {name} ")
    assert f"shusaku {COMMANDS[name].example}" in text
    for part in text.strip().split("\n\n")[3:]:
        heading, *lines = part.splitlines()
        assert re.match(r"[a-z_]+: |choices \(", heading), heading
        assert all(line.startswith("  ") for line in lines)


def test_every_setting_is_listed_by_a_command() -> None:
    for setting in settings():
        if setting.key and setting.key != "experiment" and not setting.key.endswith("<setting>"):
            assert any(command.reads_setting(setting.key) for command in COMMANDS.values()), setting.key


def test_what_is_listed_exists() -> None:
    known = {setting.key for setting in settings()} | {setting.section for setting in settings()}
    for command in COMMANDS.values():
        for name in command.reads:
            assert name in known or any(key.startswith(f"{name}.") for key in known), name


@pytest.mark.parametrize(("words", "text"), [
    (["bench"], "bench: missing argument WHAT (one of rules, search, inference, selfplay, replay, learner)"),
    (["bench", "serch"], "bench serch: unknown WHAT; nearest: search"),
    (["scale"], "scale: missing argument N; for example: shusaku scale 4"),
    (["scale", "-1"], "scale -1: must be at least 1"), (["scale", "many"], "scale many: must be a number of actors"),
    (["train", "connect_four"], "write experiment=connect_four or game=connect_four"),
    (["local", "tictactoe"], "write experiment=tic_tac_toe or game=tic_tac_toe"), (["local", "go"], "write game=go"),
    (["status", "--address"], "--address: missing argument URL, of the cluster's dashboard"),
    (["stop", "--address=http://127.0.0.1:1", "run.dir=x"], "--address http://127.0.0.1:1: no cluster answers there"),
    (["status", "--adress", "http://127.0.0.1:1"], "--adress: status has no such option; nearest: --address"),
    (["scale", "2", "--address", "10.0.0.1"], "--address 10.0.0.1: must be the URL of the cluster's dashboard"),
    (["train", "--address", "http://127.0.0.1:1"], "--address: train has no such option"),
    (["train", "-1"], "'-1' is not an override; write key=value"),
])
def test_what_was_meant_is_named(capsys: pytest.CaptureFixture[str], words: list[str], text: str) -> None:
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert text in line
