"""`game.entry=module:Class` -> the class, or an error of one line."""

import importlib
import os
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from shusaku.common.errors import UsageError

_trusted: set[str] = set()  # entries that the user of this process has named
_trusts_files = False  # the user of this process has said trust=true
HOW = "module being a file of the current directory without its .py, or an installed one"


def trust(entry: str) -> None:
    """Lets this process import the class: the user has named it, on the command line or in a call of their own.

    Importing a module runs its code, so an entry that only stands in a file (weights, checkpoint, run directory) must
    never be passed to this function.
    """
    _trusted.add(entry)


def trust_files() -> None:
    """Lets this process import every class that a file names: the user has said `trust=true`."""
    global _trusts_files
    _trusts_files = True


def decisions() -> tuple[frozenset[str], bool]:
    """What this process trusts, for `adopt` in a process that it starts."""
    return frozenset(_trusted), _trusts_files


def adopt(decided: tuple[frozenset[str], bool]) -> None:
    """Trusts what the process that started this one trusted."""
    for entry in decided[0]:
        trust(entry)
    if decided[1]:
        trust_files()


def find_class(entry: str, key: str = "game.entry") -> Any:
    """The class that the setting `key` names; the current directory comes first on the path, as with `python -m`.

    UsageError if the user has not named the entry, if module or class is missing, or if the import fails.
    """
    label, how = f"{key}={entry}", f"write {key}=module:Class, {HOW}"
    module_name, colon, class_name = entry.partition(":")
    parts = [*module_name.split("."), *class_name.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise UsageError(f"{label}: names no class; {how}")
    if entry not in _trusted and not _trusts_files:
        raise UsageError(f"{label}: named by a file, and importing it would run its code; if you trust that "
                         f"code, add game=python game.entry={entry} to this command, or trust=true")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise UsageError(f"{label}: importing {module_name} raised {where(error, module_name)}") from error
        near = get_close_matches(module_name, [file.stem for file in Path(here).glob("*.py")], 1)
        hint = f"nearest: {near[0]}.py; " if near else ""
        raise UsageError(f"{label}: there is no module {error.name} in {here}, nor is one installed; "
                         f"{hint}{how}") from None
    except Exception as error:
        raise UsageError(f"{label}: importing {module_name} raised {where(error, module_name)}") from error
    place = getattr(found, "__file__", None) or "a package of folders"
    for name in class_name.split("."):
        missing = object()
        inner = getattr(found, name, missing)
        if inner is missing:
            classes = [key for key, value in vars(found).items() if isinstance(value, type)]
            near = get_close_matches(name, classes, 1, 0.3)
            hint = f"; nearest: {near[0]}" if near else ""
            raise UsageError(f"{label}: {module_name} ({place}) has no class {name}{hint}")
        found = inner
    if not isinstance(found, type):
        raise UsageError(f"{label}: {class_name} is no class but {type(found).__name__}; {how}")
    return found


def where(error: BaseException, module: str) -> str:
    """The error with a file and line, for a message of one line.

    The place is the innermost frame in `module`, the user's: a line of a library that it called says little.  If the
    module has none, it is the innermost frame of all.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [(frame, line) for frame, line in frames if frame.f_globals.get("__name__") == module] or frames
    place = f" ({Path(own[-1][0].f_code.co_filename).name}, line {own[-1][1]})" if own else ""
    return f"{type(error).__name__}: {error}{place}"
