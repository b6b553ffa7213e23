"""What a run takes of the disk at most, and whether there is so much."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path

from shusaku.actors.arena.rating_log import KEPT
from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.network.tower import tensor_shapes
from shusaku.common.network.weights import tower_shape
from shusaku.replay.record_log import SEGMENT_BYTES

LEAST_REWRITE = 256 << 20  # bytes from which the append-only file is rewritten: `replay.stream.server`
STATES = 4  # float32 copies of the network in a checkpoint: weights, average, and two moments of the optimizer
CHECKPOINT_REST = 1 << 20  # bytes beside them: open games, facts
METRICS_BYTES_PER_HOUR = 10 << 20  # metrics.jsonl and tensorboard/
RAY_BYTES, RAY_BYTES_PER_HOUR = 100 << 20, 10 << 20  # of its logs, in the directory for temporary files


@dataclass(frozen=True)
class DiskBudget:
    """Bytes, each the most that this part will take."""

    window: int  # the games: Redis' append-only file while it is rewritten, or the record log
    checkpoints: int
    logs: int  # weights, metrics and logs in the run directory
    ray: int  # in the directory for temporary files

    @property
    def run_dir(self) -> int:
        """What the run directory takes."""
        return self.window + self.checkpoints + self.logs

    @classmethod
    def of(
        cls, config: Config, game: Game, *, bytes_per_row: float = 0.0, checkpoint_bytes: int = 0,
        is_local: bool = False,
    ) -> "DiskBudget":
        """That of a run of this configuration.

        `bytes_per_row`: stored bytes of a row, if they are known (else the window may be all of replay.megabytes);
        `checkpoint_bytes`: of a checkpoint that was written, if there is one.
        """
        run, replay = config.run, config.replay
        hours = run.minutes / 60
        network = 4 * sum(prod(shape) for shape in tensor_shapes(tower_shape(game, config.network)).values())
        rows = int(replay.capacity * bytes_per_row) or replay.megabytes << 20
        rows = 0 if config.dataset.records else rows  # the games stay where they are
        history = -int(-run.minutes // run.keep_every_minutes) if run.keep_every_minutes else 0
        # Published ones, those that later versions are to meet, and the best one.
        copies = 2 + (KEPT + 1) * config.rater.enabled + (config.gating != "none")
        kept = run.keep_checkpoints + history + 1  # and the one that is being written
        return cls(
            window=_log_bytes(rows) if is_local else _redis_bytes(min(rows, replay.megabytes << 20), bool(replay.url)),
            checkpoints=kept * (checkpoint_bytes or STATES * network + CHECKPOINT_REST),
            logs=copies * network + int(hours * METRICS_BYTES_PER_HOUR),
            ray=0 if is_local else RAY_BYTES + int(hours * RAY_BYTES_PER_HOUR),
        )


@dataclass(frozen=True)
class DiskReport:
    """A budget beside what is there; bytes."""

    budget: DiskBudget
    used: int  # by the run directory
    free: int  # on its disk
    temporary_free: int  # on that of Ray's logs
    is_same_disk: bool

    @property
    def missing(self) -> int:
        """By how much the run may outgrow its disk; 0: it fits."""
        needed = max(0, self.budget.run_dir - self.used) + (self.budget.ray if self.is_same_disk else 0)
        return max(0, needed - self.free)

    @property
    def line(self) -> str:
        """What it takes, of what is there."""
        budget = self.budget
        ray = f", and {_size(budget.ray)} for Ray's logs below {ray_directory()}" if budget.ray else ""
        return (f"at most {_size(budget.run_dir)} (window {_size(budget.window)}, checkpoints "
                f"{_size(budget.checkpoints)}, metrics and logs {_size(budget.logs)}){ray}; "
                f"{_size(self.used)} are used and {_size(self.free)} are free")

    @property
    def trouble(self) -> str:
        """One line if the disk may become full; empty if not."""
        if self.missing:
            return (f"the disk of the run may become full: {_size(self.missing)} more are needed; make room, or lower "
                    "replay.megabytes, replay.capacity or run.keep_checkpoints")
        if not self.is_same_disk and self.budget.ray > self.temporary_free:
            return (f"{ray_directory()} has {_size(self.temporary_free)} free and Ray's logs may take "
                    f"{_size(self.budget.ray)}; make room, or name another directory with RAY_TMPDIR")
        return ""

    def to_json(self) -> dict[str, int]:
        """Bytes, for `--json`."""
        budget = self.budget
        return {"window": budget.window, "checkpoints": budget.checkpoints, "logs": budget.logs, "ray": budget.ray,
                "used": self.used, "free": self.free, "missing": self.missing}


def report_disk(directory: Path, budget: DiskBudget) -> DiskReport:
    """The budget beside the disk of this run directory, which need not exist yet; OSError if it cannot be read."""
    home, temporary = _existing(directory), _existing(Path(ray_directory()))
    return DiskReport(
        budget, used=sum(_file_sizes(directory)), free=shutil.disk_usage(home).free,
        temporary_free=shutil.disk_usage(temporary).free, is_same_disk=home.stat().st_dev == temporary.stat().st_dev,
    )


def checkpoint_bytes(directory: Path) -> int:
    """Of the largest checkpoint of this run directory; 0: there is none."""
    folders = (path for path in (directory / "checkpoints").glob("[0-9]*") if path.is_dir())
    return max((sum(_file_sizes(path)) for path in folders), default=0)


def ray_directory() -> str:
    """Where Ray that a run starts keeps its logs."""
    return os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()


def _redis_bytes(window: int, is_elsewhere: bool) -> int:
    """The append-only file doubles before it is rewritten, beside the new one."""
    return 0 if is_elsewhere else max(LEAST_REWRITE, 2 * window) + window


def _log_bytes(window: int) -> int:
    """The log keeps half as many games again as the window, in whole segments: `deploy.local.games`."""
    return window * 3 // 2 + 2 * SEGMENT_BYTES


def _file_sizes(directory: Path) -> list[int]:
    sizes = []
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                sizes.append(os.lstat(os.path.join(folder, name)).st_size)
            except OSError:  # it has gone
                continue
    return sizes


def _existing(path: Path) -> Path:
    """The nearest directory above that exists."""
    path = path.resolve()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _size(count: float) -> str:
    """`2.1 GB`."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
