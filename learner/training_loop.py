"""A learner's life beside actors that play: draw, step, publish, save, and go on from the last checkpoint.

`deploy/local/driver.py` takes turns of playing and learning in one process; here nobody takes turns, the limiter of the
replay decides alone.  No Ray in this file: `learner.remote` wraps it.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from shusaku.common._core import Game
from shusaku.common.config.schema import Config
from shusaku.common.errors import ResumeError
from shusaku.common.messages import Weights
from shusaku.common.network.network import Network
from shusaku.common.network.targets import make_targets
from shusaku.common.network.weights import save_weights
from shusaku.learner.batches import Prefetcher
from shusaku.learner.checkpoints import Checkpoint, keep_first_weights, load_latest, prune, write_checkpoint
from shusaku.learner.learner import Diverged, Learner, LearnerState
from shusaku.learner.optimizers import run_share
from shusaku.learner.version_index import VersionIndex
from shusaku.replay.buffer import Batch, ReplayBuffer, ReplayStats

FORMAT = 2  # of the facts below; 1 is `shusaku local`'s
WAIT_SECONDS = 0.02  # between questions for data that is not there yet


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """What the driver asks for a few times a second; counters are totals since this process began."""

    step: int  # gradient steps, over the life of the run
    version: int  # newest published
    ticks: int  # rounds of the loop: whoever answers and stands still is stuck
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
    reason: str = "the learner was stopped"  # of the last report: why it ended
    description: str = ""  # what computes


class Training:
    """Owns network, checkpoints and version numbers of a run directory; the buffer is the caller's.

    `run` belongs to one thread; `report`, `weights` and `stop` may be called by others.
    """

    def __init__(
        self,
        config: Config,
        game: Game,
        buffer: ReplayBuffer,
        directory: Path,
        *,
        config_hash: str,
        seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Goes on from the newest good checkpoint below `directory`; `seconds`: training time of the run before.

        ResumeError when none is good, or when they are of another format; UsageError when they are of another network.
        """
        self._config, self._game, self._buffer, self._directory = config, game, buffer, directory
        self._config_hash, self._clock = config_hash, clock
        network = Network(
            game.observation_shape, game.num_actions, config.network, make_targets(config.learner), config.run.seed
        )
        self.learner = Learner(
            network, game, config.learner, is_quantised=config.inference.is_quantised
        )
        self._versions = VersionIndex(directory)
        self._published: Weights | None = None
        self._rollbacks = 0
        self._saved_step = 0
        self._ticks = 0
        self._learning = self._waiting = 0.0
        self._metrics: dict[str, float] = {}
        self._notes: list[str] = []
        self._lock = threading.Lock()  # of what `report` and `weights` read
        self._stopping = threading.Event()
        self._saved_at = clock()
        self._seconds_before, self._began = seconds, clock()
        first = self._resume()
        self._batches: Prefetcher[Batch] = Prefetcher(
            lambda seed: buffer.sample(config.learner.batch_size, seed), config.run.seed, config.learner.prefetch, first
        )

    def run(self) -> TrainingReport:
        """Publishes, then learns until `stop`; ends with a checkpoint, and says how it ended.

        Raises Diverged where nothing can be rolled back to, and what the buffer's own threads met.
        """
        self._began = self._clock()  # what it took to read the window back is no training time
        try:
            self._publish()
            while not self._stopping.is_set():
                self._ticks += 1
                begin = self._clock()
                batch = self._batches.next()
                if batch is None:
                    self._stopping.wait(WAIT_SECONDS)
                    self._waiting += self._clock() - begin
                else:
                    self._learn(batch)
                    self._learning += self._clock() - begin
                seconds = self._config.run.checkpoint_seconds
                if seconds and self._clock() - self._saved_at >= seconds:
                    self.checkpoint()
            self.checkpoint()
            return self.report()
        finally:
            self._batches.stop()

    def stop(self) -> None:
        """Makes `run` return after the running step and a checkpoint."""
        self._stopping.set()

    def report(self) -> TrainingReport:
        """Figures of now; hands each note out once."""
        stats = self._buffer.stats()
        with self._lock:
            notes, self._notes = self._notes, []
            losses = {name.removeprefix("loss/"): v for name, v in self._metrics.items() if name.startswith("loss/")}
            return TrainingReport(
                step=self.learner.step_count,
                version=self._published.version if self._published else 0,
                ticks=self._ticks,
                learning_seconds=self._learning,
                waiting_seconds=self._waiting,
                losses=losses,
                metrics=self._metrics,
                skipped_steps=self.learner.skipped_steps,
                refused_publications=self.learner.refused_publications,
                rollbacks=self._rollbacks,
                saved_step=self._saved_step,
                resident_megabytes=psutil.Process().memory_info().rss / 1e6,
                replay=stats,
                notes=notes,
                description=self.learner.description,
            )

    def weights(self) -> Weights | None:
        """The newest publication."""
        with self._lock:
            return self._published

    def checkpoint(self) -> None:
        """Everything that learning needs to go on; a full disk costs this checkpoint, not the run."""
        try:
            self._save()
        except OSError as error:
            self._note(f"no checkpoint was written: {error}; the earlier ones are untouched, the run goes on")
        except Diverged as error:
            self._roll_back(error)
        self._saved_at = self._clock()

    def _learn(self, batch: Batch) -> None:
        seconds = self._seconds_before + self._clock() - self._began
        self.learner.run_share = run_share(seconds, self._config.run)
        try:
            self.learner.step(batch)
        except Diverged as error:
            self._roll_back(error)
            return
        every = self._config.learner.publish_every
        if self.learner.step_count % every == 0 and self._published and self.learner.step_count > self._published.step:
            self._publish()

    def _publish(self) -> None:
        """Under a number that was never used before; a network that is not finite is never published."""
        weights = self.learner.publish(self._versions.newest + 1)
        if weights is None:
            self._roll_back(Diverged("the averaged network is not finite"))
            return
        try:
            self._versions.note(weights)
        except OSError as error:
            self._note(f"version {weights.version} was not published: {error}; the next one will be tried")
            return
        # Records may name the version only after the replay knows it, so it is told before anybody plays with it.
        self._buffer.record_version(weights.version)
        metrics = self.learner.metrics()
        with self._lock:
            self._published = weights
            self._metrics = metrics or self._metrics

    def _roll_back(self, cause: Diverged) -> None:
        """Loads the last checkpoint and halves the learning rate, or the same batches would diverge again."""
        found = load_latest(self._directory / "checkpoints")
        if found is None:
            raise cause
        with self._lock:
            self._rollbacks += 1
        self._note(f"rolled back to the last checkpoint: {cause}")
        factor = self.learner.rate_factor
        self.learner.restore(LearnerState(found.checkpoint.tensors, found.checkpoint.facts["learner"]))
        self.learner.rate_factor = min(factor, self.learner.rate_factor) * 0.5
        self._publish()

    def _save(self) -> None:
        published = self._published
        if published is None:
            return
        learner = self.learner.state()
        replay = self._buffer.state()
        # What was drawn ahead is drawn again by whoever goes on from here.
        replay["sampled"] = max(0, replay["sampled"] - self._batches.ahead * self._config.learner.batch_size)
        facts: dict[str, Any] = {
            "format": FORMAT,
            "game": self._game.name,
            "config_hash": self._config_hash,
            "learner": learner.facts,
            "replay": replay,
            "version": published.version,
            "version_step": published.step,
            "next_batch": self._batches.index,
        }
        checkpoints = self._directory / "checkpoints"
        tensors = {**learner.tensors, "published": dict(published.tensors)}
        keep_first_weights(self._directory, published)
        write_checkpoint(checkpoints, Checkpoint(self.learner.step_count, tensors, facts))
        prune(checkpoints, self._config.run.keep_checkpoints)
        save_weights(self._directory / "weights.safetensors", published)
        with self._lock:
            self._saved_step = self.learner.step_count

    def _resume(self) -> int:
        """Restores learner and window; the index of the next mini-batch."""
        found = load_latest(self._directory / "checkpoints")
        if found is None:
            self._buffer.restore(self._buffer.state(), ())
            return 0
        for line in found.damaged:
            self._note(f"damaged and passed over: {line}")
        facts = found.checkpoint.facts
        if facts.get("format") != FORMAT:
            raise ResumeError(f"{found.path} has format {facts.get('format')!r}; this command reads {FORMAT}: "
                              "begin a new run with another run.dir")
        self.learner.restore(LearnerState(found.checkpoint.tensors, facts["learner"]))
        bad = self._buffer.restore(facts["replay"], ())
        # Redis may have seen later ones than a copy of the run directory knows.
        self._versions.newest = max(self._versions.newest, int(facts["version"]), self._buffer.control().version)
        self._saved_step = self.learner.step_count
        stats = self._buffer.stats()
        self._note(f"learning goes on after {self.learner.step_count:,} steps with {stats.rows:,} rows in the window"
                   + (f"; {bad:,} records of it were not valid and are left out" if bad else ""))
        return int(facts["next_batch"])

    def _note(self, line: str) -> None:
        with self._lock:
            self._notes.append(line)
            del self._notes[:-100]  # nobody has asked for a long time
