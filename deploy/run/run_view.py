"""A run at one moment, as its driver sees it: all that status, metrics and measurements read of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shusaku.actors.arena.rating_log import EloPoint
from shusaku.common.resignation import NEVER_RESIGN
from shusaku.learner.training_loop import TrainingReport


@dataclass(frozen=True, slots=True)
class WorkersView:
    """The workers of a run on a cluster, and its replay server."""

    alive_actors: int
    desired_actors: int
    waiting_actors: int  # for a node
    resident_megabytes: int  # of the actors
    restarts: int  # of workers
    replay_restarts: int
    replay_losses: int  # times that the replay server lost its data
    replay_counters: Mapping[str, int]  # see `replay.stream.keys`
    inference: Mapping[str, float]  # metrics of all inference servers; empty: there are none


@dataclass(frozen=True, slots=True)
class RunView:
    """Built once in each round of the driver."""

    seconds: float  # of training, summed over resumes
    activity: str  # "playing", "learning", "measuring the strength", ...
    version: int  # newest published
    games: int  # finished, over the life of the run
    rows: int  # of these games
    totals: Mapping[str, int]  # counters of self-play, summed over the actors; they only grow
    report: TrainingReport | None  # the learner's newest; None: there was none yet
    faults: Mapping[str, int]  # FAULTS, summed over all learners of this driver
    quarantined: int  # records
    strength: tuple[tuple[float, float], ...]  # training seconds, share of optimal moves
    runtimes: tuple[str, ...]  # what evaluates, and why it was chosen
    elo: tuple[EloPoint, ...] = ()  # of the versions that were rated
    resign_value: float = NEVER_RESIGN  # a player to move who sees less resigns
    troubles: tuple[str, ...] = ()  # what is wrong now
    resumed_step: int = 0  # of the checkpoint that the run goes on from
    outage_seconds: float = 0.0  # in which this driver's training clock stood still, because a part was missing
    lost_games: int = 0  # played, but not in the replay any more, over the life of the run
    pending_rows: int = 0  # played, but not in the window yet
    workers: WorkersView | None = None  # None: all of the run is one process

    @property
    def step(self) -> int:
        """Gradient steps over the life of the run; those of the checkpoint until the learner reports."""
        return self.report.step if self.report else self.resumed_step


FAULTS = ("skipped_steps", "refused_publications", "rollbacks")  # counted by each learner from 0


@dataclass
class FaultCounter:
    """Adds up the faults of learners that follow each other; each of them counts from 0."""

    _ended: dict[str, int] = field(default_factory=dict)  # faults of the learners that ended
    _newest: TrainingReport | None = None

    def update(self, report: TrainingReport) -> None:
        """The newest report; a count that fell is that of a new learner."""
        if self._newest is not None and any(getattr(report, name) < getattr(self._newest, name) for name in FAULTS):
            self._ended = self.totals
        self._newest = report

    @property
    def totals(self) -> dict[str, int]:
        """One count for each of FAULTS."""
        newest = self._newest
        return {name: self._ended.get(name, 0) + (getattr(newest, name) if newest else 0) for name in FAULTS}
