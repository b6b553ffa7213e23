"""Kills and stops anything of a run at random, again and again, and counts what that costs.

    make soak MINUTES=60 SEED=1        or  python -m benchmarks.reliability.soak --minutes 60 --seed 1

A quarter of the time goes to `shusaku local`, the rest to `shusaku train`; with `--wiring nodes` all of it to a run on
a Ray cluster of two nodes, one of which is lost every few minutes and comes back.  Every few seconds one process of the
run gets SIGKILL, or SIGSTOP and after some seconds SIGCONT; a driver that was killed is started again.  In the end:

lost      games that an actor's ledger says Redis acknowledged (benchmarks/reliability/ledger), or that a checkpoint of
          `local` named, and that are neither in the window nor were seen in it before they left
doubled   games that were seen twice
numbers   of Redis: its games, against those that were seen
growth    of each role's memory, descriptors and threads from the moment on that the window is full: see slopes.py
left      what killed processes left behind: processes, sockets, shared memory, temporary files

Exit code 1 if a game is lost or doubled, memory grows by more than 2 % an hour, descriptors or threads grow, or
something is left.  Growth is judged from ten minutes of a full window on, and only printed before.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import psutil

from benchmarks.lib import ROOT
from benchmarks.reliability.node_faults import NodeFaults
from benchmarks.reliability.slopes import Sample, slope_of
from shusaku.common.codec import decode_record
from shusaku.deploy.run.control_client import ControlClient, ControlUnavailable
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.learner.checkpoints import load_latest
from shusaku.replay.record_log import LogPosition, RecordLog
from shusaku.replay.stream.client import connect
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import EmbeddedServer, server_url

Game = tuple[int, ...]  # epoch, actor, incarnation, sequence

COMMON = ("experiment=tic_tac_toe", "run.minutes=600", "run.checkpoint_seconds=2", "actors.games_per_actor=8",
          "search.simulations=8", "search.considered_actions=8", "strength.enabled=false", "replay.minimum=500",
          "replay.window=fixed", "learner.publish_every=20")
CLUSTER = (*COMMON, "replay.capacity=40000", "actors.count=2", "actors.cpus=0.4", "inference.placement=server",
           "cluster.dashboard=false")
LOCAL = (*COMMON, "replay.capacity=5000", "actors.count=1", "learner.threads=1")
LOCAL_SHARE = 0.25  # of the time
SAMPLE_SECONDS, READ_SECONDS = 5.0, 0.5
LEARNING_SECONDS = 180.0  # in which a run must be learning after a start
GONE_SECONDS = 30.0  # in which nothing of a killed process is left
MOST_GROWTH = 2.0  # percent of memory an hour
JUDGED_SECONDS = 600.0  # of a full window, from which growth is judged


class Shusaku:
    """`shusaku train` or `local` in a process, started again as often as it is killed."""

    def __init__(self, command: str, overrides: tuple[str, ...], run_dir: Path, ledger: Path) -> None:
        self.run_dir, self.log = run_dir, run_dir.with_name(f"{run_dir.name}.log")
        self._words = [sys.executable, "-m", "shusaku", command, *overrides, f"run.dir={run_dir}"]
        hook = ROOT / "benchmarks" / "reliability" / "ledger"
        variables = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        path = os.pathsep.join([str(hook), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._environment = {**variables, "PYTHONPATH": path, "SOAK_LEDGER": str(ledger),
                             "TMPDIR": str(run_dir.parent)}
        self.family: set[psutil.Process] = set()
        self.workers: Callable[[], set[psutil.Process]] = set  # of it, that are no children of its driver
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return self._environment

    def join(self, variables: dict[str, str], workers: Callable[[], set[psutil.Process]]) -> None:
        """The Ray cluster that these variables name, before the start; `workers` are its processes."""
        self._environment |= variables
        self.workers = workers

    def start(self) -> None:
        self.starts += 1
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(self._words, stdout=output, stderr=subprocess.STDOUT,
                                            start_new_session=True, env=self._environment, cwd=ROOT)

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def status(self) -> dict[str, Any]:
        """The driver's newest one; empty while there is none."""
        with contextlib.suppress(ControlUnavailable, ValueError, psutil.Error):
            client = ControlClient.of(self.run_dir)
            data = client.status() if client else b""
            if self.is_running():
                assert self.process is not None
                self.family |= set(psutil.Process(self.process.pid).children(recursive=True))
                self.family.add(psutil.Process(self.process.pid))
                self.family |= self.workers()
            state: dict[str, Any] = json.loads(data) if data else {}
            return state
        return {}

    def pids(self, state: dict[str, Any]) -> dict[str, int]:
        """Process ids by role and index; the driver's is `driver 0`."""
        found = {name: entry["pid"] for name, entry in state.get("processes", {}).items() if entry["pid"]}
        return {**found, "driver 0": state["driver"]} if state else {}

    def wait_until_learning(self, steps: int) -> dict[str, Any]:
        deadline = time.monotonic() + LEARNING_SECONDS
        while time.monotonic() < deadline:
            state = self.status()
            if state and state["status"]["step"] > steps:
                return state
            if not self.is_running():
                break
            time.sleep(0.3)
        self.refuse(f"the run does not learn within {LEARNING_SECONDS:.0f} s of its start")

    def refuse(self, reason: str) -> NoReturn:
        """Ends the soak, with what the run said last."""
        sys.exit(f"{reason}:\n{self.log.read_text(errors='replace')[-3000:]}")

    def close(self) -> None:
        """Ends by force whatever is left."""
        for process in self.family:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()

    def wait_until_gone(self) -> list[str]:
        """What still lives of the run some time after its end."""
        deadline = time.monotonic() + GONE_SECONDS
        while (alive := [process for process in self.family if is_alive(process)]) and time.monotonic() < deadline:
            time.sleep(0.2)
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GONE_SECONDS)
        self.family.clear()
        return [describe(process) for process in alive]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def describe(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"process {process.pid} {' '.join(process.cmdline())[:80]}"
    return f"process {process.pid}"


class Sampler:
    """Looks at every process of the run from time to time."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.full_at: float | None = None  # when the window was full for the first time
        self._due = 0.0

    def look(self, pids: dict[str, int], is_full: bool) -> None:
        now = time.monotonic()
        if is_full and self.full_at is None:
            self.full_at = now
        if now < self._due:
            return
        self._due = now + SAMPLE_SECONDS
        for name, pid in pids.items():
            with contextlib.suppress(psutil.Error, OSError):
                process = psutil.Process(pid)
                with process.oneshot():
                    self.samples.append(Sample(
                        name.partition(" ")[0], pid, now, time.time() - process.create_time(),
                        process.memory_full_info().uss / 1e6, process.num_fds(), process.num_threads()))

    def report(self) -> list[str]:
        """Prints growth of each role; what is too much."""
        if self.full_at is None:
            print("growth     the window did not become full")
            return []
        since = time.monotonic() - self.full_at
        is_judged = since >= JUDGED_SECONDS
        print(f"growth     in {since / 60:.1f} minutes of a full window"
              + ("" if is_judged else f", not judged below {JUDGED_SECONDS / 60:.0f}"))
        failures = []
        for role in sorted({sample.role for sample in self.samples}):
            mine = [sample for sample in self.samples if sample.role == role and sample.time >= self.full_at]
            if not mine:
                continue
            usual = sorted(sample.megabytes for sample in mine)[len(mine) // 2]
            units = {"megabytes": ("%/h", 100 / usual), "descriptors": ("/h", 1.0), "threads": ("/h", 1.0)}
            for what, (unit, scale) in units.items():
                slope = slope_of(mine, what)
                if slope is None:
                    print(f"  {role:<10} {what:<11} no two samples of the same age")
                    continue
                value, low, high = (part * scale for part in (slope.value, slope.low, slope.high))
                print(f"  {role:<10} {what:<11} {value:+.2f} {unit} [{low:+.2f}, {high:+.2f}], {slope.pairs:,} pairs, "
                      f"{len({sample.pid for sample in mine})} processes"
                      + (f", usually {usual:.0f} MB" if what == "megabytes" else ""))
                most = MOST_GROWTH if what == "megabytes" else 0.0
                if is_judged and value > most and low > 0:
                    failures.append(f"{role}: {what} grow by {value:.2f} {unit}")
        return failures


class StreamReader(threading.Thread):
    """Reads every game of the window before it leaves, on a connection of its own."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(daemon=True)
        self._run_dir = run_dir
        self.games: dict[int, Game] = {}  # by their number
        self.unread: set[int] = set()  # numbers that had left before they were read
        self.boots: set[str] = set()
        self.counters: dict[str, int] = {}
        self.is_ending = False

    def run(self) -> None:
        while not self.is_ending:
            with contextlib.suppress(Exception):  # the server is killed and stopped all the time
                url = server_url(self._run_dir / "redis")
                while url and self.read(url):
                    pass
            time.sleep(READ_SECONDS)

    def read(self, url: str) -> bool:
        """Reads once; whether there may be more."""
        client: Any = connect(url, 3.0)
        try:
            keys = RunKeys.of(RunIdentity.of(self._run_dir).run_id)
            newest = max(self.games, default=0)
            boot = client.hget(keys.control, "boot")
            page = client.xrange(keys.games, f"({newest}-0", "+", count=1000)
            self.counters = {name.decode(): int(value) for name, value in client.hgetall(keys.counters).items()}
        finally:
            client.connection_pool.disconnect()
        self.boots |= {boot.decode()} if boot else set()
        for name, fields in page:
            number = int(name.partition(b"-")[0])
            self.unread |= set(range(newest + 1, number))
            self.games[number], newest = tuple(decode_record(fields[b"d"]).game_id), number
        return len(page) == 1000


def read_ledger(folder: Path) -> set[Game]:
    games: set[Game] = set()
    for file in folder.iterdir():
        for line in file.read_text().splitlines():
            epoch, actor, incarnation, *sequences = map(int, line.split())
            games |= {(epoch, actor, incarnation, sequence) for sequence in sequences}
    return games


class Faults:
    """What is done to whom, by a seed."""

    def __init__(self, seed: int, wiring: str, is_short: bool) -> None:
        self._random = random.Random(f"{seed} {wiring}")
        self._pause = (5.0, 15.0) if is_short else (10.0, 30.0)
        self._stopped: list[tuple[float, int]] = []  # when to send SIGCONT, to which process
        self.next = time.monotonic() + 5.0
        self.counts: Counter[str] = Counter()

    def inject(self, pids: dict[str, int], driver_share: float) -> int:
        """Hurts one of them if it is time; the driver's pid if that was killed, else 0."""
        now = time.monotonic()
        for moment, pid in self._stopped:
            if now >= moment:
                self.send(pid, signal.SIGCONT)
        self._stopped = [(moment, pid) for moment, pid in self._stopped if now < moment]
        if now < self.next or not pids:
            return 0
        self.next = now + self._random.uniform(*self._pause)
        workers = sorted(name for name in pids if name != "driver 0")
        is_driver = not workers or self._random.random() < driver_share
        name = "driver 0" if is_driver else self._random.choice(workers)
        is_kill = self._random.random() < 0.6
        number = signal.SIGKILL if is_kill else signal.SIGSTOP
        if not self.send(pids[name], number):
            return 0
        self.counts[f"{number.name} {name.partition(' ')[0]}"] += 1
        if not is_kill:
            self._stopped.append((now + self._random.uniform(1.0, 8.0), pids[name]))
        return pids[name] if is_kill and is_driver else 0

    def wake_all(self) -> None:
        for _, pid in self._stopped:
            self.send(pid, signal.SIGCONT)
        self._stopped = []

    def send(self, pid: int, number: signal.Signals) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False


# Below the directory for temporary files: Ray's logs, torch's cache, the soak's own folders.
STAYS = re.compile(r"shusaku-\w{8}$|torchinductor_|cluster|local|nodes|ray$")


def traces(folder: Path) -> set[str]:
    """Shared memory, and what lies in the directory for temporary files or listens there.

    Sockets without a file and memory without a name end with their processes.
    """
    found = {str(path) for path in Path("/dev/shm").glob("*")}
    found |= {str(path) for path in folder.iterdir() if not STAYS.match(path.name)}
    lines = Path("/proc/net/unix").read_text().splitlines()
    return found | {line.split()[-1] for line in lines if str(folder) in line}


def parts_of(run_dir: Path) -> list[str]:
    return [str(path) for path in run_dir.rglob("*") if path.name.endswith((".part", ".new", ".old"))]


class Soak:
    """One run, hurt until its time is over, and what was found."""

    wiring, overrides, capacity = "", (), 0  # capacity: rows of the full window
    driver_share = 1.0  # of the faults that hit the driver

    def __init__(self, folder: Path, seconds: float, seed: int) -> None:
        self.seconds, self.ledger = seconds, folder / f"{self.wiring}-ledger"
        self.ledger.mkdir()
        self.run = Shusaku("local" if self.wiring == "local" else "train", self.overrides, folder / self.wiring,
                           self.ledger)
        self.faults, self.sampler = Faults(seed, self.wiring, seconds < 1200), Sampler()
        self.folder, self.before, self.failures = folder, traces(folder), []

    def go(self) -> list[str]:
        """What is wrong, a line each."""
        try:
            self.run.start()
            self.run.wait_until_learning(20)
            self.begin()
            until = time.monotonic() + self.seconds
            while time.monotonic() < until:
                self.tick()
                time.sleep(0.3)
            self.end()
        finally:
            self.run.close()
        return self.failures

    def tick(self) -> None:
        state = self.run.status()
        pids = self.run.pids(state)
        self.sampler.look(pids, bool(state) and state["status"]["window_rows"] >= 0.95 * self.capacity)
        if self.faults.inject(pids, self.driver_share):
            self.faults.wake_all()
            self.wait_for_end("after a kill of the driver: ")
            self.note_kill()
            self.run.start()
            self.run.wait_until_learning(0)
        elif not self.run.is_running():
            self.run.refuse("the run ended")

    def wait_for_end(self, when: str) -> None:
        self.failures += [when + text for text in self.run.wait_until_gone()]

    def end(self) -> None:
        self.faults.wake_all()
        state = self.run.wait_until_learning(0)
        time.sleep(10)  # for the send queues of the actors
        done = subprocess.run([sys.executable, "-m", "shusaku", "stop", f"run.dir={self.run.run_dir}"], check=False,
                              cwd=ROOT, stdout=subprocess.DEVNULL)
        self.failures += [f"shusaku stop: exit code {done.returncode}"] * bool(done.returncode)
        self.wait_for_end("after `shusaku stop`: ")
        print(f"{self.wiring:<10} {self.run.starts} starts, {state['status']['step']:,} steps, "
              + ", ".join(f"{count} {name}" for name, count in sorted(self.faults.counts.items())))
        self.check_games()
        self.failures += self.sampler.report()
        left = [*sorted(traces(self.folder) - self.before), *parts_of(self.run.run_dir)]
        self.failures += [f"{self.wiring} has left {name}" for name in left]

    def begin(self) -> None:
        """Once it learns."""

    def note_kill(self) -> None:
        """After a kill of the driver, before its next start."""

    def check_games(self) -> None:
        """After the end: what is lost or doubled."""


class ClusterSoak(Soak):
    """`shusaku train`."""

    wiring, overrides, capacity, driver_share = "cluster", CLUSTER, 40_000, 0.08

    def begin(self) -> None:
        self.reader = StreamReader(self.run.run_dir)
        self.reader.start()

    def check_games(self) -> None:
        self.reader.is_ending = True
        self.reader.join()
        server = EmbeddedServer(self.run.run_dir / "redis", max_megabytes=4096)
        server.start()
        while self.reader.read(server.url):
            pass
        server.stop()
        self.failures += check_stream(self.reader, read_ledger(self.ledger))


class NodesSoak(ClusterSoak):
    """`shusaku train` on a cluster of two nodes."""

    wiring, overrides = "nodes", (*CLUSTER, "actors.cpus=0.6")  # one a node

    def __init__(self, folder: Path, seconds: float, seed: int) -> None:
        super().__init__(folder, seconds, seed)
        self._nodes = NodeFaults(seed, self.run.environment)
        self.run.join(self._nodes.variables, self._nodes.workers)

    def go(self) -> list[str]:
        try:
            return super().go()
        finally:
            self._nodes.close()

    def tick(self) -> None:
        self._nodes.inject()
        super().tick()

    def end(self) -> None:
        self._nodes.bring_back()
        self.faults.counts |= self._nodes.counts
        super().end()

    def check_games(self) -> None:
        self._nodes.close()  # its own sockets and files are not the run's
        super().check_games()


class LocalSoak(Soak):
    """`shusaku local`."""

    wiring, overrides, capacity = "local", LOCAL, 5000

    def begin(self) -> None:
        self._acknowledged: list[Game] = []
        self._lost = self._doubled = 0

    def note_kill(self) -> None:
        games = games_of_checkpoint(self.run.run_dir)
        self._lost += count_missing(self._acknowledged, games)
        self._doubled += len(games) - len(set(games))
        self._acknowledged = games

    def check_games(self) -> None:
        self.note_kill()
        print(f"games      {len(self._acknowledged):,} in the log")
        print(f"lost {self._lost}, doubled {self._doubled}")
        for count, what in ((self._lost, "lost"), (self._doubled, "there twice")):
            self.failures += [f"local: {count} games are {what}"] * bool(count)


def check_stream(reader: StreamReader, ledger: set[Game]) -> list[str]:
    seen = Counter(reader.games.values())
    lost = [game for game in ledger if game not in seen]
    doubled = [game for game, count in seen.items() if count > 1]
    counters = reader.counters
    print(f"games      {len(seen):,} seen, {len(ledger):,} acknowledged by the actors' ledgers, {len(reader.unread):,} "
          f"had left before they were read, {counters.get('duplicates', 0):,} were sent twice and kept once")
    print(f"lost {max(0, len(lost) - len(reader.unread))}, doubled {len(doubled)}")
    failures = []
    if len(lost) > len(reader.unread):
        failures.append(f"{len(lost):,} acknowledged games are lost, such as {sorted(lost)[:3]}")
    if doubled:
        failures.append(f"{len(doubled):,} games are there twice, such as {doubled[:3]}")
    if counters["games"] != counters["number"] or counters["number"] != len(reader.games) + len(reader.unread):
        failures.append(f"Redis counts {counters['games']:,} games up to number {counters['number']:,}, and "
                        f"{len(reader.games):,} were seen, {len(reader.unread):,} not")
    if len(reader.boots) != 1:
        failures.append(f"the window was lost {len(reader.boots) - 1} times")
    if counters.get("invalid", 0) or counters.get("malformed", 0):
        failures.append("records were not valid")
    return failures


def games_of_checkpoint(run_dir: Path) -> list[Game]:
    """The games that the newest checkpoint names, oldest first; of a run that does not go on."""
    found = load_latest(run_dir / "checkpoints")
    if found is None:
        return []
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(run_dir / "records", copy, dirs_exist_ok=True)
        log = RecordLog(Path(copy))
        log.truncate_to(LogPosition(*found.checkpoint.facts["local"]["records"]))
        return [tuple(decode_record(data).game_id) for data in log.iterate()]


def count_missing(before: list[Game], now: list[Game]) -> int:
    """Games of the earlier list that are missing from the later one, but for the oldest, which the log has dropped."""
    there = set(now)
    kept = next((index for index, game in enumerate(before) if game in there), len(before))
    return sum(game not in there for game in before[kept:]) if now else len(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wiring", choices=("both", "cluster", "local", "nodes"), default="both")
    options = parser.parse_args()
    kinds: dict[str, dict[type[Soak], float]] = {
        "both": {LocalSoak: LOCAL_SHARE, ClusterSoak: 1 - LOCAL_SHARE}, "cluster": {ClusterSoak: 1.0},
        "local": {LocalSoak: 1.0}, "nodes": {NodesSoak: 1.0},
    }
    failures: list[str] = []
    print(f"soak       {options.minutes:g} minutes, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        for kind, share in kinds[options.wiring].items():
            failures += kind(Path(folder), share * options.minutes * 60, options.seed).go()
    for failure in failures:
        print(f"FAIL       {failure}")
    print("soak       " + ("failed" if failures else "nothing lost, doubled, growing or left"))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
