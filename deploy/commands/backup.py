"""`shusaku backup to=PATH` and `shusaku restore from=PATH`: a whole run in one folder or file, and back.

A backup is what a run would go on from if its machine failed at that moment: the newest whole checkpoint, and then the
games of the window, which may be newer.  The checkpoint and progress.json are copied first, so they never name a game
that is not there.
"""

import contextlib
import json
import os
import platform
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from shusaku.actors.arena.rating_log import RATED
from shusaku.common.config.schema import Config
from shusaku.common.durable_files import sync_directory
from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.bench import precision_setting
from shusaku.deploy.records import imported_games
from shusaku.deploy.run import learner_start
from shusaku.deploy.run.archive import ArchiveWriter, unpack
from shusaku.deploy.run.saved_config import POLICIES_FOLDER
from shusaku.deploy.run.window_copy import WindowFacts, copy_window, load_window, window_bytes
from shusaku.deploy.run.window_server import known_identity, window_server
from shusaku.learner import opponent_pool
from shusaku.learner.checkpoints import Found, load_latest
from shusaku.replay.record_log import RecordLog
from shusaku.replay.stream.client import ReplayUnavailable
from shusaku.replay.stream.server import EmbeddedServer

TRIES = 5  # while a run that plays removes what is being copied
PROGRESS = "progress.json"  # counts the games that Redis held
# Beside these and the games, in the order in which they are copied; what only grows comes after what names it, and
# the best version after the decisions of the gate: without it a restart would play with an older one for good.
FILES = ("config.yaml", learner_start.FILE, "weights.safetensors", "weights_first.safetensors", "starts.jsonl",
         "metrics.jsonl", "strength.json", "strength.png", "gate.jsonl", "best.safetensors", "ratings.jsonl",
         "elo.json", "elo.png", "versions.jsonl", precision_setting.FILE)
FOLDERS = {RATED: "*.safetensors", POLICIES_FOLDER: "*.safetensors", opponent_pool.FOLDER: "**/*.safetensors",
           imported_games.FOLDER: "*.records"}
RESULT = ("run_id", "epoch", "wiring", "step", "version", "games", "kept")  # of the manifest, for `--json`


def backup(to: str, config: Config, as_json: bool) -> dict[str, Any]:
    """Writes the backup; UsageError if the run has no whole checkpoint, or `to` exists."""
    directory = Path(config.run.dir)
    if not (directory / "checkpoints").is_dir():
        raise UsageError(f"run.dir={directory} holds no run with a checkpoint; name another one, or try again after "
                         "its first checkpoint")
    archive = ArchiveWriter(Path(to))
    try:
        facts = _copy_run(config, directory, archive)
        facts["bytes"] = archive.finish(facts)
    except OSError as error:
        raise RunError(f"to={to}: the backup could not be written: {error}") from None
    finally:
        archive.abandon()
    if not as_json:
        print(f"{to}: step {facts['step']:,}, version {facts['version']:,}, {facts['games']:,} games, of which "
              f"{facts['kept']:,} are in the window; {facts['bytes'] / 1e6:,.1f} MB")
    return facts


