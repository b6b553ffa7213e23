"""Checkpoints: a directory each, written whole or not at all, and refused if a single bit differs.

    checkpoints/000001200/network.safetensors …   one file for each part of the learner's state
                          <name>.bin              what the driver adds: open games, …
                          facts.json              plain numbers and texts
                          manifest.json           length and SHA-256 of every other file

A new one is made under a temporary name, brought to the disk, and renamed.  Writing a step again, after a fault,
moves the old directory aside first, so that at every moment at least one whole checkpoint has a name.
"""

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.durable_files import sync_directory, write_folder_durably
from shusaku.common.errors import ResumeError
from shusaku.common.messages import Weights
from shusaku.common.network.weights import save_weights

FORMAT = 1
WEIGHTS, FIRST_WEIGHTS = "weights.safetensors", "weights_first.safetensors"
MANIFEST, FACTS = "manifest.json", "facts.json"
_NAME = re.compile(r"(\d{9,})(\.old)?")
_PART = re.compile(r"[a-z0-9_]+")
_FILE = re.compile(r"[a-z0-9_]+\.(safetensors|bin|json)")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a run goes on from."""

    step: int
    tensors: dict[str, dict[str, NDArray[Any]]]  # part -> name -> array
    facts: dict[str, Any]  # what JSON holds: numbers, texts, lists, maps
    extra: dict[str, bytes] = field(default_factory=dict)  # name -> bytes


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The newest good checkpoint, and what is wrong with newer ones."""

    checkpoint: Checkpoint
    path: Path
    damaged: tuple[str, ...]  # one line each: which file, and why


class _Damaged(Exception):
    """Names the file and what is wrong with it."""


def write_checkpoint(directory: Path, checkpoint: Checkpoint) -> Path:
    """Writes `directory/<step>`, and returns its path once the disk has it.

    OSError, for example if the disk is full: earlier checkpoints are untouched, and nothing half-written stays.
    """
    files = _serialize(checkpoint)
    return _write_folder(directory, checkpoint.step, {**files, MANIFEST: _manifest(checkpoint.step, files)})


def write_files(directory: Path, step: int, files: dict[str, bytes]) -> Path:
    """As `write_checkpoint`, of the files of a checkpoint; OSError, too, if they are not what their manifest says."""
    rest = {name: data for name, data in files.items() if name != MANIFEST}
    expected = _manifest(step, rest)
    if files.get(MANIFEST) != expected or not all(_FILE.fullmatch(name) for name in files):
        why = _difference(files.get(MANIFEST, b""), expected)
        raise OSError(f"a checkpoint of step {step:,} is not whole: {why}")
    return _write_folder(directory, step, files)


