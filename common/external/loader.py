"""External games: `game=python game.entry=module:Class` and `game=open_spiel game.name=...`.

Both are an object with the methods that docs/adding-a-game.md lists.  Here it is found, made and checked before the
first move; its results during play are checked by the C++ adapter, common/core/bindings/games/python_rules.cpp.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from shusaku.common._core import external_names
from shusaku.common.codec import MAX_PLIES
from shusaku.common.errors import UsageError
from shusaku.common.external.entry import find_class, where
from shusaku.common.external.user_class import (
    Param,
    Parameter,
    check_methods,
    class_label,
    constructor_parameters,
    make_instance,
)

METHODS = {  # required methods and their arguments
    "start": (),
    "to_play": ("state",),
    "is_terminal": ("state",),
    "legal_actions": ("state",),
    "play": ("state", "action"),
    "outcome": ("state",),
    "observation": ("state",),
}
OPTIONAL_METHODS = {
    "score": ("state",),
    "is_cut_off": ("state",),
    "parse": ("text",),
    "to_move": ("state", "action"),
    "from_move": ("state", "text"),
    "render": ("state",),
    "transposition_key": ("state",),
    "symmetries": (),
}
MOST_ACTIONS = 65_535
MOST_NUMBERS = 1 << 20  # of an observation
MOST_SYMMETRIES = 64
CACHED_STATES = 8192  # kept at most; a state of OpenSpiel's chess takes 10 kB
CONTRACT = "docs/adding-a-game.md has the contract"
@dataclass(frozen=True)
class LoadedGame:
    """A game that was found and whose attributes are valid; the C++ adapter is made from it."""

    name: str  # open_spiel or python
    label: str  # for messages
    params: dict[str, Param]  # all of them
    rules: Any  # the object with the methods
    num_actions: int
    max_plies: int
    max_legal_actions: int
    observation_shape: tuple[int, int, int]  # C, H, W
    uniform_planes: int  # the last so many of C
    symmetries: list[tuple[list[int], list[int]]]  # where cells [H * W] and actions [A] lie; the first: where they were
    cached_states: int


def load_game(name: str, params: Mapping[str, Param]) -> LoadedGame:
    """The game behind these parameters; UsageError naming what is missing or wrong, and the way out."""
    cls, own = _game_class(name, params)
    known = {parameter.name: parameter for parameter in own}
    full: dict[str, Param] = {}
    for key in params:
        if key not in known:
            near = get_close_matches(key, known, 1, 0.0)
            raise UsageError(f"game {name} has no parameter '{key}': it takes {', '.join(known)}; nearest: {near[0]}")
    for key, (_, default, kind, text) in known.items():
        value = params.get(key, default)
        if value is None:
            rule = text or f"{class_label(cls)} has no default for it"
            raise UsageError(f"game={name} needs game.{key}=...: {rule}")
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise UsageError(f"game.{key}={value!r}: must be of type {kind.__name__}")
        if isinstance(value, str) and len(value.encode()) > 128:
            raise UsageError(f"game.{key}: {len(value.encode())} bytes; a game's record takes at most 128")
        full[key] = value
    label = f"game.entry={full['entry']}" if name == "python" else f"game.name={full['name']}"
    arguments = {key: value for key, value in full.items() if not (name == "python" and key == "entry")}
    if name == "python":
        _check_methods(label, cls)  # first: constructing a class that is no game may do anything
    return _checked(name, label, full, make_instance(cls, label, arguments))


def parameters(name: str, given: Mapping[str, Any]) -> list[Parameter]:
    """The parameters of a game, given those that are set: a Python game's own follow from its entry."""
    return _game_class(name, given)[1]


def _game_class(name: str, given: Mapping[str, Any]) -> tuple[Any, list[Parameter]]:
    assert name in external_names(), name
    if name == "open_spiel":
        from shusaku.common.external.open_spiel import OpenSpielGame  # here: it needs the extra [open_spiel]

        return OpenSpielGame, constructor_parameters(OpenSpielGame, "game")
    entry = Parameter("entry", None, str, "module:Class, from the current directory or installed")
    if not given.get("entry"):
        return None, [entry]
    cls = find_class(str(given["entry"]))
    return cls, [entry, *constructor_parameters(cls, "game")]


