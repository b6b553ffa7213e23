"""The games of a run directory from which its players are rated.

    RUN_DIR/ratings.jsonl   one line for the games of two players, of which the first one is the newer version
            gate.jsonl      one line for each decision of the gate, with its games
            rated/          the weights of versions that later ones are to meet

A player is `version 12`, or the name of an anchor or engine.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from shusaku.actors.arena.ratings import PlayedPair, Ratings
from shusaku.common.json_lines import Object, append_json_line, heal_json_lines, read_json_lines

RATINGS, GATE, RATED = "ratings.jsonl", "gate.jsonl", "rated"
KEPT = 3  # newest versions whose weights are kept, beside the best one
_VERSION = "version "


@dataclass(frozen=True, slots=True)
class Moment:
    """When a version was published."""

    step: int  # gradient steps
    seconds: float  # training time of the run


@dataclass(frozen=True, slots=True)
class Meeting:
    """The games of two players."""

    first: str
    second: str
    points: tuple[tuple[float, ...], ...]  # of the first player in the games of each opening: 1, 0.5, 0
    moment: Moment | None = None  # of the first player, if it is a version
    repeated: int = 0  # games beside them that repeated one of theirs move for move, which are no samples


@dataclass(frozen=True, slots=True)
class EloPoint:
    """The rating of one version, with its 95 % interval."""

    version: int
    step: int
    seconds: float
    elo: float
    elo_low: float
    elo_high: float


@dataclass(frozen=True, slots=True)
class EloCurve:
    """All rated versions, the newest last, and the ratings of the other players."""

    points: tuple[EloPoint, ...]
    others: dict[str, float]  # anchors and engines, weakest first


def version_name(version: int) -> str:
    """The name of a version among the players."""
    return f"{_VERSION}{version}"


def version_of(name: str) -> int:
    """The version of this name; 0 for another player."""
    number = name.removeprefix(_VERSION)
    return int(number) if name.startswith(_VERSION) and number.isdigit() else 0


def append_meeting(directory: Path, meeting: Meeting, simulations: int) -> None:
    """Adds a line to `ratings.jsonl`, with the simulations of a version's moves; OSError if the disk refuses."""
    moment = asdict(meeting.moment) if meeting.moment else {}
    append_json_line(directory / RATINGS, {
        "first": meeting.first, "second": meeting.second, "simulations": simulations,
        "points": [list(pair) for pair in meeting.points], "repeated": meeting.repeated, **moment})


def heal_ratings(directory: Path) -> int:
    """Drops a torn line of each file and moves damaged ones aside; how many were damaged."""
    return sum(heal_json_lines(directory / name, lambda lines: [_meeting(line) is not None for line in lines])
               for name in (RATINGS, GATE))


def read_meetings(directory: Path, simulations: int | None = None) -> list[Meeting]:
    """The games of both files, by version; damaged lines are left out.

    Only those of searches with so many simulations, if that is known of both: with others a version is another player.
    Of the gate's only the pairs before the first that was not played to its end, for it ends when it is decided, and
    short games have ended by then.
    """
    meetings = []
    for name in (RATINGS, GATE):
        for line in read_json_lines(directory / name):
            meeting, theirs = _meeting(line), line.get("simulations")
            if meeting is None or (simulations is not None and theirs not in (None, simulations)):
                continue
            if name == GATE:
                whole = line.get("whole_pairs")
                pairs = meeting.points[: whole if isinstance(whole, int) else None]
                meeting = replace(meeting, points=tuple(pair for pair in pairs if len(pair) == 2))
            meetings.append(meeting)
    return sorted(meetings, key=lambda meeting: version_of(meeting.first))


def played_pairs(meetings: Iterable[Meeting]) -> list[PlayedPair]:
    """For `actors.arena.ratings.rate`."""
    return [PlayedPair(meeting.first, meeting.second, points) for meeting in meetings for points in meeting.points]


def elo_curve(ratings: Ratings, meetings: Sequence[Meeting]) -> EloCurve:
    """Versions whose moment is known."""
    moments = {meeting.first: meeting.moment for meeting in meetings if meeting.moment}
    points, others = [], {}
    for player in reversed(ratings.players):
        moment = moments.get(player.name)
        if moment is not None:
            points.append(EloPoint(version_of(player.name), moment.step, moment.seconds, player.elo, player.low,
                                   player.high))
        elif not version_of(player.name):
            others[player.name] = player.elo
    return EloCurve(tuple(sorted(points, key=lambda point: point.version)), others)


def _meeting(line: Object) -> Meeting | None:
    """From a line of either file; None if it is something else."""
    first, second, points = line.get("first"), line.get("second"), line.get("points")
    if not (isinstance(first, str) and isinstance(second, str) and first != second and isinstance(points, list)):
        return None
    if not all(isinstance(pair, list) and 0 < len(pair) <= 2 and all(map(_is_result, pair)) for pair in points):
        return None
    step, seconds = line.get("step"), line.get("seconds")
    moment = Moment(step, float(seconds)) if isinstance(step, int) and isinstance(seconds, int | float) else None
    repeated = line.get("repeated", 0)
    return Meeting(first, second, tuple(tuple(map(float, pair)) for pair in points), moment,
                   repeated if isinstance(repeated, int) else 0)


def _is_result(value: Any) -> bool:
    return not isinstance(value, bool) and value in (0, 0.5, 1)
