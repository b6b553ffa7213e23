"""The game of a configuration that the user has composed."""

from shusaku.common._core import Game, external_names
from shusaku.common.config.schema import GameConfig
from shusaku.common.external.entry import trust


def configured_game(config: GameConfig) -> Game:
    """The game that this process was started to play.

    The entry of a Python game is trusted here: `deploy.cli.overrides` has refused a configuration whose entry was not
    on the command line, and workers receive the driver's configuration, never that of a file.  A game named by weights,
    a checkpoint or a run directory is `Game(name, params)` instead, which imports nothing that the user has not named.
    """
    if config.name in external_names() and "entry" in config.params:
        trust(str(config.params["entry"]))
    return Game(config.name, config.params)
