"""The texts of `shusaku --help` and `shusaku COMMAND --help`."""

from shusaku.deploy.cli.options import ELSEWHERE, OPTIONS
from shusaku.deploy.commands.table import COMMANDS, Command


def overview() -> str:
    """The commands, one a line."""
    width = max(map(len, COMMANDS)) + 2
    rows = "\n".join(f"  {name:<{width}}{command.help}" for name, command in COMMANDS.items())
    return (
        "usage: shusaku COMMAND [key=value ...] [--json]\n\n"
        "Learns board games by self-play.  The commands:\n\n"
        f"{rows}\n\n"
        "`shusaku COMMAND --help` lists what a command takes; `eval \"$(shusaku --shell-completion install=bash)\"` "
        "completes\ncommands and settings in the shell.  To begin:  shusaku train experiment=tic_tac_toe"
    )


def command_help(name: str, command: Command) -> str:
    """Usage, options, choices and settings of one command; of the settings, those that it reads."""
    words = [f"usage: shusaku {name}", *(["|".join(command.what)] if command.what else []), "[key=value ...]"]
    shown = {option: text for option, text in OPTIONS.items() if command.is_composed or option == "--json"}
    shown |= ELSEWHERE if command.is_elsewhere_too else {}
    width = max(map(len, shown)) + 3
    options = "\n".join(f"  {option:<{width}}{text}" for option, text in shown.items())
    parts = [
        " ".join([*words, *(f"[{option}]" for option in shown)]),
        f"{command.help[0].upper()}{command.help[1:]}.  For example:  shusaku {command.example}",
        options,
    ]
    if command.is_composed:
        parts.append(_choices())
    return "\n\n".join([*parts, *_settings(command)])


def _choices() -> str:
    from shusaku.deploy.cli.presets import Presets

    groups = "\n".join(f"  {group + '=':<13}{' | '.join(choices)}" for group, choices in Presets().choices().items())
    return ("choices (experiment=connect_four unless a game is named, which starts from the plain defaults):\n"
            f"{groups}\n"
            "  game.<parameter>=  the rules: see `shusaku games`\n"
            "  config=FILE        the config.yaml of a run instead of an experiment: the same settings again\n"
            "  trust=true         run what files name, too: the class of a Python game, the command of an engine")


def _settings(command: Command) -> list[str]:
    """A part for each section: its name, what it is about, and the settings that the command reads."""
    from shusaku.deploy.cli.config_reference import settings

    sections: dict[str, list[str]] = {}
    titles: dict[str, str] = {}
    for setting in settings():
        if not setting.key:
            titles.setdefault(setting.section, setting.text.partition("\n")[0])
        elif command.reads_setting(setting.key):
            line = f"  {setting.key + '=' + setting.default:<36} {setting.text}"
            sections.setdefault(setting.section, []).append(line)
    return ["\n".join([f"{section or 'more'}: {titles.get(section, 'settings and their plain defaults')}", *lines])
            for section, lines in sections.items()]
