"""`shusaku view checkpoint=…|run.dir=…`: the studio in the browser, to play, to see, to watch and to learn."""

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.common.config.schema import MOST_THREADS, Config
from shusaku.common.config.search import AlphaGoConfig
from shusaku.common.errors import UsageError
from shusaku.common.network.weights import save_weights
from shusaku.common.search import Evaluate
from shusaku.deploy.protocols.opening import OpenedAnalysis, open_analysis
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import ChosenWeights
from shusaku.deploy.run.composed_config import asked_keys, replace_settings
from shusaku.deploy.run.saved_config import holds_run
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.deploy.studio.server import find_token, listen, make_app
from shusaku.deploy.studio.studio import Studio
from shusaku.deploy.studio.table import Engine, Table
from shusaku.learner.checkpoints import WEIGHTS, newest_step

LOOK_SECONDS = 0.2  # between looks at signals


@dataclass(frozen=True)
class Shown:
    """What a studio shows."""

    studio: Studio
    lines: tuple[str, ...]  # for the user


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Serves until it is stopped; prints the address.  UsageError if there is nothing to show, or no such port."""
    token = find_token(config.view.host, config.view.token_file)
    with StopSignals() as signals:
        shown = make_studio(config)
        for line in shown.lines:
            print(line, flush=True)
        port = asyncio.run(_serve(shown.studio, config, token, signals))
        signals.raise_received({"port": port})
    return {"port": port}


def make_studio(config: Config) -> Shown:
    """The studio of the weights and the run that the configuration names."""
    directory = _find_run(config)
    run = directory if holds_run(directory) else None
    chosen = config.checkpoint or (str(directory) if newest_step(directory / "checkpoints") else "")
    if not chosen and run is not None:
        studio = Studio(None, None, None, run, title=directory.name, replay_url=config.replay.url)
        return Shown(studio, (f"{directory} has no checkpoint yet: only Watch and Learn have something to show",))
    if not chosen and "run.dir" in asked_keys(config):
        raise UsageError(f"run.dir={directory}: there is no run in it; name the folder of a run, or give checkpoint=…")
    has_networks = config.engine.policy or config.engine.value  # of search=alphago
    config = replace_settings(config, checkpoint=chosen or ("" if has_networks else "shipped"))
    threads = config.engine.threads or min(len(os.sched_getaffinity(0)), MOST_THREADS)
    opened = _open(config, threads)
    shown, weights = opened.chosen, opened.chosen.weights
    table = Table(_engine(opened, threads), lambda count: _engine(_open_again(config, shown, count), count),
                  config.run.seed)
    title = f"{directory.name if run else opened.game.name}, version {weights.version}"
    studio = Studio(table, opened.game, _make_evaluator(config, shown), run, title=title, notes=opened.notes,
                    replay_url=config.replay.url)
    line = f"{opened.game.name}: version {weights.version} after {weights.step:,} steps, on {opened.evaluator}"
    return Shown(studio, (*opened.notes, line))


def _find_run(config: Config) -> Path:
    """The run directory: `run.dir`; a checkpoint that is one, if only that was asked for."""
    checkpoint = Path(config.checkpoint)
    is_meant = config.checkpoint and "run.dir" not in asked_keys(config)
    return checkpoint if is_meant and checkpoint.is_dir() and holds_run(checkpoint) else Path(config.run.dir)


async def _serve(studio: Studio, config: Config, token: str, signals: StopSignals) -> int:
    view = config.view
    runner, port = await listen(make_app(studio, token), view.host, view.port)
    host = f"[{view.host}]" if ":" in view.host else view.host
    print(f"the studio is at http://{host}:{port}/{'?token=…' if token else ''}; Ctrl-C ends it", flush=True)
    try:
        while not signals.should_stop():
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await runner.cleanup()
    return port


def _open(config: Config, threads: int) -> OpenedAnalysis:
    return open_analysis(replace_settings(config, engine=replace(config.engine, threads=threads)))


def _open_again(config: Config, chosen: ChosenWeights, threads: int) -> OpenedAnalysis:
    """The same weights with another number of threads: a run that goes on has written newer ones, and removed these.

    Those that engine.policy and engine.value name are read again.
    """
    if config.engine.policy or config.engine.value:
        return _open(config, threads)
    search = config.search if isinstance(config.search, AlphaGoConfig) else chosen.search
    try:
        with TemporaryDirectory(prefix="shusaku-view-") as folder:
            file = Path(folder) / WEIGHTS
            save_weights(file, chosen.weights)
            return _open(replace_settings(config, checkpoint=str(file), search=search), threads)
    except OSError as error:
        raise UsageError(f"threads={threads}: the weights cannot be written to a temporary directory "
                         f"({error.strerror or error}); start the studio again with a TMPDIR that can be written, or "
                         "with engine.threads=N") from None


def _engine(opened: OpenedAnalysis, threads: int) -> Engine:
    name = f"Shusaku, version {opened.chosen.weights.version}"
    return Engine(opened.game, opened.analysis, name, opened.simulations, threads)


def _make_evaluator(config: Config, chosen: ChosenWeights) -> Evaluate:
    """Of single positions, for the page See."""
    evaluator = make_evaluator(chosen.game, config.inference, chosen.network, 1)
    evaluator.load(with_scales(config.inference, chosen.game, chosen.network, chosen.weights))
    return evaluator
