"""The worker groups of a cluster run, and how each worker is made."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shusaku.actors.arena.remote import GateActor
from shusaku.actors.inference.transport import CALLS
from shusaku.actors.remote import ActorPlan, EvaluatorActor, InferenceServerActor, SelfPlayActor
from shusaku.common.config.schema import Config, config_hash
from shusaku.common.tls.authority import RunAuthority
from shusaku.deploy.cluster.layout import Layout, actor_seed, without_secrets
from shusaku.deploy.cluster.rank_places import rank_places
from shusaku.deploy.cluster.workers import THREADS, RayRole
from shusaku.deploy.ray_runtime.living_nodes import living_nodes
from shusaku.deploy.run.composed_config import replace_settings
from shusaku.deploy.run.devices import GATE_GPU
from shusaku.deploy.run.elo_record import is_rated
from shusaku.deploy.run.gatekeeper import is_gated
from shusaku.deploy.run.reinforce_start import queue_options
from shusaku.learner.remote import FILES_GROUPS, LearnerActor, LearnerPlan, RunFilesActor
from shusaku.learner.remote_ranks import RankPlan

LEAST_CLIENTS = 32  # that an inference server has threads for, as actors may be added to a run
EVALUATOR_NICE = 19
EVALUATOR_START_SECONDS = 300.0  # all other workers come first


def gate_threads(cpus: float, cores: int) -> tuple[int, float]:
    """How many threads play the gate's games, and for which share of their time, to take so many of the cores."""
    threads = min(cores, max(1, math.ceil(cpus)))
    return threads, min(1.0, cpus / threads)


