"""Hides secrets in what is printed or saved: values of keys that name one, and passwords inside addresses."""

import re
from typing import Any

MASK = "***"
_SECRET_KEY = re.compile(r"(?i)(pass|password|token|secret|key)$")
# Every spelling of a password in an address; the last @ ends it, because a password may hold one.
_ADDRESS_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):\S+(?=@)")
_QUERY_PASSWORD = re.compile(r"(?i)(?<=[?&])((?:\w*(?:pass|password|token|secret))=)[^&#\s]+")


def mask_text(text: str) -> str:
    """`redis://user:pw@host?password=pw` -> `redis://user:***@host?password=***`."""
    return _QUERY_PASSWORD.sub(rf"\1{MASK}", _ADDRESS_PASSWORD.sub(rf"\1:{MASK}", text))


def mask_override(override: str) -> str:
    """`replay.password=pw` -> `replay.password=***`."""
    key, equals, value = override.partition("=")
    if equals and value and _SECRET_KEY.search(key):
        return f"{key}={MASK}"
    return mask_text(override)


def mask_tree(tree: Any) -> Any:
    """A copy of nested dicts and lists without their secrets; an empty value stays empty."""
    if isinstance(tree, dict):
        return {
            key: MASK if value and not isinstance(value, dict) and _SECRET_KEY.search(str(key)) else mask_tree(value)
            for key, value in tree.items()
        }
    if isinstance(tree, list):
        return [mask_tree(item) for item in tree]
    return mask_text(tree) if isinstance(tree, str) else tree
