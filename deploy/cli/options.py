"""Our own options of the commands that take a configuration; everything else on the line is an override for Hydra."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shusaku.common.errors import UsageError
from shusaku.common.suggestions import nearest

OPTIONS = {
    "--json": "the last line of the output is one JSON object, all else goes to stderr",
    "--help": "print this text and stop",
    "--cfg job": "print the configuration and stop",
    "--info TOPIC": "print how it is composed and stop: all, config, defaults, defaults-tree, plugins or searchpath",
    "--config-dir DIR": "presets of your own: DIR/experiment/NAME.yaml is experiment=NAME, as in configs/",
    "--multirun": "run once for each combination of values given as key=a,b; hydra/launcher=NAME says how",
}
TOPICS = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


@dataclass
class Options:
    """The options that were given."""

    as_json: bool = False
    help: bool = False
    print_config: bool = False
    multirun: bool = False
    info: str = ""  # a topic
    config_dir: str = ""


def take_options(name: str, argv: Sequence[str]) -> tuple[Options, list[str]]:
    """Splits the options of the command `name` from overrides; UsageError on an option that does not exist."""
    options = Options()
    rest: list[str] = []
    arguments = iter(argv)
    before = ""
    for argument in arguments:
        option, _, value = argument.partition("=")
        if argument == "--json":
            options.as_json = True
        elif argument in ("--help", "-h"):
            options.help = True
        elif argument in ("--multirun", "-m"):
            options.multirun = True
        elif option in ("--cfg", "-c"):
            what = _value(argument, arguments)
            if what != "job":
                raise UsageError(f"--cfg {what or '(nothing)'}: must be job, which prints the configuration")
            options.print_config = True
        elif option in ("--config-dir", "-cd"):
            options.config_dir = _value(argument, arguments)
            if not options.config_dir:
                raise UsageError("--config-dir: missing argument DIR, a directory of presets")
        elif option in ("--info", "-i"):
            options.info = value or "all"
            _check_topic(options.info)
        elif before in ("--info", "-i") and argument in TOPICS:
            options.info = argument
        elif argument.startswith("-") and not re.fullmatch(r"-\d+", argument):
            known = [option.partition(" ")[0] for option in OPTIONS]
            raise UsageError(f"{argument}: {name} has no such option; nearest: {nearest(argument, known)}; "
                             f"there are {', '.join(known)}, and settings are written key=value")
        else:
            rest.append(argument)
        before = argument
    return options, rest


def _value(argument: str, following: Iterator[str]) -> str:
    """What stands behind the = of an option, or in the next word."""
    _, equals, value = argument.partition("=")
    return value if equals else next(following, "")


def _check_topic(topic: str) -> None:
    if topic not in TOPICS:
        raise UsageError(f"--info {topic}: there is no such topic; nearest: {nearest(topic, TOPICS)}; there are "
                         f"{', '.join(TOPICS)}")
