"""Small damage ends no run: what follows from checkpoints and metrics is made again, and a line says so."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shusaku.common._core import Game
from shusaku.common.checked_json import DamagedFileError
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.json_lines import heal_json_lines
from shusaku.common.metrics import read_metrics, rewrite_events
from shusaku.common.network.fingerprint import check_planes
from shusaku.common.network.weights import load_weights, save_weights
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.learner.checkpoints import (
    FIRST_WEIGHTS,
    WEIGHTS,
    Checkpoint,
    load_latest,
    published_weights,
    whole_checkpoints,
)

LOST_SECONDS = 60.0  # of metrics that a run misses; less is what a kill costs


def heal_run(directory: Path) -> list[str]:
    """Repairs the small files of a run that is started again; a line for each that was not good.

    ResumeError if there are checkpoints and none of them is whole; OSError if the disk refuses.
    """
    found = load_latest(directory / "checkpoints")
    progress, notes = _heal_progress(directory, found.checkpoint.facts if found else {})
    for name in ("starts.jsonl", "metrics.jsonl"):
        path = directory / name
        damaged = heal_json_lines(path)
        if damaged:
            notes.append(f"{path}: {damaged:,} damaged lines were moved to {name}.damaged")
        elif found and not (path.exists() and path.stat().st_size):
            notes.append(f"{path} is missing or empty; what it told of the time before this start is lost")
    newest = max((line.seconds for line in read_metrics(directory / "metrics.jsonl")), default=0.0)
    if newest and progress.seconds - newest > LOST_SECONDS:
        notes.append(f"{directory / 'metrics.jsonl'} ends after {newest:.0f} of {progress.seconds:.0f} seconds of "
                     "training; the rest of it is lost")
    if newest and rewrite_events(directory):
        notes.append(f"{directory / 'tensorboard'} was missing or empty; it is written anew from metrics.jsonl")
    return notes


def heal_weights(directory: Path, game: Game, network: NetworkConfig, log: Callable[[str], None]) -> int:
    """Writes the weights files that are missing or damaged anew from the checkpoints; the step of the newest one, or 0.

    So are the newest weights if the newest checkpoint has another network: a growth was interrupted between both.
    UsageError if the checkpoints are of another game, or of other planes.
    """
    found = load_latest(directory / "checkpoints")
    if found is None:
        return 0
    saved = found.checkpoint.facts["game"]
    if saved != game.name:
        raise UsageError(f"run.dir={directory} holds a run with another game ({saved}, not {game.name}); choose another"
                         " run.dir, or ask for what it was started with")
    check_planes(game, found.checkpoint.facts.get("planes", ""), f"run.dir={directory}")
    published = published_weights(found.checkpoint, network, game)
    for name in (WEIGHTS, FIRST_WEIGHTS):
        path = directory / name
        reason = ""
        try:
            saved_network = {**asdict(NetworkConfig()), **load_weights(path).network}  # older files name less
            if name == WEIGHTS and saved_network != published.network:
                reason = "the newest checkpoint has another network"
        except UsageError as error:
            reason = str(error).removeprefix(f"{path}: ").partition(";")[0]
        if reason:
            source = found.checkpoint if name == WEIGHTS else _oldest(directory)
            save_weights(path, published_weights(source, network, game))
            log(f"{path}: {reason}; it is written anew from the checkpoint of step {source.step:,}")
    return found.checkpoint.step


def _oldest(directory: Path) -> Checkpoint:
    *_, oldest = whole_checkpoints(directory / "checkpoints")
    return oldest.checkpoint


def _heal_progress(directory: Path, facts: dict[str, Any]) -> tuple[RunProgress, list[str]]:
    path, reason = directory / "progress.json", "missing"
    try:
        if path.exists():
            return RunProgress.load(directory), []
    except DamagedFileError as error:
        reason = f"damaged ({error})"
    progress = RunProgress.of({"seconds": 0.0, "strength": [], **facts.get("driver", {}).get("progress", {})})
    lines = list(read_metrics(directory / "metrics.jsonl"))
    if not (lines or facts) and reason == "missing":
        return progress, []  # it was stopped before it had done anything
    progress.seconds = max([progress.seconds, *(line.seconds for line in lines)])
    progress.save(directory)
    return progress, [f"{path} is {reason}; {progress.seconds:.0f} seconds of training are counted, by the newest "
                      "checkpoint and metrics.jsonl"]
