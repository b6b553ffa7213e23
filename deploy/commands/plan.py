"""`shusaku plan`: measures the parts of a run here for a moment, and estimates what the run would be like."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from shusaku.common.config.rules import check_self_play
from shusaku.common.config.schema import Config
from shusaku.common.external.configured_game import configured_game
from shusaku.common.hardware import visible_gpus
from shusaku.common.network.row_labels import row_labels
from shusaku.deploy.bench.capacity import Asked, Plan, Rates, plan_of
from shusaku.deploy.bench.game_sizes import game_sizes
from shusaku.deploy.bench.games_setting import settle_games
from shusaku.deploy.bench.processes import run_in_subprocess
from shusaku.deploy.cluster.layout import placement_of
from shusaku.deploy.run.composed_config import replace_settings
from shusaku.deploy.run.devices import Devices, devices_of
from shusaku.deploy.run.disk_budget import DiskBudget, DiskReport, report_disk
from shusaku.replay.backends import make_buffer

SHORTEST_LATENCY_MS = 0.01  # of a simulated GPU that limits nothing


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Prints the plan; {**plan, "rates": what was measured}."""
    check_self_play(config)
    where = _on_the_cluster(config) if os.environ.get("RAY_ADDRESS", "") not in ("", "local") else None
    gpus = visible_gpus()
    devices = where.devices if where else devices_of(
        config, gpus, most_servers=config.actors.count or len(os.sched_getaffinity(0)))
    config = devices.settle(config)
    config, choice = settle_games(config)
    rates = measure(config)
    cores = len(os.sched_getaffinity(0))
    replay, learner = config.replay, config.learner
    actors = where.actors if where else config.actors.count
    plan = plan_of(rates, Asked(
        actors=actors or cores,
        cores=max(cores, actors),  # more actors than cores here: a cluster of cores like these
        samples_per_position=replay.samples_per_position, capacity=replay.capacity, minimum=replay.minimum,
        is_learning=learner.enabled, learner_on_cpu=not learner.is_on_gpu,
    ))
    game = configured_game(config.game)
    disk = report_disk(Path(config.run.dir), DiskBudget.of(config, game, bytes_per_row=rates.stored_bytes_per_row))
    if not as_json:
        print(text(plan, rates, config, disk, devices))
        for line in where.lines if where else ():
            print(line)
        if choice is not None:
            print(choice)
    return asdict(plan) | {"games_per_actor": config.actors.games, "rates": asdict(rates),
                           "disk": disk.to_json(), "gpus": gpus, "devices": asdict(devices),
                           "nodes": where.roles if where else {}}


class ClusterPlacement(NamedTuple):
    """A run on the cluster that RAY_ADDRESS names."""

    actors: int
    devices: Devices
    roles: dict[str, dict[str, int]]  # address of a node -> how many of each role
    lines: list[str]


def _on_the_cluster(config: Config) -> ClusterPlacement:
    """Asks the nodes, and starts nothing on them; UsageError where the run does not fit."""
    import ray

    from shusaku.deploy.cluster.cluster_plan import describe, who_runs_where
    from shusaku.deploy.cluster.layout import layout_of
    from shusaku.deploy.cluster.node_watch import read_nodes
    from shusaku.deploy.ray_runtime.autoscaler import growing_cpus
    from shusaku.deploy.ray_runtime.session import RaySession

    with RaySession(config.cluster, notify=lambda line: None) as session:
        growing = growing_cpus(config.cluster, session.address)
        nodes = read_nodes()
        layout = layout_of(config, nodes, session.num_gpus, session.own_gpus, growing_cpus=growing)
        roles = who_runs_where(layout.devices.settle(config), nodes, layout, ray.get_runtime_context().get_node_id(),
                               growing_cpus=growing)
    hosts = {node.id: node.host for node in nodes}
    return ClusterPlacement(layout.actors, layout.devices,
                            {hosts.get(name, "waiting"): dict(counts) for name, counts in roles.items()},
                            describe(nodes, roles))


