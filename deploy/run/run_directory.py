"""What a run leaves behind, and the lock that keeps a second process out of it.

    RUN_DIR/config.yaml      what was asked for, interpolations unresolved, secrets masked
            starts.jsonl     of every start: overrides, seed, packages, Python, machine, git revision, configuration
            checkpoints/  records/  tensorboard/  metrics.jsonl  lock
"""

import contextlib
import fcntl
import os
import platform
import shutil
import subprocess
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from shusaku.actors.arena.rating_log import RATED
from shusaku.common._core import Game, external_names
from shusaku.common.config.schema import Config
from shusaku.common.config.search import DEFAULTS, make_search
from shusaku.common.durable_files import DISK_ERRORS, remove_leftovers, write_atomically
from shusaku.common.errors import UsageError
from shusaku.common.json_lines import append_json_line
from shusaku.common.masking import mask_override, mask_tree
from shusaku.deploy.run.composed_config import ComposedConfig
from shusaku.deploy.run.healing import heal_run
from shusaku.deploy.run.saved_config import config_text, find_config, holds_run
from shusaku.learner.checkpoints import kept_steps

_PACKAGES = ("shusaku", "torch", "numpy", "openvino", "ray", "redis", "msgpack", "hydra-core", "safetensors")
# What decides the shapes of weights and rows, and which policies play in a run where they never change.
_SHAPES = ("game", "network", "learner.targets", "value")
_GROWING = ("network.filters", "network.blocks")  # where `run.grow` says how they change
_OPTIMIZER = "learner.optimizer"
_OPTIMIZER_FAMILIES = {"adamw": "adam"}  # those that have the same state
# Settings that say nothing about a run.
_NOT_KEPT = ("match", "records", "first", "second", "games", "file", "resume_from")
LOOK_SECONDS = 0.05  # more than `is_running` holds the lock of a run that is not running
# Differences that change nothing about the run, or only where it computes, which is said at each start.
_UNREMARKABLE = ("run.resume", "run.dir", "run.http_port", "checkpoint", "bench", "inference.device",
                 "inference.servers", "learner.device")


