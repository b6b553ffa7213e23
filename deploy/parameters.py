"""Parameters of a game's rules, checked against what the core says the game has."""

from collections.abc import Iterable, Mapping
from typing import Any

from common.errors import UsageError
from common.foreign_games import Parameter, parameters
from deploy.nearest import nearest

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def all_names() -> list[str]:
    """Names that `game=` takes: the core's games, and those behind which games from outside are found."""
    from common._core import foreign_names, game_names

    return [*game_names(), *foreign_names()]


def game_parameters(game: str, given: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters of a game; those of a Python game follow from the ones that are given."""
    from common import _core

    if game in _core.foreign_names():
        return {parameter.name: parameter for parameter in parameters(game, given)}
    return {
        name: Parameter(name, default, type(default), text) for name, default, text in _core.game_parameters(game)
    }


def parameter_value(game: str, known: Mapping[str, Parameter], key: str, value: Any, text: str) -> Any:
    """The value as the type of the parameter; UsageError, naming what was typed, on anything else."""
    if not known:
        raise UsageError(f"{text}: {game} has no parameters; leave it out")
    if key not in known:
        raise UsageError(f"{text}: {game} has no parameter {key}; nearest: {nearest(key, known)}; "
                         f"there are {', '.join(known)}")
    _, default, kind, _ = known[key]
    if kind is float and type(value) is int:
        return float(value)
    if kind is str and type(value) in (int, float):
        return str(value)
    if type(value) is not kind:
        such = "" if default is None else f", such as its default {shown(default)}"
        raise UsageError(f"{text}: must be {KINDS[kind]}{such}")
    return value


def given_parameters(game: str, assignments: Iterable[str]) -> dict[str, Any]:
    """`--param k=v`, several times -> the parameters; UsageError naming the one that is wrong."""
    texts: dict[str, str] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--param {text}: write --param name=value")
        texts[key] = value
    values = {key: typed(value) for key, value in texts.items()}
    known = game_parameters(game, values)
    return {
        key: parameter_value(game, known, key, value, f"--param {key}={texts[key]}") for key, value in values.items()
    }


def typed(text: str) -> int | float | bool | str:
    """A value as one writes it on the command line -> the value."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def shown(value: Any) -> str:
    """A value as one writes it on the command line."""
    return str(value).lower() if isinstance(value, bool) else f"'{value}'" if isinstance(value, str) else str(value)
