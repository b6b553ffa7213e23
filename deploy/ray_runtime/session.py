"""Ray for one command: started here, or the cluster of RAY_ADDRESS joined; with its addresses and resources."""

import contextlib
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

from shusaku.common.config.schema import ClusterConfig
from shusaku.common.errors import RunError, UsageError
from shusaku.common.hardware import THREADS_WAIT, visible_gpus
from shusaku.deploy.ray_runtime import watchdog as ray_watchdog
from shusaku.deploy.ray_runtime.auth import LOOPBACK, Login, login_for_new_cluster, ray_environment
from shusaku.deploy.ray_runtime.command_line import mask_command_line
from shusaku.deploy.ray_runtime.probe import probe_cluster
from shusaku.deploy.ray_runtime.quiet_ray import fewer_processes, own_periods
from shusaku.deploy.ray_runtime.ray_output import keep_errors_of_ray, write_errors_to
from shusaku.deploy.ray_runtime.ray_parts import PartsWatch, find_parts
from shusaku.deploy.run.foreground_link import LINK, Ending
from shusaku.deploy.run.stop_signals import Terminated

SHARED_MEMORY = Path("/dev/shm")
MOST_OBJECTS = 512 << 20  # bytes of Ray's object store: a few versions of the weights, games do not pass through it
LEAST_OBJECTS = 80 << 20  # Ray refuses less than 75 MiB
START_TRIALS = 3
LEAST_DESCRIPTORS = 90  # with 48 Ray gives up after half a minute without naming the reason, with 96 a small run learns
END_WITHOUT_RAY_S = 17.0  # for the driver to save and end if Ray has ended,
NOTHING_TO_SAVE_S = 5.0  # and before the first learning step
KEEP_LOGS_SECONDS = 3 * 86_400.0  # after their last line
ADDRESS_FILE = "ray_current_cluster"  # in Ray's temporary directory; jobs and RAY_ADDRESS=auto read it
WORKERS_LEAVE_S = 2.0  # a worker notices the end of its raylet by itself in about a second

VARIABLES = {  # for Ray's own processes, if we start them
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray's 15 would put the learner behind all processes; actors lower themselves
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray warns otherwise
    **THREADS_WAIT,
}


