"""What a run directory keeps for the driver: the name of the run, and how far it came.

    run.json       run_id (names the keys in Redis) and epoch (driver terms so far)
    progress.json  training seconds, measurements of the strength, threshold of resignation
"""

import re
import secrets
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from shusaku.common.checked_json import DamagedFileError, read_checked_json, write_checked_json
from shusaku.common.errors import ResumeError, UsageError
from shusaku.common.json_lines import append_json_line, read_json_lines
from shusaku.common.resignation import NEVER_RESIGN
from shusaku.learner.checkpoints import load_latest
from shusaku.replay.stream.server import run_names


@dataclass
class RunIdentity:
    """Name of the run, and number of its driver term; `next_epoch` begins a new term."""

    path: Path
    run_id: str
    epoch: int
    note: str = ""  # for the user: where the name was found if run.json is not good

    @classmethod
    def of(cls, directory: Path, asked: str = "") -> "RunIdentity":
        """That of this run directory; if it has none, a new one with the name that is asked for.

        UsageError if the file is damaged and nothing else says the name, or if the run has another name.
        """
        identity = cls.find(directory, asked)
        if identity is None:
            name = re.sub("[^a-z0-9]+", "-", directory.resolve().name.lower())[:40].strip("-") or "run"
            return cls(directory / "run.json", asked or f"{name}-{secrets.token_hex(4)}", 0)
        if asked not in ("", identity.run_id):
            raise UsageError(f"run.name={asked}: {directory} holds the run {identity.run_id}; leave run.name out, or "
                             "choose another run.dir")
        return identity

    @classmethod
    def find(cls, directory: Path, asked: str = "") -> "RunIdentity | None":
        """From run.json, else from what else names the run; None if nothing does because no cluster ever ran it.

        UsageError if the file is damaged and nothing else says the name, not even `asked`.
        """
        path, reason = directory / "run.json", "missing"
        try:
            content = read_checked_json(path, ("run_id", "epoch"))
            return cls(path, str(content["run_id"]), int(content["epoch"]))
        except FileNotFoundError:
            pass
        except (DamagedFileError, KeyError, TypeError, ValueError) as error:
            reason = f"damaged ({error})"
        terms = [*_terms(directory), *((name, 0, "redis/") for name in run_names(directory / "redis"))]
        names = {name for name, _, _ in terms}
        if len(names) > 1:
            names = {name for name, _, _ in terms if name == asked} or {terms[0][0]}
        if names:
            name, = names
            source = next(source for found, _, source in terms if found == name)
            epoch = max(epoch for found, epoch, _ in terms if found == name)
            return cls(path, name, epoch, f"{path} is {reason}; the name of the run, {name}, is that in {source}")
        if reason != "missing" and not asked:
            raise UsageError(f"{path} is {reason}, and neither a checkpoint nor starts.jsonl nor redis/ names the run; "
                             "put a good copy there, give its run.name, or choose another run.dir")
        return None

    def next_epoch(self, known: int) -> int:
        """A number above that of every earlier driver term, `known` being the newest that Redis has seen.

        It is on the disk before it is used; OSError if the disk does not take it.
        """
        epoch = max(self.epoch, known) + 1
        write_checked_json(self.path, {"run_id": self.run_id, "epoch": epoch})
        append_json_line(self.path.with_name("starts.jsonl"), {"run_id": self.run_id, "epoch": epoch})
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
    lost_games: int = 0  # that were played and are not in the replay any more
    replay: dict[str, Any] = field(default_factory=dict)  # what Redis held, see `replay.stream.control.Holdings`
    counted: dict[str, int] = field(default_factory=dict)  # by Redis, see `deploy.cluster.actor_totals.COUNTED`,
    lost_counts: dict[str, int] = field(default_factory=dict)  # and before it lost its data

    @classmethod
    def load(cls, directory: Path) -> "RunProgress":
        """Reads the file; a missing one is a new run, DamagedFileError if it is not what was saved."""
        try:
            return cls.of(read_checked_json(directory / "progress.json", [f.name for f in fields(cls)]))
        except FileNotFoundError:
            return cls()

    @classmethod
    def of(cls, content: dict[str, Any]) -> "RunProgress":
        """From what `asdict` made; DamagedFileError if it is something else."""
        try:
            strength = [(float(s), float(v)) for s, v in content["strength"]]
            counted = ("measurements", "restarts", "evaluations", "lost_games")
            return cls(seconds=float(content["seconds"]), strength=strength, replay=dict(content.get("replay", {})),
                       counted=_numbers(content.get("counted", {})),
                       lost_counts=_numbers(content.get("lost_counts", {})),
                       resign_value=float(content.get("resign_value", NEVER_RESIGN)),
                       **{name: int(content.get(name, 0)) for name in counted})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedFileError(str(error)) from None

    def save(self, directory: Path) -> None:
        """Writes progress.json; OSError if the disk refuses."""
        write_checked_json(directory / "progress.json", asdict(self))


def _numbers(content: dict[str, Any]) -> dict[str, int]:
    return {name: int(value) for name, value in content.items()}


def _terms(directory: Path) -> list[tuple[str, int, str]]:
    """Name, epoch and source of each driver term that a checkpoint or starts.jsonl tells of, newest first."""
    found = [(line["run_id"], line["epoch"], "starts.jsonl") for line in read_json_lines(directory / "starts.jsonl")
             if isinstance(line.get("run_id"), str) and isinstance(line.get("epoch"), int)]
    found.reverse()
    try:
        latest = load_latest(directory / "checkpoints")
    except ResumeError:
        latest = None
    driver = latest.checkpoint.facts.get("driver", {}) if latest else {}
    if "run_id" in driver:
        found.append((driver["run_id"], driver["epoch"], "the newest checkpoint"))
    return found
