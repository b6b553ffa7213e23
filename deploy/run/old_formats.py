"""Checkpoints of earlier programs, rewritten as those of now: format 1 of `shusaku local`, 2 of `shusaku train`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from shusaku.common.errors import ResumeError
from shusaku.deploy.run.run_identity import RunProgress
from shusaku.learner.checkpoints import whole_checkpoints, write_checkpoint
from shusaku.learner.training_loop import FORMAT

_SCALE = "scale/"  # before the name of a layer, in the learner's facts


def migrate_checkpoints(directory: Path, log: Callable[[str], None]) -> None:
    """Brings all whole checkpoints of a run directory to the format of now, and logs it.

    ResumeError if one has an unknown format, for example that of a newer program.
    """
    formats = set()
    for found in whole_checkpoints(directory / "checkpoints"):
        facts = found.checkpoint.facts
        known = facts.get("format")
        if known == FORMAT:
            continue
        if known not in (1, 2):
            raise ResumeError(f"{found.path} has format {known!r}, and this program reads 1 to {FORMAT}: use the "
                              "program that wrote it, or begin a new run with another run.dir")
        if known == 1 and not (directory / "progress.json").exists():  # of the newest one, which comes first
            _progress_of(facts["run"]).save(directory)
        translated = _from_local(facts) if known == 1 else _from_cluster(facts)
        write_checkpoint(directory / "checkpoints", replace(found.checkpoint, facts=translated))
        formats.add(known)
    for known in sorted(formats):
        log(f"checkpoints of format {known} were rewritten in format {FORMAT}")


def _progress_of(run: dict[str, Any]) -> RunProgress:
    strength = [(float(seconds), float(share)) for seconds, share in run["strength"]]
    return RunProgress(float(run["seconds"]), int(run["measurements"]), strength, evaluations=int(run["evaluations"]))


def _from_local(facts: dict[str, Any]) -> dict[str, Any]:
    run = facts["run"]
    local = {"epoch": 0, "records": facts["records"], "sequences": facts["sequences"], "games": run["games"],
             "rows_left": run["rows_left"]}
    kept = {name: value for name, value in facts.items() if name not in ("run", "records", "sequences")}
    return {"scales": {}, "refused": "", **kept, "format": FORMAT, "next_batch": run["next_batch"],
            "steps_left": run["steps_left"], "local": local}


def _from_cluster(facts: dict[str, Any]) -> dict[str, Any]:
    scales = {name.removeprefix(_SCALE): value for name, value in facts["learner"].items() if name.startswith(_SCALE)}
    return {**facts, "format": FORMAT, "scales": scales, "refused": "", "steps_left": 0, "local": None}
