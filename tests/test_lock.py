"""The lock file names every package that `make install` takes, with hashes; and the bill of materials is one."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.M)
ELSEWHERE = {"torch"}  # its builds differ from index to index


def pins(file: str) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in PIN.findall((ROOT / file).read_text())}


def test_the_lock_file_is_complete_and_that_of_the_constraints() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(text) for text in (*project["dependencies"], *project["optional-dependencies"]["test"])]
    tools = re.search(r"^TOOLS := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert tools is not None
    needed = {canonicalize_name(r.name) for r in asked if r.marker is None or r.marker.evaluate()} | set(
        map(canonicalize_name, tools[1].split()))
    locked, tested = pins("requirements.lock"), pins("constraints.txt")
    assert needed - locked.keys() == ELSEWHERE
    others = {name: version for name, version in locked.items() if tested.get(name, version) != version}
    assert others == {}, "run `make lock`"
    for requirement in asked:
        name = canonicalize_name(requirement.name)
        assert name not in locked or requirement.specifier.contains(locked[name]), requirement


def test_the_lock_file_has_hashes_and_no_place() -> None:
    text = (ROOT / "requirements.lock").read_text()
    blocks = re.split(r"^(?=[A-Za-z])", text, flags=re.M)[1:]
    assert len(blocks) > 100
    for block in blocks:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block[:80]
    assert not re.search(r"https?:|file:|--(extra-)?index|--find-links|/", text)


@pytest.mark.long
def test_the_bill_of_materials_is_valid() -> None:
    subprocess.run(["make", "--no-print-directory", "-o", "install", "sbom"], cwd=ROOT, check=True, timeout=280)
    text = (ROOT / "build" / "sbom.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "shusaku")
    found = {canonicalize_name(component["name"]): component["version"] for component in bill["components"]}
    assert {"torch", "ray", "numpy", "redis", "msgpack"} <= found.keys()
    assert str(ROOT) not in text
