"""docs/guides/refine.md: its task runs as it is shown, and its tables are what the command takes."""

import json
import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path

from shusaku.actors.refine_tasks.endpoint import Endpoint
from shusaku.common.external.user_class import constructor_parameters
from shusaku.deploy.cli.main import main
from shusaku.deploy.commands.refine import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guides/refine.md").read_text(encoding="utf-8")


def test_the_task_of_the_page_is_solved_by_the_command_of_the_page(tmp_path, monkeypatch, capsys):
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [command] = re.findall(r"^shusaku (refine task=sums:.*)$", PAGE, re.M)
    (tmp_path / "sums.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "sums", raising=False)
    assert main([*shlex.split(command), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["solved"], result["failures"], sum(result["answer"])) == (True, 0, 121)
    assert len(set(result["answer"])) == len(result["answer"])


def test_the_tables_name_every_setting_with_its_default():
    shown = set(re.findall(r"`([a-z_.]+=[^`<]*)`", PAGE))
    for field in fields(Settings):
        default = field.default if isinstance(field.default, int | float) else ""
        assert f"{field.name}={default}" in shown | {"trace=" if "trace=FILE" in shown else ""}, field.name
    for name, default, *_ in constructor_parameters(Endpoint, "task"):
        known = "" if default is None else f"{default:g}" if name == "timeout_seconds" else default
        assert f"task.{name}={known}" in shown, name
