"""A rule of the configuration: a setting, its value, whether the rule holds, and what the value must be."""

from collections.abc import Iterable
from typing import Any

from shusaku.common.errors import UsageError

Rule = tuple[str, Any, bool, str]


def raise_first(rules: Iterable[Rule]) -> None:
    """Raises UsageError, which names setting, value and rule, for the first rule that does not hold."""
    for key, value, holds, text in rules:
        if not holds:
            shown = str(value).lower() if isinstance(value, bool) else value
            shown = f"[{','.join(map(str, value))}]" if isinstance(value, list) else shown
            raise UsageError(f"{key}={shown}: {text}")
