"""Parameters of a game's rules that a notation has no place for, as "name=value"."""

from collections.abc import Iterable, Mapping

from shusaku.common.errors import UsageError
from shusaku.deploy.records.game_record import Param, Params, RecordError
from shusaku.deploy.run.game_parameters import game_defaults, parameter_value, parse_value

MAX_PARAMS = 32


def write_params(game: str, params: Params, inferred: Mapping[str, Param]) -> list[str]:
    """Those that differ from what a reader assumes: `inferred`, else the defaults."""
    assumed = {**game_defaults(game), **inferred}
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in sorted(params.items()) if assumed.get(name) != value]


def parse_params(game: str, texts: Iterable[str]) -> dict[str, Param]:
    """What `write_params` wrote; RecordError if the game has no such parameter."""
    known = game_defaults(game)
    params: dict[str, Param] = {}
    for text in list(texts)[:MAX_PARAMS]:
        name, equals, value = text.partition("=")
        if not equals:
            raise RecordError(f"the parameter {text[:40]!r} has no value")
        try:
            params[name] = parameter_value(game, known, name, parse_value(value), text[:80])
        except UsageError as error:
            raise RecordError(str(error)) from None
    return params
