"""`shusaku checkpoint list|verify|describe`, on runs that earlier versions wrote."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.network.fingerprint import planes_fingerprint
from shusaku.common.network.weights import random_weights, save_weights
from shusaku.deploy.cli.main import main

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def extract(name: str, folder: Path) -> Path:
    with tarfile.open(FIXTURES / name) as archive:
        archive.extractall(folder, filter="data")
    (directory,) = folder.iterdir()
    return directory


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Of connect four, unless a test names another game."""
    return extract(f"golden_runs/{getattr(request, 'param', 'connect_four')}-1.tar.gz", tmp_path / "golden")


def call(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[list[str], dict[str, Any], str]:
    """Lines of the text, the JSON of the same command, and stderr."""
    assert main(["checkpoint", *words]) == code
    lines = capsys.readouterr().out.splitlines()
    return lines, *call_json(capsys, *words, code=code)


def call_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """The JSON, and stderr."""
    assert main(["checkpoint", *words, "--json"]) == code
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def test_list_shows_what_a_run_keeps(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = json.loads((run / "expected.json").read_text())
    lines, listed, _ = call(capsys, "list", f"run.dir={run}")
    steps = [row["step"] for row in listed["checkpoints"]]
    assert steps == sorted(steps, reverse=True)
    assert (steps[0], listed["checkpoints"][0]["version"]) == (expected["step"], expected["version"])
    assert {Path(row["path"]).name for row in listed["weights"]} == {"weights.safetensors", "weights_first.safetensors"}
    assert all(row["bytes"] > 1000 and row["seconds"] > 0 for row in listed["checkpoints"])
    assert len(lines) == 3 + len(steps) + 2
    assert f"{expected['step']:09d}" in lines[3]
    assert call_json(capsys, "list", f"checkpoint={run / 'checkpoints'}")[0]["checkpoints"] == listed["checkpoints"]


def test_verify_names_what_is_damaged(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, verified, _ = call(capsys, "verify", f"run.dir={run}")
    assert verified["damaged"] == 0
    assert all(line.startswith("whole") for line in lines)
    newest = max((run / "checkpoints").iterdir())
    flip(newest / "average.safetensors")
    flip(run / "weights_first.safetensors")
    lines, verified, complaint = call(capsys, "verify", f"run.dir={run}", code=1)
    assert complaint.count("\n") == 1
    assert f"2 of {len(lines)} are damaged" in complaint
    problems = [row["problem"] for row in verified["verified"] if not row["whole"]]
    assert problems[0] == f"{newest}: average.safetensors has a wrong SHA-256"
    assert "weights_first.safetensors: damaged" in problems[1]
    assert [line for line in lines if line.startswith("DAMAGED")] == [f"DAMAGED  {text}" for text in problems]
    assert call_json(capsys, "verify", f"checkpoint={run / 'weights.safetensors'}")[0]["damaged"] == 0


@pytest.mark.parametrize("run", ["connect_four", "go_9x9"], indirect=True)
def test_describe_tells_what_a_network_is(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = json.loads((run / "expected.json").read_text())
    lines, newest, _ = call(capsys, "describe", f"checkpoint={run}")
    assert (newest["step"], newest["version"]) == (expected["step"], expected["version"])
    assert newest["heads"][:2] == ["policy", "value"]
    assert newest["seconds"] > 0
    assert newest["settings"]["search"]["policy"] in ("puct", "gumbel")
    assert (newest["fingerprint"], newest["planes"]) == ("", "as in this program")
    text = "\n".join(lines)
    assert f"planes    no fingerprint, as in this program\ntraining  {newest['seconds'] / 60:.1f} minutes" in text
    assert f"{newest['parameters']:,} parameters" in text
    assert f"learner.batch_size={newest['settings']['learner']['batch_size']}" in text
    file, _ = call_json(capsys, "describe", f"checkpoint={run / 'weights.safetensors'}")
    assert (file["version"], file["game"], len(file["sha256"])) == (expected["version"], newest["game"], 64)
    assert file["settings"] == newest["settings"]


def test_describe_counts_what_was_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    game, network = Game("tic_tac_toe"), NetworkConfig(filters=4, blocks=0, value_hidden=3)
    save_weights(tmp_path / "w.safetensors", random_weights(game, network, seed=1, version=2))
    lines, described, _ = call(capsys, "describe", f"checkpoint={tmp_path / 'w.safetensors'}")
    stem, policy = 4 * 3 * 9 + 8, 2 * 4 + 4 + (2 * 9 * 9 + 9)
    value = 4 + 2 + (9 * 3 + 3) + (3 + 1)
    assert described["parameters"] == stem + policy + value
    assert (described["seconds"], described["settings"]) == (None, {})
    assert f"planes    {planes_fingerprint(game)}, as in this program" in lines


def test_describe_tells_other_planes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = extract("old_runs/local.tar.gz", tmp_path / "old")
    lines, described, _ = call(capsys, "describe", f"checkpoint={old}")
    assert any(line.startswith("planes    no fingerprint, weights of tic_tac_toe that") for line in lines)
    file, _ = call_json(capsys, "describe", f"checkpoint={old / 'weights.safetensors'}")
    for planes in (described["planes"], file["planes"]):
        assert "trained with other planes (the plane of the turn is 1 for X now, and was 0)" in planes


@pytest.mark.parametrize(("words", "problem"), [
    (["list", "run.dir={}/none"], "run.dir={}/none: no such file or directory; name a run directory"),
    (["verify", "checkpoint={}/none"], "checkpoint={}/none: no such file or directory; name a run directory"),
    (["list", "run.dir={}"], "{} holds no checkpoint and no weights file; train first"),
    (["describe", "checkpoint={}"], "{} holds no checkpoint; train first"),
    (["describe", "checkpoint={}/text"], "{}/text: damaged or not a weights file"),
    (["list"], "no such file or directory"),
    (["show"], "checkpoint show: unknown WHAT"),
])
def test_what_is_not_there_is_one_line(
    words: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if any("text" in word for word in words):
        (tmp_path / "text").write_text("no weights")
    assert main(["checkpoint", *(word.format(tmp_path) for word in words)]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert problem.format(tmp_path) in complaint
