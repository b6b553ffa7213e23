"""Real runs for the tests of this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_process import ClusterProcess


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ClusterProcess]]:
    """Runs that are ended with the test, whatever happens."""
    started: list[ClusterProcess] = []

    def start_one(*overrides: str, run_dir: Path = tmp_path / "run", **options: Any) -> ClusterProcess:
        started.append(ClusterProcess(run_dir, *overrides, **options))
        return started[-1]

    yield start_one
    for run in started:
        run.close()
