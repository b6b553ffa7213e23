"""`shusaku evaluate` and `shusaku bench` as a user meets them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.hardware import cpu_has_bf16, cpu_has_int8
from shusaku.common.network.weights import random_weights, save_weights
from shusaku.deploy.bench.batch_size import SIZES
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.run.chosen_weights import choose_weights

SMALL = ["network.filters=8", "network.blocks=1", "actors.count=1", "actors.games_per_actor=16"]


def shusaku(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "shusaku", *arguments], capture_output=True, text=True, timeout=180)


def weights_file(directory: Path, game: str) -> Path:
    path = directory / "weights.safetensors"
    save_weights(path, random_weights(Game(game), NetworkConfig(8, 1), 1, version=3))
    return path


def test_a_file_is_measured_as_the_game_that_it_is_of(tmp_path):
    done = shusaku("evaluate", f"checkpoint={weights_file(tmp_path, 'tic_tac_toe')}", *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["game"], report["positions"], report["version"]) == ("tic_tac_toe", 4520, 3)
    assert report["search_400"]["optimal"] > report["policy"]["optimal"]
    assert {"random", "puct_64_uniform", "uct_64", "uct_400"} == set(report["baselines"])
    assert isinstance(report["never_loses"], bool)
    assert "plain UCT, 400 rollouts" in done.stderr


@pytest.mark.parametrize("damage", ["cut", "bit"])
def test_a_damaged_file_is_named(tmp_path, damage):
    path = weights_file(tmp_path, "connect_four")
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    else:
        data[len(data) // 2] ^= 4
    path.write_bytes(data)
    done = shusaku("evaluate", f"checkpoint={path}")
    assert done.returncode == 2
    assert str(path) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_is_no_checkpoint_is_refused(tmp_path):
    cases = {"": "missing", str(tmp_path): "holds no checkpoint", str(tmp_path / "x"): "no such file"}
    for text, reason in cases.items():
        with pytest.raises(UsageError, match=reason):
            choose_weights(compose([f"checkpoint={text}"]))


def test_random_weights_follow_the_configuration():
    chosen = choose_weights(compose(["checkpoint=random", "game=tic_tac_toe", "network=tiny", "search=puct"]))
    assert (chosen.game.name, chosen.network.filters, chosen.search.policy) == ("tic_tac_toe", 32, "puct")


KEYS = {
    "rules": {"moves_per_s", "observe_ns"}, "search": {"simulations_per_s"},
    "replay": {"appended_per_s", "sampled_per_s"}, "learner": {"steps_per_s", "rows_per_s"},
    "selfplay": {"raw_evaluations_per_s", "evaluations_per_s", "searches_per_s", "games_per_s", "cache_hit_rate"},
}


@pytest.mark.parametrize("what", [*KEYS, "inference"])
def test_every_bench_prints_its_keys(what):
    done = shusaku("bench", what, *SMALL, "bench.seconds=0.5", "replay.minimum=2000", "replay.capacity=20000", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    if what == "inference":
        assert {"runtime", "precision", "batch", "positions_per_s"} <= set(result["rows"][0])
        assert all(row["positions_per_s"] > 0 for row in result["rows"])
    else:
        assert KEYS[what] <= set(result)
        assert all(result[key] > 0 for key in KEYS[what])


def test_plain_uct_can_be_benched():
    done = shusaku("bench", "search", "search=mcts", "learner.enabled=false", "bench.seconds=0.3", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["simulations_per_s"] > 10_000


def test_self_play_is_benched_in_8_bits_and_with_a_measured_number_of_games():
    done = shusaku("bench", "selfplay", *SMALL, "actors.games_per_actor=auto", "inference.precision=int8",
                   "bench.seconds=0.5", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["precision"] == ("int8" if cpu_has_int8() else "bf16" if cpu_has_bf16() else "fp32")
    assert result["precision"] in result["runtime"]
    assert result["games_per_actor"] in SIZES
    assert sum(result["time_shares"].values()) == pytest.approx(1)
    assert result["time_shares"]["network"] > result["time_shares"]["wait"] == 0


@pytest.mark.skipif(not cpu_has_int8(), reason="this processor does not multiply 8 bits, so that they are not tried")
def test_8_bits_that_stray_too_far_end_a_bench(monkeypatch, capsys):
    monkeypatch.setattr("shusaku.learner.quantisation.MOST_POLICY_ERROR", 0.0)
    monkeypatch.setattr("shusaku.deploy.bench.selfplay.run_in_subprocess", lambda function, config: function(config))
    command = ["bench", "selfplay", *SMALL, "inference.precision=int8", "bench.seconds=0.5", "--json"]
    assert main(command) == 1
    assert "inference.precision=int8 is rejected: in 8 bits the policy errs by" in capsys.readouterr().err


@pytest.mark.parametrize("way", ["memory", "tcp"])
def test_self_play_is_benched_through_a_server_and_a_simulated_gpu(way):
    done = shusaku("bench", "selfplay", *SMALL, "actors.count=2", "actors.cpus=0.5", "inference.placement=server",
                   "inference.runtime=simulated_gpu", "inference.simulated_gpu_batch_ms=20", "bench.seconds=2",
                   f"inference.listen=[{way}]", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["runtime"] == "a simulated GPU, 20 ms a batch and 0 us a row"
    assert result["way"] == way
    assert 0.8 < result["busy_share"] < 1.05, "one half of the games waits while the other is evaluated"
    assert result["evaluations_per_s"] > 100
    assert result["rows_per_batch"] >= 1
    rows_a_batch = result["rows_per_batch"] * result["busy_share"]  # of the time of a batch
    assert result["of_full_batches"] == pytest.approx(rows_a_batch / 1024, rel=0.2)
    assert result["batch_p99_ms"] >= 19
    assert result["time_shares"]["wait"] > 0
    assert result["of_raw"] is None


def test_a_bench_of_a_server_has_no_ray_calls(capsys):
    assert main(["bench", "selfplay", *SMALL, "inference.placement=server", "inference.runtime=simulated_gpu",
                 "inference.listen=[]"]) == 2
    assert "inference.listen=[]: this bench runs without Ray" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_the_processes_of_a_bench_cannot_have_is_said_at_once():
    done = shusaku("bench", "selfplay", *SMALL, "inference.device=cuda", "bench.seconds=1")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("torch finds no GPU that it can use; use inference.device=cpu")
