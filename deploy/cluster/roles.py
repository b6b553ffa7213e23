"""Which workers a cluster run employs, and what each is made of."""

import math
import os
from typing import TYPE_CHECKING

import ray

from shusaku.actors.remote import BUILD_SECONDS, ActorPlan, EvaluatorActor, InferenceServerActor, SelfPlayActor
from shusaku.common.config.schema import config_hash
from shusaku.deploy.cluster.layout import actor_seed, plain
from shusaku.deploy.cluster.workers import RayRole
from shusaku.learner.remote import LearnerActor, LearnerPlan

if TYPE_CHECKING:
    from shusaku.deploy.cluster.driver import ClusterRun

EVALUATOR_NICE = 19
LEARNER_START_SECONDS = 900.0  # it reads the whole window back first
EVALUATOR_START_SECONDS = 300.0  # everybody else comes first


def roles_of(run: "ClusterRun") -> list[tuple[RayRole, int]]:
    """Each role with the number of its workers."""
    config, epoch, layout = plain(run.config), run.epoch, run.layout
    home = ray.get_runtime_context().get_node_id()
    digest, run_id = config_hash(run.config), run.identity.run_id
    cores = len(os.sched_getaffinity(0))

    def actor_plan(index: int, incarnation: int) -> tuple[ActorPlan]:
        return (ActorPlan(
            config, digest, index, epoch, incarnation, actor_seed(config.run.seed, epoch, index, incarnation),
            layout.games, run.store.actor_url, run_id, layout.placement == "server",
        ),)

    def learner_plan(index: int, incarnation: int) -> tuple[LearnerPlan]:
        here = min(run.actors, math.floor(cores / config.actors.cpus))
        threads = config.learner.threads or max(1, cores - math.ceil(here * config.actors.cpus))
        directory = str(run.directory.path.resolve())
        return (LearnerPlan(config, digest, epoch, incarnation, directory, run.store.url, run_id, threads,
                            run.seconds),)

    roles = []
    if config.learner.enabled:
        gpus = 1.0 if config.learner.device == "cuda" else 0.0
        roles.append((RayRole("learner", LearnerActor, learner_plan, epoch, gpus=gpus, node=home,
                              start_seconds=LEARNER_START_SECONDS), 1))
    if layout.placement == "server":
        gpus = 1.0 if config.inference.device == "cuda" else 0.0
        sizes = list(layout.sizes)
        roles.append((RayRole("inference", InferenceServerActor, lambda index, _: (config, index, sizes), epoch,
                              gpus=gpus, start_seconds=BUILD_SECONDS), config.inference.servers))
    roles.append((RayRole("self_play", SelfPlayActor, actor_plan, epoch, cpus=config.actors.cpus, asks=False,
                          heard=run.totals.heard, before_start=run.fence), layout.actors))
    if run.positions is not None and config.learner.enabled:
        roles.append((RayRole("evaluator", EvaluatorActor, lambda *_: (config, EVALUATOR_NICE, cores), epoch,
                              node=home, start_seconds=EVALUATOR_START_SECONDS, is_vital=False), 1))
    return roles
