"""The commands of `shusaku` as data: where each lies, what it is called with, and one line that says what it does."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class Takes(Enum):
    """What a command's `run` is called with."""

    COMMAND_LINE = auto()  # run(arguments) -> exit code: every word is the command's own
    OPTIONS = auto()  # run(arguments, as_json)
    CONFIG = auto()  # run(config, as_json)
    WHAT_AND_CONFIG = auto()  # run(what, config, as_json)


@dataclass(frozen=True)
class Command:
    """One row of the table; `place`, `module` or `module:function` of deploy/, is imported when the command runs."""

    place: str
    takes: Takes
    help: str
    what: tuple[str, ...] = ()  # choices of the first argument, for WHAT_AND_CONFIG; one in capitals: any word

    def load(self) -> Callable[..., Any]:
        """The function that runs the command."""
        module, _, function = self.place.partition(":")
        run: Callable[..., Any] = getattr(importlib.import_module(f"shusaku.deploy.{module}"), function or "run")
        return run


COMMANDS = {
    "train": Command("commands.train", Takes.CONFIG, "train on Ray and Redis; the same command resumes"),
    "status": Command("commands.control:status", Takes.CONFIG, "show a running training run"),
    "scale": Command(
        "commands.control:scale", Takes.WHAT_AND_CONFIG, "change the number of actors of a running training run",
        ("N",),
    ),
    "submit": Command("commands.submit", Takes.COMMAND_LINE, "run a command as a Ray job: submit -- train ..."),
    "stop": Command("commands.control:stop", Takes.CONFIG, "end a run and write a checkpoint"),
    "local": Command("local.driver", Takes.CONFIG, "train in one process; the same command resumes"),
    "evaluate": Command("commands.evaluate", Takes.CONFIG, "measure how often a network plays optimally"),
    "match": Command("match.match", Takes.CONFIG, "play games between two networks or engines and estimate Elo"),
    "bench": Command(
        "bench.bench", Takes.WHAT_AND_CONFIG, "measure the speed of one part of the system",
        ("rules", "search", "inference", "selfplay", "replay", "learner"),
    ),
    "plan": Command("commands.plan", Takes.CONFIG, "measure for a moment, then estimate speed and memory of a run"),
    "games": Command("commands.games", Takes.OPTIONS, "list the games; games check NAME checks the rules of one"),
    "perft": Command("commands.perft", Takes.OPTIONS, "count the move sequences of a game to a depth"),
}
