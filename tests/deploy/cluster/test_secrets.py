"""A real run with a password in its command line: none of its files, lines and command lines shows it."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster_process import ClusterProcess

from shusaku.replay.stream.client import connect
from shusaku.replay.stream.server import EmbeddedServer

PASSWORD = "pw-0123456789-secret"


@pytest.fixture
def ray_directory() -> Iterator[Path]:
    """With a short name: it begins the paths of Ray's sockets."""
    directory = Path(tempfile.mkdtemp(prefix="sr", dir="/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.faults
@pytest.mark.timeout(280)
def test_no_file_line_or_process_of_a_run_shows_a_password(tmp_path: Path, ray_directory: Path) -> None:
    """In the options of the address, where two maskers once differed; Ray's logs are searched, too."""
    server = EmbeddedServer(tmp_path / "server", max_megabytes=64)
    server.start()
    connect(server.url).config_set("requirepass", PASSWORD)
    url = f"unix:///{server.url.partition('@/')[2].partition('?')[0]}?db=0&password={PASSWORD}"
    run = ClusterProcess(tmp_path / "run", "actors.count=1", "cluster.dashboard=true", f"replay.url='{url}'",
                         environment={"RAY_TMPDIR": str(ray_directory)})
    run._url = url  # for this process; the run has it in quotes
    try:
        run.until_learning(180)
        driver = psutil.Process(run.process.pid)
        lines = [" ".join(process.cmdline()) for process in [driver, *driver.children(recursive=True)]]
        for what in ("status", "stop"):
            command = [sys.executable, "-m", "shusaku", what, f"run.dir={run.run_dir}", f"replay.url='{url}'"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
            assert done.returncode == 0, done.stderr
            assert PASSWORD not in done.stdout + done.stderr, what
        run.process.wait(60)
    finally:
        run.close()
        server.stop()
    assert [line for line in lines if PASSWORD in line] == []
    assert "replay.url" in (run.run_dir / "starts.jsonl").read_text()
    assert PASSWORD not in run.text
    for folder in (run.run_dir, ray_directory):
        files = [file for file in folder.rglob("*") if file.is_file()]
        assert len(files) > 5
        assert [file for file in files if PASSWORD.encode() in file.read_bytes()] == []
