"""`shusaku view`: what it opens, and what it refuses in one line."""

import asyncio
import re
import socket
from pathlib import Path

import pytest
from studio_fixtures import pages_of

from shusaku.deploy.cli.main import main
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.commands.view import make_studio
from shusaku.deploy.run.saved_config import config_text

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
            assert "no weights" in (await page.ask("play", "error", action=1))["text"]

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
