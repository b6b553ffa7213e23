"""`--info` and completion in the shell: Hydra's own, over our groups and settings."""

import contextlib
import io
import os
from collections.abc import Sequence

from hydra.errors import HydraException
from hydra.types import RunMode

from shusaku.common.errors import UsageError
from shusaku.common.masking import mask_text
from shusaku.deploy.cli.overrides import Job
from shusaku.deploy.cli.presets import GROUPS, Presets
from shusaku.deploy.commands.table import COMMANDS, Takes

SHELLS = ("bash", "fish", "zsh")


def show_info(topic: str, job: Job, presets: Presets) -> None:
    """Prints how Hydra composes the configuration, or what it has found to do so."""
    text = io.StringIO()  # printed as a whole and without secrets
    with presets.session() as hydra, contextlib.redirect_stdout(text):
        hydra.show_info(topic, "config", [*presets.hydra_overrides(), *job.hydra_overrides], run_mode=RunMode.RUN)
    print(mask_text(text.getvalue()), end="")


def complete(request: str) -> None:
    """`install=bash` prints what a shell evaluates to complete our command lines, `query=bash` answers it.

    UsageError on anything else.
    """
    action, _, shell = request.partition("=")
    if action not in ("install", "uninstall", "query") or shell not in SHELLS:
        raise UsageError(f"--shell-completion {request}: must be install=SHELL or uninstall=SHELL, SHELL being one of "
                         f"{', '.join(SHELLS)}")
    if action == "query":
        line = os.environ.get("COMP_LINE", "")
        words = line.split(" ")
        if len(words) < 3:
            print(" ".join(name for name in COMMANDS if name.startswith(words[-1] if len(words) == 2 else "")))
            return
        if words[1] not in COMMANDS or COMMANDS[words[1]].takes in (Takes.COMMAND_LINE, Takes.OPTIONS):
            return
        os.environ["COMP_LINE"] = " ".join([words[0], *_words_for_hydra(words[2:])])
    with Presets().session() as hydra:
        try:
            hydra.shell_completion("config", [request])
        except HydraException as error:
            raise UsageError(" ".join(str(error).split())) from None


def _words_for_hydra(words: Sequence[str]) -> list[str]:
    """The word to complete behind the choices of groups before it; settings before it change no completion."""
    choices = Presets().choices()
    pairs = [(word, *word.partition("=")[::2]) for word in words[:-1]]
    return [*(word for word, group, name in pairs if group in GROUPS and name in choices[group] and name != "none"),
            words[-1]]

