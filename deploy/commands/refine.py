"""`shusaku refine task=module:Class rollouts=8`: a search over answers, without a game and a network of ours."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from shusaku.actors.refine import MOST_WORKERS, Node, TreeSearch, as_text, draw
from shusaku.common.durable_files import write_atomically
from shusaku.common.errors import RunError, UsageError
from shusaku.common.external.entry import find_class, trust
from shusaku.common.external.user_class import Param, Parameter, check_methods, constructor_parameters, make_instance
from shusaku.common.suggestions import nearest

TASKS = {  # names for task=, beside module:Class
    "queens": "shusaku.actors.refine_tasks.queens:Queens",
    "endpoint": "shusaku.actors.refine_tasks.endpoint:Endpoint",
}
METHODS = {"first": (), "critique": ("answer",), "refine": ("answer", "critique"), "score": ("answer",)}
CONTRACT = "docs/guides/refine.md has the contract"
MOST_ROLLOUTS = 10_000  # selecting looks at every answer
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
HELP = """usage: shusaku refine task=NAME|module:Class [key=value ...] [--json]

Monte Carlo tree self-refine (arXiv 2406.07394): improves answers by critique and refinement.  For example:
shusaku refine task=queens rollouts=64

  task=            queens, endpoint (a language model over HTTP), or a class of your own, module:Class
  task.<name>=     a parameter of the task's constructor
  rollouts=8       refinements that are asked for
  children=3       refinements of one answer before it waits for a better one among them
  exploration=1.4  c of the bound by which the next answer is selected
  workers=1        refinements that are made at once
  seed=            the same as task.seed=; with one worker, equal seeds give equal searches
  trace=FILE       where the tree is written, as JSON
"""


@dataclass(frozen=True)
class Settings:
    """The command's own settings; `seed` and `trace` may be left out."""

    task: str = ""
    rollouts: int = 8
    children: int = 3
    exploration: float = 1.4
    workers: int = 1
    seed: int | None = None
    trace: str = ""


def run(arguments: list[str], as_json: bool) -> dict[str, Any]:
    """Prints the tree and the best answer; {"task", "answer", "score", "solved", "rollouts", "trace": {...}, ...}.

    RunError without an answer.  After Ctrl-C the tree so far is shown and written, too.
    """
    if any(word in ("--help", "-h") for word in arguments):
        print(f"{HELP}\n{_tasks_help()}")
        return {}
    settings, params = _parse(arguments)
    task = _make_task(settings, params)
    search = TreeSearch(task, settings.rollouts, settings.children, settings.exploration, settings.workers,
                        on_best=_ignore if as_json else _print_best)
    try:
        search.run()
    except KeyboardInterrupt as stop:
        result = _report(settings, task, search, as_json)
        raise type(stop)(*([] if result["answer"] is None else [result])) from None
    result = _report(settings, task, search, as_json)
    if search.best is None:
        reason = search.first_failure or search.ended_by.removeprefix("task: ")
        raise RunError(f"refine: no answer was scored; {reason}", result)
    return result


def _report(settings: Settings, task: Any, search: TreeSearch, as_json: bool) -> dict[str, Any]:
    trace, best = search.trace(), search.best
    result = {
        "task": settings.task, "answer": best and best.answer, "score": best and best.worth,
        "solved": search.ended_by == "solved", "ended_by": search.ended_by, "rollouts": search.rollouts,
        "failures": search.failures, "first_failure": search.first_failure, "calls": getattr(task, "calls_made", None),
        "trace": trace,
    }
    lost = _write(Path(settings.trace), result) if settings.trace else None  # first: stdout may be closed
    if not as_json and best is not None:
        print(draw(trace))
        failed = f", {search.failures} failed calls, first: {search.first_failure}" if search.failures else ""
        print(f"best answer, score {best.worth:g} after {search.rollouts} rollouts ({search.ended_by}{failed}):")
        print(as_text(best.answer))
    if lost is not None:
        raise lost
    return result


def _print_best(node: Node, rollouts: int) -> None:
    print(f"rollout {rollouts}: answer {node.id}, score {node.worth:g}", file=sys.stderr, flush=True)


def _ignore(node: Node, rollouts: int) -> None:
    """Prints nothing."""


def _write(path: Path, result: dict[str, Any]) -> RunError | None:
    """The tree of the result; the error, with the result, if the disk refuses."""
    try:
        write_atomically(path, json.dumps(result["trace"], ensure_ascii=False, indent=1).encode() + b"\n")
    except OSError as error:
        return RunError(f"trace={path}: {error.strerror}; the search has ended, and its tree is lost", result)
    return None


