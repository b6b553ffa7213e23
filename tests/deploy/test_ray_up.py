"""deploy/ray-up.yaml, against what Ray checks before `ray up` does anything."""

import copy
import re
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start

ROOT = Path(__file__).resolve().parents[2]
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "ray-up.yaml").read_text(encoding="utf-8"))


def check(config: dict[str, Any]) -> dict[str, Any]:
    prepared: dict[str, Any] = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    return prepared


def test_ray_takes_the_file() -> None:
    prepared = check(CONFIG)
    assert prepared["max_workers"] == len(CONFIG["provider"]["worker_ips"])
    with pytest.raises(jsonschema.ValidationError, match="head_setup_command"):
        check({**CONFIG, "head_setup_command": []})
    with pytest.raises(click.ClickException):
        check({**CONFIG, "provider": {"type": "local", "head_ip": "192.0.2.1"}})


def test_ray_start_has_these_options() -> None:
    known = {name for option in start.params for name in option.opts}
    for lines in (CONFIG["head_start_ray_commands"], CONFIG["worker_start_ray_commands"]):
        used = set(re.findall(r"--[a-z-]+", " ".join(lines)))
        assert used
        assert used <= known
        assert "RAY_AUTH_MODE=token" in lines[-1]


def test_the_version_is_that_of_the_project() -> None:
    tested = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert f"ray[default]=={tested['ray']}" in " ".join(CONFIG["setup_commands"])
