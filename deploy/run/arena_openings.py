"""Whether the games of the gate and of the rater can begin as they are configured to, before anything is started."""

from shusaku.actors.arena.arena import openings
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game
from shusaku.deploy.run.elo_record import is_rated
from shusaku.deploy.run.gatekeeper import is_gated


def check_openings(config: Config) -> None:
    """UsageError if every opening of so many random plies, or nearly so, ends the game."""
    asked = {"gate.opening_plies": config.gate.opening_plies if is_gated(config) else 0,
             "rater.opening_plies": config.rater.opening_plies if is_rated(config) else 0}
    for key, plies in asked.items():
        if plies:
            next(openings(configured_game(config.game), plies, config.run.seed, key))
