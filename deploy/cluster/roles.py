"""The worker groups of a cluster run, and how each worker is made."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from shusaku.actors.remote import BUILD_SECONDS, ActorPlan, EvaluatorActor, InferenceServerActor, SelfPlayActor
from shusaku.common.config.schema import Config, config_hash
from shusaku.deploy.cluster.layout import Layout, actor_seed, without_secrets
from shusaku.deploy.cluster.workers import Heartbeat, RayRole
from shusaku.learner.remote import LearnerActor, LearnerPlan

EVALUATOR_NICE = 19
LEARNER_START_SECONDS = 900.0  # it reads the whole window back first
EVALUATOR_START_SECONDS = 300.0  # all other workers come first


@dataclass(frozen=True, kw_only=True)
class RunSetup:
    """What the workers of a run need to know of it."""

    config: Config
    layout: Layout
    epoch: int
    run_id: str
    directory: Path  # the run directory
    log_directory: str  # of Ray, on this node
    url: str  # of the replay, as reached from this node
    actor_url: str  # of the replay, as reached from any node
    has_positions: bool  # the game has positions with known results, so that its strength can be measured
    actors: Callable[[], int]  # the desired number now
    seconds: Callable[[], float]  # training time up to now
    heartbeat: Heartbeat  # of the self-play actors
    fence: Callable[[int, int], None]  # index, incarnation: refuses games of earlier incarnations of an actor


def make_roles(setup: RunSetup) -> list[tuple[RayRole, int]]:
    """Each role with the number of its workers."""
    config, epoch, layout = without_secrets(setup.config), setup.epoch, setup.layout
    common: dict[str, Any] = {"epoch": epoch, "log_directory": setup.log_directory}
    own_node = ray.get_runtime_context().get_node_id()
    digest, run_id = config_hash(setup.config), setup.run_id
    cores = len(os.sched_getaffinity(0))

    def actor_plan(index: int, incarnation: int) -> tuple[ActorPlan]:
        return (ActorPlan(
            config, digest, index, epoch, incarnation, actor_seed(config.run.seed, epoch, index, incarnation),
            layout.games, setup.actor_url, run_id, layout.placement == "server",
        ),)

    def learner_plan(index: int, incarnation: int) -> tuple[LearnerPlan]:
        actors_here = min(setup.actors(), math.floor(cores / config.actors.cpus))
        threads = config.learner.threads or max(1, cores - math.ceil(actors_here * config.actors.cpus))
        return (LearnerPlan(config, digest, epoch, incarnation, str(setup.directory.resolve()), setup.url, run_id,
                            threads, setup.seconds()),)

    roles = []
    if config.learner.enabled:
        gpus = 1.0 if config.learner.device == "cuda" else 0.0
        roles.append((RayRole("learner", LearnerActor, learner_plan, gpus=gpus, node=own_node,
                              start_seconds=LEARNER_START_SECONDS, **common), 1))
    if layout.placement == "server":
        gpus = 1.0 if config.inference.device == "cuda" else 0.0
        sizes = list(layout.sizes)
        roles.append((RayRole("inference", InferenceServerActor, lambda index, _: (config, index, sizes),
                              gpus=gpus, start_seconds=BUILD_SECONDS, **common), config.inference.servers))
    roles.append((RayRole("self_play", SelfPlayActor, actor_plan, cpus=config.actors.cpus, heartbeat=setup.heartbeat,
                          refuse_earlier=setup.fence, **common), layout.actors))
    if setup.has_positions and config.learner.enabled:
        roles.append((RayRole("evaluator", EvaluatorActor, lambda *_: (config, EVALUATOR_NICE, cores),
                              node=own_node, start_seconds=EVALUATOR_START_SECONDS, is_vital=False, **common), 1))
    return roles
