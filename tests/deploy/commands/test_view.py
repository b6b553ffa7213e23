"""`shusaku view`: what it opens, and what it refuses in one line."""

import asyncio
import re
import shutil
import socket
from dataclasses import asdict
from pathlib import Path

import pytest
from studio_fixtures import pages_of

from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.config.search import GumbelConfig
from shusaku.common.network.weights import random_weights
from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.commands.view import make_studio
from shusaku.deploy.run.saved_config import config_text
from shusaku.learner.checkpoints import Checkpoint, write_checkpoint

PARTS = ("network", "average")  # of a checkpoint, as far as a player reads it
SMALL = ["game=tic_tac_toe", "network.filters=4", "network.blocks=1", "engine.threads=1", "engine.simulations=16"]


def test_weights_without_a_run_have_the_pages_play_and_see(tmp_path: Path) -> None:
    shown = make_studio(compose(["checkpoint=random", f"run.dir={tmp_path}", *SMALL]))
    assert any("tic_tac_toe" in line for line in shown.lines)

    async def work() -> None:
        async with pages_of(shown.studio) as [page]:
            hello = page.last["hello"]
            assert (hello["has_weights"], hello["has_run"], hello["game"]["kind"]) == (True, False, "marks")
            table = await page.ask("new", "table", first="engine", second="engine", position="")
            assert (await page.wait("table", lambda state: bool(state["result"])))["cursor"] > table["cursor"]

    asyncio.run(work())


def test_a_run_without_a_checkpoint_has_the_other_two(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(config_text({"game": {"name": "tic_tac_toe"}}))
    shown = make_studio(compose([f"run.dir={tmp_path}"]))
    assert "no checkpoint yet" in shown.lines[0]

    async def work() -> None:
        async with pages_of(shown.studio) as [page]:
            assert (page.last["hello"]["has_weights"], page.last["hello"]["has_run"]) == (False, True)
            assert "no weights" in (await page.ask("play", "error", action=1, ply=0))["text"]

    asyncio.run(work())


def test_another_number_of_threads_plays_the_same_weights(tmp_path: Path) -> None:
    """A run that goes on writes newer checkpoints, and removes those that were newest."""
    game, network = Game("tic_tac_toe"), NetworkConfig(filters=4, blocks=1)
    tree = {"game": {"name": game.name, "params": game.params}, "network": asdict(network),
            "search": {**asdict(GumbelConfig()), "policy": "gumbel"}}
    (tmp_path / "config.yaml").write_text(config_text(tree))

    def write(step: int) -> Path:
        weights = random_weights(game, network, step)
        facts = {"version": step, "game": game.name, "planes": weights.planes}
        parts = dict.fromkeys(PARTS, weights.tensors)
        return write_checkpoint(tmp_path / "checkpoints", Checkpoint(step, parts, facts))

    old = write(1)
    shown = make_studio(compose([f"run.dir={tmp_path}", "engine.threads=1", "engine.simulations=16"]))
    write(2)
    shutil.rmtree(old)

    async def work() -> None:
        async with pages_of(shown.studio) as [page]:
            assert page.last["hello"]["title"].endswith("version 1")
            await page.send("settings", simulations=16, threads=2, temperature=1.0, analyse=False)
            changed = await page.wait("table", lambda table: table["settings"]["threads"] == 2)
            assert changed["engine"] == "Shusaku, version 1"
            await page.ask("new", "table", first="engine", second="human", position="")
            assert (await page.wait("table", lambda table: len(table["moves"]) == 1))["thinking"] == ""

    asyncio.run(work())


def test_what_cannot_work_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHUSAKU_VIEW_TOKEN", raising=False)
    command = ["view", "checkpoint=random", f"run.dir={tmp_path}", *SMALL]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cases = {
            f"view.port={taken.getsockname()[1]}": r"view\.port=\d+: Address already in use",
            "view.host=0.0.0.0": r"view\.host=0\.0\.0\.0: other machines", "view.port=70000": r"view\.port=70000",
            "checkpoint=nowhere": "checkpoint=nowhere: no such file", "checkpoint=": "there is no run in it",
        }
        for override, text in cases.items():
            assert main([*command, override]) == 2
            error = capsys.readouterr().err
            assert re.search(text, error)
            assert error.count("\n") == 1
