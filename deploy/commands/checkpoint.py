"""`shusaku checkpoint list|verify|describe`: what a run keeps, whether it is whole, and what a network is.

Nothing here imports what a file names, so the class of a Python game stays where it is.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shusaku.common._core import Game
from shusaku.common.config.schema import Config, leaves
from shusaku.common.config.search import all_settings, make_search
from shusaku.common.errors import ResumeError, RunError, UsageError
from shusaku.common.messages import Weights
from shusaku.common.network.fingerprint import check_planes
from shusaku.common.network.weights import load_weights, network_config
from shusaku.deploy.run.chosen_weights import average_weights, shipped_file
from shusaku.deploy.run.saved_config import find_config, holds_run
from shusaku.deploy.run.text_table import text_table
from shusaku.learner.checkpoints import (
    FACTS,
    checkpoint_paths,
    is_checkpoint,
    load_checkpoint,
    load_latest,
)

_UNTOLD = ("run", "game", "network", "experiment", "checkpoint", "file")  # sections that `describe` tells otherwise


def run(what: str, config: Config, as_json: bool) -> dict[str, Any]:
    """Prints what was asked for.  UsageError if nothing is there; RunError if `verify` finds damage."""
    commands: dict[str, Callable[[Path, bool], dict[str, Any]]] = {
        "list": list_checkpoints, "verify": verify, "describe": describe}
    name = config.checkpoint or config.run.dir
    path = shipped_file(config, "checkpoint") if name == "shipped" else Path(name)
    if not path.exists():
        raise UsageError(f"{'checkpoint' if config.checkpoint else 'run.dir'}={path}: no such file or directory; name "
                         "a run directory, one of its checkpoints, or a weights file")
    return commands[what](path, as_json)


def list_checkpoints(path: Path, as_json: bool) -> dict[str, Any]:
    """The checkpoints and weights files, newest first, by their names and facts; nothing is hashed."""
    checkpoints, files = _found(path)
    rows = [_checkpoint_row(place) for place in checkpoints] + [_file_row(place) for place in files]
    if not as_json:
        header = ["", "step", "version", "training", "MB", "written"]
        cells = [[Path(row["path"]).name, _count(row["step"]), _count(row["version"]), _minutes(row["seconds"]),
                  f"{row['bytes'] / 1e6:,.2f}", row["written"]] for row in rows]
        print("\n".join([str(path), *text_table([header], cells)]))
    return {"path": str(path), "checkpoints": [row for row in rows if row["kind"] == "checkpoint"],
            "weights": [row for row in rows if row["kind"] == "weights"]}


def verify(path: Path, as_json: bool) -> dict[str, Any]:
    """Reads every byte again and compares the hashes."""
    checkpoints, files = _found(path)
    rows = []
    for place in [*checkpoints, *files]:
        problem = _problem(place)
        rows.append({"path": str(place), "whole": not problem, "problem": problem})
        if not as_json:
            print(f"{'DAMAGED' if problem else 'whole':<9}{problem or place}")
    damaged = sum(not row["whole"] for row in rows)
    result = {"path": str(path), "verified": rows, "damaged": damaged}
    if damaged:
        raise RunError(f"checkpoint verify: {damaged} of {len(rows)} are damaged; a run goes on from the newest whole "
                       "one, so delete them or put good copies there", result)
    return result


def describe(path: Path, as_json: bool) -> dict[str, Any]:
    """What is known about one network: of a run directory the newest one that is whole."""
    described = _read_file(path) if path.is_file() else _read_checkpoint(path)
    result = described.to_json()
    if not as_json:
        print("\n".join(f"{name:<10}{text}" for name, text in described.lines()))
    return result


@dataclass(frozen=True)
class Described:
    """A network, and what lies beside it."""

    path: Path
    weights: Weights
    seconds: float | None  # of training; None: not known
    tree: dict[str, Any]  # the run's config.yaml; empty if there is none

    def to_json(self) -> dict[str, Any]:
        """Everything, the settings as a tree."""
        weights = self.weights
        return {"path": str(self.path), "game": weights.game, "params": weights.params, "network": weights.network,
                "parameters": self.parameters, "heads": self.heads, "version": weights.version, "step": weights.step,
                "fingerprint": weights.planes, "planes": self.planes, "seconds": self.seconds,
                "sha256": weights.sha256, "about": weights.about, "settings": self.tree}

    def lines(self) -> Iterator[tuple[str, str]]:
        """Name and text of each line for the user."""
        weights, network = self.weights, network_config(self.weights)
        params = " ".join(f"{name}={value}" for name, value in weights.params.items())
        yield "path", str(self.path)
        yield "game", f"{weights.game} {params}".rstrip()
        parts = f"5x5 and {network.blocks} 3x3 layers" if network.tower == "plain" else f"{network.blocks} blocks"
        squeeze = f", squeeze and excitation {network.squeeze} wide" if network.squeeze else ""
        yield "network", f"{network.filters} filters x {parts}{squeeze}, {self.parameters:,} parameters"
        yield "heads", ", ".join(self.heads)
        yield "version", f"{weights.version:,}, after {weights.step:,} steps"
        yield "planes", f"{weights.planes or 'no fingerprint'}, {self.planes}"
        if self.seconds is not None:
            yield "training", _minutes(self.seconds)
        if weights.sha256:
            yield "SHA-256", weights.sha256
        yield from weights.about.items()
        if self.tree:
            yield "settings", " ".join(f"{key}={value}" for key, value in _changed_settings(self.tree).items())

    @property
    def heads(self) -> list[str]:
        """Policy and value first."""
        names = {name.split(".")[1] for name in self.weights.tensors if name.startswith("heads.")}
        return sorted(names, key=lambda name: (name not in ("policy", "value"), name))

    @property
    def parameters(self) -> int:
        """Numbers that were learned; the statistics of the batch norms are not among them."""
        return sum(math.prod(t.shape) for name, t in self.weights.tensors.items() if ".running_" not in name)

    @property
    def planes(self) -> str:
        """Whether this program plays with them."""
        try:
            check_planes(Game(self.weights.game, self.weights.params), self.weights.planes, "")
            return "as in this program"
        except ValueError as error:  # a UsageError, or a game that is not here
            return " ".join(str(error).split()).removeprefix(": ")


def _read_file(path: Path) -> Described:
    weights, run = load_weights(path), path.parent
    return Described(path, weights, None, find_config(run).tree if holds_run(run) else {})


def _read_checkpoint(path: Path) -> Described:
    found = load_checkpoint(path) if is_checkpoint(path) else load_latest(_folder(path))
    if found is None:
        raise UsageError(f"{path} holds no checkpoint; train first, or name another directory")
    tree = find_config(found.path.parent.parent).tree
    weights = average_weights(found.checkpoint, tree)
    return Described(found.path, weights, _training_seconds(found.checkpoint.facts), tree)


def _found(path: Path) -> tuple[list[Path], list[Path]]:
    """Checkpoints, newest first, and weights files; UsageError if there is neither."""
    if path.is_file():
        return [], [path]
    if is_checkpoint(path):
        return [path], []
    checkpoints, files = checkpoint_paths(_folder(path)), sorted(path.glob("*.safetensors"))
    if not (checkpoints or files):
        raise UsageError(f"{path} holds no checkpoint and no weights file; train first, or name another directory")
    return checkpoints, files


def _folder(path: Path) -> Path:
    """The directory of the checkpoints of a run directory; a run's `checkpoints` may be named, too."""
    return path / "checkpoints" if (path / "checkpoints").is_dir() else path


