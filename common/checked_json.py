"""Small JSON files that carry the digest of their content, so that a reader notices every damage."""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from shusaku.common.durable_files import write_atomically

_DIGEST = "sha256"


class DamagedFileError(ValueError):
    """A file is not what was written; the text says why."""


def write_checked_json(path: Path, content: dict[str, Any]) -> None:
    """Writes the object and its digest atomically; OSError if the disk refuses."""
    write_atomically(path, json.dumps({**content, _DIGEST: _digest(content)}).encode() + b"\n")


def read_checked_json(path: Path, keys: Collection[str]) -> dict[str, Any]:
    """Reads the object, which has no other keys than these; one of an older program has no digest.

    FileNotFoundError if there is no file; DamagedFileError if it is not what was written.
    """
    try:
        content = json.loads(path.read_bytes().decode())
    except ValueError as error:
        raise DamagedFileError(str(error)) from None
    if not isinstance(content, dict):
        raise DamagedFileError("no JSON object")
    digest = content.pop(_DIGEST, None)
    if not content.keys() <= set(keys) or digest not in (None, _digest(content)):
        raise DamagedFileError("its SHA-256 is not the stored one")
    return content


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
