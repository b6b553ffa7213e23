"""Ray's token: its file, the file's permissions, and the variables that name it to every Ray process.

The token of clusters that we start is `~/.ray/auth_token`: Ray's own tools look there without being told, and it is
the user's alone.  Not in the run directory: that one is copied, shared and attached to reports, and with the token
one runs code as the user.  Ray writes that file readable by all; here it is 0600.
"""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from shusaku.common.errors import UsageError

# Ray's processes bind 127.0.0.1 alone, as they always do on Windows and macOS.  Read when Ray is imported.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


@dataclass(frozen=True)
class Login:
    """How to authenticate: the variables for this process and its children, and the file if there is one."""

    variables: dict[str, str]
    token_file: str = ""  # "" without a token, or if only a variable holds it
    note: str = ""  # a line for the user; empty if there is none

    @property
    def has_token(self) -> bool:
        """Whether a token is used at all."""
        return self.variables[MODE] == "token"

    def token(self) -> str:
        """The token itself, for a request's header; UsageError if the file cannot be read."""
        return self.variables.get(TOKEN) or _read(Path(self.token_file))

    def refusal(self, cluster: str) -> UsageError:
        """What the user is told if `cluster` does not accept this login."""
        if not self.has_token:
            return UsageError(f"{cluster}: that cluster asks for a token and there is none here; put it into a file "
                              f"of mode 600 and name that with {TOKEN_PATH}=FILE")
        return UsageError(f"{cluster}: that cluster refuses the token in {self.token_file or TOKEN}; get the right "
                          f"one from its owner and name its file with {TOKEN_PATH}=FILE")


def login_for_new_cluster(environ: Mapping[str, str] = os.environ) -> Login:
    """For a Ray that we start: always a token, made if there is none, unless RAY_AUTH_MODE=disabled is set.

    UsageError if the token file can be neither read nor written.
    """
    mode, path = _mode_and_path(environ)
    if mode == "disabled":
        return Login({MODE: "disabled"}, note=f"Ray starts without a token, by {MODE}=disabled: every client "
                                              "that reaches its ports runs code as you")
    if environ.get(TOKEN):
        return Login({MODE: "token", TOKEN: environ[TOKEN]})
    try:
        note = _make_private(path)
    except OSError as error:
        raise UsageError(f"{path}: Ray's token cannot be kept there ({error.strerror}); name another file with "
                         f"{TOKEN_PATH}=FILE") from None
    _read(path)
    return Login({MODE: "token", TOKEN_PATH: str(path)}, str(path), note)


def login_for_joining(environ: Mapping[str, str] = os.environ) -> Login:
    """For a cluster that runs already: by the variables, else by the default file, else without a token.

    UsageError if a token is asked for and there is none.
    """
    mode, path = _mode_and_path(environ)
    if mode == "disabled":
        return Login({MODE: "disabled"})
    if environ.get(TOKEN):
        return Login({MODE: "token", TOKEN: environ[TOKEN]})
    if environ.get(TOKEN_PATH) or mode == "token" or path.exists():
        _read(path)
        return Login({MODE: "token", TOKEN_PATH: str(path)}, str(path))
    return Login({MODE: "disabled"}, note=f"no token for Ray: neither {TOKEN} nor {TOKEN_PATH} is set and {path} "
                                          "is absent, so the cluster is joined without one")


@contextlib.contextmanager
def ray_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables within it; Ray reads some of them once, at import, and is made to read them again."""
    removed = {TOKEN, TOKEN_PATH} if MODE in variables else set()
    before = {name: os.environ.get(name) for name in {*variables, *removed}}
    for name in removed - set(variables):
        os.environ.pop(name, None)
    os.environ.update(variables)
    _reread()
    try:
        yield
    finally:
        for name in before:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
        _reread()


def _reread() -> None:
    """For tests and programs that imported Ray before; our commands import it later, and need no private name."""
    compiled = sys.modules.get("ray._raylet")
    if compiled is not None:
        with contextlib.suppress(AttributeError):
            compiled.Config.initialize("")
            compiled.AuthenticationTokenLoader.instance().reset_cache()


def _mode_and_path(environ: Mapping[str, str]) -> tuple[str, Path]:
    """The mode that is asked for, if any, and where the token is kept unless a variable holds it."""
    mode = environ.get(MODE, "").lower()
    if mode not in ("", "token", "disabled"):
        raise UsageError(f"{MODE}={environ[MODE]}: must be token or disabled")
    return mode, Path(environ.get(TOKEN_PATH) or Path.home() / ".ray" / "auth_token")


def _make_private(path: Path) -> str:
    """Makes the token if there is none, and unreadable for other users; returns a line if they could read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists() or path.stat().st_size == 0:
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == 0:  # a writer died
                path.unlink()
        with contextlib.suppress(FileExistsError):  # another process was faster: its token is the one
            os.link(fresh, path)
        fresh.unlink()
        return ""
    mode = path.stat().st_mode & 0o777
    if mode & 0o077 == 0:
        return ""
    path.chmod(0o600)
    return f"{path} was readable by others (mode {mode:o}) and is 600 now"


def _read(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise UsageError(f"{path}: Ray's token cannot be read ({reason}); get it from the cluster's owner, or "
                         f"name its file with {TOKEN_PATH}=FILE") from None
    if not token:
        raise UsageError(f"{path}: is empty and should hold Ray's token; get it from the cluster's owner")
    return token
