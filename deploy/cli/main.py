"""The command `shusaku`: a table of commands, our own few options, and everything else to Hydra.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 resume impossible, 130 after Ctrl-C, 143 after SIGTERM.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from types import FrameType
from typing import Any

from shusaku.common.errors import ResumeError, RunFailed, UsageError
from shusaku.common.hardware import THREADS_WAIT
from shusaku.common.suggestions import nearest
from shusaku.deploy.commands.table import COMMANDS, Command, Takes
from shusaku.deploy.run.stop_signals import Terminated


@dataclass
class Options:
    """Our own options, taken out of the command line."""

    as_json: bool = False
    help: bool = False
    print_config: bool = False
    multirun: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    for name, value in THREADS_WAIT.items():
        os.environ.setdefault(name, value)
    try:
        with _sigterm_raises():
            return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except UsageError as error:
        return _fail(error, 2)
    except ResumeError as error:
        return _fail(error, 3)
    except RunFailed as error:
        return _fail(error, 1)
    except Terminated:
        return 143
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output went away (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("--help", "-h", "help"):
        print(_overview())
        return 0
    if argv[0] == "--version":
        print(f"shusaku {metadata.version('shusaku')}")
        return 0
    name, *rest = argv
    if name not in COMMANDS:
        raise UsageError(f"there is no command {name}; nearest: {nearest(name, COMMANDS)}; "
                         f"there are {', '.join(COMMANDS)}")
    command = COMMANDS[name]
    if command.takes is Takes.COMMAND_LINE:
        code: int = command.load()(rest)
        return code
    if command.takes is Takes.OPTIONS:
        as_json = "--json" in rest
        _call(command, [argument for argument in rest if argument != "--json"], as_json)
        return 0
    options, rest = _take_options(name, rest)
    if options.help:
        print(_command_help(name, command))
        return 0
    leading = [_take_what(name, command, rest)] if command.takes is Takes.WHAT_AND_CONFIG else []
    _run_configured(command, leading, rest, options)
    return 0


def _run_configured(command: Command, leading: list[str], overrides: list[str], options: Options) -> None:
    from shusaku.deploy.cli.overrides import as_yaml, compose, compose_jobs

    jobs = compose_jobs(overrides) if options.multirun else [compose(overrides)]
    if options.print_config:
        print("---\n".join(as_yaml(job) for job in jobs), end="")
        return
    if not options.multirun:
        _call(command, [*leading, jobs[0]], options.as_json, spread=True)
        return
    results = []
    with _json_last(options.as_json) as show:
        for number, job in enumerate(jobs, 1):
            print(f"job {number} of {len(jobs)}: {job.run.dir}", file=sys.stderr)
            result = command.load()(*leading, job, options.as_json)
            results.append({"dir": job.run.dir, "overrides": job.overrides, **result})
        show({"jobs": results})


def _call(command: Command, arguments: list[Any], as_json: bool, spread: bool = False) -> None:
    failure: RunFailed | None = None
    with _json_last(as_json) as show:
        run = command.load()
        try:
            show(run(*arguments, as_json) if spread else run(arguments, as_json))
        except RunFailed as error:
            if error.result is None:
                raise
            show(error.result)
            failure = error
    if failure is not None:
        raise failure


def _take_options(name: str, argv: list[str]) -> tuple[Options, list[str]]:
    """Splits our options from Hydra's overrides; UsageError on an option that does not exist."""
    options, rest = Options(), []
    arguments = iter(argv)
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if argument == "--json":
            options.as_json = True
        elif argument in ("--help", "-h"):
            options.help = True
        elif argument in ("--multirun", "-m"):
            options.multirun = True
        elif option in ("--cfg", "-c"):
            what = value if equals else next(arguments, "")
            if what != "job":
                raise UsageError(f"--cfg {what or '(nothing)'}: must be job, which prints the configuration")
            options.print_config = True
        elif argument.startswith("-"):
            known = ["--json", "--help", "--cfg", "--multirun"]
            raise UsageError(f"{argument}: {name} has no such option; nearest: {nearest(argument, known)}; "
                             f"there are {', '.join(known)}, and settings are written key=value")
        else:
            rest.append(argument)
    return options, rest


def _take_what(name: str, command: Command, rest: list[str]) -> str:
    """Takes the first word that is no override out of `rest`."""
    word = next((argument for argument in rest if "=" not in argument), None)
    if word is None:
        raise UsageError(f"{name} needs to know what; write one of {', '.join(command.what)} behind it")
    if not any(choice.isupper() or choice == word for choice in command.what):
        raise UsageError(f"{name} {word}: nothing of that name; nearest: {nearest(word, command.what)}; "
                         f"there are {', '.join(command.what)}")
    rest.remove(word)
    return word


def _overview() -> str:
    rows = "\n".join(f"  {name:<10}{command.help}" for name, command in COMMANDS.items())
    return (
        "usage: shusaku COMMAND [key=value ...] [--json]\n\n"
        "Learns board games by self-play.  The commands:\n\n"
        f"{rows}\n\n"
        "`shusaku COMMAND --help` lists what a command takes.  To begin:  shusaku train experiment=tic_tac_toe"
    )


def _command_help(name: str, command: Command) -> str:
    from shusaku.deploy.cli.config_reference import settings
    from shusaku.deploy.cli.overrides import group_choices

    what = f" {'|'.join(command.what)}" if command.what else ""
    groups = "\n".join(f"  {group + '=':<13}{' | '.join(choices)}" for group, choices in group_choices().items())
    rows = "\n".join(
        f"  {setting.key + '=' + setting.default:<36} {setting.text}" for setting in settings() if setting.key
    )
    return (
        f"usage: shusaku {name}{what} [key=value ...] [--json] [--cfg job] [-m | --multirun]\n\n"
        f"{command.help[0].upper()}{command.help[1:]}.\n\n"
        "  --json        the last line of the output is one JSON object, all else goes to stderr\n"
        "  --cfg job     print the configuration and stop\n"
        "  --multirun    run once for each combination of values given as key=a,b\n\n"
        "choices (experiment=connect_four unless a game is named, which starts from the plain defaults):\n"
        f"{groups}\n  game.<parameter>=  see `shusaku games`\n\n"
        f"settings and their plain defaults:\n{rows}"
    )


@contextlib.contextmanager
def _json_last(as_json: bool) -> Iterator[Any]:
    """Keeps everything but the result off stdout, including what libraries write to the file descriptor itself."""
    if not as_json:
        yield lambda result: None
        return
    result: list[dict[str, Any]] = []
    stdout = sys.stdout
    stdout.flush()
    owned = stdout is sys.__stdout__
    saved = os.dup(1) if owned else -1
    try:
        if owned:
            os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield result.append
    except KeyboardInterrupt as stop:  # with what was found so far
        result.extend(stop.args)
        raise
    finally:
        if owned:
            os.dup2(saved, 1)
            os.close(saved)
        for item in result:
            print(json.dumps(item), file=stdout, flush=True)


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    def terminate(signum: int, frame: FrameType | None) -> None:
        raise Terminated

    try:
        previous = signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # not the main thread: signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _fail(error: Exception, code: int) -> int:
    print(f"shusaku: {' '.join(str(error).split())}", file=sys.stderr)
    return code
