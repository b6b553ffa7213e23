"""The command `shusaku`: a table of commands, our own few options, and everything else to Hydra.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 resume impossible, 130 after Ctrl-C, 143 after SIGTERM or SIGHUP.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from types import FrameType
from typing import Any, TextIO

from shusaku.common.durable_files import DISK_ERRORS
from shusaku.common.errors import ResumeError, RunError, UsageError
from shusaku.common.hardware import THREADS_WAIT
from shusaku.common.masking import mask_text
from shusaku.common.suggestions import nearest
from shusaku.deploy.cli.foreground import run_in_child
from shusaku.deploy.cli.help import command_help, overview
from shusaku.deploy.cli.options import ELSEWHERE, Options, take_address, take_options
from shusaku.deploy.commands.table import COMMANDS, Command, Takes
from shusaku.deploy.ray_runtime.command_line import mask_command_line
from shusaku.deploy.run.foreground_link import LINK, Ending
from shusaku.deploy.run.stop_signals import Terminated, termination_signals

SHOWS_ONLY = frozenset({"--help", "-h", "--cfg", "--cfg=job", "-c", "--info", "-i"})  # nothing runs long


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; that of the command line, unless `argv` is given, in a child."""
    if argv is not None:
        return _run(list(argv))
    words = sys.argv[1:]
    is_configured = bool(words) and words[0] in COMMANDS and COMMANDS[words[0]].is_configured
    if not is_configured or sys.gettrace() is not None:  # a debugger wants the terminal
        return _run(words)
    mask_command_line()
    first_line = "" if SHOWS_ONLY.intersection(words) else f"shusaku {words[0]}: starting"
    return run_in_child(lambda: _run(words), first_line, to_stderr="--json" in words or COMMANDS[words[0]].owns_stdout)


def _run(argv: list[str]) -> int:
    for name, value in THREADS_WAIT.items():
        os.environ.setdefault(name, value)
    try:
        with _termination_raises():
            return _dispatch(argv)
    except (UsageError, ResumeError, RunError) as error:
        _complain(str(error))
        return 2 if isinstance(error, UsageError) else 3 if isinstance(error, ResumeError) else 1
    except Terminated:
        return 143
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output went away (`| head`)
        return 1
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        place = f"{error.filename}: " if error.filename else ""
        _complain(f"{place}{error.strerror}; the same command goes on when the disk takes files again")
        return 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)


def _dispatch(argv: list[str]) -> int:
    name, *rest = argv or ["--help"]
    if name in ("--help", "-h", "help"):
        print(overview())
    elif name.partition("=")[0] in ("--shell-completion", "-sc"):  # `-sc` in Hydra's scripts
        from shusaku.deploy.cli.inspection import complete

        complete(name.partition("=")[2] or " ".join(rest))
    elif name == "--version":
        print(f"shusaku {metadata.version('shusaku')}")
    elif name not in COMMANDS:
        raise UsageError(f"there is no command {name}; nearest: {nearest(name, COMMANDS)}; "
                         f"there are {', '.join(COMMANDS)}")
    else:
        return _run_command(name, COMMANDS[name], rest)
    return 0


def _run_command(name: str, command: Command, rest: list[str]) -> int:
    if command.takes is Takes.COMMAND_LINE:
        code: int = command.load()(rest)
        return code
    if command.takes is Takes.OPTIONS:
        _call(command, [[argument for argument in rest if argument != "--json"]], "--json" in rest)
        return 0
    address, others = take_address(rest) if command.is_elsewhere_too else ("", rest)
    if address:
        from shusaku.deploy.commands import submit

        return submit.run(["--address", address, "--", name, *others])
    options, rest = take_options(name, rest, ELSEWHERE if command.is_elsewhere_too else ())
    if options.help:
        print(command_help(name, command))
        return 0
    leading = [_take_what(name, command, rest)] if command.takes is Takes.WHAT_AND_CONFIG else []
    _run_configured(command, leading, rest, options)
    return 0