def _write_folder(directory: Path, step: int, files: dict[str, bytes]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for leftover in directory.glob(".*.part"):  # of a process that was killed; one at a time owns a run directory
        shutil.rmtree(leftover, ignore_errors=True)
    final = checkpoint_path(directory, step)
    temporary = directory / f".{final.name}.{os.getpid()}.part"
    try:
        temporary.mkdir()
        write_folder_durably(temporary, files)
        old = directory / f"{final.name}.old"
        if final.exists():
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
        temporary.rename(final)
        sync_directory(directory)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return final


def read_files(path: Path) -> dict[str, bytes]:
    """The files of a checkpoint, its manifest too; ResumeError if it is damaged."""
    try:
        files = _verified_files(path)
    except _Damaged as error:
        raise ResumeError(str(error)) from None
    return {**files, MANIFEST: _manifest(_step(path), files)}


def load_latest(directory: Path) -> Found | None:
    """The newest checkpoint that is whole; None if there is none at all.

    ResumeError, which names each damaged one and the reason, if there are some and none is whole.
    """
    damaged: list[str] = []
    for path in checkpoint_paths(directory):
        try:
            return Found(_read(path), path, tuple(damaged))
        except _Damaged as error:
            damaged.append(str(error))
    if damaged:
        raise ResumeError(f"no checkpoint in {directory} is whole: {'; '.join(damaged)}. Put a good copy there, "
                          "or begin a new run with another run.dir")
    return None


def whole_checkpoints(directory: Path) -> Iterator[Found]:
    """All checkpoints that are whole, newest first."""
    for path in checkpoint_paths(directory):
        with contextlib.suppress(_Damaged):
            yield Found(_read(path), path, ())


def checkpoint_path(directory: Path, step: int) -> Path:
    """Where the checkpoint of this step is, or would be."""
    return directory / f"{step:09d}"


def checkpoint_paths(directory: Path) -> list[Path]:
    """All checkpoints, newest first; they may be damaged.

    A directory that was moved aside comes after the one that replaced it.
    """
    found = []
    for path in directory.iterdir() if directory.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and path.is_dir():
            found.append((int(match[1]), match[2] is None, path))
    return [path for _, _, path in sorted(found, reverse=True)]


def is_checkpoint(path: Path) -> bool:
    """Whether the directory looks like one; it may be damaged."""
    return _NAME.fullmatch(path.resolve().name) is not None and (path / MANIFEST).exists()


def newest_step(directory: Path) -> int:
    """The step of the newest checkpoint by its name, without a look at its files; 0 without one."""
    return next((_step(path) for path in checkpoint_paths(directory) if is_checkpoint(path)), 0)


def load_checkpoint(path: Path) -> Found:
    """Loads this checkpoint; ResumeError, which says what is wrong with it, if it is damaged."""
    path = path.resolve()
    try:
        return Found(_read(path), path, ())
    except _Damaged as error:
        raise ResumeError(f"{error}; use another checkpoint") from None


def network_of(checkpoint: Checkpoint, run: NetworkConfig) -> NetworkConfig:
    """The sizes of its network: those of the run, but for its tower, which may have been smaller then (`run.grow`)."""
    tensors = checkpoint.tensors["network"]
    stem = tensors["stem.weight" if run.tower == "plain" else "stem.conv.weight"]
    numbers = {name.split(".")[1] for name in tensors if name.startswith(("blocks.", "layers."))}
    return replace(run, filters=len(stem), blocks=len(numbers))


def published_weights(checkpoint: Checkpoint, network: NetworkConfig, game: Game) -> Weights:
    """What was published last when the checkpoint was written; of a run with this network and this game."""
    facts = checkpoint.facts
    return Weights(int(facts["version"]), int(facts["version_step"]), dict(checkpoint.tensors["published"]),
                   asdict(network_of(checkpoint, network)), game.name, game.params, scales=facts.get("scales", {}),
                   rejected=facts.get("refused", ""), planes=facts.get("planes", ""))


def keep_first_weights(run: Path, weights: Weights) -> None:
    """Saves what is published as `weights_first.safetensors` while the run directory holds no checkpoint yet.

    Call it before each checkpoint is written.  Later calls leave the file alone, so the network can be measured
    against the beginning of its run as long as the directory exists.
    """
    if not checkpoint_paths(run / "checkpoints"):
        save_weights(run / FIRST_WEIGHTS, weights)


def prune(directory: Path, keep: int, history_seconds: float = 0.0) -> None:
    """Removes all checkpoints but the newest `keep` and the newest of each `history_seconds` of the clock; 0: none.

    Reads no file: those of this process are whole because it has written them, and `set_damaged_aside` has taken the
    damaged ones of earlier processes away, which must not push a whole one out.
    """
    paths = checkpoint_paths(directory)  # newest first
    history = {path.stat().st_mtime // history_seconds: path for path in reversed(paths)} if history_seconds else {}
    for path in paths[keep:]:
        if path not in history.values():
            shutil.rmtree(path, ignore_errors=True)


def set_damaged_aside(directory: Path, found: Found) -> None:
    """Renames the checkpoints newer than `found`, all of which are damaged, so that nothing counts them any more."""
    for path in checkpoint_paths(directory):
        if path == found.path:
            break
        with contextlib.suppress(OSError):
            _set_aside(path, "damaged")


def kept_steps(directory: Path) -> list[int]:
    """The steps of the checkpoints, newest first; they may be damaged."""
    return list(dict.fromkeys(_step(path) for path in checkpoint_paths(directory)))


def go_back(directory: Path, step: int) -> tuple[Checkpoint, list[Path]]:
    """Makes the learner of that step the one that a run goes on with; the window and the games stay those of now.

    Later checkpoints are renamed to `STEP.later`, the newest one last, so that a kill on the way loses no game.
    Returns the checkpoint and the new names.  ResumeError if that of this step, or each of them, is damaged.
    """
    newest = load_latest(directory)
    assert newest is not None, directory
    old = load_checkpoint(checkpoint_path(directory, step)).checkpoint
    of_learner = ("learner", "version", "version_step", "scales", "refused")
    facts = {**newest.checkpoint.facts, **{name: old.facts[name] for name in of_learner}}
    made = Checkpoint(step, old.tensors, facts, newest.checkpoint.extra)
    write_checkpoint(directory, made)
    later = [path for path in reversed(checkpoint_paths(directory)) if _step(path) > step]
    return made, [_set_aside(path, "later") for path in later]


def _set_aside(path: Path, why: str) -> Path:
    """Renames a checkpoint so that nothing counts it any more."""
    names = (f"{path.name}.{why}{number or ''}" for number in itertools.count())
    aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    return path.rename(aside)


def _serialize(checkpoint: Checkpoint) -> dict[str, bytes]:
    names = [*checkpoint.tensors, *checkpoint.extra]
    assert all(_PART.fullmatch(name) for name in names), names
    files = {f"{part}.safetensors": save({name: np.asarray(a, order="C") for name, a in tensors.items()})
             for part, tensors in checkpoint.tensors.items()}
    files |= {f"{name}.bin": data for name, data in checkpoint.extra.items()}
    files[FACTS] = json.dumps(checkpoint.facts, sort_keys=True, indent=1, allow_nan=False).encode()
    return files


def _manifest(step: int, files: dict[str, bytes]) -> bytes:
    """Depends on the other files only, so that a reader can make it again and compare byte for byte."""
    entries = {n: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in sorted(files.items())}
    return json.dumps({"format": FORMAT, "step": step, "files": entries}, indent=1).encode()


def _read(path: Path) -> Checkpoint:
    return parse_files(path, _verified_files(path))


def parse_files(path: Path, files: dict[str, bytes]) -> Checkpoint:
    """The checkpoint at `path` of these files; their hashes are right, but another program may have written them."""
    tensors: dict[str, dict[str, NDArray[Any]]] = {}
    name = FACTS
    try:
        facts = json.loads(files[FACTS])
        for name in files:
            if name.endswith(".safetensors"):
                tensors[name.removesuffix(".safetensors")] = load(files[name])
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise _Damaged(f"{path}: {name} is not what this program writes ({' '.join(str(error).split())})") from None
    if not isinstance(facts, dict):
        raise _Damaged(f"{path}: {FACTS} holds no map")
    extra = {n.removesuffix(".bin"): d for n, d in files.items() if n.endswith(".bin")}
    return Checkpoint(_step(path), tensors, facts, extra)


def _verified_files(path: Path) -> dict[str, bytes]:
    try:
        manifest = (path / MANIFEST).read_bytes()
        files = {p.name: p.read_bytes() for p in path.iterdir() if p.name != MANIFEST}
    except OSError as error:
        raise _Damaged(f"{path}: {Path(error.filename or MANIFEST).name} cannot be read ({error.strerror})") from error
    expected = _manifest(_step(path), files)
    if manifest != expected:
        raise _Damaged(f"{path}: {_difference(manifest, expected)}")
    return files


def _difference(manifest: bytes, expected: bytes) -> str:
    """Which file is not what the manifest says."""
    wanted, found = _entries(manifest), _entries(expected)
    for name in sorted(wanted.keys() | found.keys()):
        if not name.isprintable():
            return f"{MANIFEST} names a file {name!a}"
        if name not in found:
            return f"{name} is missing"
        if name not in wanted:
            return f"{name} is not in {MANIFEST}, or that is damaged"
        if wanted[name] != found[name]:
            have, should = found[name].get("bytes"), wanted[name].get("bytes")
            return f"{name} has {have} bytes instead of {should!r}" if have != should else f"{name} has a wrong SHA-256"
    return f"{MANIFEST} is damaged or of another format than {FORMAT}"


def _entries(manifest: bytes) -> dict[str, dict[str, Any]]:
    try:
        files = json.loads(manifest)["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    whole = isinstance(files, dict) and all(isinstance(entry, dict) for entry in files.values())
    return files if whole else {}


def _step(path: Path) -> int:
    return int(path.name.removesuffix(".old"))
