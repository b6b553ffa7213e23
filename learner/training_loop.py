"""The life of a learner: draw, step, publish, save, and go on from the last checkpoint.

The same loop serves both wirings.  On a cluster it runs by itself (`run`, in `learner.remote`) beside actors that fill
the buffer; in one process (`deploy/local/driver.py`) playing and learning take turns (`learn_turn`).  No Ray here.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil

from shusaku.common._core import Game
from shusaku.common.activity import ActivityClock
from shusaku.common.config.schema import Config
from shusaku.common.errors import ResumeError, RunError
from shusaku.common.messages import Weights
from shusaku.common.network.growth import grow
from shusaku.common.network.network import Network, load_tensors, tensors_of
from shusaku.common.network.targets import make_targets
from shusaku.common.network.weights import save_weights
from shusaku.learner.batches import Prefetcher
from shusaku.learner.checkpoints import (
    WEIGHTS,
    Checkpoint,
    keep_first_weights,
    load_latest,
    prune,
    published_weights,
    set_damaged_aside,
    whole_checkpoints,
    write_checkpoint,
)
from shusaku.learner.collectives import Collectives
from shusaku.learner.learner import Learner
from shusaku.learner.ranks import RankedLearner
from shusaku.learner.run_mirror import RunMirror
from shusaku.learner.sample_age import SampleAge
from shusaku.learner.state_copy import Diverged, LearnerState, StateBuffers
from shusaku.learner.unseen_games import UnseenMeter
from shusaku.learner.version_index import VersionIndex
from shusaku.replay.buffer import ReplayBuffer, ReplayStats

FORMAT = 3  # of the facts of a checkpoint; `deploy.run.old_formats` rewrites the two before
SLOW_SECONDS = 30.0  # that a checkpoint may be written before it is shown
WAIT_SECONDS = 0.02  # between two tries to draw rows that are not there yet
RETRY_SECONDS = 1.0  # between two tries to publish the first version
CLOSE_SECONDS = 10.0  # for the checkpoint that is being written when the loop is given up
ROLL_BACK_SECONDS = 60.0  # for the one that is being written when the run goes back to the newest
# Before the name of a target: its loss on games that are never learned from, and on the others.
MEASURED = ("test/", "train/")
PEEKED_ROWS = 2048  # of one measurement
FINAL_PEEKS = 8  # measurements at the end of a run
MEASURE_SECONDS = 3.0  # that they may take, because a signal may wait for the checkpoint
MAX_NOTES = 100  # kept for a driver that does not ask
NOT_FINITE = "the averaged network, or what it answers, is not finite"
NO_CHECKPOINT = "no checkpoint was written: {}; the earlier ones are untouched, the run goes on"
GIVEN_UP = "the last checkpoint was given up: the disk did not take it within {:.0f} s; the newest is that of step {:,}"


class SelfPlayState(Protocol):
    """The part of a checkpoint that only a process which also plays has: its games, and the window on its disk."""

    def save(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Facts and files for the checkpoint; OSError if games that the window counts are not on the disk."""

    def open_window(self, facts: dict[str, Any] | None) -> Iterable[bytes]:
        """The encoded records of the window, oldest first; later ones are dropped.  None: there is no checkpoint."""

    def restore(self, facts: dict[str, Any], files: dict[str, bytes]) -> list[str]:
        """Goes on with the games of the checkpoint, after the window was read; lines for the user."""

    def trim_log(self) -> None:
        """Drops what no checkpoint needs any more; called when one was written."""


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """What the driver polls a few times a second; counters are totals since this process began."""

    step: int  # gradient steps, over the life of the run
    version: int  # newest published
    learning_seconds: float
    waiting_seconds: float  # for data
    losses: dict[str, float]  # means since the last publication
    metrics: dict[str, float]  # everything that the learner knows of these steps, the losses included
    skipped_steps: int  # not finite
    refused_publications: int  # not finite
    rollbacks: int
    saved_step: int  # of the newest checkpoint
    resident_megabytes: float
    replay: ReplayStats
    notes: list[str] = field(default_factory=list)  # lines for the user since the last report
    trouble: str = ""  # why no checkpoint can be written now
    reason: str = "the learner was stopped"  # of the last report: why it ended
    description: str = ""  # runtime and precision
    unseen: dict[str, float] = field(default_factory=dict)  # of games not learned from, see `UnseenGames.measure`
    unseen_step: int = -1  # of the weights that these are of; -1: none were measured


