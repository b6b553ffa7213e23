"""Trackers of others that a run's metrics go to as well: MLflow and Weights & Biases, without a network unless asked.

A thread follows metrics.jsonl.  So a tracker that is slow or fails costs the run nothing, and gets later what it
missed, after a restart too.  RUN_DIR/trackers.json holds how far each one is; a kill in between may send a few lines
again.
"""

import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shusaku.common.durable_files import write_atomically
from shusaku.common.errors import UsageError
from shusaku.common.masking import mask_override, mask_text
from shusaku.common.metrics import numbers_by_tag

METRICS, STATE = "metrics.jsonl", "trackers.json"
SECONDS = 10.0  # between two looks at the file
CLOSE_SECONDS = 5.0  # for what is left, when the run stops: the next start sends the rest
LAST_SECONDS = 30.0  # when it is over
MOST_BYTES = 1 << 20  # of the file that are sent at once
PROJECT = "shusaku"


@dataclass(frozen=True)
class Line:
    """One of metrics.jsonl, with its numbers by tag, as TensorBoard gets them."""

    time: float  # seconds since 1970
    step: int
    numbers: Mapping[str, float]


class Tracker(Protocol):
    """Where lines go; its calls may raise anything."""

    run: str  # its name of the run, which the next start goes on with

    def write(self, lines: Sequence[Line]) -> None:
        """Takes the lines."""

    def close(self) -> None:
        """Nothing comes any more."""


class MlflowTracker:
    """Runs in RUN_DIR/mlflow.db, or where MLFLOW_TRACKING_URI says."""

    def __init__(self, directory: Path, run: str) -> None:
        """`run`: of an earlier start; empty: there is none."""
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        self._metric: Any = Metric
        place = directory.resolve()
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{place / 'mlflow.db'}"
        self._client: Any = MlflowClient(tracking_uri=uri)
        if not run:
            known = self._client.get_experiment_by_name(PROJECT)
            experiment = known.experiment_id if known else self._client.create_experiment(PROJECT)
            run = self._client.create_run(experiment, run_name=place.name).info.run_id
        self.run = run

    def write(self, lines: Sequence[Line]) -> None:
        """See `Tracker`."""
        metrics = [self._metric(tag, value, int(1000 * line.time), line.step)
                   for line in lines for tag, value in line.numbers.items()]
        for start in range(0, len(metrics), 1000):  # as many as MLflow takes at once
            self._client.log_batch(self.run, metrics=metrics[start : start + 1000])

    def close(self) -> None:
        """See `Tracker`."""
        self._client.set_terminated(self.run)


class WandbTracker:
    """Runs in RUN_DIR/wandb, for `wandb sync`; WANDB_MODE=online sends them at once."""

    def __init__(self, directory: Path, run: str) -> None:
        """`run`: of an earlier start; empty: there is none."""
        import wandb

        place = directory.resolve()
        mode: Any = os.environ.get("WANDB_MODE", "offline")  # wandb refuses what it does not know
        with _masked_arguments():
            self._run: Any = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT), dir=str(place), id=run or None, name=place.name,
                resume="allow", mode=mode,
                settings=wandb.Settings(silent=True, console="off"))
        self._run.define_metric("*", step_metric="step")
        self.run = str(self._run.id)

    def write(self, lines: Sequence[Line]) -> None:
        """See `Tracker`."""
        for line in lines:
            if line.numbers:
                self._run.log({**line.numbers, "step": line.step})

    def close(self) -> None:
        """See `Tracker`."""
        self._run.finish()


TRACKERS: dict[str, Callable[[Path, str], Tracker]] = {"mlflow": MlflowTracker, "wandb": WandbTracker}


def check_trackers(names: Sequence[str]) -> None:
    """UsageError if the package of one is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"run.trackers={name}: its package is not installed; pip install 'shusaku[{name}]', or "
                             "leave it out")


class MetricsFollower:
    """Sends what is new in metrics.jsonl to the trackers, from a thread of its own."""

    def __init__(self, directory: Path, names: Sequence[str], seconds: float = SECONDS) -> None:
        """`names`: keys of TRACKERS; none: there is no thread."""
        self._directory, self._seconds = directory, seconds
        self._state = _read_state(directory / STATE)
        metrics = directory / METRICS
        size = metrics.stat().st_size if metrics.exists() else 0
        for one in self._state.values():  # a file that was lost begins anew; one that lost its end was sent with it
            one["offset"] = min(one["offset"], size)
        self._names = tuple(names)
        self._open: dict[str, Tracker] = {}
        self._troubles: dict[str, str] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="trackers", daemon=True)
        if names:
            self._thread.start()

    @property
    def troubles(self) -> tuple[str, ...]:
        """What keeps lines from a tracker, in a line each."""
        return tuple(self._troubles.copy().values())

    def close(self, is_over: bool = False) -> None:
        """Sends what is left, for CLOSE_SECONDS at most, or LAST_SECONDS if the run is over."""
        self._ending.set()
        if self._names:
            self._thread.join(LAST_SECONDS if is_over else CLOSE_SECONDS)

    def _follow(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._ending.wait(self._seconds)
            for name in self._names:
                self._try(name, self._send)
        for name in tuple(self._open):
            self._try(name, lambda name: self._open[name].close())

    def _try(self, name: str, act: Callable[[str], None]) -> None:
        try:
            act(name)
            self._troubles.pop(name, None)
        except Exception as error:  # of a package of others, which must not end the run
            reason = mask_text(" ".join(str(error).split()))[:200]  # it may quote the tracker's address
            self._troubles[name] = f"run.trackers={name}: {type(error).__name__}: {reason}; it is tried again"

    def _send(self, name: str) -> None:
        """All lines that this tracker has not had yet."""
        state = self._state.setdefault(name, {"run": "", "offset": 0})
        path = self._directory / METRICS
        while data := _whole_lines(path, state["offset"]):
            if name not in self._open:
                self._open[name] = TRACKERS[name](self._directory, state["run"])
                state["run"] = self._open[name].run
            self._open[name].write(_parse(data))
            state["offset"] += len(data)
            write_atomically(self._directory / STATE, json.dumps(self._state).encode() + b"\n")


@contextmanager
def _masked_arguments() -> Iterator[None]:
    """Hides the secrets in `sys.argv` meanwhile: wandb records it with the run, and uploads it."""
    own = sys.argv
    sys.argv = [*own[:1], *map(mask_override, own[1:])]
    try:
        yield
    finally:
        sys.argv = own


def _read_state(path: Path) -> dict[str, dict[str, Any]]:
    """What it holds; empty if it is missing or damaged: then everything is sent anew, as another run."""
    try:
        found = json.loads(path.read_bytes())
        return {name: {"run": str(one["run"]), "offset": int(one["offset"])} for name, one in found.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _whole_lines(path: Path, offset: int) -> bytes:
    """From there on, MOST_BYTES at most; empty if there is no more than part of a line."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(MOST_BYTES)
    except FileNotFoundError:
        return b""
    return data[: data.rfind(b"\n") + 1]


def _parse(data: bytes) -> list[Line]:
    lines = []
    for text in data.splitlines():
        try:
            line = json.loads(text)
            lines.append(Line(line["time"], line["step"], dict(numbers_by_tag(line["source"], line["values"]))))
        except (ValueError, TypeError, KeyError):  # a damaged line: every reader passes over it
            continue
    return lines
