"""The line over Watch and Learn: what a run's driver answers, or what can be known without it."""

import fcntl
import json
import platform
from pathlib import Path

import pytest

from shusaku.deploy.run.control_server import ControlServer
from shusaku.deploy.studio.run_status import read_status


def test_a_driver_is_asked_from_its_start_to_its_end(tmp_path: Path) -> None:
    server = ControlServer(tmp_path, 0, print, lambda: None, {})
    assert read_status(tmp_path) == {"is_running": True, "activity": "starting"}
    server.publish({"status": {"step": 7, "activity": "playing", "secret": 1}}, {})
    assert read_status(tmp_path) == {"is_running": True, "activity": "playing", "step": 7}
    server.close()
    assert read_status(tmp_path) == {"is_running": False, "note": "The run does not go on now; what it left is shown."}


def test_a_run_whose_driver_does_not_answer_goes_on_while_its_lock_is_held(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status = read_status(tmp_path)
        assert status["is_running"] is False
        assert "goes on, but its driver does not answer here" in status["note"]
    assert "does not go on now" in read_status(tmp_path)["note"]


def test_a_run_of_another_machine_or_user_may_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = tmp_path / "control.json"
    control.write_text(json.dumps({"port": 1, "token": "t", "host": "node7"}))
    assert "goes on on node7, unless it was killed there" in read_status(tmp_path)["note"]
    for host in (platform.node(), ""):  # its driver was killed
        control.write_text(json.dumps({"port": 1, "token": "t", "host": host}))
        assert "does not go on now" in read_status(tmp_path)["note"]
    read_text = Path.read_text

    def refuse(path: Path, *arguments: str, **options: str) -> str:
        if path == control:
            raise PermissionError(13, "Permission denied")
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    assert "answers the run's owner alone" in read_status(tmp_path)["note"]


def test_looking_at_a_run_leaves_nothing_in_its_directory(tmp_path: Path) -> None:
    read_status(tmp_path)
    assert list(tmp_path.iterdir()) == []
