"""A real `shusaku train` in a process of its own, watched and hurt from outside."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import redis

from shusaku.common.codec import decode_record
from shusaku.common.messages import GameId, GameRecord
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.replay.stream.client import ReplayUnavailable, connect
from shusaku.replay.stream.control import RedisControl
from shusaku.replay.stream.keys import RunKeys
from shusaku.replay.stream.server import url_of

SMALL = (  # a run that needs little of the machine, and checkpoints often
    "experiment=tic_tac_toe", "run.minutes=30", "run.checkpoint_seconds=2", "actors.games_per_actor=8",
    "search.simulations=8", "search.considered_actions=8", "strength.enabled=false", "cluster.dashboard=false",
    "replay.minimum=500",
    "learner.publish_every=20",
)


class ClusterProcess:
    """Started on construction; `close` ends whatever is left of it."""

    def __init__(
        self, run_dir: Path, *overrides: str, url: str = "", environment: dict[str, str] | None = None
    ) -> None:
        self.run_dir, self._url = run_dir, url
        self.log = run_dir.with_name(f"{run_dir.name}.log")
        command = [sys.executable, "-m", "shusaku", "train", *SMALL, f"run.dir={run_dir}", *overrides]
        if url:
            command.append(f"replay.url={url}")
        variables = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        self._output = self.log.open("ab")
        self.process = subprocess.Popen(
            command, stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**variables, **(environment or {})},
        )
        self._tree: set[psutil.Process] = set()

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def url(self) -> str:
        return self._url or url_of(self.run_dir / "redis")

    @property
    def run_id(self) -> str:
        return RunIdentity.of(self.run_dir).run_id

    def status(self) -> dict[str, Any]:
        """What the driver said last; empty while nobody answers."""
        try:
            control = RedisControl(self.url, self.run_id, deadline=1.0)
            data = control.status()
            control.close()
            state: dict[str, Any] = json.loads(data) if data else {}
            return state if time.time() - state.get("time", 0.0) < 5 else {}
        except (ReplayUnavailable, OSError, ValueError):
            return {}

    def until(self, condition: Callable[[dict[str, Any]], Any], seconds: float, what: str) -> dict[str, Any]:
        """The first status for which it holds; AssertionError, with what the run said, after `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the run ended with {self.process.poll()}:\n{self.text[-3000:]}"
            state = self.status()
            self.note_processes()
            if state and condition(state):
                return state
            time.sleep(0.1)
        raise AssertionError(f"not within {seconds:.0f} s: {what}\n{json.dumps(state)[:2000]}\n{self.text[-3000:]}")

    def until_learning(self, seconds: float = 90.0) -> dict[str, Any]:
        return self.until(lambda s: s["status"]["step"] >= 40 and s["status"]["version"] >= 2, seconds, "learning")

    def hurt(self, role: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Sends the signal to a worker's process; its pid."""
        pid = int(self.status()["processes"][role]["pid"])
        os.kill(pid, number)
        return pid

    def command(self, *words: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Another `shusaku` beside it, about this run."""
        command = [sys.executable, "-m", "shusaku", *words, f"run.dir={self.run_dir}"]
        if self._url:
            command.append(f"replay.url={self._url}")
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)

    @property
    def control(self) -> RedisControl:
        return RedisControl(self.url, self.run_id)

    def counters(self) -> dict[str, int]:
        """Redis' own."""
        return self.control.counters()

    def records(self) -> dict[int, GameRecord]:
        """Of the stream: number -> game."""
        client: Any = connect(self.url, 5.0)
        entries = client.xrange(RunKeys.of(self.run_id).games)
        return {int(name.partition(b"-")[0]): decode_record(fields[b"d"]) for name, fields in entries}

    def games(self) -> list[GameId]:
        """Of the stream, in order, each read from its record."""
        return [record.game_id for record in self.records().values()]

    def check_games(self, has_forgotten: bool = False) -> int:
        """No acknowledged game is lost and none is there twice; versions never go back within a game.

        How many there are in the life of the run, or since Redis forgot what it had acknowledged before
        (`has_forgotten`: then an actor's numbers may begin anywhere, and go on without a gap all the same).  For runs
        in which nothing was refused.
        """
        known = self.counters()["number"]
        records = self.records()
        counters = self.counters()
        assert counters.get("invalid", 0) == 0, self.control.quarantined()
        numbers = list(records)
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "the stream has no gap"
        assert known <= numbers[-1] <= counters["number"] == counters["games"]
        assert doubled([record.game_id for record in records.values()]) == []
        lives: dict[tuple[int, ...], list[GameRecord]] = defaultdict(list)
        for record in records.values():
            lives[record.game_id[:3]].append(record)
        for life, games in lives.items():
            sequences = [game.game_id.sequence for game in games]
            is_whole = numbers[0] == 1 and not has_forgotten  # else the oldest may have been evicted
            first = 0 if is_whole else sequences[0]
            assert sequences == list(range(first, first + len(games))), f"actor {life} has lost games on their way"
            is_forward = [bool((np.diff(game.versions.astype(np.int64)) >= 0).all()) for game in games]
            assert all(is_forward), f"actor {life} went back to older weights in the middle of a game"
        return counters["games"]

    def newest_checkpoint(self) -> tuple[int, float]:
        """Its step, and how many seconds ago it was begun."""
        found = max(path for path in (self.run_dir / "checkpoints").iterdir() if re.fullmatch(r"\d{9,}", path.name))
        return int(found.name), time.time() - found.stat().st_mtime

    def resumed_steps(self) -> list[int]:
        """Where the learners that went on from a checkpoint have begun, as each said itself."""
        return [int(step.replace(",", "")) for step in re.findall(r"learning goes on after ([\d,]+) steps", self.text)]

    def published(self) -> list[int]:
        """Every version that was ever given to anybody, in order."""
        lines = (self.run_dir / "versions.jsonl").read_text().splitlines()
        return [json.loads(line)["version"] for line in lines]

    def note_processes(self) -> None:
        with contextlib.suppress(psutil.Error):
            self._tree |= set(psutil.Process(self.process.pid).children(recursive=True))

    def left(self) -> list[str]:
        """Processes of this run that still live."""
        alive = []
        for process in self._tree:
            with contextlib.suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(f"{process.pid} {' '.join(process.cmdline())[:80]}")
        return alive

    def until_nothing_is_left(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert self.left() == []

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 25.0) -> int:
        """Sends the signal to the driver; its exit code."""
        self.note_processes()
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def close(self) -> None:
        self.note_processes()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        deadline = time.monotonic() + 20
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.2)
        for process in self._tree:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._output.close()


def doubled(games: Iterable[GameId]) -> list[GameId]:
    """Those that occur more than once."""
    return [game for game, count in Counter(games).items() if count > 1]


def answers(url: str) -> bool:
    try:
        return bool(connect(url, 1.0).ping())
    except (redis.RedisError, OSError):
        return False
