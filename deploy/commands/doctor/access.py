"""Who can reach a run: Ray's token, modes of files, addresses that are listened on, and Redis' users."""

import ipaddress
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from shusaku.common.tls.relay import NAME as RELAY
from shusaku.deploy.commands.doctor.finding import Finding, fail, ok, warn
from shusaku.deploy.ray_runtime.auth import MODE, TOKEN, TOKEN_PATH
from shusaku.deploy.run.control_server import CONTROL_FILE

PRIVATE_FILES = (CONTROL_FILE, "redis/password", "redis/redis.conf", "redis/socket")  # below a run directory
# Processes that listen for other machines although their run has one machine only, and why.
EXCEPTIONS = {
    "gcs_server": "Ray's head, behind the token", "raylet": "Ray's node, behind the token",
    "ray": "Ray's agents and workers, behind the token", "python": "Ray's agents and workers, behind the token",
}


@dataclass(frozen=True)
class Listener:
    """One listening TCP socket."""

    process: str  # name of its program
    address: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.address).is_loopback

    def __str__(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.process} on {address}:{self.port}"


def check_token(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Ray's token: whether there is one, and who can read it."""
    if environ.get(MODE) == "disabled":
        yield fail("token", f"{MODE}=disabled: every client that reaches Ray's ports runs code as you",
                   f"unset {MODE}")
        return
    if environ.get(TOKEN):
        yield ok("token", f"in the variable {TOKEN}")
        return
    path = Path(environ.get(TOKEN_PATH) or Path(environ.get("HOME") or "~").expanduser() / ".ray" / "auth_token")
    try:
        mode, content = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        if environ.get(TOKEN_PATH):
            yield fail("token", f"{TOKEN_PATH}={path} is missing", f"make the file, mode 600, or unset {TOKEN_PATH}")
        else:
            yield ok("token", f"{path} is absent; the first start makes it, mode 600")
        return
    except (OSError, UnicodeDecodeError) as error:
        yield fail("token", f"{path} cannot be read: {getattr(error, 'strerror', '') or 'no text'}",
                   f"get a good copy from the cluster's owner, or name another file with {TOKEN_PATH}=FILE")
        return
    if not content:
        yield fail("token", f"{path} is empty", f"rm {path}, the next start makes a new one")
    elif mode & 0o077:
        yield fail("token", f"{path} has mode {mode:o}: with the token others run code as you", f"chmod 600 {path}")
    else:
        yield ok("token", f"{path}, mode {mode:o}")


def check_modes(run_dir: Path, url_files: Sequence[Path]) -> Iterator[Finding]:
    """The files that hold secrets can be read by their owner alone; none of the run can be written by others."""
    if not run_dir.is_dir():
        yield ok("modes", f"{run_dir} is no run directory yet")
    found = []
    for path in [*(run_dir / name for name in PRIVATE_FILES), *url_files]:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            if path in url_files:
                yield fail("modes", f"{path} is missing", "write the URL into it, or name another file")
            continue
        except OSError as error:
            yield warn("modes", f"{path} cannot be looked at: {error.strerror}", "run doctor as the owner of the run")
            continue
        if mode & 0o077:
            found.append(path)
            yield fail("modes", f"{path} has mode {mode:o} and holds a secret", f"chmod 600 {path}")
    for path in (run_dir, run_dir / "checkpoints", run_dir / "redis"):
        mode = stat.S_IMODE(path.stat().st_mode) if path.is_dir() else 0
        if mode & 0o002:
            found.append(path)
            yield fail("modes", f"{path} has mode {mode:o}: everyone can replace what is in it", f"chmod o-w {path}")
    if not found and run_dir.is_dir():
        yield ok("modes", f"secrets of {run_dir} are readable by their owner alone")


def listeners_of(pid: int) -> list[Listener]:
    """The TCP sockets that a process and those below it listen on, as far as they can be seen."""
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return []
    found = set()
    for process in family:
        try:
            name = process.name()
            connections = process.net_connections("tcp")
        except (psutil.Error, OSError):
            continue
        found |= {Listener(name, connection.laddr.ip, connection.laddr.port) for connection in connections
                  if connection.status == psutil.CONN_LISTEN}
    return sorted(found, key=str)


def check_binds(listeners: Sequence[Listener] | None, bind: str) -> Iterator[Finding]:
    """What listens for other machines; None: no run goes on.

    `bind` is the address of the replay server that other machines of the cluster use; empty: there is none.
    """
    if listeners is None:
        yield ok("binds", "no run goes on there, so nothing listens")
        return
    encrypted = [listener for listener in listeners if listener.process == RELAY]
    if encrypted:
        yield ok("binds", f"encrypted by TLS: {', '.join(map(str, encrypted))}")
    public = [listener for listener in listeners if not listener.is_loopback and listener not in encrypted]
    excepted: dict[str, list[str]] = {}  # by the reason
    for listener in public:
        if bind and listener.address == bind:
            yield warn("binds", f"{listener}: the replay server, for the other machines of the cluster",
                       "keep that network private, or set replay.encryption=tls; only a password guards the server")
            continue
        reason = next((text for name, text in EXCEPTIONS.items() if listener.process.startswith(name)), "")
        if reason:
            excepted.setdefault(reason, []).append(str(listener))
        else:
            yield fail("binds", f"{listener} can be reached from other machines", "close the port in the firewall")
    for reason, names in excepted.items():
        yield warn("binds", f"{reason}: {', '.join(names)}",
                   "keep that network private, or close its ports in the firewall")
    if not public:
        yield ok("binds", f"{len(listeners)} sockets, all of this machine alone")


def check_acl(users: Sequence[str] | None, actor_url: str, own_url: str) -> Iterator[Finding]:
    """The rights of actors in Redis: `users` as `ACL LIST` names them; None: it could not be asked."""
    way = "python -m shusaku.replay.stream.access NAME prints the users to make; name one with replay.actor_url"
    if users is None:
        if own_url and not actor_url:
            yield warn("acl", "actors use replay.url, so they may do what the driver may", way)
        else:
            yield ok("acl", "no replay server answers here; nothing to look at")
        return
    open_users = [user for user in users if " on " in f"{user} " and " nopass" in user]
    if open_users:
        yield fail("acl", "Redis lets clients in without a password",
                   "set requirepass, or ACL SETUSER default resetpass")
        return
    limited = [user for user in users if " on " in f"{user} " and "~*" not in user and "-@all" in user]
    if limited or actor_url:
        yield ok("acl", "actors have a user of their own")
    else:
        yield warn("acl", "actors use the driver's user, so they may do what the driver may", way)


