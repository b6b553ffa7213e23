"""`shusaku plan` measures for a moment and says what follows; the arithmetic is tested in test_capacity.py."""

import json

import pytest

from deploy.cli import main


def test_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plan", "game=tic_tac_toe", "network=tiny", "bench.seconds=0.6", "actors.count=3"]
    assert main([*command, "replay.capacity=20000", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])
    rates = plan["rates"]
    assert plan["actors"] == 3
    assert 0 < plan["rows_per_s"] <= 3 * rates["rows_per_s"]
    assert plan["learned_rows_per_s"] <= 1.001 * rates["learner_rows_per_s"]
    assert 10 < rates["stored_bytes_per_row"] < 1000
    assert 50 < rates["actor_mb"] < 1000
    assert rates["learner_threads"] >= 1
