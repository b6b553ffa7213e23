"""Metrics of a run: JSON lines in `metrics.jsonl` and TensorBoard's event files beside it, and rates of counters.

Tags are `group/name` with the gradient step on the x axis.  TensorBoard's own format of records is used, which needs no
torch, but not its writer: a full disk ends the thread of that one for good, with a traceback in the terminal.
"""

import io
import json
import math
import os
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from shusaku.common.json_lines import heal_json_lines, read_json_lines
from shusaku.common.messages import Metrics
from shusaku.common.stage_timer import STAGES, shares

BY_MINUTE = ("rating",)  # sources that TensorBoard also shows with minutes of training on the x axis


class MetricsSink:
    """Writes metrics below a run directory; any thread may call it.

    A line is `{"time", "step", "seconds", "source", "values": {name: value}}`.  An existing file is continued: the
    last line is dropped when a kill tore it.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "metrics.jsonl"
        heal_json_lines(path)
        self._lines = path.open("a", encoding="utf-8", buffering=1)
        self._directory = directory
        self._events: _EventFile | None = None  # from the first line on, so that a full disk gets no empty ones
        self._lock = threading.Lock()

    def write(self, metrics: Metrics) -> None:
        """Appends the metrics of one moment; values that are not finite are null in JSON, absent from TensorBoard."""
        now = time.time()
        values = {name: _to_json(value) for name, value in metrics.values.items()}
        line = {"time": round(now, 3), "step": metrics.step, "seconds": round(metrics.seconds, 3),
                "source": metrics.source, "values": values}
        text = json.dumps(line, allow_nan=False) + "\n"
        with self._lock:
            self._lines.write(text)
            self._events = self._events or _EventFile(self._directory / "tensorboard")
            self._events.write_metrics(now, Metrics(metrics.step, metrics.seconds, metrics.source, values))

    def close(self) -> None:
        """Writes what is buffered and closes the files."""
        with self._lock:
            try:
                self._lines.close()
            finally:
                if self._events is not None:
                    self._events.close()


def mean_plies(totals: Mapping[str, int]) -> float:
    """Plies played, including those of unfinished games, per finished game; 0 before the first one has finished."""
    return totals.get("plies", 0) / totals["games"] if totals.get("games") else 0.0


class TimeShares:
    """What share of the last `window` seconds each part of `common.stage_timer` took, of counters that only grow."""

    def __init__(self, window: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = {part: Rate(window, clock) for part in STAGES}

    def update(self, totals: Mapping[str, int | float]) -> dict[str, float]:
        """Records the counters; returns part -> share, empty before time has passed."""
        rates = {f"{part}_us": rate.update(totals.get(f"{part}_us", 0)) for part, rate in self._rates.items()}
        return shares({}, rates)


class Growth:
    """How much a counter grows for each unit of another one, over the last `window` seconds of a monotonic clock."""

    def __init__(self, window: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._window, self._clock = window, clock
        self._samples: deque[tuple[float, float, float]] = deque()  # time, both counters; from the window's begin on

    @property
    def value(self) -> float:
        """Since the oldest record of the window; 0 before the second one, or if the other counter stands still."""
        if not self._samples:
            return 0.0
        (_, low, before), (_, high, now) = self._samples[0], self._samples[-1]
        return (high - low) / (now - before) if now > before else 0.0

    def _add(self, now: float, counter: float, other: float) -> float:
        """Adds a sample and drops those older than the window, or all of them if a counter began anew."""
        samples = self._samples
        if samples and (counter < samples[-1][1] or other < samples[-1][2]):
            samples.clear()
        samples.append((now, counter, other))
        while len(samples) > 2 and samples[1][0] <= now - self._window:
            samples.popleft()
        return self.value


class Rate(Growth):
    """Units per second of a counter that only grows."""

    def update(self, total: float) -> float:
        """Records the counter; returns its rate."""
        now = self._clock()
        return self._add(now, total, now)


class Share(Growth):
    """Share of a part in its whole, two counters that only grow."""

    def update(self, part: float, whole: float) -> float:
        """Records the counters; returns the share."""
        return self._add(self._clock(), part, whole)


def read_metrics(path: Path, source: str = "") -> Iterator[Metrics]:
    """Reads the lines of a `metrics.jsonl`, of one source if given; skips a torn last line and damaged ones."""
    for line in read_json_lines(path):
        if line.keys() >= {"step", "seconds", "source", "values"} and source in ("", line["source"]):
            yield Metrics(line["step"], line["seconds"], line["source"], line["values"])


def rewrite_events(directory: Path) -> bool:
    """Writes TensorBoard's files anew from metrics.jsonl if there are none with content; whether it had to."""
    events = directory / "tensorboard"
    if any(file.stat().st_size for file in events.glob("*")):
        return False
    writer = _EventFile(events)
    for line in read_json_lines(directory / "metrics.jsonl"):
        writer.write_metrics(line["time"], Metrics(line["step"], line["seconds"], line["source"], line["values"]))
    writer.close()
    return True


class _EventFile:
    """One of TensorBoard's files; what the disk refuses leaves it as it was."""

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._event, self._summary = Event, Summary
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"events.out.tfevents.{time.time_ns()}.{platform.node()}.{os.getpid()}"
        self._file = self._path.open("xb", buffering=0)
        self._end = 0  # of the last whole event
        try:
            self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))
        except OSError:
            self.close()
            self._path.unlink()
            raise

    def write_metrics(self, now: float, metrics: Metrics) -> None:
        """Appends the numbers; OSError if the disk refuses some."""
        self._write(now, metrics.step, dict(numbers_by_tag(metrics.source, metrics.values)))
        if metrics.source in BY_MINUTE:
            by_minute = dict(numbers_by_tag(f"{metrics.source}_by_minute", metrics.values))
            self._write(now, round(metrics.seconds / 60), by_minute)

    def _write(self, now: float, step: int, tags: dict[str, float]) -> None:
        if tags:
            values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in tags.items()]
            self._add(self._event(wall_time=now, step=step, summary=self._summary(value=values)))

    def _add(self, event: Any) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        record = io.BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        left = record.getvalue()
        try:
            while left:
                left = left[self._file.write(left):]
        except OSError:
            self._file.seek(self._end)
            self._file.truncate()  # half an event would hide all that follow
            raise
        self._end = self._file.tell()

    def close(self) -> None:
        self._file.close()


def numbers_by_tag(group: str, values: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yields numbers by `group/name`; a name with its own group keeps it, nested values are named by their path."""
    for name, value in values.items():
        tag = name if "/" in name else f"{group}/{name}"
        if isinstance(value, dict):
            yield from numbers_by_tag(tag, {f"{tag}/{key}": low for key, low in value.items()})
        elif isinstance(value, bool | int | float):
            yield tag, float(value)


def _to_json(value: Any) -> Any:
    """Converts numpy scalars to Python's, and NaN and infinities to None."""
    if isinstance(value, dict):
        return {str(key): _to_json(low) for key, low in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(low) for low in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
