"""Ray's side of the learner: a thin shell around `learner.training_loop.TrainingLoop`."""

import os
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import ray
import torch

from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import decided_game
from shusaku.common.messages import Weights
from shusaku.common.mps import yield_to_others
from shusaku.common.network.row_labels import row_labels
from shusaku.common.remote_worker import RemoteWorker
from shusaku.learner.dataset import open_dataset
from shusaku.learner.learner import Learner
from shusaku.learner.opponent_pool import OpponentPool
from shusaku.learner.optimizers import run_share
from shusaku.learner.policy_gradient import open_policy_gradient
from shusaku.learner.remote_ranks import RankPlan, RemoteRanks
from shusaku.learner.run_mirror import RunFiles, RunMirror, Snapshot
from shusaku.learner.training_loop import TrainingLoop, TrainingReport, make_learner
from shusaku.replay.backends import make_buffer
from shusaku.replay.buffer import QueueOptions
from shusaku.replay.share import Share

OWN_DIRECTORY = "shusaku-learner-"  # before the process id, below the directory of temporary files
# Calls of the RunFilesActor that may run at once, one of each kind: a version never waits for a checkpoint.
QUICK, SLOW = "quick", "slow"
FILES_GROUPS = {QUICK: 1, SLOW: 1}
END_SECONDS = 5.0  # for the other ranks
QUICK_SECONDS = 60.0  # that a quick one may take


@dataclass(frozen=True)
class LearnerPlan:
    """Everything that a learner is made of."""

    config: Config
    config_hash: str
    epoch: int
    incarnation: int
    directory: str  # the run directory, on the node of the driver
    url: str = field(repr=False)  # of the replay, with its password
    run_id: str
    threads: int  # 0: as many as this node has cores
    seconds: float  # of training before
    config_text: str  # of the run's config.yaml
    queue: QueueOptions | None = None  # of policy gradient
    files: Any = None  # handle of the RunFilesActor; None: the run directory is on this node
    ranks: tuple[RankPlan, ...] = ()  # beside this process
    start: Any = None  # reference to the Weights that a new run begins with; None: untrained


class LearnerActor(RemoteWorker):
    """Learns until it is stopped."""

    def __init__(self, plan: LearnerPlan) -> None:
        super().__init__()
        self._plan = plan
        self.run_seconds = plan.seconds
        self._training: TrainingLoop | None = None
        self._pool: OpponentPool | None = None
        self._built = threading.Event()

    def run(self) -> TrainingReport:
        """Learns and returns how it ended; raises what it cannot recover from."""
        with ExitStack() as stack:
            if self._plan.files is None:
                return self._run(Path(self._plan.directory), None, stack)
            remove_directories_of_the_dead()
            own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{OWN_DIRECTORY}{os.getpid()}-")))
            return self._run(own, RunMirror(RemoteFiles(self._plan.files, self._plan.incarnation), own), stack)

    def _run(self, directory: Path, mirror: RunMirror | None, stack: ExitStack) -> TrainingReport:
        plan, config = self._plan, self._plan.config
        yield_to_others(config.learner.gpus)
        ranks = stack.enter_context(RemoteRanks(plan.ranks, self.activity)) if plan.ranks else None
        torch.set_num_threads(plan.threads or len(os.sched_getaffinity(0)))
        game = decided_game(config.game)
        buffer: Any
        unseen = None
        learner: Learner | None = None
        if config.reinforce.enabled:
            self._pool = OpponentPool(directory, config.reinforce.pool_every)
            learner = open_policy_gradient(config, game, directory, self._pool)
        if config.dataset.records:
            self.activity.begin("reading the dataset")
            buffer, unseen = open_dataset(config, game, threads=plan.threads)
        else:
            share = Share.sized(0, config.learner.ranks, config.replay.minimum, game.max_plies)
            buffer = make_buffer(
                "redis", game, config.replay, batch_size=config.learner.batch_size,
                symmetries=config.learner.symmetries, labels=row_labels(game, config.learner),
                epoch=plan.epoch, config_hash=plan.config_hash, url=plan.url, run_id=plan.run_id,
                error_buffer=float(config.learner.publish_every * config.learner.batch_size), queue=plan.queue,
                packed=config.learner.is_on_gpu, share=share,
            )
        try:
            start = None if plan.start is None else ray.get(plan.start)
            if ranks is not None:
                group = ranks.meet(torch.device(config.learner.chosen_device))
                learner = make_learner(config, game, start, group)
            self._training = TrainingLoop(config, game, buffer, directory, config_hash=plan.config_hash,
                                          learner=learner, load_weights=self._offer_to_pool,
                                          share_done=lambda: run_share(self.run_seconds, config.run),
                                          activity=self.activity, unseen=unseen, mirror=mirror,
                                          start=start, describe_run=lambda: {
                                              "config": plan.config_text, "run_id": plan.run_id, "epoch": plan.epoch,
                                              "progress": {"seconds": self.run_seconds}})
            if self._stopping.is_set():
                self._training.stop()
            self._built.set()
            report = self._training.run()
            if ranks is not None:
                self._training.learner.end()
                ranks.wait_for_end(END_SECONDS)
            return report
        finally:
            buffer.close()

    def report(self) -> TrainingReport:
        """State of the training; waits until checkpoint and window are read."""
        self._built.wait()
        assert self._training is not None
        return self._training.report()

    def weights(self) -> Weights | None:
        """Newest published weights; None before the first."""
        return self._training.weights() if self._training else None

    def troubles(self) -> Sequence[str]:
        """What is wrong with its replay, its disk and its pool of opponents."""
        troubles = self._training.troubles() if self._training else []
        return [*troubles, self._pool.trouble] if self._pool is not None and self._pool.trouble else troubles

    def _offer_to_pool(self, weights: Weights) -> None:
        if self._pool is not None:
            self._pool.offer(weights)

    def on_stop(self) -> None:
        """`run` writes a checkpoint and ends."""
        if self._training:
            self._training.stop()

    def __repr__(self) -> str:
        return f"Learner 0.{self._plan.incarnation}"


