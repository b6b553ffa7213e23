"""The image's recipe and compose.yaml, as far as they can be checked without building or starting anything."""

import copy
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "deploy" / "docker" / "Dockerfile").read_text(encoding="utf-8")
STAGES = re.split(r"^FROM ", re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", RECIPE, flags=re.M)), flags=re.M)[1:]
IMAGE = STAGES[-1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SPECIFICATION = json.loads((ROOT / "tests/fixtures/compose/compose-spec.json").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions(name: str, stage: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", stage, re.M)


def test_the_image_is_no_user_of_the_host() -> None:
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", instructions("USER", IMAGE)[-1])
    text = (ROOT / "deploy" / "kubernetes" / "redis.yaml").read_text(encoding="utf-8")
    assert f"runAsUser: {instructions('USER', IMAGE)[-1].partition(':')[0]}" in text


def test_labels_are_the_project_s() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', " ".join(instructions("LABEL", IMAGE))))
    assert labels == {
        "title": "Shusaku", "description": PROJECT["description"], "licenses": PROJECT["license"],
        "version": "${VERSION}", "revision": "${REVISION}",
    }
    assert f"VERSION={PROJECT['version']}" in instructions("ARG", IMAGE)


def test_what_the_image_is_checked_by_is_what_it_runs() -> None:
    (command,) = instructions("CMD", IMAGE)
    assert "run.http_port=9100" in json.loads(command)
    assert ":9100/healthz" in " ".join(instructions("HEALTHCHECK", IMAGE))


def test_the_context_holds_what_the_wheel_is_made_of() -> None:
    """Everything else stays outside: runs, secrets, .git."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    wanted = {line[1:] for line in lines if line.startswith("!")}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]
    (wheel,) = (one for one in build["overrides"] if one["if"] == {"state": "wheel"})
    packages = {path.partition("/")[0] for path in wheel["wheel"]["packages"].values()}
    files = {"pyproject.toml", "constraints.txt", PROJECT["readme"], "LICENSE"}
    assert wanted == packages | files


def test_tools_of_the_build_are_those_that_it_asks_for() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    for requirement in asked:
        assert re.search(rf"pip install -c constraints.txt .*{re.split('[<>=]', requirement)[0]}", STAGES[0])


def test_compose_knows_each_key() -> None:
    validator = jsonschema.Draft7Validator(SPECIFICATION)
    assert [fault.message for fault in validator.iter_errors(COMPOSE)] == []
    broken = copy.deepcopy(COMPOSE)
    broken["services"]["redis"]["comand"] = []
    assert len(list(validator.iter_errors(broken))) == 1


def test_compose_names_what_there_is() -> None:
    images = {service["image"] for service in SERVICES.values()}
    assert images == {f"shusaku:{PROJECT['version']}-cpu", f"shusaku:{PROJECT['version']}-cuda"}
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(COMPOSE["volumes"])
        for other, condition in service.get("depends_on", {}).items():
            is_checked = not SERVICES[other].get("healthcheck", {"disable": True}).get("disable")
            assert is_checked or condition["condition"] != "service_healthy", other


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_and_no_open_port(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert service["environment"]["RAY_AUTH_MODE"] == "token"


def test_the_redis_of_compose_is_that_of_kubernetes() -> None:
    """Which tests/deploy/run/test_cluster_secrets.py starts."""
    text = (ROOT / "deploy" / "kubernetes" / "redis.yaml").read_text(encoding="utf-8")
    (server,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "StatefulSet")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert SERVICES["redis"]["command"] == [*container["command"], *container["args"]]