class TrainingLoop:
    """Owns network, checkpoints and version numbers of a run directory; the buffer is the caller's.

    One thread learns; any thread may call `report`, `weights` and `stop`.
    """

    def __init__(
        self, config: Config, game: Game, buffer: ReplayBuffer, directory: Path, *, config_hash: str,
        clock: Callable[[], float] = time.monotonic, share_done: Callable[[], float] = lambda: 0.0,
        load_weights: Callable[[Weights], None] = lambda weights: None, self_play: SelfPlayState | None = None,
        activity: ActivityClock | None = None, describe_run: Callable[[], dict[str, Any]] = dict,
        unseen: UnseenMeter | None = None, learner: Learner | None = None, mirror: RunMirror | None = None,
        start: Weights | None = None,
    ) -> None:
        """Goes on from the newest good checkpoint below `directory`.

        `share_done`: the share of the run that is over, for the schedule; `load_weights` is called with each
        publication; `self_play`: for a process that also plays; `activity`: told what the loop does; `describe_run`:
        what a checkpoint keeps for the driver, whose small files can be made again from that; `unseen`: measures what
        is published; `learner`: untrained, in the place of the usual one, of what the buffer samples; `mirror`: of the
        run directory, which is on another machine, in `directory`; `start`: what a new run begins with, in the place of
        an untrained network.
        ResumeError if no checkpoint is good, or if they have another format; UsageError if the network is another one.
        """
        self._config, self._game, self._buffer, self._directory = config, game, buffer, directory
        self._config_hash, self._clock, self._self_play = config_hash, clock, self_play
        self._load_weights, self._describe_run, self._unseen = load_weights, describe_run, unseen
        self._activity = activity or ActivityClock()
        self.learner = learner or make_learner(config, game, start)
        self._mirror = mirror
        self.versions = VersionIndex(directory, mirror.append_version) if mirror else VersionIndex(directory)
        self._sample_age = SampleAge(self.versions.steps)
        self._published: Weights | None = None
        self._restored: Weights | None = None  # what was published last when the checkpoint was written
        self._rollbacks = self._rollbacks_copied = self._saved_step = 0
        self._learning = self._waiting = 0.0
        self._metrics: dict[str, float] = {}
        self._trouble = ""
        self._notes: list[str] = []
        self._lock = threading.Lock()  # of what `report` and `weights` read
        self._stopping = threading.Event()
        for line in mirror.notes if mirror is not None else ():
            self._note(line)
        self._saved_at = clock()
        self._writing: Future[None] | None = None  # the checkpoint that a thread is writing
        self._buffers = StateBuffers()  # of that checkpoint
        self._share_done = share_done
        self._held: Any = None  # a batch that was drawn and is still to be learned from
        self.steps_left = 0  # of a turn that was stopped
        first = self._resume()
        self._batches: Prefetcher[Any] = Prefetcher(
            lambda seed: buffer.sample(config.learner.batch_size, seed), config.run.seed, config.learner.prefetch,
            first, end=None if self_play is None else first)

    def run(self) -> TrainingReport:
        """Publishes, then learns until `stop`; ends with a checkpoint, and reports how it ended.

        Once it `is_complete` it waits for `stop`: the driver ends the run.
        Raises Diverged if there is nothing to roll back to, and what the threads of the buffer raised.
        """
        self._activity.set_ready()
        try:
            self._publish_first(self._stopping.is_set)
            while not self._stopping.is_set():
                begin = self._clock()
                if self.is_complete or not self._advance():
                    self._activity.wait("waiting for the end of the run" if self.is_complete else "waiting for rows")
                    self._stopping.wait(WAIT_SECONDS)
                    self._waiting += self._clock() - begin
                self.checkpoint_if_due()
            self.measure_at_end()
            self.checkpoint()
            return self.report()
        finally:
            self.close()

    def begin_turns(self, should_stop: Callable[[], bool], on_wait: Callable[[], object] = lambda: None) -> None:
        """Before the first `learn_turn`: what was published when the run was saved is in use again.

        Without a checkpoint the first version is published; `on_wait` is called while the disk does not take it.
        """
        self._saved_at = self._clock()
        if self._restored is None:
            self._publish_first(should_stop, on_wait)
        else:
            self._use(self._restored)

    def learn_turn(self, should_stop: Callable[[], bool], on_step: Callable[[], object] = lambda: None) -> None:
        """Gradient steps until the next publication, the last one of the run, or until the buffer has no more rows.

        No batch is drawn ahead of the turn's end, so which rows it holds does not depend on any thread's timing.  What
        is left of a turn that was stopped is made up for by the next one, also after a restart.
        """
        every, rollbacks = self._config.learner.publish_every, self._rollbacks
        turn = self.steps_left or every - self.learner.step_count % every
        if self._config.learner.steps:
            turn = min(turn, max(0, self._config.learner.steps - self.learner.step_count))
        goal = end = self._batches.index + turn
        self.steps_left = 0
        self._batches.allow(end)
        while self._batches.index < end and self._rollbacks == rollbacks:
            if should_stop():
                end = self._batches.close()  # what was drawn is learned from, too
                self.steps_left = goal - end
                if self._batches.index >= end:
                    return
            if not self._advance():
                self.steps_left = 0
                return
            on_step()

    @property
    def is_complete(self) -> bool:
        """Whether all of `learner.steps` were made."""
        return 0 < self._config.learner.steps <= self.learner.step_count

    def stop(self) -> None:
        """Makes `run` return after the running step and a checkpoint."""
        self._stopping.set()

    def close(self) -> None:
        """Ends the thread that draws batches, and gives the one that writes a checkpoint a moment to end."""
        self._batches.stop()
        if self._writing is not None:
            wait([self._writing], timeout=CLOSE_SECONDS)

    def report(self) -> TrainingReport:
        """The state of now; returns each note once."""
        stats = self._buffer.stats()
        with self._lock:
            notes, self._notes = self._notes, []
            losses = {name.removeprefix("loss/"): v for name, v in self._metrics.items() if name.startswith("loss/")}
            losses |= {name.replace("/", "_"): v for name, v in self._metrics.items() if name.startswith(MEASURED)}
            return TrainingReport(
                step=self.learner.step_count, version=self._published.version if self._published else 0,
                learning_seconds=self._learning, waiting_seconds=self._waiting,
                losses=losses, metrics=self._metrics, skipped_steps=self.learner.skipped_steps,
                refused_publications=self.learner.refused_publications, rollbacks=self._rollbacks,
                saved_step=self._saved_step, resident_megabytes=psutil.Process().memory_info().rss / 1e6,
                replay=stats, notes=notes, trouble=self._trouble, description=self.learner.description,
                unseen=self._unseen.result if self._unseen else {},
                unseen_step=self._unseen.step if self._unseen else -1,
            )

    def troubles(self) -> list[str]:
        """What is wrong now, in a line each; never waits."""
        replay, writing, seconds = self._buffer.stats().trouble, self._writing, self._clock() - self._saved_at
        troubles = [f"its replay: {replay}"] if replay else []
        if writing is not None and not writing.done() and seconds > SLOW_SECONDS:
            troubles.append(f"the disk has been taking a checkpoint for {seconds:.0f} s")
        return troubles

    def weights(self) -> Weights | None:
        """The newest publication."""
        with self._lock:
            return self._published

    def publish(self) -> None:
        """Publishes under a number that was never used before; a network that is not finite is never published."""
        try:
            weights = self.learner.publish(self.versions.newest + 1)
            if weights is None:
                raise Diverged(NOT_FINITE)
        except Diverged as error:
            self._roll_back(error)
        else:
            self._publish(weights)

    def _publish(self, weights: Weights) -> None:
        try:
            self.versions.append(weights)
        except OSError as error:
            self._note(f"version {weights.version} was not published: {error}; the next one will be tried")
            return
        metrics = self.learner.metrics()
        if metrics:
            metrics |= self._sample_age.take() | self._measure_unseen(1)
        with self._lock:
            self._metrics = metrics or self._metrics
        self._use(weights)

    def measure_at_end(self, seconds: float = MEASURE_SECONDS) -> None:
        """The losses on test games and on games that are learned from, over as many rows as fit into that time."""
        try:
            measured = self._measure_unseen(FINAL_PEEKS, seconds)
        except Diverged as error:  # the last steps, whose outcome was not known before
            self._roll_back(error)
            return
        with self._lock:
            self._metrics = {**self._metrics, **measured}

    def checkpoint_if_due(self) -> None:
        """Begins a checkpoint each `run.checkpoint_seconds`, 0: only at the end; a thread writes it meanwhile.

        While one is being written, no other begins: on a slow disk they come less often, and learning goes on.
        """
        if self._writing is not None and self._writing.done():
            self._end_checkpoint()
        seconds = self._config.run.checkpoint_seconds
        if seconds and self._writing is None and self._clock() - self._saved_at >= seconds:
            self._begin_checkpoint()

    def checkpoint(self, seconds: float = float("inf")) -> None:
        """Everything that is needed to go on, on the disk; a full disk costs this checkpoint, not the run.

        One that is being written is finished first.  What the disk has not taken after so many seconds is given up.
        """
        deadline = time.monotonic() + seconds
        self._end_checkpoint(deadline)
        for _ in range(2):  # again after a rollback, which has a lower rate to keep, and the games of now
            if self._writing is not None:
                break
            rollbacks = self._rollbacks
            self._begin_checkpoint()
            self._end_checkpoint(deadline)
            if self._rollbacks == rollbacks:
                break
        if self._writing is not None:
            self._note(GIVEN_UP.format(seconds, self._saved_step))
            self._writing = None  # the thread ends with the process, and the next start removes what it left

    def _publish_first(self, should_stop: Callable[[], bool], on_wait: Callable[[], object] = lambda: None) -> None:
        """A new run cannot play before a version is in the index, so it is tried again and again.

        A run that goes on learns with the version of its checkpoint if the disk refuses a new one.
        """
        while not self._ask_newest_version():
            if should_stop():
                return
            on_wait()
            self._activity.wait("waiting for the replay", "replay")
            self._stopping.wait(RETRY_SECONDS)
        self.publish()
        if self._published is None and self._restored is not None:
            self._use(self._restored)
        while self._published is None and not should_stop():
            on_wait()
            self._activity.wait("waiting until the disk takes the first version", "disk")
            self._stopping.wait(RETRY_SECONDS)
            self.publish()

    def _ask_newest_version(self) -> bool:
        """The replay may have seen later ones than a copy of the run directory knows; False if it does not answer."""
        try:
            self.versions.newest = max(self.versions.newest, self._buffer.control().version)
        except RunError:
            return False
        return True

    def _advance(self) -> bool:
        """One gradient step, and a publication if it is due; False if the buffer gave no rows."""
        begin = self._clock()
        batch = self._batches.next() if self._held is None else self._held
        if batch is None:
            return False
        self._activity.begin(self.learner.next_activity)
        steps = self._config.learner.steps
        share_of_steps = self.learner.step_count / steps if steps else 0.0
        self.learner.run_share, parts = max(self._share_done(), share_of_steps), self.learner.parts
        self._held = None if self.learner.may_step() else batch  # all ranks step at the rate of this moment
        if self._held is not None:
            return False  # another rank has no rows yet
        try:
            self.learner.step(batch)
            self._sample_age.add(batch.versions, self.learner.step_count)
            if self.learner.parts > parts:
                self._note(f"learner.batch_size={self._config.learner.batch_size} does not fit into the memory of "
                           f"learner.device={self._config.learner.device}: each batch is taken in {self.learner.parts} "
                           "parts from now on, and a smaller one would be faster")
        except Diverged as error:
            self._roll_back(error)
        else:
            published, step = self._published, self.learner.step_count
            is_due = step % self._config.learner.publish_every == 0 or self.is_complete
            if is_due and (published is None or step > published.step):
                self._activity.begin("publishing weights")
                self.publish()
        self._learning += self._clock() - begin
        return True

    def _measure_unseen(self, peeks: int, seconds: float = float("inf")) -> dict[str, float]:
        """test/<target> and train/<target>: losses of the same network; empty without `replay.test_share`."""
        if not self._config.replay.test_share:
            return {}
        self._activity.begin("measuring the loss on test games")
        stats = self._buffer.stats()
        rows = {True: stats.test_rows, False: stats.rows - stats.test_rows}
        peeks = min(peeks, -(-min(rows.values()) // PEEKED_ROWS))
        began, sums, done = self._clock(), defaultdict[str, float](float), 0
        while done < peeks and self._clock() - began <= seconds:
            done += 1
            for kind, of_tests in zip(MEASURED, (True, False), strict=True):
                batch = self._buffer.peek(min(PEEKED_ROWS, rows[of_tests]), done, of_tests=of_tests)
                if batch is None:
                    return {}
                for name, loss in self.learner.measure(batch).items():
                    sums[kind + name] += loss
        return {name: loss / done for name, loss in sums.items()}

    def _use(self, weights: Weights) -> None:
        # Records may name the version only after the replay knows it, so it is told before anything plays with it.
        self._buffer.record_version(weights.version)
        self._load_weights(weights)
        if self._unseen is not None:
            self._activity.begin("measuring on unseen games")
            self._unseen.offer(weights)
        with self._lock:
            self._published = weights

    def _roll_back(self, cause: Diverged) -> None:
        """Loads the last checkpoint and halves the learning rate, or the same batches would diverge again.

        Diverged if there is none, or if its network cannot be published either.
        """
        if self._writing is not None:  # a checkpoint newer than those on the disk, whose thread removes older ones
            self._activity.wait("waiting until the disk has the checkpoint", "disk")
            wait([self._writing], timeout=ROLL_BACK_SECONDS)
        found = load_latest(self._directory / "checkpoints")
        if found is None:
            raise cause
        with self._lock:
            self._rollbacks += 1
        self._note(f"rolled back to the last checkpoint: {cause}")
        self.learner.go_back(LearnerState(found.checkpoint.tensors, found.checkpoint.facts["learner"]))
        weights = self.learner.publish(self.versions.newest + 1)
        if weights is None:
            raise Diverged(f"{NOT_FINITE}, and that of the newest checkpoint, step {self.learner.step_count:,}, is not "
                           "either; begin a new run with a lower learner.learning_rate")
        self._publish(weights)

    def _begin_checkpoint(self) -> None:
        """Copies the state and starts the thread that writes it."""
        self._saved_at = self._clock()
        if self._published is None:
            return
        self._activity.begin("copying the state for a checkpoint")
        try:
            if not self.learner.answers_are_finite():
                raise Diverged(NOT_FINITE)
        except Diverged as error:
            self._roll_back(error)
            return
        published = self._published
        try:
            local, files = self._self_play.save() if self._self_play else (None, {})
        except OSError as error:
            self._refuse_checkpoint(error)
            return
        state = self.learner.copy_state(self._buffers)
        facts, step = self._facts(published, local), self.learner.step_count

        def write() -> None:
            learner = state.to_state()
            tensors = {**learner.tensors, "published": dict(published.tensors)}
            self._write(Checkpoint(step, tensors, {**facts, "learner": learner.facts}, files), published)

        self._rollbacks_copied = self._rollbacks
        self._writing = run_in_thread(write, "checkpoint")

    def _end_checkpoint(self, deadline: float = float("inf")) -> None:
        """Waits until the checkpoint that is being written is on the disk, or refused by it, or time is up."""
        if self._writing is None:
            return
        while not self._writing.done():
            if time.monotonic() >= deadline:
                return
            self._activity.wait("waiting until the disk has the checkpoint", "disk")
            wait([self._writing], timeout=WAIT_SECONDS)
        writing, self._writing = self._writing, None
        try:
            writing.result()
            self._trouble = ""
            if self._self_play is not None:
                self._self_play.trim_log()
        except OSError as error:
            self._refuse_checkpoint(error)
        except Diverged as error:
            if self._rollbacks == self._rollbacks_copied:  # else what was copied is given up already
                self._roll_back(error)

    def _refuse_checkpoint(self, error: OSError) -> None:
        self._trouble = f"no checkpoint was written: {error}"
        self._note(NO_CHECKPOINT.format(error))

    def _facts(self, published: Weights, local: dict[str, Any] | None) -> dict[str, Any]:
        """The plain numbers and texts of this moment, but for the learner's."""
        replay = self._buffer.state()
        # What was drawn ahead is drawn again after a restart.
        held = self._held is not None
        ahead = self._batches.ahead + held
        replay["sampled"] = max(0, replay["sampled"] - ahead * self._config.learner.batch_size)
        return {
            "format": FORMAT, "game": self._game.name, "config_hash": self._config_hash, "replay": replay,
            "version": published.version, "version_step": published.step, "scales": published.scales,
            "refused": published.rejected, "planes": published.planes,
            "next_batch": self._batches.index - held, "steps_left": self.steps_left,
            "local": local, "driver": self._describe_run(),
        }

    def _write(self, checkpoint: Checkpoint, published: Weights) -> None:
        """In the thread: the checkpoint and, once it is whole, the files that are derived from it."""
        checkpoints = self._directory / "checkpoints"
        keep_first_weights(self._directory, published)
        path = write_checkpoint(checkpoints, checkpoint)
        if self._mirror is not None:
            self._mirror.send_checkpoint(path)
        with self._lock:
            self._saved_step = checkpoint.step
        try:
            if self._mirror is None:  # which keeps the newest one alone
                prune(checkpoints, self._config.run.keep_checkpoints, self._config.run.keep_every_minutes * 60)
            save_weights(self._directory / WEIGHTS, published)
            if self._mirror is not None:
                self._mirror.send_weights()
        except OSError as error:
            self._note(f"the checkpoint of step {checkpoint.step:,} is whole, but not all beside it: {error}")

    def _resume(self) -> int:
        """Restores learner, window and games; the index of the next mini-batch."""
        self._activity.begin("reading the checkpoint")
        found = load_latest(self._directory / "checkpoints")
        if found is None:
            records = self._self_play.open_window(None) if self._self_play else ()
            self._buffer.restore(self._buffer.state(), records)
            return 0
        for line in found.damaged:
            self._note(f"damaged and passed over: {line}")
        set_damaged_aside(self._directory / "checkpoints", found)
        facts = found.checkpoint.facts
        if facts.get("format") != FORMAT or (facts["local"] is None) != (self._self_play is None):
            raise ResumeError(f"{found.path} has format {facts.get('format')!r}, and format {FORMAT} of this wiring is "
                              "expected: start the command again, or begin a new run with another run.dir")
        self.learner.restore(LearnerState(found.checkpoint.tensors, facts["learner"]))
        records = self._self_play.open_window(facts["local"]) if self._self_play else ()
        self._activity.wait("reading the window back")
        bad = self._buffer.restore(facts["replay"], records)
        self._restored = published_weights(found.checkpoint, self._config.network, self._game)
        self._restore_versions(self._restored.version)
        self.versions.newest = max(self.versions.newest, self._restored.version)
        self._saved_step, self.steps_left = self.learner.step_count, int(facts["steps_left"])
        stats = self._buffer.stats()
        self._note(f"learning goes on after {self.learner.step_count:,} steps with {stats.rows:,} rows in the window"
                   + (f"; {bad:,} records of it were not valid and are left out" if bad else ""))
        if self._self_play is not None:
            if stats.lost_games:
                self._note(f"{stats.lost_games:,} games of the window, {stats.lost_rows:,} rows, are not in the record "
                           "log any more")
            for line in self._self_play.restore(facts["local"], found.checkpoint.extra):
                self._note(line)
        return int(facts["next_batch"])

    def _restore_versions(self, published: int) -> None:
        """Says what was damaged in versions.jsonl, and adds what the checkpoints know of what is missing."""
        if self.versions.damaged:
            self._note(f"versions.jsonl: {self.versions.damaged:,} damaged lines were moved to versions.jsonl.damaged")
        if published not in self.versions.steps:
            kept = [published_weights(found.checkpoint, self._config.network, self._game)
                    for found in whole_checkpoints(self._directory / "checkpoints")]
            added = self.versions.restore(kept)
            if self._mirror is not None:
                self._mirror.send_versions()
            self._note(f"versions.jsonl was missing or cut: {added:,} lines of it were made again from the checkpoints")

    def _note(self, line: str) -> None:
        with self._lock:
            self._notes.append(line)
            del self._notes[:-MAX_NOTES]


def make_learner(
    config: Config, game: Game, start: Weights | None = None, ranks: Collectives | None = None
) -> Learner:
    """The usual learner, of mini-batches of rows, or rank 0 of several.

    `start` may be of a smaller network; heads that it does not have begin untrained.
    """
    network = Network(game.observation_shape, game.num_actions, config.network, make_targets(config.learner),
                      config.run.seed)
    if start is not None:
        load_tensors(network, grow(start.tensors, tensors_of(network)))
    if ranks is not None:
        return RankedLearner(network, game, config.learner, ranks, is_quantised=config.inference.is_quantised)
    return Learner(network, game, config.learner, is_quantised=config.inference.is_quantised)


def run_in_thread(job: Callable[[], None], name: str) -> Future[None]:
    """Runs the job in a thread that does not keep the process alive; the future tells how it ended."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            job()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
