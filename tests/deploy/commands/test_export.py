"""`shusaku export onnx`: a file that onnxruntime plays from, and one line if it cannot be made."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from shusaku.actors.evaluators.factory import make_evaluator
from shusaku.common._core import Game
from shusaku.common.config.schema import InferenceConfig, NetworkConfig
from shusaku.common.network.weights import random_weights, save_weights
from shusaku.common.search import search_positions
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose

GAME, NETWORK = Game("connect_four"), NetworkConfig(filters=8, blocks=1)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    save_weights(tmp_path / "w.safetensors", random_weights(GAME, NETWORK, seed=1, version=3))
    return tmp_path / "w.safetensors"


def test_the_file_answers_as_the_player_does(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    file = tmp_path / "w.onnx"
    assert main(["export", "onnx", f"checkpoint={weights}", f"file={file}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["outputs"] == {"policy": ["batch", 7], "value": ["batch"]}
    assert (told["version"], told["inputs"]) == (3, {"planes": ["batch", 3, 6, 7]})
    assert told["bytes"] == file.stat().st_size
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    position = GAME.start()
    position.play(3)
    logits, values = session.run(["policy", "value"], {"planes": position.observation()[None]})
    evaluator = make_evaluator(GAME, InferenceConfig(precision="fp32"), NETWORK, 1)
    evaluator.load(random_weights(GAME, NETWORK, seed=1, version=3))
    [result] = search_positions(GAME, [position], compose(["search.simulations=1", "search.noise=false"]).search,
                                evaluator)
    prior = np.exp(logits[0] - logits[0].max())
    np.testing.assert_allclose(result.prior, prior / prior.sum(), atol=1e-4)
    assert result.raw_value == pytest.approx(float(values[0]), abs=1e-4)


@pytest.mark.parametrize(("words", "problem"), [
    (["file=x.onnx"], "checkpoint= is missing"), ([], "file= is missing"),
    (["file=none/x.onnx", "checkpoint=w.safetensors"], "file=none/x.onnx: No such file or directory"),
])
def test_what_is_missing_is_one_line(
    words: list[str], problem: str, weights: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(weights.parent)
    assert main(["export", "onnx", *words]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert problem in complaint


def test_without_onnx_the_package_is_named(
    weights: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == "onnx" or name.startswith("onnx.") or "onnx_graph" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", "onnx", f"checkpoint={weights}", "file=x.onnx"]) == 2
    assert "the package onnx is not installed; pip install 'shusaku[onnx]'" in capsys.readouterr().err
