"""What a run directory keeps for the driver: the name of the run, and how far it came.

    run.json       run_id (names the keys in Redis) and epoch (driver terms so far)
    progress.json  training seconds, measurements of the strength, threshold of resignation
"""

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shusaku.actors.resignation import NEVER_RESIGN
from shusaku.common.durable_files import write_atomically
from shusaku.common.errors import UsageError


@dataclass
class RunIdentity:
    """Name of the run, and number of its driver term; `next_epoch` begins a new term."""

    path: Path
    run_id: str
    epoch: int

    @classmethod
    def of(cls, directory: Path, asked: str = "") -> "RunIdentity":
        """That of this run directory, made where there is none, of the name that is asked for.

        UsageError where the file is not ours, or has another name.
        """
        path = directory / "run.json"
        if not path.exists():
            if asked:
                return cls(path, asked, 0)
            name = re.sub("[^a-z0-9]+", "-", directory.resolve().name.lower())[:40].strip("-") or "run"
            return cls(path, f"{name}-{secrets.token_hex(4)}", 0)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            run_id, epoch = str(content["run_id"]), int(content["epoch"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} cannot be read ({error}); put a good copy there or choose another "
                             "run.dir") from None
        if asked not in ("", run_id):
            raise UsageError(f"run.name={asked}: {directory} holds the run {run_id}; leave run.name out, or choose "
                             "another run.dir")
        return cls(path, run_id, epoch)

    def next_epoch(self, known: int) -> int:
        """A number above that of every earlier driver term, `known` being the newest that Redis has seen.

        It is on the disk before it is used; UsageError if the disk does not take it.
        """
        epoch = max(self.epoch, known) + 1
        try:
            write_atomically(self.path, json.dumps({"run_id": self.run_id, "epoch": epoch}).encode() + b"\n")
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}; choose a directory that can be written") from None
        self.epoch = epoch
        return epoch


@dataclass
class RunProgress:
    """How far the run came; saved every few seconds, so that a kill costs no more than these."""

    seconds: float = 0.0  # of training, summed over resumes
    measurements: int = 0  # of the strength that were due so far
    strength: list[tuple[float, float]] = field(default_factory=list)  # training seconds, share of optimal moves
    restarts: int = 0  # of workers
    evaluations: int = 0  # of self-play by the network, as far as one process could count them
    resign_value: float = NEVER_RESIGN  # the threshold in use

    @classmethod
    def load(cls, directory: Path) -> "RunProgress":
        """Reads the file; a missing one is a new run."""
        try:
            content = json.loads((directory / "progress.json").read_text(encoding="utf-8"))
            strength = [(float(s), float(v)) for s, v in content["strength"]]
            return cls(float(content["seconds"]), int(content["measurements"]), strength, int(content["restarts"]),
                       int(content.get("evaluations", 0)), float(content.get("resign_value", NEVER_RESIGN)))
        except FileNotFoundError:
            return cls()
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{directory / 'progress.json'} cannot be read ({error}); remove it to count the "
                             "training time from nothing") from None

    def save(self, directory: Path, log: Callable[[str], None]) -> None:
        """Writes progress.json; a full disk is logged, and nothing more."""
        try:
            write_atomically(directory / "progress.json", json.dumps(asdict(self)).encode() + b"\n")
        except OSError as error:
            log(f"the progress could not be written: {error}")
