"""When the strength is measured while training, and what is left at the end of a run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from shusaku.actors.arena.strength import Strength, measure_baselines
from shusaku.actors.arena.strength_sets import StrengthSet
from shusaku.common.durable_files import write_atomically
from shusaku.deploy.run.plots import plot_strength
from shusaku.deploy.run.strength_table import baseline_name, strength_table

EARLY_MINUTES = (1, 2, 3, 4, 5)  # of training, when it is measured besides every `strength.minutes`


def measurements_due(minutes: float, every: float) -> int:
    """How many measurements should have been made by then: one at once, each early minute, then one every `every`."""
    due = sum(1 for m in (0, *EARLY_MINUTES) if m <= minutes)
    return due + max(0, int(minutes / every) - int(EARLY_MINUTES[-1] / every))


def strength_metrics(strength: Strength) -> dict[str, float]:
    """`policy.optimal`, `search_64.optimal`, ... for the metrics."""
    shares = {"policy": strength.policy, **{f"search_{n}": share for n, share in strength.searches.items()}}
    return {f"{name}.optimal": share.optimal for name, share in shares.items()}


def conclude(strength: Strength, positions: StrengthSet, directory: Path, log: Callable[[str], None]) -> Strength:
    """The last act of a run that used up its time: the baselines beside its strength, written and logged.

    The picture shows what the metrics hold by then.
    """
    strength = replace(strength, baselines=measure_baselines(positions))
    try:
        write_strength(strength, directory, positions.game.name)
    except OSError as error:
        log(f"the strength could not be written: {error}")
    log(strength_table(strength))
    log(f"the run is complete; {directory}/strength.png shows the strength over time, and a larger run.minutes "
        "trains on")
    return strength


def write_strength(strength: Strength, directory: Path, title: str) -> None:
    """strength.json, and strength.png from the metrics of the whole run."""
    write_atomically(directory / "strength.json", json.dumps(strength.to_json(), indent=1).encode() + b"\n")
    baselines: dict[str, Any] = {baseline_name(n): share.optimal for n, share in strength.baselines.items()}
    plot_strength(directory / "metrics.jsonl", directory / "strength.png", baselines, title)
