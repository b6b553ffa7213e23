"""`shusaku games`: the games that the core has, and what game.<parameter>=... may say of each."""

from typing import Any

from common._core import Game, game_names, game_parameters
from deploy.plain_options import PlainOptions


def run(arguments: list[str], as_json: bool) -> dict[str, Any]:
    """Prints the table; {"games": [{name, actions, observation_shape, symmetries, parameters}]}."""
    PlainOptions(prog="shusaku games", description="List the games and their parameters.").parse_args(arguments)
    games = [_describe(name) for name in game_names()]
    if not as_json:
        for game in games:
            planes, height, width = game["observation_shape"]
            print(f"{game['name']:<16}{game['actions']} actions, {planes} planes of {height} x {width}, "
                  f"{game['symmetries']} symmetries, at most {game['max_plies']} plies")
            for parameter in game["parameters"]:
                print(f"    game.{parameter['name']}={parameter['default']}  {parameter['help']}")
    return {"games": games}


def _describe(name: str) -> dict[str, Any]:
    game = Game(name)
    return {
        "name": name,
        "actions": game.num_actions,
        "observation_shape": list(game.observation_shape),
        "symmetries": game.num_symmetries,
        "max_plies": game.max_plies,
        "parameters": [
            {"name": parameter, "default": default, "help": text} for parameter, default, text in game_parameters(name)
        ],
    }