def restore(source: str, config: Config, as_json: bool) -> dict[str, Any]:
    """Makes a run directory; UsageError if the backup is damaged or the directory is not empty."""
    directory = Path(config.run.dir)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"run.dir={directory}: is not empty; choose a directory that does not exist")
    folder = directory.with_name(f".{directory.name}.{os.getpid()}.part")
    try:
        facts = unpack(Path(source), folder)
        if not set(RESULT) <= set(facts) or facts["wiring"] not in ("local", "cluster"):
            raise UsageError(f"from={source}: is no backup of a run; use another one")
        with contextlib.suppress(FileNotFoundError):
            directory.rmdir()
        _restore_window(config, folder, facts)
        sync_directory(folder)
        folder.rename(directory)
        sync_directory(directory.parent)
    except OSError as error:
        raise RunError(f"run.dir={directory}: the backup could not be restored: {error}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = {key: facts[key] for key in RESULT}
    if not as_json:
        command = "local" if facts["wiring"] == "local" else "train"
        print(f"{directory}: step {facts['step']:,}, version {facts['version']:,}, {facts['games']:,} games; go on "
              f"with shusaku {command} config={directory / 'config.yaml'} run.dir={directory}")
    return result | {"run_dir": str(directory)}


def _copy_run(config: Config, directory: Path, archive: ArchiveWriter) -> dict[str, Any]:
    """Adds everything to the archive; what it holds."""
    for left in reversed(range(TRIES)):
        try:
            found = _copy_checkpoint(directory, archive)
            local = found.checkpoint.facts["local"]
            if local is not None:
                games = _copy_log(directory, archive, local)
            break
        except FileNotFoundError:  # the run has removed it: there is a newer one
            if not left:
                raise
            archive.drop("checkpoints")
            archive.drop("records")
    version, identity = int(found.checkpoint.facts["version"]), {}
    with contextlib.suppress(FileNotFoundError):
        archive.copy(PROGRESS, directory / PROGRESS)
    if local is None:
        run_id, epoch = known_identity(directory)
        window = _copy_window(config, directory, run_id, archive)
        games, version, identity = window, max(version, window.version), {"run_id": run_id, "epoch": epoch}
        archive.add("run.json", json.dumps(identity).encode() + b"\n")
    elif (directory / "run.json").exists():
        archive.copy("run.json", directory / "run.json")
    within = (path.relative_to(directory).as_posix() for folder, names in FOLDERS.items()
              for path in sorted((directory / folder).glob(names)))
    for name in (*within, *FILES):
        with contextlib.suppress(FileNotFoundError):
            archive.copy(name, directory / name)
    return {
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "host": platform.node(), "run_dir": str(directory.resolve()),
        "wiring": "cluster" if local is None else "local", "run_id": "", "epoch": 0, **identity,
        "step": found.checkpoint.step, "version": version, "games": games.games, "kept": games.kept,
    }


def _copy_checkpoint(directory: Path, archive: ArchiveWriter) -> Found:
    """Adds the newest whole one; FileNotFoundError if the run removes it meanwhile."""
    found = load_latest(directory / "checkpoints")
    if found is None:
        raise UsageError(f"run.dir={directory} has no checkpoint yet; try again after the first one")
    for path in sorted(found.path.iterdir()):
        archive.copy(f"checkpoints/{found.checkpoint.step:09d}/{path.name}", path)
    return found


def _copy_log(directory: Path, archive: ArchiveWriter, local: dict[str, Any]) -> WindowFacts:
    """Adds the record log as far as the checkpoint names it."""
    segment, length = local["records"]
    names = [path for path in sorted((directory / "records").glob("*.records")) if int(path.stem) <= segment]
    for path in names:
        archive.copy(f"records/{path.name}", path, length if int(path.stem) == segment else None)
    kept = sum(1 for _ in RecordLog(archive.folder / "records").iterate())
    return WindowFacts(int(local["games"]), int(local["games"]), kept, 0)


def _copy_window(config: Config, directory: Path, run_id: str, archive: ArchiveWriter) -> WindowFacts:
    """From the server of the run, which is started for it if the run does not go on."""
    with window_server(config, directory) as url:
        return copy_window(url, run_id, archive)


def _restore_window(config: Config, folder: Path, facts: dict[str, Any]) -> None:
    """Loads the games into a new server of the directory, or into replay.url."""
    if facts["wiring"] != "cluster":
        return
    run_id = config.run.name or str(facts["run_id"])
    (folder / "run.json").write_text(json.dumps({"run_id": run_id, "epoch": int(facts["epoch"])}) + "\n",
                                     encoding="utf-8")
    with ExitStack() as stack:
        url = config.replay.url
        if not url:
            megabytes = max(config.replay.megabytes, (window_bytes(folder) >> 20) + 1)
            server = EmbeddedServer(folder / "redis", max_megabytes=megabytes)
            server.start()
            stack.callback(server.stop)
            url = server.url
        try:
            load_window(url, run_id, folder)
        except ReplayUnavailable as error:
            raise RunError(f"the games cannot be written: {error}") from None
    shutil.rmtree(folder / "window")
