"""Which network a run has now, and when it goes on in a larger one: `run.grow`."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from shusaku.common.checked_json import DamagedFileError
from shusaku.common.config.schema import Config
from shusaku.common.config.stages import Stage, is_larger, read_stages
from shusaku.deploy.run.composed_config import ComposedConfig, replace_settings
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.deploy.run.saved_config import find_config, holds_run


def run_in_stages(config: Config, run_stage: Callable[[Config], tuple[dict[str, Any], bool]]) -> dict[str, Any]:
    """Calls `run_stage`, which says whether the network has to grow, for each stage; the result of the last one."""
    while True:
        result, has_to_grow = run_stage(settle_network(config))
        if not has_to_grow:
            return result
        config = replace_settings(config, resume_from=-1)  # a run goes back once


def settle_network(config: Config) -> Config:
    """The configuration with the network of the stage that the run is in; as it is without `run.grow`.

    What is saved of it has the stages that are still to come, so that it can be read as the configuration of a run.
    """
    stages = read_stages(config.run.grow)
    directory = Path(config.run.dir)
    if not stages or not holds_run(directory):
        return config
    saved = find_config(directory).tree["network"]
    reached = [number for number, stage in enumerate(stages)
               if stage.minutes * 60 <= _seconds(directory)
               or (stage.filters, stage.blocks) == (saved.get("filters"), saved.get("blocks"))]
    if not reached:
        return config
    stage = stages[reached[-1]]
    settled = replace_settings(config, network=replace(config.network, filters=stage.filters, blocks=stage.blocks))
    if isinstance(settled, ComposedConfig):
        run = {**settled.unresolved["run"], "grow": config.run.grow[reached[-1] + 1:]}
        settled.unresolved = {**settled.unresolved, "network": asdict(settled.network), "run": run}
    return settled


def seconds_to_growth(config: Config) -> float:
    """Of training, from the beginning of the run, at which its network becomes too small; inf: never."""
    own = Stage(0, config.network.filters, config.network.blocks)
    return min((60 * stage.minutes for stage in read_stages(config.run.grow) if is_larger(stage, own)),
               default=float("inf"))


def _seconds(directory: Path) -> float:
    try:
        return RunProgress.load(directory).seconds
    except DamagedFileError:
        return 0.0  # it is mended when the run starts; what was saved tells the stage