def _checkpoint_row(path: Path) -> dict[str, Any]:
    try:
        facts = dict(json.loads((path / FACTS).read_bytes()))
    except (OSError, ValueError, TypeError):
        facts = {}
    size = sum(file.stat().st_size for file in path.iterdir())
    return _row("checkpoint", path, int(path.name.partition(".")[0]), facts.get("version"), _training_seconds(facts),
                size)


def _file_row(path: Path) -> dict[str, Any]:
    try:
        weights = load_weights(path)
    except UsageError:
        return _row("weights", path, None, None, None, path.stat().st_size)
    return _row("weights", path, weights.step, weights.version, None, path.stat().st_size)


def _row(kind: str, path: Path, step: int | None, version: Any, seconds: float | None, size: int) -> dict[str, Any]:
    written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
    return {"kind": kind, "path": str(path), "step": step, "version": version, "seconds": seconds, "bytes": size,
            "written": written}


def _problem(path: Path) -> str:
    """What is wrong with a checkpoint or a weights file; empty if nothing is."""
    try:
        if path.is_dir():
            load_checkpoint(path)
        else:
            load_weights(path)
    except (ResumeError, UsageError) as error:
        return str(error).removesuffix("; use another checkpoint")
    return ""


def _training_seconds(facts: dict[str, Any]) -> float | None:
    seconds = facts.get("driver", {}).get("progress", {}).get("seconds")
    return None if seconds is None else float(seconds)


def _changed_settings(tree: dict[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of what differs from the plain defaults; what `describe` tells otherwise is left out."""
    search = make_search(tree["search"]["policy"])
    defaults = dict(leaves(Config())) | {f"search.{name}": value for name, value in all_settings(search).items()}
    flat = {f"{section}.{name}": value for section, values in tree.items() if isinstance(values, dict)
            for name, value in values.items() if section not in _UNTOLD}
    return {key: value for key, value in flat.items()
            if key == "search.policy" or (key in defaults and defaults[key] != value)}


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _minutes(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 60:,.1f} minutes"