class RunDirectory:
    """An open and locked run directory; closing it lets the next process in."""

    def __init__(self, config: Config) -> None:
        """Creates or opens `run.dir`.

        UsageError when another process holds it, when it cannot be written, when `run.resume=never` and it holds a
        run, when the game, the network or what it learns differ from the run that it holds, or when no checkpoint of
        `resume_from` is kept.
        """
        self.path = Path(config.run.dir)
        self.notes: list[str] = []  # lines for the user: what differs from the start before
        self._is_new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("a+", encoding="utf-8", errors="replace")
        except OSError as error:
            if error.errno in DISK_ERRORS:
                raise
            raise UsageError(f"run.dir={self.path}: {error.strerror}; choose a directory that can be written") from None
        try:
            self._take_lock()
            for folder in (self.path, self.path / RATED):
                remove_leftovers(folder)
            self.is_resumed = holds_run(self.path)
            tree = _saved_tree(config)
            self.config_text = config_text(tree)  # what config.yaml holds now
            if self.is_resumed:
                self._check_resume(config, tree)
            self._check_step(config.resume_from)
            if self.is_resumed:
                self.notes += heal_run(self.path)
            self._save(config)
        except BaseException:
            self._lock.close()
            raise

    def keep(self) -> None:
        """Called as soon as something was played or learned: from now on no error removes the directory."""
        self._is_new = False

    def close(self) -> None:
        """Unlocks the directory."""
        self._lock.close()  # which releases the lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """A start that is refused before anything was played leaves no run directory, unless there was one."""
        if self._is_new and isinstance(error, UsageError):
            shutil.rmtree(self.path, ignore_errors=True)
        self.close()

    def _take_lock(self) -> None:
        self._lock.seek(0)
        if not self._can_lock():
            time.sleep(LOOK_SECONDS)
            if not self._can_lock():
                owner = self._lock.read().strip() or "another process"
                raise UsageError(f"run.dir={self.path}: in use by {owner}; wait for it, stop it, or choose another "
                                 "run.dir")
        self._lock.truncate()
        self._lock.write(f"process {os.getpid()} on {platform.node()}")
        self._lock.flush()

    def _can_lock(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _check_step(self, step: int) -> None:
        """UsageError if no checkpoint of this step is kept; -1 is the newest one."""
        kept = kept_steps(self.path / "checkpoints")
        if step >= 0 and step not in kept:
            there = f"there are {', '.join(map(str, kept))}" if kept else "there is none at all"
            raise UsageError(f"resume_from={step}: {self.path} keeps no checkpoint of that step; {there}")

    def _check_resume(self, config: Config, tree: dict[str, Any]) -> None:
        if config.run.resume == "never":
            raise UsageError(f"run.resume=never: {self.path} holds a run already; choose another run.dir, or leave "
                             "run.resume out")
        asked, defaults = _flatten(tree), _flatten(asdict(Config(search=make_search(config.search.policy))))
        known = {key: defaults[key] for key in asked if key in defaults and not _is_below(key, ("game",))}
        found = find_config(self.path)
        self.notes += [found.note] if found.note else []
        saved = {**known, **_flatten(found.tree)}  # an older program had fewer settings, or others
        saved = {key: value for key, value in saved.items() if key in asked or _is_setting(key)}
        if saved.get("game.name") == config.game.name:  # a parameter of the rules that is its default may be left out
            saved, asked = _rules_of(saved) | saved, _rules_of(asked) | asked
        for settings in (saved, asked):
            settings["learner.targets"] = sorted(settings["learner.targets"])  # their order changes nothing
        changed = [key for key in sorted({*saved, *asked}) if saved.get(key) != asked.get(key)]
        changed = [key for key in changed if not _is_below(key, _UNREMARKABLE)]
        texts = {key: f"{key} {_show(saved, key)} -> {_show(asked, key)}" for key in changed}
        fatal = [key for key in changed if _is_below(key, _SHAPES)
                 and not (config.run.grow and key in _GROWING and asked[key] >= saved[key])]
        optimizers = [_OPTIMIZER_FAMILIES.get(str(of.get(_OPTIMIZER)), of.get(_OPTIMIZER)) for of in (saved, asked)]
        if optimizers[0] != optimizers[1] and kept_steps(self.path / "checkpoints"):
            fatal.append(_OPTIMIZER)  # whose state is in the checkpoints
        if fatal:
            differences = ", ".join(texts[key] for key in fatal)
            raise UsageError(f"run.dir={self.path} holds a run with another game, network, optimizer, targets or "
                             f"policies ({differences}); choose another run.dir, or ask for what it was started with")
        if bool(saved.get("dataset.records")) != bool(asked.get("dataset.records")):
            kind = "finished games" if saved.get("dataset.records") else "its own games"
            raise UsageError(f"run.dir={self.path} holds a run that learns from {kind} (dataset.records); choose "
                             "another run.dir, or ask for what it was started with")
        if texts:
            self.notes.append(f"settings that differ from the last start: {', '.join(texts.values())}")

    def _save(self, config: Config) -> None:
        overrides = config.overrides if isinstance(config, ComposedConfig) else []
        write_atomically(self.path / "config.yaml", self.config_text.encode())
        start = {
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "overrides": [mask_override(text) for text in overrides],
            "seed": config.run.seed, **_versions(), "config": self.config_text,
        }
        append_json_line(self.path / "starts.jsonl", start)


def is_running(directory: Path) -> bool:
    """Whether a process holds the run directory's lock."""
    try:
        with (directory / "lock").open("a+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True


def _saved_tree(config: Config) -> dict[str, Any]:
    tree = asdict(config)
    if isinstance(config, ComposedConfig):
        tree = _with_texts(tree, dict(config.unresolved))
    tree = mask_tree(tree)
    assert isinstance(tree, dict)
    return {key: value for key, value in tree.items() if key not in _NOT_KEPT}


def _with_texts(resolved: Any, unresolved: Any) -> Any:
    """The tree as it was asked for, with interpolations in texts alone: who reads it needs the values of the others."""
    if isinstance(unresolved, dict):
        values = resolved if isinstance(resolved, dict) else {}
        return {key: _with_texts(values.get(key, value), value) for key, value in unresolved.items()}
    is_interpolated = isinstance(unresolved, str) and "${" in unresolved
    return resolved if is_interpolated and not isinstance(resolved, str) else unresolved


def _flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _rules_of(settings: dict[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of every parameter of a game of ours, those left out included; of one from outside, nothing.

    What is left out may depend on the others: the komi is 7 on 9 x 9 and 7.5 on 19 x 19.
    """
    name, prefix = settings["game.name"], "game.params."
    given = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    if name in external_names():
        return {}
    try:
        return {f"{prefix}{key}": value for key, value in Game(name, given).params.items()}
    except ValueError:  # rules of an older program
        return {}


def _is_setting(key: str) -> bool:
    """Whether this program has it."""
    section, _, name = key.partition(".")
    return section == "game" or (name in DEFAULTS if section == "search" else key in _flatten(asdict(Config())))


def _is_below(key: str, sections: tuple[str, ...]) -> bool:
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def _show(tree: dict[str, Any], key: str) -> str:
    return repr(tree[key]) if key in tree else "(default)"


def _versions() -> dict[str, Any]:
    """Packages, Python, machine, and the git revision when the code runs from a checkout."""
    packages = dict.fromkeys(_PACKAGES, "")
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {"packages": packages, "python": platform.python_version(),
            "machine": f"{platform.platform()}, {os.cpu_count()} CPUs", "git": _git_revision()}


def _git_revision() -> str:
    """Commit of the checkout that the code runs from, `+changes` where files differ from it; empty elsewhere."""
    root = Path(__file__).resolve().parents[2]
    if shutil.which("git") is None or not (root / ".git").exists():
        return ""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False, timeout=10)
        return done.stdout.strip()

    revision = git("rev-parse", "HEAD")
    return f"{revision}+changes" if revision and git("status", "--porcelain", "--untracked-files=no") else revision
