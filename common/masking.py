"""Hides secrets in what is printed or saved: values of keys that name one, and passwords inside addresses.

There is one table of spellings, `_NAMES`.  A name that ends with one of them is a secret's: of a setting
(`replay.password`), of an option of an address (`?password=`, percent-encoded too), of an environment variable
(`REDIS_PASSWORD=`) and of a program (`--token=`, `--token X`).  What stands between `:` and the last `@` of an address
is a secret, too.
"""

import re
from typing import Any
from urllib.parse import unquote

MASK = "***"
_NAMES = r"(?:pass|passwd|password|passphrase|pwd|token|secret|credentials?|api_?key)"
# No secret, but a page long: the certificate in the address of a run's own server.
_SECRET_KEY = re.compile(rf"(?i)(?:{_NAMES}|key|ssl_ca_data)$")  # of a setting, a map or an option of an address
# The last @ ends it, because a password may hold one.
_ADDRESS_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):\S+(?=@)")
_ADDRESS_OPTION = re.compile(r"(?<=[?&])([^=&#\s?]{1,100})=([^&#\s]+)")
_ASSIGNMENT = re.compile(rf"(?i)(?<![\w?&%-])([\w.-]*{_NAMES})=([^\s&#]+)")
_OPTION = re.compile(rf"(?i)(?<!\S)(--?[\w-]*{_NAMES})(\s+)([^\s-]\S*)")


def mask_text(text: str) -> str:
    """`redis://user:pw@host?password=pw` -> `redis://user:***@host?password=***`."""
    text = _ADDRESS_PASSWORD.sub(rf"\1:{MASK}", text)
    text = _ADDRESS_OPTION.sub(_mask_option, text)
    return _OPTION.sub(rf"\1\2{MASK}", _ASSIGNMENT.sub(rf"\1={MASK}", text))


def mask_value(value: str) -> str:
    """As `mask_text`, if the whole text is one value: blanks in an address belong to it."""
    return mask_text("%20".join(value.split(" ")) if "://" in value.partition(" ")[0] else value)


def mask_override(override: str) -> str:
    """`replay.password=pw` -> `replay.password=***`."""
    key, equals, value = override.partition("=")
    if equals and value and _SECRET_KEY.search(key):
        return f"{key}={MASK}"
    return f"{key}{equals}{mask_value(value)}"


def mask_tree(tree: Any) -> Any:
    """A copy of nested dicts and lists without their secrets; an empty value stays empty."""
    if isinstance(tree, dict):
        return {
            key: MASK if value and not isinstance(value, dict) and _SECRET_KEY.search(str(key)) else mask_tree(value)
            for key, value in tree.items()
        }
    if isinstance(tree, list):
        return [mask_tree(item) for item in tree]
    return mask_value(tree) if isinstance(tree, str) else tree


def _mask_option(found: re.Match[str]) -> str:
    return f"{found[1]}={MASK}" if _SECRET_KEY.search(unquote(found[1])) else found[0]
