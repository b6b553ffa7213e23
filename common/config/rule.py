"""A rule of the configuration: a setting, its value, whether the rule holds, and what the value must be."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from typing import Any

from shusaku.common.errors import UsageError
from shusaku.common.masking import mask_override

Rule = tuple[str, Any, bool, str]
Limit = tuple[Callable[[Any], bool], str]  # whether a value is possible, and what it must be
Limits = list[tuple[Limit, list[str]]]  # limits, each with the settings that have to keep to it

_COMPARISONS = {"at_least": operator.ge, "above": operator.gt, "at_most": operator.le, "below": operator.lt}


def raise_first(rules: Iterable[Rule]) -> None:
    """Raises UsageError, which names setting, value and rule, for the first rule that does not hold."""
    for key, value, holds, text in rules:
        if not holds:
            shown = str(value).lower() if isinstance(value, bool) else value
            shown = f"[{','.join(map(str, value))}]" if isinstance(value, list) else shown
            raise UsageError(f"{mask_override(f'{key}={shown}')}: {text}")


def limit_rules(values: Mapping[str, Any], limits: Limits, prefix: str = "") -> Iterator[Rule]:
    """Every number is finite, and every value keeps to its limits.  `prefix` stands before the names of the values."""
    for name, value in values.items():
        if isinstance(value, float):
            yield f"{prefix}{name}", value, isfinite(value), "must be a finite number"
    for (holds, text), names in limits:
        for name in names:
            if name in values:
                yield f"{prefix}{name}", values[name], holds(values[name]), text.format(prefix=prefix)


def number(hint: str = "", **bounds: float) -> Limit:
    """A number within bounds, such as `number(above=0, at_most=1)`; `hint` ends the message."""
    text = " and ".join(f"{name.replace('_', ' ')} {bound}" for name, bound in bounds.items())
    return (lambda value: all(_COMPARISONS[name](value, bound) for name, bound in bounds.items()),
            f"must be {text}{hint}")


def one_of(*names: str) -> Limit:
    """One of these words; an empty one is not named."""
    return lambda value: value in names, f"must be one of {', '.join(filter(None, names))}"


def matches(pattern: str, text: str) -> Limit:
    """Text that the pattern matches as a whole."""
    return lambda value: re.fullmatch(pattern, value, re.DOTALL) is not None, text
