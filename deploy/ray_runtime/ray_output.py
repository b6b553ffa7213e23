"""What Ray prints in the driver beside the run's own lines: dumps of dead processes, over several screens."""

import contextlib
import importlib
import os
import sys
from pathlib import Path


def keep_errors_of_ray() -> None:
    """Keeps messages of other processes of Ray off the terminal, by a private name of Ray: our lines say what matters.

    If this Ray lacks the name, its messages are shown.
    """
    with contextlib.suppress(ImportError, AttributeError):
        worker = importlib.import_module("ray._private.worker")
        assert callable(worker.print_to_stdstream)
        worker.print_to_stdstream = _print_nothing  # type: ignore[attr-defined]


def write_errors_to(path: Path) -> None:
    """From now on stderr of this process, that of its native code included, goes to a file."""
    with contextlib.suppress(OSError):
        sys.stderr.flush()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, 2)
        os.close(descriptor)


def _print_nothing(*data: object, **options: object) -> None:
    """Ray has the same in its logs."""
