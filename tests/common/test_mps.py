"""A learner that shares a GPU by MPS takes less than its share of the threads; without MPS nothing is set."""

import os
from pathlib import Path

import pytest

from shusaku.common.mps import mps_runs, yield_to_others

NAMES = ("CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")  # a lower priority starves the learner


@pytest.fixture(autouse=True)
def pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that the end of the test restores it
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize(("has_daemon", "share", "expected"), [
    (True, 0.5, (None, "40")), (True, 1.0, (None, None)), (True, 0.0, (None, None)), (False, 0.5, (None, None)),
])
def test_a_share_is_the_limit_of_threads(
    has_daemon: bool, share: float, expected: tuple[str | None, str | None], pipes: Path
) -> None:
    if has_daemon:
        (pipes / "control").touch()
    assert mps_runs() == has_daemon
    yield_to_others(share)
    assert tuple(map(os.environ.get, NAMES)) == expected


def test_what_the_user_has_set_stays(pipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (pipes / "control").touch()
    monkeypatch.setenv(NAMES[1], "80")
    yield_to_others(0.5)
    assert tuple(map(os.environ.get, NAMES)) == (None, "80")
