"""Lines about a whole run: how far it came when it is started again, and its totals when it ends."""

from collections.abc import Callable
from pathlib import Path

from shusaku.deploy.run.console import clock
from shusaku.deploy.run.run_directory import RunDirectory
from shusaku.deploy.run.run_identity import RunProgress


def introduce(directory: RunDirectory, minutes: float, log: Callable[[str], None]) -> None:
    """Logs what the directory has to say of the run that it holds; `minutes` of training are asked for."""
    for note in directory.notes:
        log(note)
    if directory.is_resumed:
        log(resume_line(directory.path, RunProgress.load(directory.path).seconds, minutes))


def resume_line(directory: Path, seconds: float, minutes: float) -> str:
    """What a command that finds a run says first; `seconds` of training are done, `minutes` are asked for."""
    if seconds >= minutes * 60:
        return (f"the {minutes:g} minutes of {directory} are used up; go on with "
                f"run.minutes={2 * max(minutes, seconds / 60):.3g}")
    return f"{directory} goes on: {clock(seconds)} of {clock(minutes * 60)} are done"


def totals_line(
    directory: Path, seconds: float, minutes: float, *, games: int, rows: int, steps: int, wanted_steps: int = 0
) -> str:
    """What a run says last: its totals since its beginning, and how to go on if there is more to do."""
    line = f"{directory}: {games:,} games, {rows:,} rows and {steps:,} steps in {clock(seconds)} of training"
    if 0 < wanted_steps <= steps:
        return f"{line}; all {wanted_steps:,} steps are made, go on with learner.steps={2 * steps}"
    return line if seconds >= minutes * 60 else (
        f"{line}; stopped before its {clock(minutes * 60)} minutes, the same command goes on")
