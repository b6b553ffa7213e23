"""`_core.pyi` is the readable contract of the extension: the same names on both sides."""

import ast
from pathlib import Path

import shusaku.common._core as core
from shusaku.common.config import schema as config


def stub() -> dict[str, set[str]]:
    """Class -> its public names; functions under ""."""
    tree = ast.parse((Path(config.__file__).parents[1] / "_core.pyi").read_text(encoding="utf-8"))
    names: dict[str, set[str]] = {"": set()}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names[""].add(node.name)
        elif isinstance(node, ast.ClassDef):
            members = [m.name for m in node.body if isinstance(m, ast.FunctionDef)]
            fields = [m.target for m in node.body if isinstance(m, ast.AnnAssign)]
            members += [field.id for field in fields if isinstance(field, ast.Name)]
            names[node.name] = {name for name in members if not name.startswith("_")}
    return names


def test_the_stub_and_the_extension_have_the_same_names():
    names = stub()
    public = {name for name in vars(core) if not name.startswith("_")}
    assert public == names.pop("") | set(names)
    for owner, members in names.items():
        found = {name for name in dir(getattr(core, owner)) if not name.startswith("_")}
        if owner in ("SearchOptions", "SelfPlayOptions"):  # their fields are those of common/config
            assert found >= members, owner
        else:
            assert found == members, owner
