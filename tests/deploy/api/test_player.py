"""`import shusaku`, as a program of others uses it: the lines of the documentation, run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import shusaku
from shusaku.common.network.weights import random_weights, save_weights
from shusaku.deploy.cli.overrides import compose

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with an untrained network for tic-tac-toe."""
    config = compose(["game=tic_tac_toe", "network.filters=8", "network.blocks=1"])
    path = tmp_path_factory.mktemp("ü") / "weights.safetensors"
    save_weights(path, random_weights(shusaku.Game("tic_tac_toe"), config.network, 1, version=3))
    return path


@pytest.mark.parametrize("kind", [str, Path])
def test_a_checkpoint_is_loaded_and_plays_a_game(weights: Path, kind: type) -> None:
    player = shusaku.load(kind(weights))
    position = player.game.start()
    moves = []
    while not position.is_terminal:
        choice = player.choose(position, simulations=20)
        assert position.to_move(choice.action) == choice.move
        assert set(choice.policy) == {position.to_move(action) for action in position.legal_actions}
        assert sum(choice.policy.values()) == pytest.approx(1, abs=1e-3)
        assert -1 <= choice.value <= 1
        moves.append(choice.move)
        position.play(choice.action)
    assert 5 <= len(moves) <= 9
    assert (player.version, player.game.name) == (3, "tic_tac_toe")


def test_choosing_draws_nothing_and_leaves_the_position(weights: Path) -> None:
    player = shusaku.load(weights, simulations=30)
    position = player.game.start()
    before = str(position)
    assert player.choose(position) == player.choose(position)
    assert str(position) == before
    position = player.game.position("XXX/OO./...")
    with pytest.raises(shusaku.UsageError, match="the game is over"):
        player.choose(position)
    with pytest.raises(shusaku.UsageError, match="simulations=-1"):
        player.choose(player.game.start(), simulations=-1)


def test_a_path_that_leads_nowhere_is_named() -> None:
    with pytest.raises(shusaku.UsageError, match="nowhere"):
        shusaku.load("nowhere")


@pytest.mark.parametrize("text", [shusaku.__doc__, (ROOT / "docs/guides/python.md").read_text(encoding="utf-8")])
def test_the_lines_of_the_documentation_run(weights: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    block = re.search(r"^( *)import shusaku\n(.|\n)*?print\(position\)", text, re.M)
    assert block is not None
    lines = [line.removeprefix(block[1]) for line in block[0].replace('"runs/connect_four"', "weights").splitlines()]
    assert sum(bool(line) and not line.startswith("import") for line in lines) == 5
    exec("\n".join(lines), {"weights": weights})
    assert re.search("[XO]", capsys.readouterr().out)


def test_importing_is_quick_and_loads_neither_torch_nor_ray(tmp_path: Path) -> None:
    script = ("import sys, shusaku; heavy = {'torch', 'ray', 'numpy', 'hydra'} & set(sys.modules); "
              "assert not heavy, heavy; assert set(shusaku.__all__) <= set(dir(shusaku)); "
              "[getattr(shusaku, name) for name in shusaku.__all__]; assert 'ray' not in sys.modules")
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        shusaku.lod  # noqa: B018
