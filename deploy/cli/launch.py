"""`--multirun`: a launcher of Hydra runs the jobs, one after the other or as `hydra/launcher=NAME` says."""

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig

from shusaku.common.errors import UsageError
from shusaku.common.suggestions import nearest
from shusaku.deploy.cli.overrides import Job, to_config
from shusaku.deploy.cli.presets import Presets, quote
from shusaku.deploy.commands.table import Command

LAUNCHER = "hydra/launcher"  # the group of what runs the jobs


@dataclass(frozen=True)
class Task:
    """What a launcher calls for each job, perhaps in another process; plain data, so that it can be sent there."""

    command: Command
    leading: list[str]  # arguments before the configuration
    origins: list[tuple[list[str], frozenset[str]]]  # of each job: overrides and asked of ComposedConfig
    as_json: bool

    def __call__(self, tree: DictConfig) -> dict[str, Any]:
        """Runs the command with the configuration that Hydra composed."""
        number = int(HydraConfig.get().job.num)
        config = to_config(tree, *self.origins[number])
        print(f"job {number + 1} of {len(self.origins)}: {config.run.dir}", file=sys.stderr)
        result: dict[str, Any] = self.command.load()(*self.leading, config, self.as_json)
        return {"dir": config.run.dir, "overrides": config.overrides, **result}


def is_for_launcher(override: str) -> bool:
    """Whether it says which launcher runs the jobs, or how: `hydra/launcher=joblib`, `hydra.launcher.n_jobs=2`."""
    return override.startswith((f"{LAUNCHER}=", "hydra.launcher.", "hydra.sweep.dir="))


def launch(
    command: Command, leading: list[str], jobs: Sequence[Job], presets: Presets, options: Sequence[str], as_json: bool
) -> list[dict[str, Any]]:
    """The results of all jobs in their order; `options` are for the launcher.

    UsageError if there is no such launcher.  A job that fails ends no other one; its error is raised at the end.
    """
    task = Task(command, leading, [(job.config.overrides, job.config.asked) for job in jobs], as_json)
    parents = [os.path.abspath(Path(job.config.run.dir).parent) for job in jobs]
    place = [f"hydra.sweep.dir={quote(os.path.commonpath(parents))}", "hydra.sweep.subdir=."]
    with presets.session() as hydra:
        _check_launcher(hydra, options)
        try:
            master = hydra.compose_config(
                "config", [*presets.hydra_overrides(), *place, *options], run_mode=RunMode.MULTIRUN,
                with_log_configuration=False,
            )
            context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks())
            launcher = Plugins.instance().instantiate_launcher(config=master, task_function=task, hydra_context=context)
        except HydraException as error:
            raise UsageError(" ".join(str(error).split())) from None
        returns = launcher.launch([job.hydra_overrides for job in jobs], initial_job_idx=0)
    with contextlib.redirect_stderr(io.StringIO()):  # Hydra's own words about a job that failed
        return [done.return_value for done in returns]


def _check_launcher(hydra: Any, options: Sequence[str]) -> None:
    names = hydra.config_loader.get_group_options(LAUNCHER, ObjectType.CONFIG)
    for option in options:
        key, _, name = option.partition("=")
        if key == LAUNCHER and name not in names:
            raise UsageError(f"{option}: no such launcher; nearest: {nearest(name, names)}; there are "
                             f"{', '.join(sorted(names))}, and pip install hydra-NAME-launcher brings more")
