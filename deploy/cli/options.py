"""Our own options of the commands that take a configuration; everything else on the line is an override for Hydra."""

import re
from collections.abc import Iterable, Sequence
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
ADDRESS = "--address URL"
ELSEWHERE = {
    ADDRESS: "run as a job on the head of the cluster with this dashboard, as `shusaku submit` does; run.dir is there",
}
_FLAGS = {"--json": "as_json", "--help": "help", "-h": "help", "--multirun": "multirun", "-m": "multirun"}
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


def take_address(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The value of --address, empty without one, and the other words; UsageError if it has no value."""
    words, rest, address = list(argv), [], ""
    while words:
        option, equals, value = words.pop(0).partition("=")
        if option == ADDRESS.partition(" ")[0]:
            address = value if equals else _next(words)
            if not address:
                raise UsageError("--address: missing argument URL, of the cluster's dashboard")
        else:
            rest.append(f"{option}{equals}{value}")
    return address, rest


def take_options(name: str, argv: Sequence[str], others: Iterable[str] = ()) -> tuple[Options, list[str]]:
    """Splits the options of the command `name` from overrides; UsageError on an option that does not exist.

    `others`: of OPTIONS' kind, which the command has besides and that were taken before.
    """
    options = Options()
    rest: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if word in _FLAGS:
            setattr(options, _FLAGS[word], True)
        elif option in ("--cfg", "-c"):
            what = value if equals else _next(words)
            if what != "job":
                raise UsageError(f"--cfg {what or '(nothing)'}: must be job, which prints the configuration")
            options.print_config = True
        elif option in ("--config-dir", "-cd"):
            options.config_dir = value if equals else _next(words)
            if not options.config_dir:
                raise UsageError("--config-dir: missing argument DIR, a directory of presets")
        elif option in ("--info", "-i"):
            options.info = value or (_next(words) if words and words[0] in TOPICS else "all")
            if options.info not in TOPICS:
                raise UsageError(f"--info {value}: there is no such topic; nearest: {nearest(value, TOPICS)}; there "
                                 f"are {', '.join(TOPICS)}")
        elif word.startswith("-") and not re.fullmatch(r"-\d+", word):
            known = [option.partition(" ")[0] for option in (*OPTIONS, *others)]
            raise UsageError(f"{word}: {name} has no such option; nearest: {nearest(word, known)}; "
                             f"there are {', '.join(known)}, and settings are written key=value")
        else:
            rest.append(word)
    return options, rest


def _next(words: list[str]) -> str:
    """Takes the next word; empty if there is none."""
    return words.pop(0) if words else ""
