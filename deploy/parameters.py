"""Parameters of a game's rules, checked against what the core says the game has."""

from typing import TYPE_CHECKING, Any

from common.errors import UsageError
from deploy.nearest import nearest

if TYPE_CHECKING:
    from common._core import Game

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "a map"}


def game_defaults(game: str) -> dict[str, Any]:
    """Name -> default of every parameter."""
    from common._core import game_parameters

    return {name: default for name, default, _ in game_parameters(game)}


def make_game(name: str, params: Any, what: str) -> "Game":
    """The game under these rules; UsageError, behind `what`, where it refuses one of them or all of them together."""
    from common._core import Game

    try:
        return Game(name, params)
    except ValueError as error:
        raise UsageError(f"{what}: {error}") from None


def parameter_value(game: str, known: dict[str, Any], key: str, value: Any, text: str) -> Any:
    """The value as the type of the parameter's default; UsageError, naming what was typed, on anything else."""
    if not known:
        raise UsageError(f"{text}: {game} has no parameters; leave it out")
    if key not in known:
        raise UsageError(f"{text}: {game} has no parameter {key}; nearest: {nearest(key, known)}; "
                         f"there are {', '.join(known)}")
    kind = type(known[key])
    if kind is float and type(value) is int:
        return float(value)
    if kind is str and type(value) in (int, float):
        return str(value)
    if type(value) is not kind:
        raise UsageError(f"{text}: must be {KINDS[kind]}, such as its default {shown(known[key])}")
    return value


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