def _checked(name: str, label: str, params: dict[str, Param], rules: Any) -> LoadedGame:
    """The game with its attributes; UsageError on an attribute that is missing or impossible."""

    def number(key: str, low: int, high: int, default: int | None = None) -> int:
        value = getattr(rules, key, default)
        if value is None:
            raise UsageError(f"{label}: {type(rules).__name__} has no attribute {key}: set it to a whole number in "
                             f"[{low}, {high}]; {CONTRACT}")
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
            raise UsageError(f"{label}: {key} is {_brief(value)}: must be a whole number in [{low}, {high}]")
        return int(value)

    num_actions = number("num_actions", 1, MOST_ACTIONS)
    shape = getattr(rules, "observation_shape", None)
    is_shape = isinstance(shape, tuple | list) and len(shape) == 3
    if not is_shape or not all(isinstance(n, int | np.integer) and n >= 1 for n in shape or ()):
        raise UsageError(f"{label}: observation_shape is {_brief(shape)}: must be (planes, height, width), each at "
                         f"least 1; {CONTRACT}")
    planes, height, width = (int(n) for n in shape or ())
    if planes * height * width > MOST_NUMBERS:
        raise UsageError(f"{label}: observation_shape is {_brief(shape)}: at most {MOST_NUMBERS:,} numbers in all")
    return LoadedGame(
        name=name, label=label, params=params, rules=rules, num_actions=num_actions,
        max_plies=number("max_plies", 1, MAX_PLIES),
        max_legal_actions=number("max_legal_actions", 1, num_actions, num_actions),
        observation_shape=(planes, height, width),
        uniform_planes=number("uniform_planes", 0, planes, 0),
        symmetries=_symmetries(label, rules, height * width, num_actions),
        cached_states=number("cached_states", 16, 1 << 24, CACHED_STATES),
    )


def _check_methods(label: str, cls: type) -> None:
    """UsageError on a method of the class that is missing or takes other arguments."""
    if hasattr(cls, "draw") and not callable(getattr(cls, "render", None)):
        raise UsageError(f"{label}: the method draw(state) is called render(state) now: rename it; {CONTRACT}")
    check_methods(label, cls, METHODS, OPTIONAL_METHODS, CONTRACT)


def _symmetries(label: str, rules: Any, cells: int, actions: int) -> list[tuple[list[int], list[int]]]:
    identity = (list(range(cells)), list(range(actions)))
    if getattr(rules, "symmetries", None) is None:
        return [identity]
    try:
        given = list(rules.symmetries())
    except Exception as error:
        raise UsageError(f"{label}: symmetries() raised {where(error, type(rules).__module__)}") from error
    if not 1 <= len(given) <= MOST_SYMMETRIES:
        raise UsageError(f"{label}: symmetries() returned {len(given)}: must be 1 to {MOST_SYMMETRIES}, the first of "
                         "which leaves everything where it is")
    found = []
    for number, one in enumerate(given):
        pair = one if isinstance(one, tuple) and len(one) == 2 else (one, one)
        found.append((_permutation(label, number, "cells", pair[0], cells),
                      _permutation(label, number, "actions", pair[1], actions)))
    if found[0] != identity:
        raise UsageError(f"{label}: the first of symmetries() must leave every cell and action where it is")
    return found


def _permutation(label: str, number: int, what: str, given: Any, size: int) -> list[int]:
    try:
        values = [int(x) for x in given]
    except (TypeError, ValueError):
        values = []
    if sorted(values) != list(range(size)):
        raise UsageError(f"{label}: symmetries()[{number}] must map each of the {size} {what} to a different "
                         f"place; it is {_brief(given)}; write (cells, actions) where the two differ")
    return values


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