class RaySession:
    """Ray between `start()` and `stop()`; the attributes below are set in between.

    Output of Ray's processes goes to files below `log_directory`, not to the terminal.
    """

    address = ""  # HOST:PORT of the cluster's head
    dashboard_url = ""  # "" without a dashboard
    is_local = False  # whether it was started here, and ends with this process
    own_address = ""  # of this node, for the other nodes
    num_gpus = 0.0  # of the whole cluster, as Ray counts them
    own_gpus = 0.0  # of this node
    log_directory = ""  # on this node: worker-*.err holds the last output of a crashed actor

    def __init__(self, cluster: ClusterConfig, *, notify: Callable[[str], None], namespace: str = "shusaku") -> None:
        """`notify` gets lines for the user."""
        self.namespace = namespace
        self._cluster = cluster
        self._notify = notify
        self.failure = ""  # why Ray has ended, if it did
        self._has_failed = threading.Event()
        self._login = Login({})
        self._open = contextlib.ExitStack()

    def start(self) -> None:
        """Starts Ray here, or joins the cluster of RAY_ADDRESS.

        UsageError within 20 s if no such cluster answers, refuses the token, or runs other versions.
        Must be called by the main thread, which Ray's daemons do not survive.
        """
        assert threading.current_thread() is threading.main_thread()
        _check_descriptors()
        asked = os.environ.get("RAY_ADDRESS", "").strip()
        try:
            if asked in ("", "local"):
                self._start_here_with_retry()
            else:
                self._join(asked)
            self._read_cluster()
            self._watch()
        except BaseException:
            self._open.close()
            raise

    def stop(self) -> None:
        """Ends Ray, or leaves the cluster; harmless a second time."""
        self._open.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def how_to_log_in(self) -> str:
        """One line for the terminal: the dashboard, where its token lies (never the token itself), and the logs."""
        logs = f"Ray's logs: {self.log_directory}"
        if not self.dashboard_url:
            return f"Ray at {self.address}, without a dashboard; {logs}"
        if not self._login.has_token:
            return f"dashboard: {self.dashboard_url} (without a token: every client that reaches it runs code); {logs}"
        token_file = self._login.token_file
        where = f"cat {token_file}" if token_file else "the one in RAY_AUTH_TOKEN"
        return f"dashboard: {self.dashboard_url} (it asks for a token: {where}); {logs}"

    def _start_here_with_retry(self) -> None:
        """Ray gives its daemons 15 to 30 s, which is too short on a machine that has much else to do."""
        # A Ray that was imported before, by a program that uses ours, has decided already.
        loopback = {} if "ray" in sys.modules else {name: os.environ.get(name, to) for name, to in LOOPBACK.items()}
        for trial in range(START_TRIALS):
            try:
                self._start_here(loopback)
                return
            except RunError as error:
                if trial == START_TRIALS - 1:
                    raise
                self._open.close()
                self._notify(f"{error}; trying again")

    def _start_here(self, loopback: dict[str, str]) -> None:
        self._login = login_for_new_cluster()
        if self._login.note:
            self._notify(self._login.note)
        directory = _new_directory()
        watchdog = self._open.enter_context(_watchdog())
        # A job's `shusaku` and `python` are the PATH's of the head that it is submitted to.
        path = os.pathsep.join((os.path.join(sys.prefix, "bin"), os.environ.get("PATH", os.defpath)))
        periods = own_periods() if self._cluster.quiet_ray else {}
        variables = {**VARIABLES, **loopback, **periods, "PATH": path, **self._login.variables}
        self._open.enter_context(ray_environment(variables))
        self._open.callback(_shut_down)
        try:
            with fewer_processes(self._notify) if self._cluster.quiet_ray else contextlib.nullcontext():
                self._addresses = self._init(
                    address="local", num_cpus=len(os.sched_getaffinity(0)), _temp_dir=directory,
                    include_dashboard=self._cluster.dashboard, object_store_memory=object_store_bytes(),
                ).address_info
        except Exception as error:
            if type(error) is not Exception and not isinstance(error, OSError | RuntimeError | ValueError):
                raise  # Ray raises a bare Exception if its daemons are late
            logs = f"{directory}/session_latest/logs"
            raise RunError(f"Ray does not start: {_shorten(error)}; its logs: {logs}") from error
        self.is_local = True
        if not self._addresses["node_ip_address"].startswith("127.") and loopback == LOOPBACK:
            self._notify(f"Ray's ports are open to other machines, at {self._addresses['node_ip_address']}")
        Path(directory, ADDRESS_FILE).write_text(self._addresses["gcs_address"], encoding="ascii")
        assert watchdog.stdin is not None
        watchdog.stdin.write(self._addresses["session_dir"] + "\n")
        watchdog.stdin.flush()

    def _join(self, asked: str) -> None:
        if "://" in asked:
            raise UsageError(f"RAY_ADDRESS={asked}: Ray's client protocol is not supported; run `shusaku submit -- "
                             "train ...` against the cluster's dashboard, or use HOST:PORT on one of its nodes")
        address = _running_here() if asked == "auto" else asked
        self._login = probe_cluster(address)
        if self._login.note:
            self._notify(self._login.note)
        self._open.enter_context(ray_environment({**THREADS_WAIT, **self._login.variables}))
        self._open.callback(_shut_down)
        try:
            self._addresses = self._init(address=address).address_info
        except (ConnectionError, RuntimeError) as error:
            raise UsageError(f"RAY_ADDRESS={asked}: joining that cluster failed: {_shorten(error)}") from error

    def _init(self, **arguments: Any) -> Any:
        import ray

        keep_errors_of_ray()
        mask_command_line()  # which Ray keeps for its dashboard
        # Ray replaces the handler of SIGTERM by one that exits on the spot.
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            return ray.init(namespace=self.namespace, log_to_driver=False, logging_level=logging.ERROR, **arguments)
        except SystemExit:  # which that handler raises
            raise Terminated from None
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _watch(self) -> None:
        find = partial(find_parts, self._addresses["raylet_socket_name"], os.getpid())
        head = "" if self.is_local else self.address
        self._open.callback(PartsWatch(find, head, self._fail, self._notify).close)

    def wait_for_failure(self, seconds: float) -> str:
        """Why Ray has ended, as soon as that is known; empty if it is not within so many seconds."""
        self._has_failed.wait(seconds)
        return self.failure

    def _fail(self, reason: str) -> None:
        """In the thread of the watch; the driver may be in a call that waits for Ray."""
        self.failure = reason
        self._has_failed.set()
        seconds = END_WITHOUT_RAY_S if LINK.ending is Ending.WITH_CHECKPOINT else NOTHING_TO_SAVE_S
        LINK.say_last_words(reason, seconds)
        if LINK.is_connected:  # Ray may end this process, too, and says a lot then; our line is known already
            write_errors_to(Path(self.log_directory, "driver.err"))

    def _read_cluster(self) -> None:
        import ray

        from shusaku.deploy.ray_runtime.living_nodes import living_nodes

        addresses = self._addresses
        self.address = addresses["gcs_address"]
        url = addresses["webui_url"] or ""
        self.dashboard_url = url if not url or "://" in url else f"http://{url}"
        self.own_address = addresses["node_ip_address"]
        self.log_directory = os.path.join(addresses["session_dir"], "logs")
        nodes = living_nodes()
        gpus = {node["NodeID"]: float(node["Resources"].get("GPU", 0)) for node in nodes}
        self.num_gpus = sum(gpus.values())
        self.own_gpus = gpus.get(ray.get_runtime_context().get_node_id(), 0.0)


