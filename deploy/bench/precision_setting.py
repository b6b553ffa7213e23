"""`inference.precision=auto`: the number format whose self-play is the fastest here, before anything is built.

Which one it is depends on the processor (one has AMX, one 8-bit products alone), on the network and on the games: eight
bits halve the time of a large network, and cost a small one more than they gain where every new version has to be
compiled.  So they are measured, by self-play itself, and the answer is kept in the user's cache.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path

from shusaku.actors.evaluators.factory import choose_runtime
from shusaku.common._core import int8_ways
from shusaku.common.config.schema import Config, self_play_search
from shusaku.common.config.search import all_settings
from shusaku.common.errors import RunError
from shusaku.common.hardware import core_floats_are_fastest, processor_name, visible_gpus
from shusaku.common.measured_choices import CORE_LOOPS, MeasuredChoice, find_choice, keep_choice, key_of, user_cache
from shusaku.deploy.bench.precision_speed import (
    MEASURING_SECONDS,
    measure,
    precisions_to_measure,
)
from shusaku.deploy.bench.processes import run_in_subprocess
from shusaku.deploy.run.composed_config import replace_settings

GIVEN_UP_SECONDS = 60.0  # after which the usual precision is taken
SHARE = 0.02  # of a run's time that measuring may take
FILE = "precision.json"  # in the user's cache: measurement -> choice; in a run directory: processor -> choice


def settle_precision(config: Config, directory: Path | None = None) -> tuple[Config, MeasuredChoice | None]:
    """The configuration with a precision, and its measurement; as it is where there is nothing to choose.

    Measured is where a run is long enough, about MEASURING_SECONDS; a cached answer is taken in any case.  A run
    keeps its precision in `directory`, so that it goes on as it began, on processors of one kind.
    """
    names = precisions_to_measure(config)
    if len(names) < 2 or (config.inference.device == "auto" and visible_gpus()):
        return config, None
    key = _key(config, names)
    own, own_key = directory and directory / FILE, _own_key(config)
    choice = (find_choice(own, own_key) if own else None) or find_choice(user_cache(FILE), key)
    if choice is None:
        if config.run.minutes * 60 * SHARE < MEASURING_SECONDS:
            return config, None
        try:
            choice = run_in_subprocess(measure, config, GIVEN_UP_SECONDS)
        except RunError:
            return config, None  # the usual precision does: no run has to wait for this, or to fail by it
        keep_choice(user_cache(FILE), key, choice)
    if own:
        keep_choice(own, own_key, choice, replaces=False)
    return replace_settings(config, inference=replace(config.inference, precision=choice.name)), choice


def _own_key(config: Config) -> str:
    """Of a run's choice: it goes on as it began, but a network that has grown is another one."""
    size = f", {config.network.filters}x{config.network.blocks}" if config.run.grow else ""
    return f"{processor_name()}{size}"


def _key(config: Config, names: Sequence[str]) -> str:
    """Whatever the measurement depends on."""
    return key_of(
        processor_name(), core_floats_are_fastest(), len(os.sched_getaffinity(0)), names, config.inference.runtime,
        choose_runtime(config.inference)[0], *(_version(package) for package in ("openvino", "torch", "numpy")),
        asdict(config.game), asdict(config.network), all_settings(self_play_search(config.search, config.self_play)),
        config.actors.games, config.actors.count, config.replay.samples_per_position, config.learner.batch_size,
        config.learner.publish_every, config.learner.enabled, metadata.version("shusaku"), CORE_LOOPS, int8_ways())


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
