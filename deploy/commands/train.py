"""`shusaku train`: learns on Ray and Redis, here or on the cluster of RAY_ADDRESS; the same command resumes."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from shusaku.common.config.rules import check_self_play
from shusaku.common.config.schema import Config
from shusaku.common.errors import UsageError
from shusaku.common.external.configured_game import configured_game
from shusaku.common.hardware import gpu_memory
from shusaku.common.network.row_labels import row_labels
from shusaku.deploy.bench.games_setting import settle_games
from shusaku.deploy.bench.precision_setting import settle_precision
from shusaku.deploy.cluster.layout import layout_of
from shusaku.deploy.cluster.room import Node
from shusaku.deploy.ray_runtime.session import RaySession, gpus_here
from shusaku.deploy.run.arena_openings import check_openings
from shusaku.deploy.run.console import Console
from shusaku.deploy.run.devices import check_memory
from shusaku.deploy.run.foreground_link import LINK, Ending
from shusaku.deploy.run.learner_start import check_learner_start
from shusaku.deploy.run.network_stages import run_in_stages
from shusaku.deploy.run.reinforce_start import check_start
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunIdentity
from shusaku.deploy.run.run_summary import introduce
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.deploy.run.trackers import check_trackers
from shusaku.deploy.run.unseen_table import describe_dataset
from shusaku.deploy.run.value_policies import check_policies
from shusaku.replay.stream.client import check_server


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Trains until `run.minutes` are used up, then measures the strength."""
    check_self_play(config)
    check_start(config)
    if config.run.evaluations:
        raise UsageError(f"run.evaluations={config.run.evaluations}: only one process can count them exactly; "
                         "use shusaku local, or run.minutes here")
    if os.environ.get("RAY_ADDRESS", "") in ("", "local"):
        cores = len(os.sched_getaffinity(0))
        layout = layout_of(config, [Node("", cores)], gpus_here())  # refuses an impossible one early
        check_memory(layout.devices, gpu_memory())
    check_policies(config)
    check_learner_start(config)
    check_openings(config)
    check_trackers(config.run.trackers)
    row_labels(configured_game(config.game), config.learner)  # and targets that the game cannot give
    if config.replay.url:
        check_server(config.replay.url, run_id=RunIdentity.of(Path(config.run.dir), config.run.name).run_id)
    return run_in_stages(config, _run_stage)


def _run_stage(config: Config) -> tuple[dict[str, Any], bool]:
    """Until the run ends or its network has to grow; the result, and whether it goes on."""
    path = Path(config.run.dir)
    with ExitStack() as stack:
        directory = stack.enter_context(RunDirectory(config))
        signals = stack.enter_context(StopSignals())
        console = stack.enter_context(Console())
        introduce(directory, config.run.minutes, console.log)
        identity = RunIdentity.of(path, config.run.name)
        if identity.note:
            console.log(identity.note)
        settled, choice = settle_games(config)
        if choice is not None:
            console.log(f"actors.games_per_actor=auto: {choice}")
        settled, precision = settle_precision(settled, path)
        if precision is not None:
            console.log(f"inference.precision=auto: {precision}")
        signals.raise_received()
        with LINK.expecting(Ending.AT_ONCE):  # Ray answers no signal while it starts, and nothing is there to save
            session = RaySession(config.cluster, notify=console.log, namespace=f"shusaku-{identity.run_id}")
            stack.enter_context(session)
            signals.raise_received()
            from shusaku.deploy.cluster.driver import ClusterRun  # imports Ray, after its variables are set

            cluster = ClusterRun(config, directory, identity, signals, session, console, on_cpus=settled,
                                 precision=str(precision or ""))
            stack.callback(cluster.close)
            cluster.start()
        signals.raise_received()
        console.log(session.how_to_log_in)
        playing = (f"{cluster.actors} actors of {cluster.layout.games} games, network in the "
                   f"{cluster.layout.placement}" if cluster.layout.actors else describe_dataset(config))
        console.log(f"{cluster.game.name}: {playing}; run {identity.run_id}, epoch {identity.epoch}")
        cluster.train()
        cluster.end_workers()
        cluster.raise_if_ray_has_ended()
        signals.raise_received()
        result = cluster.finish()
        cluster.raise_if_ray_has_ended()
        signals.raise_received()
        cluster.hear_stop()  # the next stage begins a term of its own, which drops the request
        has_to_grow = cluster.has_to_grow
    signals.raise_received(result)  # while all that was ended
    return result, has_to_grow and not signals.should_stop()


