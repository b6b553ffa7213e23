"""A wheel that is sent: it trains where no Shusaku is installed, and one that does not fit is refused in time."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bare_cluster import BareCluster, write_wheel

from shusaku.deploy.ray_runtime.auth import ray_environment

SMALL = ("experiment=tic_tac_toe", "actors.count=1", "actors.cpus=0.5", "strength.enabled=false")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareCluster]:
    cluster = BareCluster(tmp_path_factory.mktemp("bare"))
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wheel(tmp_path_factory.mktemp("wheel"))


def jobs_of(cluster: BareCluster) -> list[Any]:
    from ray.job_submission import JobSubmissionClient

    with ray_environment(cluster.variables):
        return [job for job in JobSubmissionClient(cluster.address).list_jobs() if job.submission_id]


@pytest.mark.nodes
@pytest.mark.timeout(900)
def test_a_wheel_that_is_sent_trains_where_none_is_installed(
    cluster: BareCluster, wheel: Path, tmp_path: Path
) -> None:
    done = cluster.submit("--wheel", str(wheel), "--cpus", "1", "--env", "COLUMNS", "--", "train", *SMALL,
                          "run.minutes=0.1", f"run.dir={tmp_path / 'run'}", "--json", COLUMNS="77")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1])["games"] > 0
    [job] = [job for job in jobs_of(cluster) if (job.metadata or {}).get("run.dir") == str(tmp_path / "run")]
    assert job.metadata["command"] == "train"
    assert len(job.metadata["wheel"]) == 12
    assert len(job.runtime_env["py_modules"]) == 2
    assert job.runtime_env["env_vars"]["COLUMNS"] == "77"


@pytest.mark.nodes
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("differs", "named"), [
    ({"platform": "linux_ppc64le"}, ["the wheel is for linux_ppc64le", "Linux ", "--wheel FILE"]),
    ({"platform": "macosx_14_0_arm64"}, ["the wheel is for macosx_14_0_arm64"]),
    ({"requirement": "ray>=99"}, ["lacks Ray>=99 (it has 2."]),
    ({"requirement": "no-such-package>=1"}, ["lacks no-such-package>=1;"]),
])
def test_a_wheel_that_does_not_fit_is_one_line_and_nothing_is_left(
    cluster: BareCluster, tmp_path: Path, differs: dict[str, str], named: list[str]
) -> None:
    before = {job.submission_id for job in jobs_of(cluster)}
    path = write_wheel(tmp_path, **differs)
    done = cluster.submit("--wheel", str(path), "--", "train", *SMALL, f"run.dir={tmp_path / 'run'}")
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.strip().splitlines()
    assert all(word in line for word in ["USAGE --address", "node ", *named]), line
    assert {job.submission_id for job in jobs_of(cluster)} == before
    assert not (tmp_path / "run").exists()


@pytest.mark.nodes
@pytest.mark.timeout(900)
def test_without_a_wheel_the_cluster_has_to_have_one(cluster: BareCluster) -> None:
    done = cluster.submit("--wheel", "none", "--", "games")
    assert done.returncode == 127
    assert "the cluster's PATH has no shusaku" in done.stderr


@pytest.mark.nodes
@pytest.mark.timeout(900)
def test_a_run_of_a_sent_wheel_is_asked_and_stopped_with_the_same_wheel(
    cluster: BareCluster, wheel: Path, tmp_path: Path
) -> None:
    where = f"run.dir={tmp_path / 'run'}"
    begun = cluster.submit("--wheel", str(wheel), "--no-wait", "--", "train", *SMALL, "run.minutes=10", where)
    assert begun.returncode == 0, begun.stderr
    deadline = time.monotonic() + 400
    while (asked := cluster.submit("--", "status", where)).returncode != 0:
        assert time.monotonic() < deadline, asked.stdout + asked.stderr
    assert "tic_tac_toe" in asked.stdout
    stopped = cluster.submit("--", "stop", where)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert list((tmp_path / "run" / "checkpoints").iterdir())
    [job] = [job for job in jobs_of(cluster)
             if {"run.dir": str(tmp_path / "run"), "command": "train"}.items() <= (job.metadata or {}).items()]
    assert len(job.metadata["wheel"]) == 12


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_wheel_is_built_of_this_checkout_and_then_found_again(cluster: BareCluster, tmp_path: Path) -> None:
    """Compiles the core, which takes minutes; the checkout's own core stays as it is."""
    from bare_cluster import ROOT

    cores = {path: path.stat().st_mtime_ns for path in (ROOT / "common").glob("_core*.so")}
    first = cluster.submit("--", "games", XDG_CACHE_HOME=str(tmp_path))
    assert first.returncode == 0, first.stdout + first.stderr
    assert "tic_tac_toe" in first.stdout
    assert "building the wheel of" in first.stderr
    again = cluster.submit("--", "games", XDG_CACHE_HOME=str(tmp_path))
    assert again.returncode == 0
    assert "building" not in again.stderr
    assert {path: path.stat().st_mtime_ns for path in cores} == cores
