"""The game of a configuration."""

from shusaku.common._core import Game, external_names
from shusaku.common.config.schema import GameConfig
from shusaku.common.external.entry import trust


def configured_game(config: GameConfig) -> Game:
    """The game; UsageError if it is a Python game that the user of this process has not named.

    `deploy.cli.overrides` trusts what the command line names; what a file names stays untrusted.
    """
    return Game(config.name, config.params)


def decided_game(config: GameConfig) -> Game:
    """The game that the driver has made before, for its workers in other processes: they receive its decision.

    Never call it with a configuration that was read from a file.
    """
    if config.name in external_names() and "entry" in config.params:
        trust(str(config.params["entry"]))
    return configured_game(config)
