"""docs/configuration.md, made from the dataclasses of `common/config/schema.py` by `make docs`."""

import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from shusaku.common.config import schema, search
from shusaku.common.config.schema import Config
from shusaku.common.config.search import DEFAULTS, POLICIES, policies_with
from shusaku.deploy.run.game_parameters import format_value

PAGE = Path("docs/configuration.md")
_INTRODUCTION = """\
# Configuration

Every setting of every command, `key=value` on the command line. This page is made from `common/config/schema.py`
and `common/config/search.py` (`make docs`); a test keeps it true. The defaults below are the plain ones;
`experiment=NAME` (`connect_four` if neither it nor `game` is given) and the choices `search=`, `network=` change some
of them, and `--cfg job` prints what a command would use. `game.<parameter>=` sets the rules: `shusaku games` lists
them.
"""


class Setting(NamedTuple):
    """One line of the reference; a section has an empty key."""

    section: str
    key: str  # dotted, as on the command line
    kind: str
    default: str
    text: str


def settings() -> list[Setting]:
    """All of them in the order of the file."""
    comments = _comments()
    lines: list[Setting] = []
    for field in fields(Config):
        value = getattr(Config(), field.name)
        if field.name == "search":
            lines += _search_settings(comments)
            continue
        if not is_dataclass(value):
            lines.append(_setting("", field.name, value, comments[Config.__name__, field.name]))
            continue
        kind = type(value).__name__
        lines.append(Setting(field.name, "", "", "", inspect.cleandoc(value.__doc__ or "")))
        for low in fields(value):
            key = f"{field.name}.{low.name}"
            if low.name == "search":  # of a player of a match: documented in the section of that name
                lines.append(Setting(field.name, f"{key}.<setting>", "", "of the run", comments[kind, low.name]))
                continue
            lines.append(_setting(field.name, key, getattr(value, low.name), comments[kind, low.name]))
    return lines


def _search_settings(comments: dict[tuple[str, str], str]) -> list[Setting]:
    """The settings of all policies, each with the policies that read it."""
    policies = [f"- `{name}`: {inspect.cleandoc(policy.__doc__ or '')}" for name, policy in POLICIES.items()]
    lines = [Setting("search", "", "", "", "\n".join(["How a move is searched.\n\nThe policies:\n", *policies]))]
    for name, default in DEFAULTS.items():
        readers = policies_with(name)
        owner = next(base.__name__ for base in POLICIES[readers[0]].mro()[::-1] if (base.__name__, name) in comments)
        prefix = "" if len(readers) == len(POLICIES) else f"{', '.join(readers)}: "
        lines.append(_setting("search", f"search.{name}", default, prefix + comments[owner, name]))
    return lines


def page() -> str:
    """The whole page as Markdown."""
    sections: dict[str, list[Setting]] = {}
    for line in settings():
        sections.setdefault(line.section, []).append(line)
    parts = [_INTRODUCTION]
    for section, lines in sections.items():
        parts.append("\n".join([
            f"## {section or 'The top'}\n",
            *(f"{line.text}\n" for line in lines if not line.key),
            "| key | type | default | meaning |",
            "|---|---|---|---|",
            *(_row(line) for line in lines if line.key),
        ]) + "\n")
    return "\n".join(parts)


def _setting(section: str, key: str, value: Any, text: str) -> Setting:
    return Setting(section, key, type(value).__name__, format_value(value), text)


def _comments() -> dict[tuple[str, str], str]:
    """(class, field) -> the comment behind its line."""
    found = [*inspect.getmembers(schema, inspect.isclass), *inspect.getmembers(search, inspect.isclass)]
    return {(owner.__name__, name): text for _, owner in found if is_dataclass(owner)
            for name, text in re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(owner), re.MULTILINE)}


def _row(line: Setting) -> str:
    text = line.text.replace("|", "\\|")
    return f"| `{line.key}` | {line.kind} | `{line.default}` | {text} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
