"""The metrics of runs as charts: read as they grow, thinned out for a screen."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_POINTS = 800  # of a series that is sent
METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class Chart:
    """A chart: which metrics it shows."""

    title: str
    unit: str
    tags: tuple[str, ...]  # source/name; one that ends in * stands for all that begin so, or in *NAME that end so, too
    is_share: bool = False  # of 0 to 1


CHARTS = (
    Chart("Elo", "random mover = 0", ("*/elo",)),
    Chart("Optimal moves", "share", ("strength/*.optimal",), is_share=True),
    Chart("Losses", "", ("learner/loss/*",)),
    Chart("Policy accuracy", "share", ("learner/policy/accuracy",), is_share=True),
    Chart("Self-play", "per second", ("self_play/searches_per_s", "self_play/evaluations_per_s",
                                      "self_play/rows_per_s")),
    Chart("Learning", "steps per second", ("learner/steps_per_s",)),
    Chart("Window", "rows", ("replay/rows", "replay/window")),
    Chart("Samples per position", "", ("replay/samples_per_position",)),
    Chart("Length of games", "plies", ("self_play/mean_plies",)),
    Chart("What limits the run", "share of the time", ("self_play/paused_share", "learner/waiting_share"),
          is_share=True),
    Chart("Where self-play's time goes", "share", ("self_play/time_*",), is_share=True),
    Chart("Age of samples", "steps", ("learner/sample_age_steps",)),
)
BARS = {"low": "_low", "high": "_high"}  # ends of the error bars: metrics beside their own


class MetricsTail:
    """The series of one `metrics.jsonl`; `poll` reads what was appended.  Damaged lines are passed over."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._offset = 0
        self._rest = b""  # of a line that is being written
        self.series: dict[str, list[tuple[int, float, float]]] = {}  # tag -> step, minutes, value
        self.revision = 0

    def poll(self) -> bool:
        """Whether there was anything new."""
        try:
            with (self.directory / METRICS).open("rb") as file:
                size = file.seek(0, 2)
                if size < self._offset:  # another run was begun here
                    self._offset, self._rest, self.series = 0, b"", {}
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return False
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._add(line)
        self.revision += bool(lines)
        return bool(lines)

    def charts(self) -> list[dict[str, Any]]:
        """The charts that have points."""
        found = []
        for chart in CHARTS:
            tags = [tag for pattern in chart.tags for tag in sorted(self.series) if _fits(pattern, tag)]
            series = [self._describe(tag) for tag in tags]
            if series:
                found.append({"title": chart.title, "unit": chart.unit, "is_share": chart.is_share, "series": series})
        return found

    def _describe(self, tag: str) -> dict[str, Any]:
        points = _thinned(self.series[tag])
        described: dict[str, Any] = {
            "name": _readable(tag), "steps": [p[0] for p in points], "minutes": [round(p[1], 3) for p in points],
            "values": [p[2] for p in points]}
        for key, suffix in BARS.items():
            if f"{tag}{suffix}" in self.series:
                described[key] = [p[2] for p in _thinned(self.series[f"{tag}{suffix}"])]
        return described

    def _add(self, line: bytes) -> None:
        try:
            content = json.loads(line)
            step, minutes = int(content["step"]), float(content["seconds"]) / 60
            numbers = [(f"{content['source']}/{name}", float(value)) for name, value in content["values"].items()
                       if isinstance(value, int | float) and not isinstance(value, bool)]
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        for tag, number in numbers:
            self.series.setdefault(tag, []).append((step, minutes, number))


class Runs:
    """The run of the studio and those in folders beside it, which can be laid over it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._tails: dict[Path, MetricsTail] = {directory: MetricsTail(directory)}

    def names(self) -> list[str]:
        """Folders beside the run's own that hold metrics."""
        try:
            folders = sorted(self.directory.resolve().parent.iterdir())
        except OSError:
            return []
        own = self.directory.resolve()
        return [path.name for path in folders if path != own and (path / METRICS).is_file()]

    def tail(self, name: str = "") -> MetricsTail:
        """The metrics of the run with this name, brought up to date; empty: of the studio's own.  KeyError: none."""
        if name and name not in self.names():
            raise KeyError(f"there is no run {name} beside {self.directory}")
        path = self.directory.resolve().parent / name if name else self.directory
        tail = self._tails.setdefault(path, MetricsTail(path))
        tail.poll()
        return tail


def _fits(pattern: str, tag: str) -> bool:
    begin, star, end = pattern.partition("*")
    return tag.startswith(begin) and tag.endswith(end) and len(tag) >= len(begin + end) if star else tag == pattern


def _thinned(points: list[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """At most MAX_POINTS of them, evenly, the last one among them."""
    if len(points) <= MAX_POINTS:
        return points
    last = len(points) - 1
    return [points[round(index * last / (MAX_POINTS - 1))] for index in range(MAX_POINTS)]


def _readable(tag: str) -> str:
    """`learner/loss/policy` -> `policy`, `strength/search_64.optimal` -> `64 simulations`."""
    name = tag.rpartition("/")[2].removesuffix(".optimal")
    word, _, number = name.rpartition("_")
    if word == "search" and number.isdigit():
        return f"{number} simulations"
    if tag.startswith("strength/"):
        return "network alone" if name == "policy" else name
    return name.removeprefix("time_").removesuffix("_per_s").replace("_", " ")
