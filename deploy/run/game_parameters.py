"""Parameters of a game's rules, checked against what the core says the game has."""

from collections.abc import Iterable, Mapping
from typing import Any

from shusaku.common._core import Game, Rollouts, SearchBatch, external_names, game_names, game_parameters
from shusaku.common.config.search import AlphaGoConfig, SearchConfig, replace_read
from shusaku.common.errors import UsageError
from shusaku.common.external.entry import trust
from shusaku.common.search import search_options
from shusaku.common.suggestions import nearest

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "a map", list: "a list"}


def game_choices() -> list[str]:
    """Names that `game=` takes: the core's games, and those behind which games from outside are found."""
    return [*game_names(), *external_names()]


def game_defaults(game: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Name -> default of every parameter, or its type if it has none; those of a Python game depend on `given`."""
    if game in external_names():
        from shusaku.common.external.loader import parameters

        return {p.name: p.kind if p.default is None else p.default for p in parameters(game, given or {})}
    return {name: default for name, default, _ in game_parameters(game)}


def make_game(name: str, params: Any, what: str) -> Game:
    """The game under these rules; UsageError, behind `what`, if it refuses one of them or all of them together."""
    try:
        return Game(name, params)
    except UsageError:
        raise  # by an external game, which names itself
    except ValueError as error:
        raise UsageError(f"{what}: {error}") from None


def check_search(game: Game, search: SearchConfig) -> None:
    """UsageError if the search needs what the game lacks, such as a transposition key or a policy of rollouts."""
    try:
        if isinstance(search, AlphaGoConfig):  # whose tree is not that of a batch
            Rollouts(game, search.rollout)
        else:
            SearchBatch(game, search_options(replace_read(search, cache=0), symmetries=False), 1, 0)
    except ValueError as error:
        raise UsageError(str(error)) from None


def parameter_value(game: str, known: Mapping[str, Any], key: str, value: Any, text: str) -> Any:
    """The value as the type of the parameter; UsageError, naming what was parse_value, on anything else."""
    if not known:
        raise UsageError(f"{text}: {game} has no parameters; leave it out")
    if key not in known:
        raise UsageError(f"{text}: {game} has no parameter {key}; nearest: {nearest(key, known)}; "
                         f"there are {', '.join(known)}")
    has_default = not isinstance(known[key], type)
    kind = type(known[key]) if has_default else known[key]
    if kind is float and type(value) is int:
        return float(value)
    if kind is str and type(value) in (int, float):
        return str(value)
    if type(value) is not kind:
        such = f", such as its default {format_value(known[key])}" if has_default else ""
        raise UsageError(f"{text}: must be {KINDS[kind]}{such}")
    return value


def parse_parameters(game: str, assignments: Iterable[str]) -> dict[str, Any]:
    """`--param k=v`, several times -> the parameters; UsageError naming the one that is wrong."""
    texts: dict[str, str] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--param {text}: write --param name=value")
        texts[key] = value
    values = {key: parse_value(value) for key, value in texts.items()}
    if game == "python" and "entry" in values:
        trust(str(values["entry"]))
    known = game_defaults(game, values)
    return {key: parameter_value(game, known, key, value, f"--param {key}={texts[key]}")
            for key, value in values.items()}


def parse_value(text: str) -> int | float | bool | str:
    """A value as one writes it on the command line -> the value."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def format_value(value: Any) -> str:
    """A value as one writes it on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else f"'{value}'" if isinstance(value, str) else str(value)
