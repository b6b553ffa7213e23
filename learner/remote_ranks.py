"""Ray's side of several ranks: rank 0 starts the others as actors of its own, which end with it.

A rank that dies ends them all: the supervisor starts the learner again, with ranks, from the last checkpoint.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shusaku.common.activity import ActivityClock
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import decided_game
from shusaku.common.mps import yield_to_others
from shusaku.common.network.network import Network
from shusaku.common.network.row_labels import row_labels
from shusaku.common.network.targets import make_targets
from shusaku.learner.collectives import Collectives, Store, open_store
from shusaku.learner.follower import Follower
from shusaku.learner.ranks import RankedLearner
from shusaku.replay.backends import make_buffer
from shusaku.replay.share import Share

LOOK_SECONDS = 0.1  # between two looks whether the ranks are there
REASON_SECONDS = 2.0  # that the reason of a rank that has ended may take to come


@dataclass(frozen=True)
class RankPlan:
    """Everything that one rank beside rank 0 is made of."""

    config: Config
    config_hash: str
    epoch: int
    url: str = field(repr=False)  # of the replay, as this rank reaches it, with its password
    run_id: str
    name: str  # of the Ray actor
    node: str  # id; empty: Ray chooses
    threads: int  # 0: as many as the node has cores


class RemoteRanks:
    """The ranks beside this process, which is rank 0; a context: they end with it."""

    def __init__(self, plans: Sequence[RankPlan], activity: ActivityClock) -> None:
        self._plans, self._activity = plans, activity
        self._handles: list[Any] = []
        self._runs: list[Any] = []  # futures of `run`
        self._store: Store = None

    def __enter__(self) -> Self:
        """Starts them."""
        address = own_address()
        self._store = open_store(address)
        make_actor: Any = ray.remote  # Ray's types do not know this form
        for number, plan in enumerate(self._plans, 1):
            handle = make_actor(RankActor).options(
                name=plan.name, num_cpus=0, num_gpus=plan.config.learner.gpus, max_restarts=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(plan.node, soft=False) if plan.node else "SPREAD",
                enable_task_events=False,
            ).remote(plan, number, address, self._store.port)
            self._handles.append(handle)
            self._runs.append(handle.run.remote())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends them; if a rank had ended before, its reason takes the place of what that has caused here."""
        reason = self._reason(REASON_SECONDS) if isinstance(error, RuntimeError) else ""
        for handle in self._handles:
            ray.kill(handle)
        if reason:
            raise RuntimeError(reason) from error

    def meet(self, device: torch.device) -> Collectives:
        """Waits until all ranks are there, as long as that takes; RuntimeError if one of them ends."""
        keys = [_here(number) for number in range(1, len(self._plans) + 1)]
        while not self._store.check(keys):
            self._activity.wait("waiting for the other ranks")
            if reason := self._reason(LOOK_SECONDS):
                raise RuntimeError(reason)
        self._activity.begin("meeting the other ranks")
        return Collectives(self._store, 0, len(self._plans) + 1, device=device, host=own_address())

    def wait_for_end(self, seconds: float) -> None:
        """Until all have ended that were asked to, at most so long."""
        ray.wait(self._runs, num_returns=len(self._runs), timeout=seconds)

    def _reason(self, seconds: float) -> str:
        """Which rank has ended, and why; empty if none has within that time."""
        ended, _ = ray.wait(self._runs, timeout=seconds)
        for run in ended:
            number = self._runs.index(run) + 1
            try:
                ray.get(run)
            except ray.exceptions.RayError as error:
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                has_raised = isinstance(error, ray.exceptions.RayTaskError)
                return f"rank {number} ended: {lines[-1 if has_raised else 0]}"
            return f"rank {number} ended before its time"
        return ""


class RankActor:
    """A rank beside rank 0, which alone has the driver's eye on it: a rank that hangs is missed at the next step."""

    def __init__(self, plan: RankPlan, rank: int, host: str, port: int) -> None:
        self._plan, self._rank, self._host, self._port = plan, rank, host, port

    def run(self) -> None:
        """Follows rank 0 until it ends this."""
        plan, config, rank = self._plan, self._plan.config, self._rank
        yield_to_others(config.learner.gpus)
        torch.set_num_threads(plan.threads or len(os.sched_getaffinity(0)))
        game = decided_game(config.game)
        share = Share.sized(rank, config.learner.ranks, config.replay.minimum, game.max_plies)
        buffer: Any = make_buffer(
            "redis", game, config.replay, batch_size=config.learner.batch_size, limited=False, share=share,
            symmetries=config.learner.symmetries, labels=row_labels(game, config.learner), epoch=plan.epoch,
            config_hash=plan.config_hash, url=plan.url, run_id=plan.run_id, packed=config.learner.is_on_gpu)
        try:
            store = open_store(self._host, self._port)
            store.set(_here(rank), str(time.time()))
            ranks = Collectives(store, rank, share.of, device=torch.device(config.learner.chosen_device),
                                host=own_address())
            network = Network(game.observation_shape, game.num_actions, config.network, make_targets(config.learner),
                              config.run.seed)
            learner = RankedLearner(network, game, config.learner, ranks)
            buffer.stats()  # begins to read
            Follower(config, learner, buffer).run()
        finally:
            buffer.close()

    def __repr__(self) -> str:
        return f"Rank {self._rank}"


def own_address() -> str:
    """The address of this node, as Ray gives it to the others."""
    util: Any = ray.util
    return str(util.get_node_ip_address())


def _here(rank: int) -> str:
    """The key under which a rank says that it is there."""
    return f"rank {rank} is here"
