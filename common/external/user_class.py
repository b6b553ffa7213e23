"""A class that the user wrote: which settings its constructor takes, whether its methods are there, and one of it."""

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from shusaku.common.errors import UsageError
from shusaku.common.external.entry import where

Param = int | float | str | bool
_SCALARS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
Methods = Mapping[str, tuple[str, ...]]  # name -> its arguments


class Parameter(NamedTuple):
    """A parameter that `game.<name>=` or `task.<name>=` may set."""

    name: str
    default: Param | None  # None: it must be given
    kind: type  # int, float, str or bool
    help: str


def class_label(cls: Any) -> str:
    """As an entry names it."""
    return f"{cls.__module__}:{cls.__qualname__}"


def constructor_parameters(cls: Any, section: str) -> list[Parameter]:
    """The constructor's parameters that a command line can give: whole numbers, numbers, texts, true or false.

    `section`: before the dot of the settings, such as game in `game.size`.
    """
    helps = getattr(cls, "parameter_help", {})
    found = []
    if cls.__init__ is object.__init__:
        return []
    for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = None if parameter.default is parameter.empty else parameter.default
        if parameter.default is parameter.empty:
            annotation = parameter.annotation
            kind = _SCALARS.get(annotation if isinstance(annotation, str) else getattr(annotation, "__name__", ""))
            if kind is None:
                raise UsageError(f"{class_label(cls)}: the constructor's parameter {name} has neither a default nor a "
                                 "type among int, float, str and bool: give it one of them, so that "
                                 f"{section}.<parameter>= can set it")
        elif type(default) in _SCALARS.values():
            kind = type(default)
        else:
            continue  # a default that no command line can replace
        if name == "entry":
            raise UsageError(f"{class_label(cls)}: the constructor's parameter must not be called entry, which names "
                             "the class")
        found.append(Parameter(name, default, kind, str(helps.get(name, ""))))
    return found


def make_instance(cls: Any, label: str, arguments: Mapping[str, Param]) -> Any:
    """One of the class; UsageError with the place if its constructor raises."""
    try:
        return cls(**arguments)
    except UsageError:
        raise
    except Exception as error:
        shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        raise UsageError(f"{label}: {cls.__name__}({shown}) raised {where(error, cls.__module__)}") from error


def check_methods(label: str, cls: type, methods: Methods, optional: Methods, contract: str) -> None:
    """UsageError, which ends with `contract`, on a method that is missing or takes other arguments."""
    for method, takes in {**methods, **optional}.items():
        found = getattr(cls, method, None)
        if found is None and method in optional:
            continue
        call = f"{method}({', '.join(takes)})"
        if not callable(found):
            near = [n for n in get_close_matches(method, dir(cls), 1, 0.7) if n not in methods]
            hint = f" (is {near[0]} meant to be it?)" if near else ""
            raise UsageError(f"{label}: {cls.__name__} has no method {call}{hint}; {contract}")
        is_bound = isinstance(inspect.getattr_static(cls, method), staticmethod | classmethod)
        try:
            inspect.signature(found).bind(*(() if is_bound else ("self",)), *takes)
        except TypeError as error:
            raise UsageError(f"{label}: {method} cannot be called as {call}: {error}; {contract}") from None
        except ValueError:
            continue  # a compiled function without a signature