def remove_directories_of_the_dead() -> None:
    """Those of learners on this node that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{OWN_DIRECTORY}*-*"):
        pid = path.name.removeprefix(OWN_DIRECTORY).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


class RunFilesActor:
    """The run directory for a learner of another node; Ray starts it again, so a call may come twice."""

    def __init__(self, directory: str, keep: int, history_seconds: float) -> None:
        self._files = RunFiles(Path(directory), keep, history_seconds)
        self._incarnation = 0  # of the newest learner

    def call(self, incarnation: int, name: str, *arguments: Any) -> Any:
        """A method of `run_mirror.Files`; OSError for a learner that has a successor and was not reached."""
        if incarnation < self._incarnation:
            raise OSError("another learner has taken over the run directory")
        self._incarnation = incarnation
        return getattr(self._files, name)(*arguments)


class RemoteFiles:
    """`run_mirror.Files` of a RunFilesActor."""

    def __init__(self, handle: Any, incarnation: int) -> None:
        """`incarnation`: of the learner."""
        self._handle, self._incarnation = handle, incarnation

    def read(self) -> Snapshot:
        """See `Files`."""
        found: Snapshot = self._call(SLOW, "read")
        return found

    def append_version(self, line: str) -> None:
        """See `Files`."""
        self._call(QUICK, "append_version", line)

    def write_checkpoint(self, step: int, files: Mapping[str, bytes]) -> None:
        """See `Files`; takes as long as it takes: the learner goes on meanwhile."""
        self._call(SLOW, "write_checkpoint", step, dict(files))

    def write_small(self, name: str, data: bytes) -> None:
        """See `Files`."""
        self._call(QUICK, "write_small", name, data)

    def _call(self, group: str, name: str, *arguments: Any) -> Any:
        call = self._handle.call.options(concurrency_group=group).remote(self._incarnation, name, *arguments)
        try:
            return ray.get(call, timeout=QUICK_SECONDS if group == QUICK else None)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # as RunFiles raised it
        except ray.exceptions.RayError as error:  # a time-out, too
            reason = str(error).strip().partition("\n")[0]
            raise OSError(f"the run directory, on another machine, does not answer: {reason}") from None
