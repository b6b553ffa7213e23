"""What an inference server listens for, as `inference.listen` says, and which way its clients go then."""

from pathlib import Path

import pytest
from cluster_process import ClusterProcess


@pytest.mark.faults
@pytest.mark.timeout(200)
@pytest.mark.parametrize(("listen", "way"), [
    ("[tcp]", "an inference server, through TCP"),
    ("[]", "an inference server, through Ray calls, because it listens for nothing else"),
])
def test_actors_ask_as_the_server_listens(tmp_path: Path, listen: str, way: str) -> None:
    run = ClusterProcess(tmp_path / "run", "actors.count=1", "inference.placement=server", f"inference.listen={listen}")
    try:
        run.until(lambda s: way in s["status"]["runtimes"], 120, "games by that way")
        assert [line for line in run.status()["status"]["runtimes"] if "through" in line] == [way]
        run.check_games()
        assert run.stop() == 143
    finally:
        run.close()
