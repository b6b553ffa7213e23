"""Settings and fixtures that every test may use."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shusaku.common.hardware import THREADS_WAIT

DEPLOY = Path(__file__).parent / "deploy"
IN_PROCESS = [DEPLOY / name for name in ("cli", "local", "match", "protocols", "records", "run", "studio")]
RUNS = "runs"  # the group of the tests that start whole runs; other groups are files

for name, value in THREADS_WAIT.items():  # before torch is imported
    os.environ.setdefault(name, value)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch on one thread: sums of several differ in their last bit, and a team waits for its slowest member."""
    import torch  # here, for the tests that need none

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in deploy/ that start whole runs and bound their time: one after the other, on one worker.

    The other files there go as wholes, because of their shared runs, to the worker that has less to do.
    """
    for item in items:
        if any(folder in item.path.parents for folder in IN_PROCESS):
            item.add_marker(pytest.mark.xdist_group(item.path.name))
        elif DEPLOY in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(RUNS))


def pytest_configure(config: pytest.Config) -> None:
    """What the workers of xdist report comes to the process that began them."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(OwnNames())


class OwnNames:
    """Tests have their own names again: xdist adds the group, and `--last-failed` knows no test of such a name."""

    @pytest.hookimpl(tryfirst=True)  # before what failed is written down
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name, _, group = report.nodeid.rpartition("@")
        if name and (group == RUNS or group.endswith(".py")):
            report.nodeid = name


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """xdist 3.8 reads no groups of pytest 9.2 and says nothing: https://github.com/pytest-dev/pytest-xdist/issues/1386."""
    if getattr(session.config.option, "loadgroup", False):
        grouped = [item.nodeid for item in session.items if item.get_closest_marker("xdist_group")]
        assert all("@" in name for name in grouped), "this pytest-xdist does not group the tests of this pytest"