def measure(config: Config) -> Rates:
    """One actor on a core of its own, then the learner on its threads, each in a fresh process; and quick games."""
    from shusaku.deploy.bench.learner import measure_learner

    part = replace(config.bench, seconds=config.bench.seconds / 3)
    whole = replace_settings(config, bench=part)
    alone = replace_settings(whole, actors=replace(config.actors, count=1))
    cores = len(os.sched_getaffinity(0))
    threads = config.learner.threads or max(1, cores - (config.actors.count or cores))  # as in `shusaku train`
    played, served = _measure_actor(whole, alone)
    learning = replace_settings(alone, learner=replace(config.learner, threads=threads))
    learned = run_in_subprocess(measure_learner, learning)
    game = configured_game(config.game)
    rows_per_game, stored_bytes_per_row = game_sizes(config, game)
    few = replace(config.replay, capacity=1000 + 4 * game.max_plies, minimum=1000)  # a window of rows like these
    window = make_buffer("memory", game, few, batch_size=1, limited=False, labels=row_labels(game, config.learner))
    cheap = config.self_play.cheap_share
    simulations = (1 - cheap) * config.search.simulations + cheap * config.self_play.cheap_simulations
    evaluated = played["evaluations_per_s"]
    searches = played["searches_per_s"] or evaluated / simulations  # where one takes longer than all of the measuring
    rows = played["rows_per_s"] or searches * (1 - cheap)
    return Rates(
        searches_per_s=searches, rows_per_s=rows, evaluations_per_s=evaluated, actor_mb=played["actor_mb"],
        rows_per_game=rows_per_game, stored_bytes_per_row=stored_bytes_per_row,
        learner_rows_per_s=learned["rows_per_s"], learner_threads=threads, learner_mb=learned["learner_mb"],
        window_bytes_per_row=window.stats().nbytes / few.capacity  # of moves it keeps about what is stored
        + (stored_bytes_per_row if few.keep == "moves" else 0),
        served_rows_per_s=None if served is None else served * rows / evaluated,
    )


def _measure_actor(whole: Config, alone: Config) -> tuple[dict[str, Any], float | None]:
    """What one actor plays that never waits, and the evaluations a second of all inference servers.

    With inference servers it asks a simulated GPU that answers at once, for it would wait for a real one.
    """
    from shusaku.deploy.bench.selfplay import measure_selfplay
    from shusaku.deploy.bench.served import measure_served

    if placement_of(alone) == "actor":
        return measure_selfplay(alone), None
    raw = measure_served(whole)["raw_evaluations_per_s"]  # in the batches that all actors fill
    at_once = replace(alone.inference, runtime="simulated_gpu", device="cpu",
                      simulated_gpu_batch_ms=SHORTEST_LATENCY_MS)
    at_once.placement = "server"
    return measure_served(replace_settings(alone, inference=at_once)), whole.inference.servers * raw or None


def text(plan: Plan, rates: Rates, config: Config, disk: DiskReport, devices: Devices) -> str:
    """The plan in words."""
    lines = [
        f"devices       {devices.reason}",
        f"one actor     {rates.searches_per_s:,.0f} searches/s of {config.search.simulations} simulations, "
        f"{rates.evaluations_per_s:,.0f} evaluations/s, {rates.rows_per_s:,.0f} rows/s, {rates.actor_mb:,.0f} MB",
        f"the learner   {rates.learner_rows_per_s:,.0f} rows/s on {rates.learner_threads} "
        f"{'thread' if rates.learner_threads == 1 else 'threads'}, batches of {config.learner.batch_size}",
        f"together      {_actors(plan.actors)}: {plan.games_per_hour:,.0f} games/h, "
        f"{plan.rows_per_s:,.0f} rows/s, {plan.busy_cores:.1f} cores busy; the limit is {plan.limit}",
        f"memory        actors {plan.actors_mb:,.0f} MB, learner with a window of {config.replay.capacity:,} rows "
        f"{plan.learner_mb:,.0f} MB, Redis {plan.redis_mb:,.0f} MB, and about 1 GB for Ray and the driver",
        f"disk          {disk.line}",
        *([f"warning       {disk.trouble}"] if disk.trouble else []),
        f"time          {plan.minutes_to_first_step:.1f} minutes to the first step, "
        f"{plan.hours_to_full_window:.1f} hours until the window is full",
        f"advice        {advice(plan, config)}",
        "The network was untrained: games and what the cache knows change as it learns.",
    ]
    return "\n".join(lines)


def advice(plan: Plan, config: Config) -> str:
    """What to change first."""
    if not config.learner.enabled:
        return "learner.enabled=false: actors never wait; each more adds as much as the first"
    if plan.limit == "the learner":
        return (f"the learner takes the rows of {_actors(plan.actors_that_fill_the_learner)}; for more, give it a GPU "
                "(learner.device=cuda), a smaller network, or a lower replay.samples_per_position")
    if plan.limit == "the network":
        return "the inference servers evaluate no more; a GPU for each of more inference.servers, or a smaller network"
    if plan.limit == "the cores":
        return ("playing and learning share the cores; more cores, fewer search.simulations or a lower "
                "replay.samples_per_position give more games")
    return f"the learner could take the rows of {_actors(plan.actors_that_fill_the_learner)}: raise actors.count"


def _actors(count: int) -> str:
    return "one actor" if count == 1 else f"{count:,} actors"
