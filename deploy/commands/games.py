"""`shusaku games`: the games that there are, and what game.<parameter>=... may say of each; `games check NAME`."""

from typing import Any

from shusaku.common._core import Game, game_names, game_parameters
from shusaku.common.errors import UsageError
from shusaku.common.external.loader import parameters
from shusaku.deploy.commands.plain_options import PlainOptions
from shusaku.deploy.run.game_parameters import format_value


def run(arguments: list[str], as_json: bool) -> dict[str, Any]:
    """Prints the table; {"games": [{name, actions, ..., parameters}], "external": [...], "open_spiel": [name, ...]}."""
    if arguments[:1] == ["check"]:
        from shusaku.deploy.commands.games_check import run as check

        return check(arguments[1:], as_json)
    PlainOptions(
        prog="shusaku games", usage="shusaku games [check NAME]",
        description="List the games and their parameters; `games check NAME` checks one.",
    ).parse_args(arguments)
    games = [_describe(name) for name in game_names()]
    names, obstacle = _open_spiel_names()
    external = [_describe_external("open_spiel"), _describe_external("python")]
    if not as_json:
        for game in games:
            planes, height, width = game["observation_shape"]
            print(f"{game['name']:<16}{game['actions']} actions, {planes} planes of {height} x {width}, "
                  f"{game['symmetries']} symmetries, at most {game['max_plies']} plies")
            _print_parameters(game["parameters"])
        print(f"{'open_spiel':<16}{obstacle or 'one of OpenSpiel: ' + ', '.join(names)}")
        _print_parameters(external[0]["parameters"])
        print(f"{'python':<16}a class of your own, see docs/adding-a-game.md; `shusaku games check python --param "
              "entry=module:Class` checks it")
        _print_parameters(external[1]["parameters"])
    return {"games": games, "external": external, "open_spiel": names}


def _describe(name: str) -> dict[str, Any]:
    game = Game(name)
    rows = [{"name": key, "default": default, "help": text} for key, default, text in game_parameters(name)]
    return {"name": name, "actions": game.num_actions, "observation_shape": list(game.observation_shape),
            "symmetries": game.num_symmetries, "max_plies": game.max_plies, "parameters": rows}


def _describe_external(name: str) -> dict[str, Any]:
    return {"name": name, "parameters": [
        {"name": row.name, "default": row.default, "help": row.help} for row in parameters(name, {})
    ]}


def _open_spiel_names() -> tuple[list[str], str]:
    """OpenSpiel's games that can be played here, or why there are none."""
    from shusaku.common.external.open_spiel import playable_names

    try:
        return playable_names(), ""
    except UsageError as error:
        return [], str(error)


def _print_parameters(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        default = "..." if row["default"] is None else format_value(row["default"])
        print(f"    game.{row['name']}={default}  {row['help']}")
