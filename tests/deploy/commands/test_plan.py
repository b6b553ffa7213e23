"""`shusaku plan` measures for a moment and says what follows; the arithmetic is tested in test_capacity.py."""

import json

import pytest

from shusaku.deploy.bench.served import measure_served
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose


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
    assert 5 <= rates["rows_per_game"] <= 9
    assert plan["games_per_hour"] == pytest.approx(3600 * plan["rows_per_s"] / rates["rows_per_game"])
    assert rates["served_rows_per_s"] is None
    disk = plan["disk"]
    assert disk["window"] > 3 * 20000 * rates["stored_bytes_per_row"] > 0
    assert min(disk["checkpoints"], disk["logs"], disk["ray"], disk["free"]) > 0


def test_a_plan_of_games_that_take_longer_than_the_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    """Not one search ends: 64 games of 5,000 simulations; the games of chess end by their 60 plies at the latest."""
    command = ["plan", "experiment=chess_small", "game.max_plies=60", "bench.seconds=0.3", "search.simulations=5000"]
    assert main([*command, "actors.count=1", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])
    rates = plan["rates"]
    assert rates["rows_per_s"] == pytest.approx(rates["evaluations_per_s"] / 5000)
    assert 30 < rates["rows_per_game"] <= 60
    assert rates["stored_bytes_per_row"] > 20
    assert plan["games_per_hour"] > 0


def test_a_plan_beside_inference_servers(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plan", "game=tic_tac_toe", "network=tiny", "bench.seconds=0.6", "inference.placement=server"]
    assert main([*command, "actors.count=2", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert plan["rates"]["served_rows_per_s"] > 0
    assert 0 < plan["rows_per_s"] <= plan["rates"]["served_rows_per_s"]


def test_a_server_on_the_cpu_is_measured_where_the_learner_has_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a plan does for one actor, on a machine with one GPU: nothing learns then, so none is needed."""
    monkeypatch.setattr("shusaku.deploy.run.devices.visible_gpus", lambda: 1)
    config = compose(["game=tic_tac_toe", "network=tiny", "bench.seconds=0.3", "actors.count=1", "learner.device=cuda",
                      "inference.placement=server", "inference.runtime=simulated_gpu"])
    assert measure_served(config)["evaluations_per_s"] > 0