def gpus_here() -> float:
    """GPUs that a Ray has that is started here: RAY_OVERRIDE_RESOURCES, which Ray reads, may say otherwise."""
    try:
        return float(json.loads(os.environ.get("RAY_OVERRIDE_RESOURCES", "{}"))["GPU"])
    except (KeyError, TypeError, ValueError):
        return float(visible_gpus())


def object_store_bytes() -> int:
    """Bytes of shared memory for Ray's object store: a share of what /dev/shm has free (in a container often 64 MB)."""
    free = shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else MOST_OBJECTS
    return max(LEAST_OBJECTS, min(MOST_OBJECTS, int(free * 0.8)))


def _new_directory() -> str:
    """Makes a directory for Ray's sockets, logs and the address that jobs join, which no other user can read.

    In the directory that all Rays of a machine share by default, a job joins any of them, and the second user cannot
    write.  The path is short, because it is the beginning of sockets' paths, which may have 107 bytes.
    """
    parent = os.environ.get("RAY_TMPDIR", "/tmp")
    _remove_old_directories(Path(parent))
    try:
        return os.path.join(tempfile.mkdtemp(prefix="shusaku-", dir=parent), "ray")  # Ray makes its own readable by all
    except OSError as error:
        raise UsageError(f"{parent}: Ray can not keep its sockets and logs there ({error.strerror}); name another "
                         "directory with RAY_TMPDIR") from None


def _remove_old_directories(parent: Path) -> None:
    """Removes logs of our Rays that ended days ago; a Ray that no longer writes has ended."""
    for directory in parent.glob("shusaku-????????"):
        with contextlib.suppress(OSError):
            logs = directory / "ray" / "session_latest" / "logs"
            newest = max((file.stat().st_mtime for file in logs.iterdir()), default=0.0)
            if directory.stat().st_uid == os.getuid() and time.time() - newest > KEEP_LOGS_SECONDS:
                shutil.rmtree(directory, ignore_errors=True)


def _running_here() -> str:
    file = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", ADDRESS_FILE)
    address = file.read_text(encoding="utf-8").strip() if file.exists() else ""
    if not address:
        raise UsageError("RAY_ADDRESS=auto: no Ray was started on this machine; start one with `ray start --head`, or "
                         "unset RAY_ADDRESS and one is started here")
    return address


@contextlib.contextmanager
def _watchdog() -> Iterator[subprocess.Popen[str]]:
    """Ends what is left of Ray when the context or this process ends, even by kill -9."""
    command = [sys.executable, "-I", "-S", ray_watchdog.__file__, str(os.getpid()), str(WORKERS_LEAVE_S)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               text=True, start_new_session=True)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ray_watchdog.PATIENCE + 5)


def _shorten(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _shut_down() -> None:
    import ray

    ray.shutdown()


def _check_descriptors() -> None:
    """UsageError if this process may open too few files for Ray."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= allowed < LEAST_DESCRIPTORS:
        raise UsageError(f"ulimit -n is {allowed}: Ray needs {LEAST_DESCRIPTORS} open files at least, and thousands "
                         "with many actors; set it with ulimit -n 4096")