def make_roles(
    config: Config, layout: Layout, *, epoch: int, run_id: str, directory: Path, log_directory: str, url: str,
    remote_url: str, actor_url: str, has_positions: bool, actors: Callable[[], int], seconds: Callable[[], float],
    resign_value: Callable[[], float], fence: Callable[[int, int], None], config_text: str,
    place: Callable[[], str | None], is_pending: Callable[[Any], bool], unheard_seconds: Callable[[int], float],
    policies: tuple[Any, ...] = (), start: Any = None, authority: RunAuthority | None = None,
) -> list[tuple[RayRole, int]]:
    """Each role of a run with the number of its workers.

    `log_directory`: of Ray, on this node; `url`, `remote_url`, `actor_url`: of the replay, as the learner reaches it on
    this node and on another one, and actors on any; `has_positions`: the game has positions with known results, so that
    its strength can be measured; `actors`: their desired number now; `seconds`: training time up to now;
    `resign_value`: threshold that an actor begins with; `fence`: of the self-play actors; `config_text`: of
    config.yaml, for the checkpoints; `place`, `is_pending`, `unheard_seconds`: see `RayRole`, of the self-play actors,
    all, and the actor of an index; `policies`: see `ActorPlan`; `start`: see `LearnerPlan`; `authority`: None if no
    server encrypts.
    """
    digest, config = config_hash(config), without_secrets(config)
    common: dict[str, Any] = {"epoch": epoch, "log_directory": log_directory, "run_seconds": seconds,
                              "is_pending": is_pending}
    own_node = ray.get_runtime_context().get_node_id()
    cores = len(os.sched_getaffinity(0))

    def actor_plan(index: int, incarnation: int) -> tuple[ActorPlan]:
        seed = actor_seed(config.run.seed, epoch, index, incarnation)
        return (ActorPlan(config, digest, index, epoch, incarnation, seed, layout.games, actor_url, run_id,
                          layout.placement == "server", resign_value(), layout.actors, policies),)

    is_here = layout.devices.learner_is_here
    make_actor: Any = ray.remote  # Ray's types do not know this form
    files = None if is_here else make_actor(concurrency_groups=FILES_GROUPS)(RunFilesActor).options(
        num_cpus=0, max_restarts=-1, max_task_retries=-1,
        scheduling_strategy=NodeAffinitySchedulingStrategy(own_node, soft=False),
    ).remote(str(directory.resolve()), config.run.keep_checkpoints, config.run.keep_every_minutes * 60)

    def rank_plans(incarnation: int) -> tuple[int, tuple[RankPlan, ...]]:
        """Threads of rank 0, which is the learner, and the plans of the others."""
        cpus = {node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in living_nodes()}
        first, *others = rank_places(
            cpus, own_node, config.learner.ranks, on_gpus=config.learner.is_on_gpu, actors=actors(),
            cpus_per_actor=config.actors.cpus, threads=config.learner.threads)
        return first.threads, tuple(
            RankPlan(config, digest, epoch, url if place.node == own_node else remote_url, run_id,
                     f"rank {number} ({epoch}.{incarnation})", place.node, place.threads)
            for number, place in enumerate(others, 1))

    def learner_plan(index: int, incarnation: int) -> tuple[LearnerPlan]:
        actors_here = min(actors(), math.floor(cores / config.actors.cpus))
        threads = config.learner.threads or (
            max(1, cores - math.ceil(actors_here * config.actors.cpus)) if is_here else 0)
        ranks: tuple[RankPlan, ...] = ()
        if config.learner.ranks > 1:
            threads, ranks = rank_plans(incarnation)
        return (LearnerPlan(config, digest, epoch, incarnation, str(directory.resolve()),
                            url if is_here else remote_url, run_id, threads, seconds(), config_text,
                            queue_options(config, takes_turns=False), files, ranks, start),)

    roles = []
    if config.learner.enabled:
        roles.append((RayRole("learner", LearnerActor, learner_plan, gpus=layout.devices.learner_gpus,
                              node=own_node if is_here else "", **common), 1))
    on_gpu = layout.devices.gpus_per_server > 0
    gate_gpus = GATE_GPU if on_gpu and is_gated(config) else 0.0
    if layout.placement == "server" and layout.actors:
        gpus = layout.devices.gpus_per_server - gate_gpus
        server = _with_share(config, gpus)
        # A request takes a thread until it is answered; those of more clients than these wait for one.
        threads = THREADS + CALLS * max(LEAST_CLIENTS, layout.actors)

        def server_arguments(index: int, _: int) -> tuple[Any, ...]:
            is_encrypted = config.inference.encryption == "tls" and authority is not None
            certificate = authority.issue(f"inference-{index}") if is_encrypted and authority is not None else None
            return server, index, list(layout.sizes), certificate, layout.actors

        roles.append((RayRole("inference", InferenceServerActor, server_arguments, gpus=gpus, threads=threads,
                              **common), layout.devices.servers))
    roles.append((RayRole("self_play", SelfPlayActor, actor_plan, cpus=config.actors.cpus, has_report=False,
                          fence=fence, place=place, unheard_seconds=unheard_seconds, **common), layout.actors))
    if (has_positions or is_rated(config)) and config.learner.enabled:
        roles.append((RayRole("evaluator", EvaluatorActor,
                              lambda *_: (config, EVALUATOR_NICE, cores, str(directory.resolve())),
                              node=own_node, start_seconds=EVALUATOR_START_SECONDS, has_report=False,
                              is_vital=False, **common), 1))
    if is_gated(config):
        threads, share = gate_threads(config.gate.share * layout.actors * config.actors.cpus, cores)
        gate = _with_share(config, gate_gpus)
        roles.append((RayRole("gate", GateActor, lambda *_: (gate, threads, share), gpus=gate_gpus,
                              node="" if on_gpu else own_node, start_seconds=EVALUATOR_START_SECONDS, has_report=False,
                              is_vital=False, **common), 1))
    return roles


def _with_share(config: Config, gpus: float) -> Config:
    """For a worker that claims so much of a GPU: it takes as much of the memory."""
    return replace_settings(config, inference=replace(config.inference, gpus_per_server=gpus))
