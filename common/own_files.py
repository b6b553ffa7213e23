"""Marks on data that only this user's programs can have written: a copied run directory is told from an own one.

The key lies in the user's home, readable by the user alone; it is made when it is first needed.  A program that can
read it can run others as the user anyway.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

MARK_BYTES = 32
KEY_BYTES = 32


def mark(data: bytes) -> bytes:
    """The data behind a mark of MARK_BYTES; of zeros if this user can keep no key."""
    key = _key()
    return (hmac.digest(key, data, hashlib.sha256) if key else bytes(MARK_BYTES)) + data


def marked_data(data: bytes) -> bytes:
    """The data without its mark.  ValueError unless a program of this user has marked it."""
    found, data, key = data[:MARK_BYTES], data[MARK_BYTES:], _key()
    if not key or not hmac.compare_digest(found, hmac.digest(key, data, hashlib.sha256)):
        raise ValueError("it was not written by this user on this machine")
    return data


def _key() -> bytes:
    """The user's key; empty if there is none and none can be made."""
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "shusaku" / "key"
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError:
        return b""
    return key if len(key) == KEY_BYTES else b""


def _make(path: Path) -> None:
    """Whole or not at all, and never in place of a key that another process made meanwhile."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".key.{os.getpid()}.part")
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(KEY_BYTES))
        os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.close(descriptor)
        temporary.unlink()
