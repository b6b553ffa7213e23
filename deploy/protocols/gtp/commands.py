"""The table of all commands: name -> method, for the game of the engine."""

from collections.abc import Sequence

from shusaku.deploy.protocols.gtp import administration, analyse, gogui, load_game, play, raw_network, status
from shusaku.deploy.protocols.gtp.engine import Command, Engine
from shusaku.deploy.protocols.gtp.text import expect_words, format_flag

GAMES = ("go", "othello", "hex")  # that GTP is used for
_ALL = {
    **administration.OF_ALL_GAMES, **play.OF_ALL_GAMES, **status.OF_ALL_GAMES, **analyse.OF_ALL_GAMES,
    **raw_network.OF_ALL_GAMES, **gogui.OF_ALL_GAMES,
}
_GO = {**administration.OF_GO, **play.OF_GO, **load_game.OF_GO, **status.OF_GO, **gogui.OF_GO}


def known_command(engine: Engine, words: Sequence[str]) -> str:
    """`true` or `false`."""
    expect_words(words, 1)
    return format_flag(words[0] in commands_of(engine))


def list_commands(engine: Engine, words: Sequence[str]) -> str:
    """A name a line."""
    return "\n".join(commands_of(engine))


def commands_of(engine: Engine) -> dict[str, Command]:
    """The commands for this game; hex and Othello have neither handicap stones nor dead ones."""
    own: dict[str, Command] = {"known_command": known_command, "list_commands": list_commands}
    return {**own, **_ALL, **(_GO if engine.state.is_go else {})}