def _run_configured(command: Command, leading: list[str], overrides: list[str], options: Options) -> None:
    from shusaku.deploy.cli.inspection import show_info
    from shusaku.deploy.cli.launch import is_for_launcher, launch
    from shusaku.deploy.cli.overrides import as_yaml, compose_job, compose_jobs
    from shusaku.deploy.cli.presets import Presets

    presets = Presets.read(options.config_dir) if options.config_dir else Presets()
    for_launcher = [text for text in overrides if is_for_launcher(text)]
    if for_launcher and not options.multirun:
        raise UsageError(f"{for_launcher[0]}: a launcher is for several runs; add --multirun, or leave it out")
    overrides = [text for text in overrides if text not in for_launcher]
    jobs = compose_jobs(overrides, presets) if options.multirun else [compose_job(overrides, presets)]
    if options.info:
        show_info(options.info, jobs[0], presets)
    elif options.print_config:
        print("---\n".join(as_yaml(job.config) for job in jobs), end="")
    elif options.multirun:
        with _json_last(options.as_json) as show:
            LINK.expect(Ending.IN_ORDER)
            show({"jobs": launch(command, leading, jobs, presets, for_launcher, options.as_json)})
    else:
        _call(command, [*leading, jobs[0].config], options.as_json)


def _call(command: Command, arguments: list[Any], as_json: bool) -> None:
    with _json_last(as_json) as show:
        run = command.load()
        LINK.expect(Ending.IN_ORDER)
        show(run(*arguments, as_json))


def _take_what(name: str, command: Command, rest: list[str]) -> str:
    """Takes the first word that is no override out of `rest`."""
    if command.what[0].endswith("=PATH"):
        return _take_path(name, command, rest)
    is_free = any(choice.isupper() for choice in command.what)
    known = "" if is_free else f" (one of {', '.join(command.what)})"
    word = next((argument for argument in rest if "=" not in argument), None)
    if word is None:
        raise UsageError(f"{name}: missing argument {command.what[0] if is_free else 'WHAT'}{known}; for example: "
                         f"shusaku {command.example}")
    if not is_free and word not in command.what:
        raise UsageError(f"{name} {word}: unknown WHAT; nearest: {nearest(word, command.what)}{known}")
    rest.remove(word)
    return word


def _take_path(name: str, command: Command, rest: list[str]) -> str:
    """Takes the word `to=PATH` or `from=PATH` out of `rest`; the path."""
    key = command.what[0].removesuffix("PATH")
    words = [word for word in rest if word.startswith(key) and word != key]
    if len(words) != 1:
        problem = "more than one" if words else "missing"
        raise UsageError(f"{name}: {problem} {command.what[0]}; for example: shusaku {command.example}")
    rest.remove(words[0])
    return words[0].removeprefix(key)


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
    except RunError as error:
        result.extend([error.result] if error.result is not None else [])
        raise
    finally:
        if owned:
            os.dup2(saved, 1)
            os.close(saved)
        try:
            for item in result:
                print(json.dumps(item), file=stdout, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise RunError(f"the result could not be written to stdout: {error.strerror}") from None


@contextlib.contextmanager
def _termination_raises() -> Iterator[None]:
    received: list[int] = []

    def terminate(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        if len(received) == 1 or not LINK.is_connected:  # `ray job stop` sends it to the foreground process and to us
            raise Terminated

    try:
        previous = {number: signal.signal(number, terminate) for number in termination_signals()}
    except ValueError:  # not the main thread: another thread handles signals
        yield
        return
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _complain(text: str) -> None:
    """One line on stderr, if that takes it."""
    with contextlib.suppress(OSError):
        print(f"shusaku: {mask_text(' '.join(text.split()))}", file=sys.stderr)


def _flush(stream: TextIO) -> None:
    """Writes what the stream still holds; if it takes nothing any more, Python must not try again at its exit."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
