"""Which network a run has now, and when it goes on in a larger one: `run.grow`."""

from dataclasses import asdict, replace
from pathlib import Path

from shusaku.common.checked_json import DamagedFileError
from shusaku.common.config.schema import Config
from shusaku.common.config.stages import read_stages
from shusaku.deploy.run.composed_config import ComposedConfig, replace_settings
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.deploy.run.saved_config import find_config, holds_run


def settle_network(config: Config) -> Config:
    """The configuration with the network of the stage that the run is in; as it is without `run.grow`."""
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
        settled.unresolved = {**settled.unresolved, "network": asdict(settled.network)}
    return settled


def seconds_to_growth(config: Config) -> float:
    """Of training, from the beginning of the run, at which its network becomes too small; inf: never."""
    network = config.network
    later = (60 * stage.minutes for stage in read_stages(config.run.grow)
             if stage.filters >= network.filters and stage.blocks >= network.blocks
             and (stage.filters, stage.blocks) != (network.filters, network.blocks))
    return min(later, default=float("inf"))


def _seconds(directory: Path) -> float:
    try:
        return RunProgress.load(directory).seconds
    except DamagedFileError:
        return 0.0  # it is mended when the run starts; what was saved tells the stage
