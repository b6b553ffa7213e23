"""A run of the command line is watched while it plays, and killed while it is watched."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from studio_fixtures import make_studio, pages_of, wait_for

ROOT = Path(__file__).resolve().parents[3]
ANY = {"winner": "", "ended_by": "", "least_plies": 0, "most_plies": 1000, "least_version": 0}
SMALL = ("experiment=tic_tac_toe", "run.minutes=5", "actors.count=1", "replay.minimum=200", "strength.enabled=false",
         "strength.final=false", "network.filters=8", "network.blocks=1")


@pytest.mark.long
def test_eight_pages_watch_a_live_run_until_it_is_killed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("local", tmp_path)

    async def work() -> None:
        async with asyncio.timeout(560):
            while not (run / "metrics.jsonl").exists():
                assert process.poll() is None, (tmp_path / "log").read_text()
                await asyncio.sleep(0.2)
            async with pages_of(make_studio(None, run), 8) as pages:
                for page in pages:
                    await page.send("watch", **ANY)
                seen = [await page.wait("games", lambda message: message["total"] >= 20, 200) for page in pages]
                alive = await pages[0].wait("run", lambda message: message["is_running"] and message["games"] > 0, 100)
                assert alive["activity"]
                number = seen[-1]["games"][0]["number"]
                game = await pages[0].ask("game", "game", number=number)
                step = await pages[0].ask("ply", "ply", number=number, ply=len(game["moves"]))
                assert step["board"]["result"]
                await pages[1].ask("learn", "curves", other="")
                os.killpg(process.pid, signal.SIGKILL)
                await pages[0].wait("run", lambda message: not message["is_running"], 60)
                assert (await pages[0].ask("game", "game", number=number))["moves"] == game["moves"]

    try:
        asyncio.run(work())
    finally:
        end(process)


@pytest.mark.long
def test_the_browser_watches_a_training_until_it_is_killed(browser: Any, tmp_path: Path) -> None:
    from studio_browser import Visit, serve

    run = tmp_path / "run"
    process = start("train", tmp_path)
    try:
        wait_for(lambda: (run / "metrics.jsonl").exists() or process.poll() is not None, 400)
        assert process.poll() is None, (tmp_path / "log").read_text()
        with serve(make_studio(None, run)) as address:
            visit = Visit(browser, address, "watch")
            page = visit.page
            page.wait_for_selector("#page-watch .games tbody tr:nth-child(20)", timeout=200_000)
            page.wait_for_selector("#page-watch .run.live")
            page.locator("#page-watch .games tbody button").first.click()
            page.get_by_role("button", name="To the end").click()
            visit.wait_until("() => /won|drawn/.test(document.querySelector('#page-watch .main .status').textContent)")
            page.locator("#tab-learn").click()
            page.wait_for_selector("#page-learn canvas", timeout=200_000)
            end(process)
            page.wait_for_selector("#page-learn .run:not(.live)", timeout=60_000)
            assert "does not go on" in page.locator("#page-learn .run").inner_text()
            page.locator("#tab-watch").click()
            page.get_by_role("button", name="To the beginning").click()
            visit.wait_until("() => /to move/.test(document.querySelector('#page-watch .main .status').textContent)")
            visit.close()
    finally:
        end(process)


def start(command: str, folder: Path) -> subprocess.Popen[bytes]:
    """A run of this command below the folder."""
    program = [sys.executable, "-m", "shusaku", command, f"run.dir={folder / 'run'}", *SMALL]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(program, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills it with all its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