# --- settings --------------------------------------------------------------------------------------------------------


def _parse(arguments: Sequence[str]) -> tuple[Settings, dict[str, str]]:
    """The settings, and the texts of the task's parameters."""
    known = {field.name: field for field in fields(Settings)}
    given: dict[str, Any] = {}
    params: dict[str, str] = {}
    for word in arguments:
        key, equals, text = word.partition("=")
        try:
            word.encode()
        except UnicodeEncodeError:  # lone surrogates stand for such bytes (PEP 383)
            raise UsageError(f"{word!r}: these bytes are no text in UTF-8") from None
        if not equals:
            raise UsageError(f"refine {word}: no setting; write key=value, such as task=queens")
        if key.startswith("task.") and key != "task.":
            params[key.removeprefix("task.")] = text
        elif key in known:
            given[key] = text
        else:
            raise UsageError(f"{word}: refine has no setting {key}; nearest: {nearest(key, [*known, 'task.'])}; there "
                             f"are {', '.join(known)}, and task.<parameter>")
    kinds = {"rollouts": int, "children": int, "workers": int, "seed": int, "exploration": float}
    settings = Settings(**{key: _value(key, text, kinds.get(key, str)) for key, text in given.items()})
    _check(settings)
    return settings, params


def _check(settings: Settings) -> None:
    if not settings.task:
        raise UsageError(f"refine: task= is missing (one of {', '.join(TASKS)}, or module:Class); for example: shusaku "
                         "refine task=queens rollouts=64")
    bounds = {"rollouts": (0, MOST_ROLLOUTS), "children": (1, MOST_ROLLOUTS), "workers": (1, MOST_WORKERS)}
    for key, (low, high) in bounds.items():
        if not low <= getattr(settings, key) <= high:
            raise UsageError(f"{key}={getattr(settings, key)}: must be in [{low}, {high}]")
    if settings.exploration < 0:
        raise UsageError(f"exploration={settings.exploration:g}: must be at least 0")
    if settings.trace:
        place = Path(settings.trace)
        if place.is_dir() or not place.absolute().parent.is_dir():
            raise UsageError(f"trace={place}: must name a file in a folder that there is")


def _value(key: str, text: str, kind: type) -> Any:
    """The text as this kind of value; UsageError naming the setting."""
    if kind is str:
        return text
    try:
        value = {"true": True, "false": False}[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        value = math.nan
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{key}={text}: must be {KINDS[kind]}")
    return value


def _make_task(settings: Settings, given: Mapping[str, str]) -> Any:
    """The task; the user has named its class on the command line, so importing it is what they want."""
    name = settings.task
    if ":" not in name and name not in TASKS:
        raise UsageError(f"task={name}: no such task; nearest: {nearest(name, TASKS)}; there are {', '.join(TASKS)}, "
                         "and module:Class for one of your own")
    cls = _class_of(name)
    label = f"task={name}"
    check_methods(label, cls, METHODS, {}, CONTRACT)
    known = {parameter.name: parameter for parameter in constructor_parameters(cls, "task")}
    texts = dict(given)
    if settings.seed is not None:
        if "seed" not in known or "seed" in texts:
            problem = "task.seed= says it already" if "seed" in texts else f"{label} has no parameter seed"
            raise UsageError(f"seed={settings.seed}: {problem}; leave it out")
        texts["seed"] = str(settings.seed)
    for key in texts:
        if key not in known:
            has = f"nearest: {nearest(key, known)}; it has {', '.join(known)}" if known else "it has none; leave it out"
            raise UsageError(f"task.{key}={texts[key]}: {label} has no parameter {key}; {has}")
    for parameter in known.values():
        if parameter.default is None and parameter.name not in texts:
            raise UsageError(f"{label} needs task.{parameter.name}=...: {parameter.help or KINDS[parameter.kind]}")
    values: dict[str, Param] = {key: _value(f"task.{key}", text, known[key].kind) for key, text in texts.items()}
    return make_instance(cls, label, values)


def _class_of(name: str) -> Any:
    entry = TASKS.get(name, name)
    trust(entry)
    return find_class(entry, "task")


def _tasks_help() -> str:
    """The parameters of the tasks that come with the program."""
    parts = []
    for name in TASKS:
        cls = _class_of(name)
        rows = constructor_parameters(cls, "task")
        parts.append("\n".join([f"task={name}: {cls.__doc__.partition('.')[0]}", *map(_parameter_line, rows)]))
    return "\n\n".join(parts)


def _parameter_line(parameter: Parameter) -> str:
    default = "" if parameter.default is None else parameter.default
    return f"  {f'task.{parameter.name}={default}':<39} {parameter.help}"
